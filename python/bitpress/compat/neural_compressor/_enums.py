"""ONNX Neural Compressor's enumerations."""

import enum

from bitpress.compat._enums import CalibrationMethod, QuantFormat

__all__ = ["CalibrationMethod", "QuantFormat", "QuantType"]


class QuantType(enum.Enum):
    QInt8 = 0
    QUInt8 = 1
