"""`quark.onnx.quantization.quant_utils`."""

from bitpress.compat.quark._types import (
    ExtendedQuantFormat, ExtendedQuantType, QuantFormat, QuantType, VitisQuantFormat, VitisQuantType,
)

__all__ = [
    "ExtendedQuantFormat", "ExtendedQuantType", "QuantFormat", "QuantType", "VitisQuantFormat", "VitisQuantType",
]
