"""`quark.onnx.quantization.config.algorithm`."""

from bitpress.compat.quark._algorithm_types import (
    AdaQuantConfig, AdaRoundConfig, AlgoConfig, AutoMixprecisionConfig, BiasCorrectionConfig, CLEConfig, GPTQConfig,
    QuarotConfig, SmoothQuantConfig,
)
from bitpress.compat.quark._algorithm_types import ALGORITHMS as ALGO_NAME_TO_CLASS
from bitpress.compat.quark._dictionaries import algorithm_from_dict as from_dict
from bitpress.compat.quark._names import refusing

__getattr__ = refusing(__name__, "add_method_to_subclasses")

__all__ = [
    "ALGO_NAME_TO_CLASS", "AdaQuantConfig", "AdaRoundConfig", "AlgoConfig", "AutoMixprecisionConfig", "BiasCorrectionConfig", "CLEConfig",
    "GPTQConfig", "QuarotConfig", "SmoothQuantConfig", "from_dict",
]
