"""`onnxruntime.quantization.tensor_quant_overrides`."""

from bitpress.compat.onnxruntime._names import refusing

__getattr__ = refusing(__name__, "QuantTypeInfo", "TensorQuantOverridesHelper")
