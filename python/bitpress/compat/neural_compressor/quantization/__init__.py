"""`onnx_neural_compressor.quantization`."""

from bitpress.compat.neural_compressor._quantize import autotune, quantize
from bitpress.compat.neural_compressor._types import CalibrationMethod, QuantFormat, QuantType
from bitpress.compat.neural_compressor.quantization import config, tuning

__all__ = ["CalibrationMethod", "QuantFormat", "QuantType", "autotune", "config", "quantize", "tuning"]
