"""`quark.onnx.quantization.config.custom_config`."""

from bitpress.compat.quark._presets import (
    A16W8_ADAQUANT_QCONFIG, A16W8_ADAROUND_QCONFIG, A16W8_QCONFIG, A8W8_ADAQUANT_QCONFIG, A8W8_ADAROUND_QCONFIG,
    A8W8_QCONFIG, BF16_QCONFIG, BFP16_QCONFIG, VINT8_QCONFIG, XINT8_ADAQUANT_QCONFIG, XINT8_ADAROUND_QCONFIG, XINT8_QCONFIG,
    DefaultConfigMapping, constant, get_default_config, get_default_config_mapping,
)

__getattr__ = constant  # A8W8_CONFIG, DEFAULT_ADAROUND_PARAMS, ...

__all__ = [
    "A16W8_ADAQUANT_QCONFIG", "A16W8_ADAROUND_QCONFIG", "A16W8_QCONFIG", "A8W8_ADAQUANT_QCONFIG", "A8W8_ADAROUND_QCONFIG",
    "A8W8_QCONFIG", "BF16_QCONFIG", "BFP16_QCONFIG", "VINT8_QCONFIG", "XINT8_ADAQUANT_QCONFIG", "XINT8_ADAROUND_QCONFIG",
    "XINT8_QCONFIG", "DefaultConfigMapping", "get_default_config", "get_default_config_mapping",
]
