"""`onnx_neural_compressor.quantization.quantize`."""

from bitpress.compat.neural_compressor._quantize import quantize

__all__ = ["quantize"]
