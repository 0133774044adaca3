"""`quark.onnx.quantization.config.algorithm`."""

from bitpress.compat.quark._types import (
    AdaQuantConfig, AdaRoundConfig, AlgoConfig, AutoMixprecisionConfig, BiasCorrectionConfig, CLEConfig, GPTQConfig,
    QuarotConfig, SmoothQuantConfig,
)

__all__ = [
    "AdaQuantConfig", "AdaRoundConfig", "AlgoConfig", "AutoMixprecisionConfig", "BiasCorrectionConfig", "CLEConfig",
    "GPTQConfig", "QuarotConfig", "SmoothQuantConfig",
]
