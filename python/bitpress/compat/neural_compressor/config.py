"""`onnx_neural_compressor.config`."""

from bitpress.compat.neural_compressor._types import (
    AWQConfig,
    BaseConfig,
    DynamicQuantConfig,
    GPTQConfig,
    OperatorConfig,
    RTNConfig,
    SmoothQuantConfig,
    StaticQuantConfig,
    get_woq_tuning_config,
)

__all__ = [
    "AWQConfig", "BaseConfig", "DynamicQuantConfig", "GPTQConfig", "OperatorConfig", "RTNConfig", "SmoothQuantConfig",
    "StaticQuantConfig", "get_woq_tuning_config",
]
