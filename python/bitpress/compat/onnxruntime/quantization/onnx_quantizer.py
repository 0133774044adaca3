"""`onnxruntime.quantization.onnx_quantizer`."""

from bitpress.compat.onnxruntime._names import refusing

__getattr__ = refusing(__name__, "ONNXQuantizer")
