"""Formats and ranges in Quark's words."""

import re
from typing import Any, Dict, Mapping, Sequence, Tuple

from bitpress import formats
from bitpress._errors import Error, InvalidArgumentError, UnsupportedError
from bitpress.compat import _fates
from bitpress.compat._values import name_of
from bitpress.compat.quark._types import QLayerConfig, QTensorConfig

_ELEMENTS = {"fp8_e5m2": "mxfp8_e5m2", "fp8_e4m3": "mxfp8_e4m3", "fp6_e3m2": "mxfp6_e3m2", "fp6_e2m3": "mxfp6_e2m3",
             "fp4_e2m1": "mxfp4_e2m1", "int8": "mxint8"}
_ROUNDINGS = {0: "half_away_from_zero", 1: "half_up", 2: "half_to_even"}
_MICRO_EXPONENTS = {11: "mx4", 13: "mx6", 16: "mx9"}
_TYPES = {"QInt4": "int4", "QUInt4": "uint4", "QInt8": "int8", "QUInt8": "uint8", "QInt16": "int16", "QUInt16": "uint16",
          "QInt32": "int32", "QUInt32": "uint32", "QFloat16": "fp16", "QBFloat16": "bf16"}


def is_integer(name: str) -> bool:
    return name != "none" and formats.find(name).is_integer


def _found(name: str, where: str) -> str:
    """The whole name of one of our formats, which takes sizes of attributes."""
    try:
        return formats.find(name).name
    except Error as error:
        raise InvalidArgumentError(f"{where}: {error}") from error


def _attribute(attributes: Mapping[str, Any], key: str, default: Any, allowed: Sequence[Any], where: str) -> Any:
    value = attributes.get(key)
    value = default if value is None else value
    if value not in allowed:
        raise UnsupportedError(f"{where}: {key}={value!r} is refused: there is no such format here. Instead: "
                               + ", ".join(repr(item) for item in allowed))
    return value


def _size(attributes: Mapping[str, Any], key: str, default: int) -> int:
    value = attributes.get(key)
    return default if value is None else int(value)


def block_axis(options: Mapping[str, Any]) -> Any:
    """The axis of blocks that attributes name, as a setting: one for all blocks of a model."""
    axes = {word: _size(options[word], "axis", 1) for word in ("MXAttributes", "BFPAttributes") if options.get(word)}
    if len(set(axes.values())) > 1:
        raise UnsupportedError("extra_options: MXAttributes and BFPAttributes with different axes are refused: blocks of a model run along "
                               "one axis. Instead: the same axis")
    axis = next(iter(axes.values()), 1)
    return "default" if axis == 1 else axis


def microscaling_format(attributes: Mapping[str, Any]) -> Tuple[str, str]:
    """Format and rounding of MXAttributes."""
    where = "MXAttributes"
    rounding = _ROUNDINGS[_attribute(attributes, "rounding_mode", 2, tuple(_ROUNDINGS), where)]
    element = _attribute(attributes, "element_dtype", "int8", tuple(_ELEMENTS), where)
    block = _size(attributes, "block_size", 32)
    name = _found(f"{_ELEMENTS[element]}(block={block})", where)
    # Floating-point elements round half to even in Quark whatever the mode.
    return name, rounding if element == "int8" else "half_to_even"


def block_float_format(attributes: Mapping[str, Any]) -> Tuple[str, str]:
    """Format and rounding of BFPAttributes."""
    where = "BFPAttributes"
    rounding = _ROUNDINGS[_attribute(attributes, "rounding_mode", 2, tuple(_ROUNDINGS), where)]
    method = _attribute(attributes, "bfp_method", "to_bfp", ("to_bfp", "to_bfp_prime", "to_bfp_prime_shared"), where)
    bits, block = _size(attributes, "bit_width", 16), _size(attributes, "block_size", 8 if method == "to_bfp" else 16)
    exponent_bits = _size(attributes, "exponent_bits", 8)
    if method == "to_bfp":
        if (bits, block, exponent_bits) == (16, 8, 8):
            return "bfp16", rounding
        return _found(f"bfp(bits={bits}, block={block}, exponent_bits={exponent_bits})", where), rounding
    if exponent_bits != 8:
        raise UnsupportedError(f"{where}: exponent_bits={exponent_bits} is refused with bfp_method={method!r}: its shared exponents have "
                               "8 bits. Instead: 8, or bfp_method='to_bfp'")
    sub_block, shift = _size(attributes, "sub_block_size", 2), _size(attributes, "sub_block_shift_bits", 1)
    if (block, sub_block, shift) == (16, 2, 1) and bits in _MICRO_EXPONENTS:
        return _MICRO_EXPONENTS[bits], rounding
    return _found(f"mx(bits={bits}, block={block}, sub_block={sub_block}, shift_bits={shift})", where), rounding


