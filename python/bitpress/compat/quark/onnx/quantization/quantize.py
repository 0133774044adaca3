"""`quark.onnx.quantization.quantize`."""

from bitpress.compat.quark._quantizer import quantize_dynamic, quantize_static

__all__ = [
    "quantize_dynamic", "quantize_static",
]
