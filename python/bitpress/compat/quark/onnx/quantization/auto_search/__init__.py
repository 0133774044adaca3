"""`quark.onnx.quantization.auto_search`."""

from bitpress.compat.quark._auto_search import (
    AutoSearch, AutoSearchPro, SearchSpace, generate_all_configs, get_auto_search_config,
)

__all__ = [
    "AutoSearch", "AutoSearchPro", "SearchSpace", "generate_all_configs", "get_auto_search_config",
]
