"""`quark.onnx.optimizations`."""

from bitpress.compat.quark._names import refusing

__getattr__ = refusing(
    __name__, "Optimizer", "optimize_model", "optimize_model_using_onnxrt", "optimize_model_using_onnxslim",
)
