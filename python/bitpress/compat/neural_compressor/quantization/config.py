"""`onnx_neural_compressor.quantization.config`: the names of `onnx_neural_compressor.config`."""

from bitpress.compat.neural_compressor import config as _config
from bitpress.compat.neural_compressor._names import refusing
from bitpress.compat.neural_compressor.config import *  # noqa: F403

__getattr__ = refusing(__name__)

__all__ = []
__all__ += _config.__all__
