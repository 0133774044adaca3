"""ONNX Runtime's enumerations, which the tools that build on it share."""

import enum
from typing import Any

from bitpress._errors import InvalidArgumentError



def _of_name(kind: Any, text: str, where: str) -> Any:
    if text not in kind.__members__:
        raise InvalidArgumentError(f"{where}.from_string('{text}'): expected one of {', '.join(kind.__members__)}")
    return kind[text]


class QuantType(enum.Enum):
    QInt8 = 0
    QUInt8 = 1
    QFLOAT8E4M3FN = 2
    QInt16 = 3
    QUInt16 = 4
    QInt4 = 5
    QUInt4 = 6

    def __str__(self) -> str:
        return self.name

    @staticmethod
    def from_string(t: str) -> "QuantType":
        member: QuantType = _of_name(QuantType, t, "QuantType")
        return member

    @property
    def tensor_type(self) -> int:
        """The number of the type in onnx.TensorProto."""
        return _ONNX_TYPES[self.name]


_ONNX_TYPES = {"QInt8": 3, "QUInt8": 2, "QFLOAT8E4M3FN": 17, "QInt16": 5, "QUInt16": 4, "QInt4": 22, "QUInt4": 21}


class QuantFormat(enum.Enum):
    QOperator = 0
    QDQ = 1

    def __str__(self) -> str:
        return self.name

    @staticmethod
    def from_string(format: str) -> "QuantFormat":
        member: QuantFormat = _of_name(QuantFormat, format, "QuantFormat")
        return member


class QuantizationMode(enum.Enum):
    """Nothing asks for it: the form of a model is QuantFormat."""

    IntegerOps = 0
    QLinearOps = 1

    def __str__(self) -> str:
        return self.name

    @staticmethod
    def from_string(mode: str) -> "QuantizationMode":
        member: QuantizationMode = _of_name(QuantizationMode, mode, "QuantizationMode")
        return member


class CalibrationMethod(enum.Enum):
    MinMax = 0
    Entropy = 1
    Percentile = 2
    Distribution = 3
