"""`quark.onnx.quantization.config.config`."""

from bitpress.compat.quark._types import Config, QConfig, QuantizationConfig

__all__ = [
    "Config", "QConfig", "QuantizationConfig",
]
