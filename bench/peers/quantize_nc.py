"""quantize_nc.py MODEL OUTPUT SAMPLES CONFIG: by ONNX Neural Compressor, as its documentation says."""

import sys

import onnx
from onnx_neural_compressor import data_reader
from onnx_neural_compressor.quantization import QuantFormat, QuantType, config, quantize
from samples_reader import make_reader

model, output, samples, _ = sys.argv[1:]
name = onnx.load(model, load_external_data=False).graph.input[0].name
quantize(model, output, config.StaticQuantConfig(
    calibration_data_reader=make_reader(data_reader.CalibrationDataReader, samples, name), quant_format=QuantFormat.QDQ,
    activation_type=QuantType.QUInt8, weight_type=QuantType.QInt8, per_channel=True, execution_provider="CPUExecutionProvider"))
