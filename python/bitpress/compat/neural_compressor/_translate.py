"""From ONNX Neural Compressor's configurations to what bitpress.quantize is asked."""

from dataclasses import dataclass, field
from typing import Any, Dict, Iterator, List, Mapping, Optional, Set

import bitpress
from bitpress._errors import ArgumentTypeError, UnsupportedError
from bitpress._files import Model
from bitpress._native import saturates_products
from bitpress._runtime import use_onnxruntime
from bitpress.compat import _fates, _nbits
from bitpress.compat.neural_compressor import _providers, _words
from bitpress.compat.neural_compressor._configs import DynamicQuantConfig, SmoothQuantConfig, StaticQuantConfig
from bitpress.compat.neural_compressor._types import BaseConfig, OperatorConfig

_TYPES = {"QInt8": "int8", "QUInt8": "uint8", "QInt16": "int16", "QUInt16": "uint16"}
_BITS = (2, 4, 8)


@dataclass
class Request:
    """What bitpress.quantize is asked.

    Attributes:
        selectors: the script's word behind a rule's selector, where it is not the usual one.
        quiet: selectors of rules that are not from the script's own words.
    """

    settings: Dict[str, Any] = field(default_factory=dict)
    rules: List[Dict[str, Any]] = field(default_factory=list)
    arguments: Dict[str, Any] = field(default_factory=dict)
    selectors: Dict[str, str] = field(default_factory=dict)
    quiet: Set[str] = field(default_factory=set)


def _name(value: Any) -> Any:
    """The name of a member of an enum, which may be given as a text."""
    return getattr(value, "name", value)


def _type_of(value: Any) -> str:
    return _TYPES[_name(value)]


def _range_of(method: Any, extra: Mapping[str, Any]) -> str:
    if _name(method) == "Distribution":
        raise UnsupportedError("calibrate_method=Distribution is refused: it is for 8-bit floats. Instead: MinMax, Entropy or Percentile")
    return {"MinMax": "min_max", "Entropy": "entropy", "Percentile": f"percentile({extra.get('Percentile', 99.999)})"}[_name(method)]


def _is_operator_type(key: str, model: Model) -> bool:
    return key in {name.rsplit("::", 1)[-1] for name in bitpress.inspect(model).operators}


def _who(key: str, model: Model) -> Dict[str, Any]:
    """An operator type of the model, or nodes whose names begin as the expression says. Optional: other tools pass over others."""
    return {"op_types": [key], "optional": True} if _is_operator_type(key, model) else {"nodes": [f"(?:{key}).*"], "optional": True}


def _types_and_names(white_list: Any, model: Model) -> Dict[str, Any]:
    """The selectors of a white list, which may also have names of nodes."""
    if white_list in (None, "*"):
        return {}
    others = [word for word in white_list if not _is_operator_type(word, model)]
    nodes = {use["node"] for use in _uses(model)} if others else set()
    names = [word for word in others if word in nodes]
    types = [word for word in white_list if word not in names]
    return {**({"not_op_types": types} if types or not names else {}), **({"not_names": names} if names else {})}


def _select(request: Request, config: BaseConfig, model: Model) -> None:
    """Adds rules for the nodes that stay float."""
    types, named = getattr(config, "op_types_to_quantize", None), getattr(config, "nodes_to_quantize", None)
    excluded = list(config.option("nodes_to_exclude") or ())
    if types and "op_types_to_quantize" not in config.given:  # one of a set of trials
        left = sorted(set(_providers.OP_TYPES) - set(types))
        request.rules.append({"op_types": left, "exclude": True, "optional": True})
        request.quiet.add("op_types")
        types = None
    selected: List[Dict[str, Any]] = [{"not_op_types": list(types)} if types else _types_and_names(config.option("white_list"), model)]
    selected.append({"not_names": list(named)} if named else {})
    if excluded and _is_weight_only(config):  # expressions there, names elsewhere
        selected.append({"nodes": [f"(?:{name}).*" for name in excluded]})
        request.selectors["nodes"] = "nodes_to_exclude or set_local"
    elif excluded:
        selected.append({"names": excluded})
    request.rules += [{**who, "exclude": True, "optional": True} for who in selected if who]
    if not config.option("quant_last_matmul"):
        last = _last_matmul(model)
        if last is not None:
            request.rules.append({"names": [last], "exclude": True, "optional": True})


def _uses(model: Model) -> Iterator[Dict[str, Any]]:
    """Who reads what in the model as it was given: preparation joins a MatMul and an Add to a Gemm."""
    for row in bitpress.plan(model, "MX9", placement="all", as_is=True).tensors:
        yield from row["uses"]


def _last_matmul(model: Model) -> Optional[str]:
    names = [use["node"] for use in _uses(model) if use["op_type"] == "MatMul"]
    return names[-1] if names else None


def _provider_settings(config: BaseConfig, model: Model) -> Dict[str, Any]:
    return _providers.settings_for(config.option("execution_provider"), model)


