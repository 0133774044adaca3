"""The names that scripts import from `quark.onnx`."""

from bitpress.compat.quark._algorithm_types import (
    AdaQuantConfig, AdaRoundConfig, AlgoConfig, AutoMixprecisionConfig, BiasCorrectionConfig, CLEConfig, GPTQConfig,
    QuarotConfig, SmoothQuantConfig,
)
from bitpress.compat.quark._auto_search import (
    AutoSearch, AutoSearchPro, SearchSpace, generate_all_configs, get_auto_search_config,
)
from bitpress.compat.quark._domain import _COP_DOMAIN, _COP_VERSION
from bitpress.compat.quark._names import refusing
from bitpress.compat.quark._presets import (
    A16W8_ADAQUANT_QCONFIG, A16W8_ADAROUND_QCONFIG, A16W8_QCONFIG, A8W8_ADAQUANT_QCONFIG, A8W8_ADAROUND_QCONFIG,
    A8W8_QCONFIG, BF16_QCONFIG, BFP16_QCONFIG, VINT8_QCONFIG, XINT8_ADAQUANT_QCONFIG, XINT8_ADAROUND_QCONFIG,
    XINT8_QCONFIG, get_default_config,
)
from bitpress.compat.quark._quantizer import (
    ModelQuantizer, RandomDataReader, get_library_path, quantize_dynamic, quantize_static,
)
from bitpress.compat.quark._readers import CachedDataReader, PathDataReader
from bitpress.compat.quark._types import (
    BFP16Spec, BFloat16Spec, CalibMethod, CalibrationDataReader, CalibrationMethod, Config, DataType,
    ExtendedCalibrationMethod, ExtendedQuantFormat, ExtendedQuantType, Float16Spec, Int16Method, Int16Spec,
    Int32Spec, Int4Spec, Int8Spec, LayerWiseMethod, MX4Spec, MX6Spec, MX9Spec, MXFP4E2M1Spec, MXFP6E2M3Spec,
    MXFP6E3M2Spec, MXFP8E4M3Spec, MXFP8E5M2Spec, MXInt8Spec, PowerOfTwoMethod, QConfig, QLayerConfig, QTensorConfig,
    QuantFormat, QuantGranularity, QuantType, QuantizationConfig, QuantizationMode, ScaleType, UInt16Spec,
    UInt32Spec, UInt4Spec, UInt8Spec, VitisQuantFormat, VitisQuantType, XInt8Spec,
)
from bitpress.compat.quark.onnx.quantization.config.data_type import (
    BFP16, BFloat16, Float16, Int16, Int32, Int8, UInt16, UInt32, UInt8,
)

__getattr__ = refusing(
    __name__, "CalibraterBase", "MinMaxCalibrater", "VitisExtendedQuantizer", "create_calibrator_float_scale",
    "create_calibrator_power_of_two", "dump_model", "write_calibration_table",
)

__all__ = [
    "A16W8_ADAQUANT_QCONFIG", "A16W8_ADAROUND_QCONFIG", "A16W8_QCONFIG", "A8W8_ADAQUANT_QCONFIG",
    "A8W8_ADAROUND_QCONFIG", "A8W8_QCONFIG", "AdaQuantConfig", "AdaRoundConfig", "AlgoConfig", "AutoMixprecisionConfig",
    "AutoSearch", "AutoSearchPro", "BF16_QCONFIG", "BFP16", "BFP16Spec", "BFP16_QCONFIG", "BFloat16", "BFloat16Spec",
    "BiasCorrectionConfig", "CLEConfig", "CachedDataReader", "CalibMethod", "CalibrationDataReader",
    "CalibrationMethod", "Config", "DataType", "ExtendedCalibrationMethod", "ExtendedQuantFormat", "ExtendedQuantType",
    "Float16", "Float16Spec", "GPTQConfig", "Int16", "Int16Method", "Int16Spec", "Int32", "Int32Spec", "Int4Spec",
    "Int8", "Int8Spec", "LayerWiseMethod", "MX4Spec", "MX6Spec", "MX9Spec", "MXFP4E2M1Spec", "MXFP6E2M3Spec",
    "MXFP6E3M2Spec", "MXFP8E4M3Spec", "MXFP8E5M2Spec", "MXInt8Spec", "ModelQuantizer", "PathDataReader",
    "PowerOfTwoMethod", "QConfig", "QLayerConfig", "QTensorConfig", "QuantFormat", "QuantGranularity", "QuantType",
    "QuantizationConfig", "QuantizationMode", "QuarotConfig", "RandomDataReader", "ScaleType", "SearchSpace",
    "SmoothQuantConfig", "UInt16", "UInt16Spec", "UInt32", "UInt32Spec", "UInt4Spec", "UInt8", "UInt8Spec",
    "VINT8_QCONFIG", "VitisQuantFormat", "VitisQuantType", "XINT8_ADAQUANT_QCONFIG", "XINT8_ADAROUND_QCONFIG",
    "XINT8_QCONFIG", "XInt8Spec", "_COP_DOMAIN", "_COP_VERSION", "generate_all_configs", "get_auto_search_config",
    "get_default_config", "get_library_path", "quantize_dynamic", "quantize_static",
]
