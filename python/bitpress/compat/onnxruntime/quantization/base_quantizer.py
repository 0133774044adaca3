"""`onnxruntime.quantization.base_quantizer`."""

from bitpress.compat.onnxruntime._names import refusing

__getattr__ = refusing(__name__, "BaseQuantizer", "QuantizationParams")
