"""`quark.onnx.quantization.config`."""

from bitpress.compat.quark._presets import get_default_config
from bitpress.compat.quark._types import Config, QConfig, QuantizationConfig

__all__ = [
    "Config", "QConfig", "QuantizationConfig", "get_default_config",
]
