"""The names of Quark's operators."""

_COP_DOMAIN = "com.amd.quark"
_COP_VERSION = 1
_COP_QUANT_OP_NAME = "ExtendedQuantizeLinear"
_COP_DEQUANT_OP_NAME = "ExtendedDequantizeLinear"
_COP_IN_OP_NAME = "ExtendedInstanceNormalization"
_COP_LSTM_OP_NAME = "ExtendedLSTM"
_COP_BFP_OP_NAME = "BFPQuantizeDequantize"
_COP_MX_OP_NAME = "MXQuantizeDequantize"
