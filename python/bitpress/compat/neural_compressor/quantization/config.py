"""`onnx_neural_compressor.quantization.config`."""

from bitpress.compat.neural_compressor.config import (
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
