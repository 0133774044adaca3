"""`onnx_neural_compressor.quantization`."""

from bitpress.compat.neural_compressor._enums import CalibrationMethod, QuantFormat, QuantType
from bitpress.compat.neural_compressor.quantization import (
    algorithm_entry,
    config,
    matmul_4bits_quantizer,
    matmul_nbits_quantizer,
    quant_utils,
    tuning,
)
from bitpress.compat.neural_compressor.quantization.quantize import quantize
from bitpress.compat.neural_compressor.quantization.tuning import autotune

__all__ = [
    "CalibrationMethod", "QuantFormat", "QuantType", "algorithm_entry", "autotune", "config", "matmul_4bits_quantizer",
    "matmul_nbits_quantizer", "quant_utils", "quantize", "tuning",
]
