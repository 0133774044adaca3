"""`onnxruntime.quantization.shape_inference`."""

from bitpress.compat.onnxruntime._quantize import quant_pre_process

__all__ = ["quant_pre_process"]
