"""`quark.onnx.algorithm.mprecision.mprecision_config`."""

from bitpress.compat.quark._algorithm_types import AutoMixprecisionConfig

__all__ = [
    "AutoMixprecisionConfig",
]
