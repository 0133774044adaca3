"""`quark.onnx.operators.custom_ops`."""

from bitpress.compat.quark._domain import (
    _COP_BFP_OP_NAME, _COP_DEQUANT_OP_NAME, _COP_DOMAIN, _COP_IN_OP_NAME, _COP_LSTM_OP_NAME, _COP_MX_OP_NAME,
    _COP_QUANT_OP_NAME, _COP_VERSION,
)
from bitpress.compat.quark._names import refusing
from bitpress.compat.quark._quantizer import get_library_path

__getattr__ = refusing(__name__, "get_legacy_torch_library_path")

__all__ = [
    "_COP_BFP_OP_NAME", "_COP_DEQUANT_OP_NAME", "_COP_DOMAIN", "_COP_IN_OP_NAME", "_COP_LSTM_OP_NAME",
    "_COP_MX_OP_NAME", "_COP_QUANT_OP_NAME", "_COP_VERSION", "get_library_path",
]
