"""`quark.onnx.quantization.config.spec`."""

from bitpress.compat.quark._dictionaries import ENUM_CLASS_MAP, parse_enum
from bitpress.compat.quark._types import (
    BFP16Spec, BFloat16Spec, CalibMethod, Float16Spec, Int16Spec, Int32Spec, Int4Spec, Int8Spec, MX4Spec, MX6Spec,
    MX9Spec, MXFP4E2M1Spec, MXFP6E2M3Spec, MXFP6E3M2Spec, MXFP8E4M3Spec, MXFP8E5M2Spec, MXInt8Spec, QLayerConfig,
    QTensorConfig, QuantGranularity, ScaleType, UInt16Spec, UInt32Spec, UInt4Spec, UInt8Spec, XInt8Spec,
)

__all__ = [
    "ENUM_CLASS_MAP", "parse_enum",
    "BFP16Spec", "BFloat16Spec", "CalibMethod", "Float16Spec", "Int16Spec", "Int32Spec", "Int4Spec", "Int8Spec",
    "MX4Spec", "MX6Spec", "MX9Spec", "MXFP4E2M1Spec", "MXFP6E2M3Spec", "MXFP6E3M2Spec", "MXFP8E4M3Spec",
    "MXFP8E5M2Spec", "MXInt8Spec", "QLayerConfig", "QTensorConfig", "QuantGranularity", "ScaleType", "UInt16Spec",
    "UInt32Spec", "UInt4Spec", "UInt8Spec", "XInt8Spec",
]
