"""`quark.onnx.quantization.api`."""

from bitpress.compat.quark._quantizer import ModelQuantizer

__all__ = [
    "ModelQuantizer",
]
