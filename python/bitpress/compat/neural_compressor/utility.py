"""`onnx_neural_compressor.utility`: which execution provider this machine offers."""

from bitpress.compat.neural_compressor._providers import auto_detect_ep

__all__ = ["auto_detect_ep"]
