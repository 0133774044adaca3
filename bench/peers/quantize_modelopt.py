"""quantize_modelopt.py MODEL OUTPUT SAMPLES CONFIG: by NVIDIA Model-Optimizer, as its documentation says. CONFIG is its calibration."""

import sys

import onnx
from modelopt.onnx.quantization import quantize
from onnxruntime.quantization import CalibrationDataReader
from samples_reader import make_reader

model, output, samples, method = sys.argv[1:]
name = onnx.load(model, load_external_data=False).graph.input[0].name
quantize(model, quantize_mode="int8", calibration_data_reader=make_reader(CalibrationDataReader, samples, name), calibration_method=method,
         calibration_eps=["cpu"], output_path=output, high_precision_dtype="fp32")
