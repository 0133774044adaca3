"""`onnx_neural_compressor.quantization.quant_utils`."""

from bitpress.compat.neural_compressor._enums import CalibrationMethod, QuantFormat, QuantType

__all__ = ["CalibrationMethod", "QuantFormat", "QuantType"]
