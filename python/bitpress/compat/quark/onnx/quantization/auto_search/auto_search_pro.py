"""`quark.onnx.quantization.auto_search.auto_search_pro`."""

from bitpress.compat.quark._auto_search import AutoSearchPro
from bitpress.compat.quark._names import refusing
from bitpress.compat.quark._search_metrics import METRICS

__getattr__ = refusing(__name__, "replace_keys", "validate_keys")

__all__ = [
    "AutoSearchPro", "METRICS",
]
