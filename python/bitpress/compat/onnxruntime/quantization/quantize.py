"""`onnxruntime.quantization.quantize`."""

from bitpress.compat.onnxruntime._names import refusing
from bitpress.compat.onnxruntime._quantize import (
    DynamicQuantConfig, QuantConfig, StaticQuantConfig, get_qdq_config, quantize, quantize_dynamic, quantize_static,
)

__getattr__ = refusing(
    __name__, "check_static_quant_arguments",
)

__all__ = [
    "DynamicQuantConfig", "QuantConfig", "StaticQuantConfig", "get_qdq_config", "quantize", "quantize_dynamic", "quantize_static",
]
