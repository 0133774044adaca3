"""`onnx_neural_compressor.quantization.tuning`."""

from bitpress.compat.neural_compressor._quantize import autotune
from bitpress.compat.neural_compressor._types import TuningConfig

__all__ = ["TuningConfig", "autotune"]
