"""quantize_nncf.py MODEL OUTPUT SAMPLES CONFIG: by NNCF's backend for ONNX, as its documentation says. CONFIG is its preset."""

import sys

import nncf
import onnx
from samples_reader import make_reader

model, output, samples, preset = sys.argv[1:]
network = onnx.load(model)
reader = make_reader(object, samples, network.graph.input[0].name)
items = list(iter(reader.get_next, None))
onnx.save(nncf.quantize(network, nncf.Dataset(items), preset=nncf.QuantizationPreset[preset], subset_size=len(items)), output)
