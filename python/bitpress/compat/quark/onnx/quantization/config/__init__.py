"""`quark.onnx.quantization.config`."""

from bitpress.compat.quark._presets import DefaultConfigMapping, get_default_config, get_default_config_mapping
from bitpress.compat.quark._types import Config, QConfig, QuantizationConfig

__all__ = [
    "Config", "DefaultConfigMapping", "QConfig", "QuantizationConfig", "get_default_config",
    "get_default_config_mapping",
]
