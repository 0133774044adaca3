"""ONNX Neural Compressor's interface: `onnx_neural_compressor` becomes `bitpress.compat.neural_compressor` in import lines.

docs/migrate_neural_compressor.md has the fate of every word.
"""

from bitpress.compat.neural_compressor import config, data_reader, quantization, utility

__all__ = ["config", "data_reader", "quantization", "utility"]
