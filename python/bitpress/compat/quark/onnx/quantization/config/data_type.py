"""`quark.onnx.quantization.config.data_type`."""

from bitpress.compat.quark._dictionaries import parse_data_type
from bitpress.compat.quark._types import DataType

Int4, UInt4, Int8, UInt8 = DataType.Int4, DataType.UInt4, DataType.Int8, DataType.UInt8
Int16, UInt16, Int32, UInt32 = DataType.Int16, DataType.UInt16, DataType.Int32, DataType.UInt32
Float16, BFloat16, BFP16 = DataType.Float16, DataType.BFloat16, DataType.BFP16
MX4, MX6, MX9, MXInt8 = DataType.MX4, DataType.MX6, DataType.MX9, DataType.MXInt8
MXFP8E5M2, MXFP8E4M3 = DataType.MXFP8E5M2, DataType.MXFP8E4M3
MXFP6E3M2, MXFP6E2M3, MXFP4E2M1 = DataType.MXFP6E3M2, DataType.MXFP6E2M3, DataType.MXFP4E2M1

__all__ = [
    "BFP16", "BFloat16", "DataType", "Float16", "Int16", "Int32", "Int4", "Int8", "MX4", "MX6", "MX9", "MXFP4E2M1", "MXFP6E2M3",
    "MXFP6E3M2", "MXFP8E4M3", "MXFP8E5M2", "MXInt8", "UInt16", "UInt32", "UInt4", "UInt8", "parse_data_type",
]
