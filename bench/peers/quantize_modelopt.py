"""quantize_modelopt.py MODEL OUTPUT SAMPLES CONFIG: by NVIDIA Model-Optimizer, as its documentation says. CONFIG is its calibration."""

import sys

import numpy as np
import onnx
from modelopt.onnx.quantization import quantize
from samples_reader import make_reader

model, output, samples, method = sys.argv[1:]
name = onnx.load(model, load_external_data=False).graph.input[0].name
items = list(iter(make_reader(object, samples, name).get_next, None))
quantize(model, quantize_mode="int8", calibration_data={name: np.concatenate([item[name] for item in items])}, calibration_method=method,
         calibration_eps=["cpu"], output_path=output, high_precision_dtype="fp32")
