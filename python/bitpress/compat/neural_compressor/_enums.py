"""ONNX Neural Compressor's enumerations."""

import enum


class QuantType(enum.Enum):
    QInt8 = 0
    QUInt8 = 1


class QuantFormat(enum.Enum):
    QOperator = 0
    QDQ = 1


class CalibrationMethod(enum.Enum):
    MinMax = 0
    Entropy = 1
    Percentile = 2
    Distribution = 3
