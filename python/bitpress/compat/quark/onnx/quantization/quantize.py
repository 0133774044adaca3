"""`quark.onnx.quantization.quantize`."""

from bitpress.compat.quark._names import refusing
from bitpress.compat.quark._quantizer import quantize_dynamic, quantize_static

__getattr__ = refusing(__name__, "apply_align_eltwise_quant_type", "prune_stale_tensor_quant_overrides")

__all__ = [
    "quantize_dynamic", "quantize_static",
]
