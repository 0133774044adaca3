"""`quark.onnx.quantization.auto_search.qconfig_mapping`."""

from bitpress.compat.quark._auto_search import get_auto_search_config

__all__ = [
    "get_auto_search_config",
]