def _format_of(quant_type: Any, options: Mapping[str, Any]) -> Tuple[str, str]:
    """Format and rounding of a quantization type."""
    rounding = "half_to_even"
    if isinstance(quant_type, QTensorConfig):
        return quant_type.format, rounding
    name = name_of(quant_type)
    name = name if name.startswith("Q") else "Q" + name  # data types such as Int8
    if name == "QMX":
        return microscaling_format(options.get("MXAttributes") or {})
    if name == "QBFP":
        return block_float_format(options.get("BFPAttributes") or {})
    if name == "QBloat16":
        _fates.say("QBloat16 is taken as QBFloat16")
        return "bf16", rounding
    if name not in _TYPES:
        raise InvalidArgumentError(f"there is no quantization type '{name_of(quant_type)}'; it is one of "
                                   + ", ".join([*_TYPES, "QBFP", "QMX"]))
    return _TYPES[name], rounding


def all_but(names: Sequence[str]) -> str:
    """A regular expression for the names of all other nodes."""
    return f"(?!(?:{'|'.join(re.escape(name) for name in names)})$).*"


def set_format(settings: Dict[str, Any], side: str, quant_type: Any, options: Mapping[str, Any]) -> None:
    """The format of a side, its rounding and its symmetry.

    Without a word about symmetry, activations and unsigned weights are asymmetric in Quark.
    """
    settings[side], rounding = _format_of(quant_type, options)
    if side == "biases":
        return
    settings[f"{side[:-1]}_rounding"] = rounding
    if not is_integer(settings[side]):
        return
    if side == "activations":
        settings["activation_symmetric"] = bool(options.get("ActivationSymmetric"))
    else:
        given = options.get("WeightSymmetric")
        settings["weight_symmetric"] = settings[side].startswith("int") if given is None else bool(given)


def _percentile(options: Mapping[str, Any]) -> str:
    return f"percentile({options.get('Percentile') or 99.999})"


def calibration(method: Any, options: Mapping[str, Any]) -> Dict[str, Any]:
    """The settings of a calibration method of the older interface."""
    name, family = name_of(method), type(method).__name__
    percentile = _percentile(options)
    if family == "PowerOfTwoMethod" or name in ("NonOverflow", "MinMSE"):
        ranges = {"NonOverflow": "min_max", "MinMSE": "mse"}
        return {"activation_range": ranges[name], "weight_range": ranges[name],
                "activation_scale_kind": "power_of_two", "weight_scale_kind": "power_of_two"}
    if family == "Int16Method":
        return {"activation_range": "min_max", "activation_scale_kind": "int16", "weight_scale_kind": "int16"}
    words = {"MinMax": "moving_average" if options.get("CalibMovingAverage") else "min_max", "Entropy": "entropy",
             "Percentile": percentile, "Distribution": "distribution", "LayerWisePercentile": "layerwise_percentile"}
    if name not in words:
        raise InvalidArgumentError(f"there is no calibration method '{name}'; it is one of {', '.join(words)}, NonOverflow, MinMSE")
    return {"activation_range": words[name]}


def _range_of(spec: QTensorConfig, options: Mapping[str, Any]) -> str:
    if spec.calibration_method.name == "Percentile":
        return _percentile(options)
    return spec.calibration_method.value


def layer_settings(layer: QLayerConfig, options: Mapping[str, Any]) -> Dict[str, Any]:
    """Formats, symmetry, scales and ranges of a layer, as far as it says them."""
    settings: Dict[str, Any] = {}
    if layer.inputs is not None:
        settings["activations"] = layer.inputs.format
        if is_integer(layer.inputs.format):
            settings.update(activation_symmetric=layer.inputs.symmetric, activation_scale_kind=layer.inputs.scale_type.value,
                            activation_range=_range_of(layer.inputs, options))
    if layer.weight is not None:
        settings["weights"] = layer.weight.format
        if is_integer(layer.weight.format):
            # Weights have min-max ranges in Quark whatever their method says, but with powers of two.
            is_mse = layer.weight.calibration_method.value == "mse"
            settings.update(weight_symmetric=layer.weight.symmetric, weight_scale_kind=layer.weight.scale_type.value,
                            weight_granularity=layer.weight.quant_granularity.value, weight_range="mse" if is_mse else "min_max")
    if layer.output_tensors is not None and (layer.inputs is None or vars(layer.output_tensors) != vars(layer.inputs)):
        _fates.say(f"output_tensors in {layer.output_tensors.format} changes nothing here: a value has the format of who reads it")
    if layer.bias is not None:
        settings["biases"] = layer.bias.format
    return settings
