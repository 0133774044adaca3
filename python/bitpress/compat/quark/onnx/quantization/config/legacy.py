"""`quark.onnx.quantization.config.legacy`."""

from bitpress.compat.quark._types import QuantizationConfig

__all__ = [
    "QuantizationConfig",
]
