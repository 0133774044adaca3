"""The names that scripts import from `quark.onnx.quantization`."""

from bitpress.compat.quark._quantizer import ModelQuantizer, quantize_dynamic, quantize_static

__all__ = [
    "ModelQuantizer", "quantize_dynamic", "quantize_static",
]
