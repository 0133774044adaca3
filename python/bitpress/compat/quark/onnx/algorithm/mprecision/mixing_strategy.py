"""`quark.onnx.algorithm.mprecision.mixing_strategy`."""

from bitpress.compat.quark._names import refusing

__getattr__ = refusing(__name__, "MixingStrategy")
