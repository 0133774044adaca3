"""Formats and ranges in Quark's words."""

from typing import Any, Dict, Mapping, Sequence, Tuple

from bitpress import formats
from bitpress._errors import InvalidArgumentError, UnsupportedError
from bitpress.compat import _fates
from bitpress.compat.quark._types import QLayerConfig, QTensorConfig

_ELEMENTS = {"fp8_e5m2": "mxfp8_e5m2", "fp8_e4m3": "mxfp8_e4m3", "fp6_e3m2": "mxfp6_e3m2", "fp6_e2m3": "mxfp6_e2m3",
             "fp4_e2m1": "mxfp4_e2m1", "int8": "mxint8"}
_ROUNDINGS = {0: "half_away_from_zero", 1: "half_up", 2: "half_to_even"}
_MICRO_EXPONENTS = {11: "mx4", 13: "mx6", 16: "mx9"}
_TYPES = {"QInt4": "int4", "QUInt4": "uint4", "QInt8": "int8", "QUInt8": "uint8", "QInt16": "int16", "QUInt16": "uint16",
          "QInt32": "int32", "QUInt32": "uint32", "QFloat16": "fp16", "QBFloat16": "bf16"}


def is_integer(name: str) -> bool:
    return name != "none" and formats.find(name).is_integer


def name_of(value: Any) -> str:
    """The name of an enum's member, ONNX Runtime's own included, or the word itself."""
    return str(getattr(value, "name", value))


def _attribute(attributes: Mapping[str, Any], key: str, default: Any, allowed: Sequence[Any], where: str) -> Any:
    value = attributes.get(key, default)
    if value not in allowed:
        raise UnsupportedError(f"{where}: {key}={value!r} is refused: there is no such format here. Instead: "
                               + ", ".join(repr(item) for item in allowed))
    return value


def check_keys(attributes: Mapping[str, Any], known: Sequence[str], where: str) -> None:
    _fates.check(attributes, _fates.table(_fates.honoured(key, "") for key in known), where)


def microscaling_format(attributes: Mapping[str, Any]) -> Tuple[str, str]:
    """Format and rounding of MXAttributes."""
    where = "MXAttributes"
    check_keys(attributes, ("element_dtype", "axis", "block_size", "rounding_mode"), where)
    _attribute(attributes, "block_size", 32, (32,), where)
    _attribute(attributes, "axis", 1, (1,), where)
    rounding = _attribute(attributes, "rounding_mode", 2, tuple(_ROUNDINGS), where)
    return _ELEMENTS[_attribute(attributes, "element_dtype", "int8", tuple(_ELEMENTS), where)], _ROUNDINGS[rounding]


def block_float_format(attributes: Mapping[str, Any]) -> Tuple[str, str]:
    """Format and rounding of BFPAttributes."""
    where = "BFPAttributes"
    check_keys(attributes, ("bfp_method", "axis", "bit_width", "block_size", "rounding_mode", "sub_block_size", "sub_block_shift_bits",
                          "exponent_bits", "convert_to_bfloat_before_bfp", "use_compiler_version_cpu_kernel"), where)
    _attribute(attributes, "axis", 1, (1,), where)
    _attribute(attributes, "convert_to_bfloat_before_bfp", 0, (0,), where)
    _attribute(attributes, "use_compiler_version_cpu_kernel", 0, (0,), where)
    rounding = _ROUNDINGS[_attribute(attributes, "rounding_mode", 2, tuple(_ROUNDINGS), where)]
    method = _attribute(attributes, "bfp_method", "to_bfp", ("to_bfp", "to_bfp_prime", "to_bfp_prime_shared"), where)
    if method == "to_bfp":
        bits, block = attributes.get("bit_width", 16), attributes.get("block_size", 8)
        exponent_bits = attributes.get("exponent_bits", 8)
        if (bits, block, exponent_bits) == (16, 8, 8):
            return "bfp16", rounding
        return f"bfp(bits={bits}, block={block}, exponent_bits={exponent_bits})", rounding
    bits = _attribute(attributes, "bit_width", 16, tuple(_MICRO_EXPONENTS), where)
    for key, only in (("block_size", 16), ("sub_block_size", 2), ("sub_block_shift_bits", 1), ("exponent_bits", 8)):
        _attribute(attributes, key, only, (only,), where)
    return _MICRO_EXPONENTS[bits], rounding


def format_of(quant_type: Any, options: Mapping[str, Any], settings: Dict[str, Any]) -> str:
    """The format of a quantization type; those with attributes also say how elements are rounded."""
    if isinstance(quant_type, QTensorConfig):
        return quant_type.data_type
    name = name_of(quant_type)
    name = name if name.startswith("Q") else "Q" + name  # data types such as Int8
    if name == "QMX":
        format_name, settings["rounding"] = microscaling_format(options.get("MXAttributes", {}))
    elif name == "QBFP":
        format_name, settings["rounding"] = block_float_format(options.get("BFPAttributes", {}))
    elif name == "QBloat16":
        _fates.say("QBloat16 is taken as QBFloat16")
        return "bf16"
    elif name in _TYPES:
        return _TYPES[name]
    else:
        raise InvalidArgumentError(f"there is no quantization type '{name_of(quant_type)}'; it is one of "
                                   + ", ".join([*_TYPES, "QBFP", "QMX"]))
    return format_name


def calibration(method: Any, options: Mapping[str, Any]) -> Dict[str, Any]:
    """The settings of a calibration method of the older interface."""
    name, family = name_of(method), type(method).__name__
    percentile = f"percentile({options.get('Percentile', 99.999)})"
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
        return f"percentile({options.get('Percentile', 99.999)})"
    return spec.calibration_method.value


def layer_settings(layer: QLayerConfig, options: Mapping[str, Any]) -> Dict[str, Any]:
    """Formats, symmetry, scales and ranges of a layer, as far as it says them."""
    settings: Dict[str, Any] = {}
    if layer.inputs is not None:
        settings["activations"] = layer.inputs.data_type
        if is_integer(layer.inputs.data_type):
            settings.update(activation_symmetric=layer.inputs.symmetric, activation_scale_kind=layer.inputs.scale_type.value,
                            activation_range=_range_of(layer.inputs, options))
    if layer.weight is not None:
        settings["weights"] = layer.weight.data_type
        if is_integer(layer.weight.data_type):
            # Weights have min-max ranges in Quark whatever their method says, but with powers of two.
            is_mse = layer.weight.calibration_method.value == "mse"
            settings.update(weight_symmetric=layer.weight.symmetric, weight_scale_kind=layer.weight.scale_type.value,
                            weight_granularity=layer.weight.quant_granularity.value, weight_range="mse" if is_mse else "min_max")
    if layer.output_tensors is not None and layer.output_tensors != layer.inputs:
        _fates.say(f"output_tensors in {layer.output_tensors.data_type} changes nothing here: a value has the format of who reads it")
    if layer.bias is not None:
        settings["biases"] = layer.bias.data_type
    return settings
