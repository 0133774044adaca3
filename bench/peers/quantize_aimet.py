"""quantize_aimet.py MODEL OUTPUT SAMPLES CONFIG: by AIMET for ONNX, as its documentation says. CONFIG is its quantization scheme."""

import sys

import aimet_onnx
import onnx
from samples_reader import make_reader

model, output, samples, scheme = sys.argv[1:]
network = onnx.load(model)
items = list(iter(make_reader(object, samples, network.graph.input[0].name).get_next, None))
simulation = aimet_onnx.QuantizationSimModel(network, param_type="int8", activation_type="int8", quant_scheme=scheme,
                                             config_file="htp_v81", providers=["CPUExecutionProvider"])
simulation.compute_encodings(items)
onnx.save(simulation.to_onnx_qdq(), output)
