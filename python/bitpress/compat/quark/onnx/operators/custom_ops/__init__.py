"""`quark.onnx.operators.custom_ops`."""

from bitpress.compat.quark._quantizer import get_library_path

__all__ = [
    "get_library_path",
]
