"""`onnxruntime.quantization.cuda_quantizer`."""

from bitpress.compat.onnxruntime._names import refusing

__getattr__ = refusing(__name__, "CudaQuantizer", "has_cuda_weight_prepacking")
