"""`onnx_neural_compressor.quantization.tuning`."""

from bitpress.compat.neural_compressor._configs import get_all_config_set_from_config_registry as get_all_config_set
from bitpress.compat.neural_compressor._names import refusing
from bitpress.compat.neural_compressor._quantize import autotune
from bitpress.compat.neural_compressor._tuning import (
    ConfigLoader,
    ConfigSet,
    Evaluator,
    Sampler,
    SequentialSampler,
    TuningConfig,
    default_sampler,
)

__getattr__ = refusing(__name__)

__all__ = [
    "ConfigLoader", "ConfigSet", "Evaluator", "Sampler", "SequentialSampler", "TuningConfig", "autotune", "default_sampler",
    "get_all_config_set",
]
