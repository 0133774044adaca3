"""`onnxruntime.quantization.onnx_model`."""

from bitpress.compat.onnxruntime._nbits import ONNXModel

__all__ = ["ONNXModel"]
