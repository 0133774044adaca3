"""`onnxruntime.quantization.registry`."""

from bitpress.compat.onnxruntime._names import refusing

__getattr__ = refusing(
    __name__, "CommonOpsRegistry", "CreateDefaultOpQuantizer", "CreateOpQuantizer", "CreateQDQQuantizer", "IntegerOpsRegistry",
    "QDQRegistry", "QLinearOpsRegistry",
)
