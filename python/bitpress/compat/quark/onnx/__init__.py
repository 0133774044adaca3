"""The names that scripts import from `quark.onnx`."""

from bitpress.compat.quark._presets import (
    A16W8_ADAQUANT_QCONFIG, A16W8_ADAROUND_QCONFIG, A16W8_QCONFIG, A8W8_ADAQUANT_QCONFIG, A8W8_ADAROUND_QCONFIG,
    A8W8_QCONFIG, BF16_QCONFIG, BFP16_QCONFIG, VINT8_QCONFIG, XINT8_ADAQUANT_QCONFIG, XINT8_ADAROUND_QCONFIG, XINT8_QCONFIG,
    get_default_config,
)
from bitpress.compat.quark._quantizer import (
    ModelQuantizer, RandomDataReader, get_library_path, quantize_dynamic, quantize_static,
)
from bitpress.compat.quark._types import (
    AdaQuantConfig, AdaRoundConfig, AlgoConfig, AutoMixprecisionConfig, BFP16Spec, BFloat16Spec, BiasCorrectionConfig,
    CLEConfig, CalibMethod, CalibrationDataReader, CalibrationMethod, Config, ExtendedCalibrationMethod, ExtendedQuantFormat,
    ExtendedQuantType, Float16Spec, GPTQConfig, Int16Method, Int16Spec, Int32Spec, Int4Spec, Int8Spec, LayerWiseMethod,
    MX4Spec, MX6Spec, MX9Spec, MXFP4E2M1Spec, MXFP6E2M3Spec, MXFP6E3M2Spec, MXFP8E4M3Spec, MXFP8E5M2Spec, MXInt8Spec,
    PowerOfTwoMethod, QConfig, QLayerConfig, QTensorConfig, QuantFormat, QuantGranularity, QuantType, QuantizationConfig,
    QuarotConfig, ScaleType, SmoothQuantConfig, UInt16Spec, UInt32Spec, UInt4Spec, UInt8Spec, XInt8Spec,
)

__all__ = [
    "A16W8_ADAQUANT_QCONFIG", "A16W8_ADAROUND_QCONFIG", "A16W8_QCONFIG", "A8W8_ADAQUANT_QCONFIG", "A8W8_ADAROUND_QCONFIG",
    "A8W8_QCONFIG", "AdaQuantConfig", "AdaRoundConfig", "AlgoConfig", "AutoMixprecisionConfig", "BF16_QCONFIG", "BFP16Spec",
    "BFP16_QCONFIG", "BFloat16Spec", "BiasCorrectionConfig", "CLEConfig", "CalibMethod", "CalibrationDataReader",
    "CalibrationMethod", "Config", "ExtendedCalibrationMethod", "ExtendedQuantFormat", "ExtendedQuantType", "Float16Spec",
    "GPTQConfig", "Int16Method", "Int16Spec", "Int32Spec", "Int4Spec", "Int8Spec", "LayerWiseMethod", "MX4Spec", "MX6Spec",
    "MX9Spec", "MXFP4E2M1Spec", "MXFP6E2M3Spec", "MXFP6E3M2Spec", "MXFP8E4M3Spec", "MXFP8E5M2Spec", "MXInt8Spec",
    "ModelQuantizer", "PowerOfTwoMethod", "QConfig", "QLayerConfig", "QTensorConfig", "QuantFormat", "QuantGranularity",
    "QuantType", "QuantizationConfig", "QuarotConfig", "RandomDataReader", "ScaleType", "SmoothQuantConfig", "UInt16Spec",
    "UInt32Spec", "UInt4Spec", "UInt8Spec", "VINT8_QCONFIG", "XINT8_ADAQUANT_QCONFIG", "XINT8_ADAROUND_QCONFIG",
    "XINT8_QCONFIG", "XInt8Spec", "get_default_config", "get_library_path", "quantize_dynamic", "quantize_static",
]
