"""`onnx_neural_compressor.quantization.tuning`."""

from bitpress.compat.neural_compressor._quantize import autotune
from bitpress.compat.neural_compressor._tuning import ConfigLoader, ConfigSet, SequentialSampler, TuningConfig, default_sampler

__all__ = ["ConfigLoader", "ConfigSet", "SequentialSampler", "TuningConfig", "autotune", "default_sampler"]
