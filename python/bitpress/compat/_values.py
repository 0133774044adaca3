"""Kinds of values: what a word of another tool takes. Values are checked first, and an error names the script's word."""

import math
import numbers
import os
from dataclasses import dataclass, replace
from typing import Any, Callable, Optional

from bitpress._errors import ArgumentTypeError, InvalidArgumentError


def name_of(value: Any) -> str:
    """The name of an enum's member, ONNX Runtime's own included, or the last part of a text: "QInt8" of "QuantType.QInt8"."""
    name = str(getattr(value, "name", value))
    return name.rsplit(".", 1)[-1]


def _is_flag(value: Any) -> bool:
    return type(value).__name__ in ("bool", "bool_") or (type(value) is int and value in (0, 1))


def _is_number(value: Any) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def _is_whole(value: Any) -> bool:
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def _is_list(value: Any) -> bool:
    return isinstance(value, (list, tuple, set, frozenset))


@dataclass(frozen=True)
class Kind:
    """What a word takes.

    Attributes:
        text: what is expected, for the error.
        is_type: says whether a value has the type. Another one is an ArgumentTypeError.
        is_allowed: of values of the type: says whether it is in range. Others are an InvalidArgumentError.
        takes_none: None means that the word is not given.
    """

    text: str
    is_type: Callable[[Any], bool]
    is_allowed: Callable[[Any], bool] = lambda value: True
    takes_none: bool = True

    def needed(self) -> "Kind":
        """The kind without None."""
        return replace(self, takes_none=False)

    def check(self, value: Any, where: str) -> None:
        """Raises an error that begins with `where` if the value does not fit."""
        if value is None and self.takes_none:
            return
        if not self.is_type(value):
            raise ArgumentTypeError(f"{where}={value!r} is {type(value).__name__}; expected {self.text}")
        if not self.is_allowed(value):
            raise InvalidArgumentError(f"{where}={value!r} is not allowed; expected {self.text}")


def whole(least: int, most: Optional[int] = None) -> Kind:
    text = f"a whole number of at least {least}" if most is None else f"a whole number from {least} to {most}"
    return Kind(text, _is_whole, lambda value: least <= value and (most is None or value <= most))


def number(least: float, most: Optional[float] = None, *, is_above: bool = False) -> Kind:
    """Numbers from `least`, or with `is_above` above it."""
    text = f"a number {'above' if is_above else 'of at least'} {least:g}" + ("" if most is None else f" and at most {most:g}")
    return Kind(text, _is_number, lambda value: (least < value if is_above else least <= value) and math.isfinite(value)
                and (most is None or value <= most))


def one_of(*words: Any, takes_none: bool = True) -> Kind:
    """Texts, members of enums by their names, or numbers."""
    text = "one of " + ", ".join(map(repr, words)) if len(words) > 1 else repr(words[0])
    kinds = {type(word) for word in words}
    return Kind(text, lambda value: hasattr(value, "name") if type(value) not in kinds and str in kinds else type(value) in kinds,
                lambda value: (name_of(value) if str in kinds else value) in words, takes_none)


def list_of(kind: Kind, size: Optional[int] = None) -> Kind:
    what = f"a list of {size} values" if size is not None else "a list"

    def is_type(value: Any) -> bool:
        return _is_list(value) and all(item is not None and kind.is_type(item) for item in value)

    return Kind(f"{what}, each {kind.text}", is_type,
                lambda value: (size is None or len(value) == size) and all(kind.is_allowed(item) for item in value))


def either(*kinds: Kind) -> Kind:
    return Kind(", or ".join(kind.text for kind in kinds), lambda value: any(kind.is_type(value) for kind in kinds),
                lambda value: any(kind.is_type(value) and kind.is_allowed(value) for kind in kinds))


FLAG = Kind("True or False", _is_flag)
NUMBER = Kind("a number", _is_number, math.isfinite)
TEXT = Kind("a text", lambda value: isinstance(value, str))
PATH = Kind("a path", lambda value: isinstance(value, (str, os.PathLike)), lambda value: bool(os.fspath(value)))
NAMES = list_of(Kind("a text", lambda value: isinstance(value, str)))
LIST = Kind("a list", _is_list)
DICTS = Kind("a list of dicts", lambda value: _is_list(value) and bool(value) and all(hasattr(item, "items") for item in value), takes_none=False)
MAPPING = Kind("a dict", lambda value: hasattr(value, "items"))
FUNCTION = Kind("a function", callable)
ANY = Kind("any value", lambda value: True)
