"""`onnx_neural_compressor.config`."""

from bitpress.compat.neural_compressor._configs import (
    AWQConfig,
    ConfigRegistry,
    DynamicQuantConfig,
    GPTQConfig,
    RTNConfig,
    SmoothQuantConfig,
    StaticQuantConfig,
    config_registry,
    get_all_config_set_from_config_registry,
    get_default_awq_config,
    get_default_gptq_config,
    get_default_rtn_config,
    get_default_sq_config,
    get_woq_tuning_config,
)
from bitpress.compat.neural_compressor._names import refusing
from bitpress.compat.neural_compressor._types import BaseConfig, ComposableConfig, OperatorConfig

__getattr__ = refusing(__name__)

__all__ = [
    "AWQConfig", "BaseConfig", "ComposableConfig", "ConfigRegistry", "DynamicQuantConfig", "GPTQConfig", "OperatorConfig", "RTNConfig",
    "SmoothQuantConfig", "StaticQuantConfig", "config_registry", "get_all_config_set_from_config_registry", "get_default_awq_config",
    "get_default_gptq_config", "get_default_rtn_config", "get_default_sq_config", "get_woq_tuning_config",
]
