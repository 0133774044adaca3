"""The types and ranges of values: each is checked where a script gives it, in the script's word."""

import enum
import numbers
from dataclasses import dataclass
from typing import Any, Callable, Collection, Dict, Mapping, Optional, Type

from bitpress._errors import ArgumentTypeError, InvalidArgumentError
from bitpress.compat.neural_compressor._enums import CalibrationMethod, QuantFormat, QuantType


@dataclass(frozen=True)
class Kind:
    """What a word takes.

    Attributes:
        text: what an error says is expected.
        has_type: False is an ArgumentTypeError.
        has_range: False is an InvalidArgumentError.
        members: the enumeration that texts are members of.
    """

    text: str
    has_type: Callable[[Any], bool]
    has_range: Callable[[Any], bool] = lambda value: True
    members: Optional[Type[enum.Enum]] = None


def _is_bool(value: Any) -> bool:
    return isinstance(value, bool) or type(value).__name__ == "bool"  # numpy's too


def _is_number(value: Any) -> bool:
    return isinstance(value, numbers.Real) and not _is_bool(value)


def integer(least: int, most: float = float("inf"), *others: int) -> Kind:
    spoken = f"an integer of at least {least}" if most == float("inf") else f"an integer from {least} to {most}"
    return Kind(spoken + "".join(f" or {other}" for other in others),
                lambda value: isinstance(value, numbers.Integral) and not _is_bool(value),
                lambda value: least <= value <= most or value in others)


def number(least: float, most: float = float("inf"), *words: str) -> Kind:
    bounds = "" if least == -most else f" of at least {least:g}" if most == float("inf") else f" from {least:g} to {most:g}"
    spoken = f"a number{bounds}"
    return Kind(spoken + "".join(f" or '{word}'" for word in words), lambda value: _is_number(value) or (bool(words) and isinstance(value, str)),
                lambda value: value in words if isinstance(value, str) else least <= value <= most)


def one_of(*words: str) -> Kind:
    return Kind("one of " + ", ".join(words), lambda value: isinstance(value, str), lambda value: value in words)


def member(members: Type[enum.Enum], *more: str) -> Kind:
    """Members of enums by their names, or their names: scripts bring ONNX Runtime's own along."""
    names = (*members.__members__, *more)
    return Kind("one of " + ", ".join(names), lambda value: isinstance(value, (enum.Enum, str)),
                lambda value: getattr(value, "name", value) in names, members)


def in_members(kind: Optional[Kind], value: Any) -> Any:
    """Returns a member for its name."""
    if kind is None or kind.members is None:
        return value
    return [in_members(kind, item) for item in value] if isinstance(value, list) else kind.members.__members__.get(value, value)


def _are_texts(value: Any) -> bool:
    return isinstance(value, (list, tuple, set, frozenset)) and all(isinstance(item, str) for item in value)


BOOL = Kind("True or False", _is_bool)
TEXTS = Kind("a list of names", _are_texts)
WHITE_LIST = Kind("a list of operator types", lambda value: value == "*" or _are_texts(value))
OPTIONS = Kind("a dict of options", lambda value: isinstance(value, Mapping) and all(isinstance(key, str) for key in value))
SAMPLES = Kind("a reader with get_next(), or samples as bitpress.quantize takes them",
               lambda value: not isinstance(value, (bool, int, float, enum.Enum)))
PROVIDER = Kind("the name of an execution provider", lambda value: isinstance(value, str))
QUANT_FORMAT = member(QuantFormat)
METHOD = member(CalibrationMethod)
TYPE = member(QuantType, "QInt16", "QUInt16")

Kinds = Dict[str, Kind]

_OF_ALL: Kinds = {"calibration_data_reader": SAMPLES, "quant_format": QUANT_FORMAT, "nodes_to_exclude": TEXTS, "white_list": WHITE_LIST,
                  "quant_last_matmul": BOOL}
INTEGERS: Kinds = {
    **_OF_ALL, "calibrate_method": METHOD, "activation_type": TYPE, "weight_type": TYPE, "op_types_to_quantize": TEXTS,
    "nodes_to_quantize": TEXTS, "per_channel": BOOL, "reduce_range": BOOL, "use_external_data_format": BOOL, "extra_options": OPTIONS,
    "calibration_sampling_size": integer(1), "execution_provider": PROVIDER, "alpha": number(0, 1, "auto"), "weight_sym": BOOL,
    "activation_sym": BOOL,
}
WEIGHTS: Kinds = {
    **_OF_ALL, "weight_dtype": one_of("int", "uint", "fp32"), "weight_bits": integer(1, 8), "weight_group_size": integer(1, float("inf"), -1),
    "weight_sym": BOOL, "accuracy_level": integer(0, 4), "percdamp": number(0, 1), "actorder": BOOL, "mse": BOOL, "enable_auto_scale": BOOL,
    "enable_mse_search": BOOL,
}
EXTRA: Kinds = {"ActivationSymmetric": BOOL, "WeightSymmetric": BOOL, "SmoothQuant": BOOL, "SmoothQuantAlpha": number(0, 1, "auto"),
                "Percentile": number(0, 100)}

NBITS: Kinds = {"block_size": WEIGHTS["weight_group_size"], "is_symmetric": BOOL, "is_signed": BOOL, "nodes_to_exclude": TEXTS,
                "accuracy_level": WEIGHTS["accuracy_level"], "n_bits": WEIGHTS["weight_bits"]}
TUNING: Kinds = {"tolerable_loss": number(float("-inf")), "max_trials": integer(1)}


def check(given: Mapping[str, Any], kinds: Kinds, where: str, lists: Collection[str] = ()) -> None:
    """Checks values that are not None.

    Args:
        lists: words that may have a list of values, for autotune.

    Raises:
        ArgumentTypeError, InvalidArgumentError: with the word, its value and what is expected.
    """
    for word, value in given.items():
        kind = kinds.get(word)
        if kind is None or value is None:
            continue
        for item in value if word in lists and is_list(value) else [value]:
            if not kind.has_type(item):
                hint = "; lists of values are for tuning.autotune" if is_list(item) and kind not in (TEXTS, WHITE_LIST) else ""
                raise ArgumentTypeError(f"{where}: {word}={item!r}: expected {kind.text}, not {type(item).__name__}{hint}")
            if not kind.has_range(item):
                raise InvalidArgumentError(f"{where}: {word}={item!r}: expected {kind.text}")


def is_list(value: Any) -> bool:
    """Returns whether a value is a list or an array of values to try."""
    return isinstance(value, list) or getattr(value, "ndim", 0) == 1


# The numbers by which JSON files of the other tool name members of enums.
_TYPE_NUMBERS = {2: "QUInt8", 3: "QInt8", 4: "QUInt16", 5: "QInt16"}
_NUMBERS: Dict[str, Dict[int, str]] = {"quant_format": {0: "QOperator", 1: "QDQ"}, "activation_type": _TYPE_NUMBERS, "weight_type": _TYPE_NUMBERS}


def in_json(word: str, value: Any) -> Any:
    """Returns a value as JSON files of the other tool have it."""
    if is_list(value):
        return [in_json(word, item) for item in value]
    name = value.name if isinstance(value, enum.Enum) else value
    return next((number for number, text in _NUMBERS.get(word, {}).items() if text == name), name)


def from_json(word: str, value: Any) -> Any:
    if isinstance(value, list):
        return [from_json(word, item) for item in value]
    return _NUMBERS.get(word, {}).get(value, value) if type(value) is int else value
