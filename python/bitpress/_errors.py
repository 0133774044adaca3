"""The exceptions and warnings of Bitpress. Each exception is also the built-in one that fits, so that `except ValueError` works too."""

import sys
import warnings


class Error(Exception):
    """The base of all: the message says what is wrong, where, what was expected and what to do."""


class InvalidArgumentError(Error, ValueError):
    """Something was asked that cannot be: an option, a name, a shape, a sample that does not fit the model."""


class ArgumentTypeError(Error, TypeError):
    """An argument of a type that is not taken, or an array of an element type that is not."""


class InvalidModelError(Error, ValueError):
    """The model file is damaged or breaks the ONNX rules."""


class UnsupportedError(Error, NotImplementedError):
    """Valid, but not done here."""


class FileError(Error, OSError):
    """Files and disks."""


class MissingFileError(FileError, FileNotFoundError):
    """There is no such file or folder."""


class ExecutionError(Error, RuntimeError):
    """ONNX Runtime or the system failed."""


class QuantizationWarning(UserWarning):
    """A quantized model that is slower, larger or farther from the given one than it should be, holds NaN, or has nothing quantized.

    `kind` says which, in a word; QuantizeReport.warnings has them all.
    """

    def __init__(self, message: str, kind: str = ""):
        super().__init__(message)
        self.kind = kind


def warn(warning: Warning) -> None:
    """Warns at the line of the caller's script: the first that is not of this package."""
    level = 1
    while (frame := sys._getframe(level)).f_back and f"{frame.f_globals.get('__name__')}.".startswith("bitpress."):
        level += 1
    warnings.warn(warning, stacklevel=level + 1)
