"""`quark.onnx.quantization.auto_search.config_generator`."""

from bitpress.compat.quark._auto_search import generate_all_configs

__all__ = [
    "generate_all_configs",
]
