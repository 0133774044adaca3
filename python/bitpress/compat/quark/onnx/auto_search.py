"""`quark.onnx.auto_search`, where earlier versions have it."""

from bitpress.compat.quark._auto_search import (
    AutoSearch, AutoSearchConfig, AutoSearchPro, SearchSpace, generate_all_configs, get_auto_search_config,
)

__all__ = [
    "AutoSearch", "AutoSearchConfig", "AutoSearchPro", "SearchSpace", "generate_all_configs", "get_auto_search_config",
]