def _integer_sides(extra: Mapping[str, Any], words: _fates.Table, per_channel: bool) -> Dict[str, Any]:
    _fates.check(extra, words, "extra_options")
    return {"weight_symmetric": bool(extra.get("WeightSymmetric", True)), "equalize": False,
            "integer_kernels": "safe_int8", "weight_granularity": "per_axis" if per_channel else "per_tensor"}


def _static(config: StaticQuantConfig, model: Model) -> Request:
    extra = config.option("extra_options") or {}
    request = Request()
    request.settings.update(
        _integer_sides(extra, _words.EXTRA, config.option("per_channel")), activations=_type_of(config.option("activation_type")),
        weights=_type_of(config.option("weight_type")), activation_range=_range_of(config.option("calibrate_method"), extra),
        activation_symmetric=bool(extra.get("ActivationSymmetric", False)), reduce_range=config.option("reduce_range"))
    request.settings.update(_provider_settings(config, model))
    is_operator = _name(config.option("quant_format")) == "QOperator"
    if is_operator and _providers.needs_pairs(config.option("execution_provider")):
        if "quant_format" in config.given:
            _fates.say("quant_format=QOperator: TensorRT reads pairs of QuantizeLinear and DequantizeLinear only, so they are written")
        is_operator = False
    request.arguments.update(form="qoperator" if is_operator else "qdq", external_data=config.option("use_external_data_format"),
                             samples=config.option("calibration_sampling_size") or 0)
    if isinstance(config, SmoothQuantConfig):
        request.settings["smooth_quant"] = config.option("alpha")
    elif extra.get("SmoothQuant"):
        request.settings["smooth_quant"] = extra.get("SmoothQuantAlpha", 0.5)
    _select(request, config, model)
    for key, local in config.local_config.items():
        request.rules.append({**_who(key, model), **_static_local(local, extra)})
    return request


def _reduced(local: BaseConfig) -> Dict[str, Any]:
    """Returns the setting for weights of 7 bits, if a local configuration says it for some operators."""
    return {"reduce_range": bool(local.option("reduce_range"))} if "reduce_range" in local.given else {}


def _advise(settings: Mapping[str, Any]) -> None:
    """Says what becomes of products that can saturate on this machine, which is why ONNX Neural Compressor has reduce_range."""
    can_saturate = settings.get("activations") == "uint8" and settings.get("weights") == "int8" and not settings.get("reduce_range")
    if not can_saturate:
        return
    use_onnxruntime()
    if saturates_products():
        _fates.say("this processor has no VNNI and adds pairs of 8-bit products in saturating 16 bits: weights are rounded so that no such "
                   "sum saturates. reduce_range=True gives them 7 bits instead")


def _is_weight_only(config: Any) -> bool:
    return isinstance(config, BaseConfig) and "weight_dtype" in config.defaults


def _static_local(local: Any, extra: Mapping[str, Any]) -> Dict[str, Any]:
    if isinstance(local, OperatorConfig):
        return {"activations": _type_of(local.activation_type), "weights": _type_of(local.weight_type),
                "activation_symmetric": local.activation_sym, "weight_symmetric": local.weight_sym,
                "weight_granularity": "per_axis" if local.per_channel else "per_tensor",
                "activation_range": _range_of(local.calibrate_method, extra)}
    if isinstance(local, StaticQuantConfig) and not isinstance(local, SmoothQuantConfig):
        _fates.check(local.given, _words.LOCAL_STATIC, "set_local")
        own = local.option("extra_options") or {}
        _fates.check(own, _words.LOCAL_EXTRA, "set_local, extra_options")
        merged = {**extra, **own}
        return {"activations": _type_of(local.option("activation_type")), "weights": _type_of(local.option("weight_type")),
                "activation_symmetric": bool(merged.get("ActivationSymmetric", False)),
                "weight_symmetric": bool(merged.get("WeightSymmetric", True)), **_reduced(local),
                "weight_granularity": "per_axis" if local.option("per_channel") else "per_tensor",
                "activation_range": _range_of(local.option("calibrate_method"), merged)}
    if _is_weight_only(local) and local.option("weight_dtype") == "fp32":
        return {"exclude": True}
    raise ArgumentTypeError(f"set_local of a static configuration takes an OperatorConfig, not {type(local).__name__}")


