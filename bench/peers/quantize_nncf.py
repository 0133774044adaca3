"""quantize_nncf.py MODEL OUTPUT SAMPLES CONFIG: by NNCF's backend for ONNX, as its documentation says. CONFIG is its preset, or PRESET/TRANSFORMER."""

import sys

import nncf
import onnx
from samples_reader import make_reader

model, output, samples, config = sys.argv[1:]
preset, _, model_type = config.partition("/")
network = onnx.load(model)
reader = make_reader(object, samples, network.graph.input[0].name)
items = list(iter(reader.get_next, None))
onnx.save(nncf.quantize(network, nncf.Dataset(items), preset=nncf.QuantizationPreset[preset],
                         model_type=nncf.ModelType[model_type] if model_type else None, subset_size=len(items)), output)
