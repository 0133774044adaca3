"""`onnxruntime.quantization.qdq_quantizer`."""

from bitpress.compat.onnxruntime._names import refusing

__getattr__ = refusing(
    __name__, "QDQBiasQuantInfo", "QDQQuantParamProvider", "QDQQuantTensorType", "QDQQuantizer", "QDQScaleZpInitializers",
    "QDQTensorQuantInfo", "QDQTensorQuantParams", "QDQTensorQuantizedValue", "QDQTensorScaleZpInitializers",
)