def _dynamic(config: DynamicQuantConfig, model: Model) -> Request:
    extra = config.option("extra_options") or {}
    request = Request()
    request.settings.update(_integer_sides(extra, _words.DYNAMIC_EXTRA, config.option("per_channel")), activations="uint8",
                            activation_range="dynamic",
                            weights=_type_of(config.option("weight_type")), reduce_range=config.option("reduce_range"))
    provider = config.option("execution_provider")
    if provider in ("TensorrtExecutionProvider", "DmlExecutionProvider"):
        raise UnsupportedError(f"DynamicQuantConfig: execution_provider='{provider}' is refused: it has no operators for it. "
                               "Instead: StaticQuantConfig")
    request.arguments["external_data"] = config.option("use_external_data_format")
    _select(request, config, model)
    for key, local in config.local_config.items():
        if not isinstance(local, DynamicQuantConfig):
            raise ArgumentTypeError(f"set_local of a DynamicQuantConfig takes another, not {type(local).__name__}")
        _fates.check(local.given, _words.LOCAL_DYNAMIC, "set_local")
        own = local.option("extra_options") or {}
        _fates.check(own, _words.DYNAMIC_EXTRA, "set_local, extra_options")
        request.rules.append({**_who(key, model), "weights": _type_of(local.option("weight_type")), **_reduced(local),
                              "weight_symmetric": bool({**extra, **own}.get("WeightSymmetric", True)),
                              "weight_granularity": "per_axis" if local.option("per_channel") else "per_tensor"})
    return request


def _weight_settings(config: BaseConfig) -> Dict[str, Any]:
    """The format of weights; of fp32 that they stay float."""
    where = type(config).__name__
    dtype, bits = config.option("weight_dtype"), config.option("weight_bits")
    if dtype == "fp32":
        return {"exclude": True}
    if bits not in _BITS:
        nearest = min(_BITS, key=lambda have: abs(have - bits))
        raise UnsupportedError(f"{where}: weight_bits={bits} is refused: ONNX has no such type. Instead: {nearest}")
    is_symmetric = bool(config.option("weight_sym"))
    settings = {"weights": f"{'int' if is_symmetric and dtype == 'int' else 'uint'}{bits}", "weight_symmetric": is_symmetric}
    size = config.option("weight_group_size")
    settings.update({"weight_granularity": "per_axis"} if size == -1 else {"weight_granularity": "per_block", "weight_block_size": size})
    if getattr(config, "mse", False):
        settings["weight_range"] = "mse"
    return settings


def _learning(config: BaseConfig) -> Dict[str, Any]:
    """How weights are learned from samples, as settings."""
    if config.name == "gptq":
        # Not given, the order of the inputs is the one that was measured to be better, not that of the other tool.
        order = {"finetune_activation_order": bool(config.option("actorder"))} if "actorder" in config.given else {}
        return {"finetune": "gptq", "finetune_ridge": config.option("percdamp"), **order}
    passes = [name for name, word in (("awq", "enable_auto_scale"), ("clip_search", "enable_mse_search")) if getattr(config, word, False)]
    return {"finetune": "+".join([*passes, "bias_correction"])} if passes else {}


_OF_WEIGHTS = ("weight_dtype", "weight_bits", "weight_group_size", "weight_sym", "mse")


def _say_what_is_whole(local: BaseConfig, general: BaseConfig) -> None:
    """Names what a local configuration says in vain, because it holds for the whole model."""
    if local.option("weight_dtype") == "fp32":
        return
    if local.name != general.name:
        _fates.say(f"set_local: {type(local).__name__} sets formats only: weights are learned as the general {type(general).__name__} says")
    for word, value in local.given.items():
        if word not in _OF_WEIGHTS and value != getattr(general, word, None):
            _fates.say(f"set_local: {word}={value!r} changes nothing here: it holds for the whole model, as the general configuration says")


def _has_operator(config: BaseConfig, level: int) -> bool:
    """Returns whether MatMulNBits takes the weights; a notice says why it does not."""
    size, bits = config.option("weight_group_size"), config.option("weight_bits")
    if config.option("weight_dtype") == "fp32":
        return True
    return _nbits.has_operator(bits, size, level, "weight_bits", "weight_group_size")


def _weight_only(config: BaseConfig, model: Model) -> Request:
    request = Request()
    request.settings["activations"] = "none"
    general = _weight_settings(config)
    if "exclude" in general:
        request.settings["weights"] = "none"
    else:
        request.settings.update(general)
    request.settings.update(_learning(config))
    level = 4 if config.option("accuracy_level") == 4 else 1
    is_operator = _name(config.option("quant_format")) == "QOperator"
    if is_operator and _has_operator(config, level):
        request.arguments.update(target="onnxruntime", accuracy_level=level)
    if not is_operator:
        request.arguments["storage"] = "qdq"
    _select(request, config, model)
    for key, local in config.local_config.items():
        if not _is_weight_only(local):
            raise ArgumentTypeError(f"set_local of {type(config).__name__} takes a weight-only configuration, not {type(local).__name__}")
        _say_what_is_whole(local, config)
        request.rules.append({**_who(key, model), **_weight_settings(local)})
    return request


def translate(config: BaseConfig, model: Model) -> Request:
    config.verify()
    if isinstance(config, (StaticQuantConfig, DynamicQuantConfig)):
        request = _static(config, model) if isinstance(config, StaticQuantConfig) else _dynamic(config, model)
        _advise(request.settings)
        return request
    return _weight_only(config, model)
