"""`quark.onnx.calibration`."""

from bitpress.compat.quark._quantizer import RandomDataReader
from bitpress.compat.quark._types import ExtendedCalibrationMethod, Int16Method, LayerWiseMethod, PowerOfTwoMethod

__all__ = [
    "ExtendedCalibrationMethod", "Int16Method", "LayerWiseMethod", "PowerOfTwoMethod", "RandomDataReader",
]
