"""What each word takes: values are checked where a script gives them, in the script's word."""

import enum
from typing import Any, Collection, Dict, Mapping, Type

from bitpress._errors import ArgumentTypeError
from bitpress.compat import _values as v
from bitpress.compat.neural_compressor._enums import CalibrationMethod, QuantFormat, QuantType

Kinds = Dict[str, v.Kind]

SAMPLES = v.Kind("a reader with get_next(), or samples as bitpress.quantize takes them",
                 lambda value: not isinstance(value, (bool, int, float, enum.Enum)))
_OF_ALL: Kinds = {"calibration_data_reader": SAMPLES, "quant_format": v.one_of(*QuantFormat.__members__), "nodes_to_exclude": v.NAMES,
                  "white_list": v.either(v.NAMES, v.one_of("*")), "quant_last_matmul": v.FLAG}
_TYPE = v.one_of(*QuantType.__members__, "QInt16", "QUInt16")
_ALPHA = v.either(v.number(0, 1), v.one_of("auto"))
INTEGERS: Kinds = {
    **_OF_ALL, "calibrate_method": v.one_of(*CalibrationMethod.__members__), "activation_type": _TYPE, "weight_type": _TYPE,
    "op_types_to_quantize": v.NAMES, "nodes_to_quantize": v.NAMES, "per_channel": v.FLAG, "reduce_range": v.FLAG,
    "use_external_data_format": v.FLAG, "extra_options": v.MAPPING, "calibration_sampling_size": v.whole(1), "execution_provider": v.TEXT,
    "alpha": _ALPHA, "weight_sym": v.FLAG, "activation_sym": v.FLAG,
}
WEIGHTS: Kinds = {
    **_OF_ALL, "weight_dtype": v.one_of("int", "uint", "fp32"), "weight_bits": v.whole(1, 8),
    "weight_group_size": v.either(v.whole(1), v.one_of(-1)), "weight_sym": v.FLAG, "accuracy_level": v.whole(0, 4), "percdamp": v.number(0, 1),
    "actorder": v.FLAG, "mse": v.FLAG, "enable_auto_scale": v.FLAG, "enable_mse_search": v.FLAG,
}
EXTRA: Kinds = {"ActivationSymmetric": v.FLAG, "WeightSymmetric": v.FLAG, "SmoothQuant": v.FLAG, "SmoothQuantAlpha": _ALPHA,
                "Percentile": v.number(0, 100)}
NBITS: Kinds = {"block_size": WEIGHTS["weight_group_size"], "is_symmetric": v.FLAG, "is_signed": v.FLAG, "nodes_to_exclude": v.NAMES,
                "accuracy_level": WEIGHTS["accuracy_level"], "n_bits": WEIGHTS["weight_bits"]}
TUNING: Kinds = {"tolerable_loss": v.NUMBER, "max_trials": v.whole(1)}


def check(given: Mapping[str, Any], kinds: Kinds, where: str, lists: Collection[str] = ()) -> None:
    """Checks values that are not None.

    Args:
        lists: words that may have a list of values, for autotune.

    Raises:
        ArgumentTypeError, InvalidArgumentError: with the word, its value and what is expected.
    """
    for word, value in given.items():
        for item in value if word in lists and is_list(value) else [value]:
            try:
                kinds.get(word, v.ANY).check(item, f"{where}: {word}")
            except ArgumentTypeError as error:
                if word not in ("white_list", *(name for name, kind in kinds.items() if kind is v.NAMES)) and is_list(item):
                    raise ArgumentTypeError(f"{error}; lists of values are for tuning.autotune") from error
                raise


def is_list(value: Any) -> bool:
    """Returns whether a value is a list or an array of values to try."""
    return isinstance(value, list) or getattr(value, "ndim", 0) == 1


_ENUMS: Dict[str, Type[enum.Enum]] = {"quant_format": QuantFormat, "calibrate_method": CalibrationMethod, "activation_type": QuantType,
                                      "weight_type": QuantType}
# The numbers by which JSON files of the other tool name members of enums.
_TYPE_NUMBERS = {2: "QUInt8", 3: "QInt8", 4: "QUInt16", 5: "QInt16"}
_NUMBERS: Dict[str, Dict[int, str]] = {"quant_format": {0: "QOperator", 1: "QDQ"}, "activation_type": _TYPE_NUMBERS, "weight_type": _TYPE_NUMBERS}


def in_json(word: str, value: Any) -> Any:
    """Returns a value as JSON files of the other tool have it."""
    if is_list(value):
        return [in_json(word, item) for item in value]
    name = value.name if isinstance(value, enum.Enum) else value
    return next((number for number, text in _NUMBERS.get(word, {}).items() if text == name), name)


def in_members(word: str, value: Any) -> Any:
    """Returns the member of an enum for its name or its number in a JSON file."""
    if isinstance(value, list):
        return [in_members(word, item) for item in value]
    name = _NUMBERS.get(word, {}).get(value, value) if type(value) is int else value
    members: Any = _ENUMS[word].__members__ if word in _ENUMS else {}
    return members.get(name, name) if isinstance(name, str) else name
