"""`onnx_neural_compressor.data_reader`."""

from bitpress.compat.neural_compressor._types import CalibrationDataReader

__all__ = ["CalibrationDataReader"]
