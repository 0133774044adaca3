"""`quark.onnx.quantization`."""

from bitpress.compat.quark._algorithm_types import (
    AdaQuantConfig, AdaRoundConfig, AlgoConfig, AutoMixprecisionConfig, BiasCorrectionConfig, CLEConfig, GPTQConfig,
    QuarotConfig, SmoothQuantConfig,
)
from bitpress.compat.quark._names import refusing
from bitpress.compat.quark._presets import get_default_config
from bitpress.compat.quark._quantizer import ModelQuantizer, quantize_dynamic, quantize_static
from bitpress.compat.quark._types import QConfig

__getattr__ = refusing(__name__, "_algo_flag")

__all__ = [
    "AdaQuantConfig", "AdaRoundConfig", "AlgoConfig", "AutoMixprecisionConfig", "BiasCorrectionConfig", "CLEConfig",
    "GPTQConfig", "ModelQuantizer", "QConfig", "QuarotConfig", "SmoothQuantConfig", "get_default_config",
    "quantize_dynamic", "quantize_static",
]
