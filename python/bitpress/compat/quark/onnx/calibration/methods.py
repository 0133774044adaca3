"""`quark.onnx.calibration.methods`."""

from bitpress.compat.quark._types import ExtendedCalibrationMethod, Int16Method, LayerWiseMethod, PowerOfTwoMethod

__all__ = [
    "ExtendedCalibrationMethod", "Int16Method", "LayerWiseMethod", "PowerOfTwoMethod",
]
