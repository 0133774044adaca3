"""`quark.onnx.algorithm.mprecision`."""

from bitpress.compat.quark._algorithm_types import AutoMixprecisionConfig
from bitpress.compat.quark._names import refusing

__getattr__ = refusing(__name__, "auto_mixprecision")

__all__ = [
    "AutoMixprecisionConfig",
]
