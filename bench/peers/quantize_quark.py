"""quantize_quark.py MODEL OUTPUT SAMPLES CONFIG: by AMD Quark, as its documentation says."""

import sys

import onnx
from onnxruntime.quantization import CalibrationDataReader
from quark.onnx import ModelQuantizer
from quark.onnx.quantization.config.config import Config
from quark.onnx.quantization.config.custom_config import get_default_config
from samples_reader import make_reader

model, output, samples, name = sys.argv[1:]
reader = make_reader(CalibrationDataReader, samples, onnx.load(model, load_external_data=False).graph.input[0].name)
ModelQuantizer(Config(global_quant_config=get_default_config(name))).quantize_model(model, output, reader)
