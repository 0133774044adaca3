"""`quark.onnx.preprocess`."""

from bitpress.compat.quark._names import refusing

__getattr__ = refusing(
    __name__, "apply_pre_optimization_after_algo", "apply_pre_optimization_before_algo", "apply_pre_process",
    "apply_pre_quantization_algorithms",
)
