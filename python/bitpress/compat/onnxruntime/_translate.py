"""From the words of ONNX Runtime's tool to what bitpress.quantize is asked."""

from dataclasses import dataclass, field
from typing import Any, Dict, List, Mapping, Sequence

from bitpress._errors import InvalidArgumentError, UnsupportedError
from bitpress._files import Model
from bitpress.compat import _fates, _numbers
from bitpress.compat._graphs import graph_of, kept_float
from bitpress.compat._values import DICTS, name_of
from bitpress.compat.onnxruntime import _words

Rule = Dict[str, Any]

_FORMATS = {"QInt8": "int8", "QUInt8": "uint8", "QInt16": "int16", "QUInt16": "uint16", "QInt4": "int4", "QUInt4": "uint4",
            "QFLOAT8E4M3FN": "fp8_e4m3"}


@dataclass
class Request:
    """What bitpress.quantize is asked.

    Attributes:
        config: a preset that the settings change; "": none.
        numbers: scales, zero points and ranges of single tensors, for the plan.
        least_range: activations get at least this range; 0: any.
        is_restricted: activations with negative values in the samples become symmetric.
    """

    config: str = ""
    settings: Dict[str, Any] = field(default_factory=dict)
    rules: List[Rule] = field(default_factory=list)
    arguments: Dict[str, Any] = field(default_factory=dict)
    numbers: Dict[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict)
    least_range: float = 0
    is_restricted: bool = False

    @property
    def is_measured(self) -> bool:
        """Whether something follows from the ranges of the samples."""
        return self.least_range > 0 or self.is_restricted


def format_of(quant_type: Any) -> str:
    return _FORMATS[_words.type_name(quant_type)]


def _is_signed(quant_type: Any) -> bool:
    return not _words.type_name(quant_type).startswith("QU")


def selecting(op_types: Any, nodes: Any, excluded: Any) -> List[Rule]:
    """Rules for the nodes that stay float. Words that fit nothing are passed over, with a notice."""
    selected = {"not_op_types": op_types, "not_names": nodes, "names": excluded}
    return [{selector: list(words), "exclude": True, "optional": True} for selector, words in selected.items() if words]


def _range_of(method: str, extra: Mapping[str, Any], is_float8: bool) -> str:
    if is_float8 and method != "Distribution":
        raise InvalidArgumentError(f"calibrate_method={method}: activation_type=QFLOAT8E4M3FN needs Distribution")
    if method == "Distribution":
        if not is_float8:
            _fates.say("calibrate_method=Distribution: integers get the smallest and largest value, as in ONNX Runtime")
        return "distribution" if is_float8 else "min_max"
    if method == "MinMax":
        return "moving_average" if extra.get("CalibMovingAverage") else "min_max"
    return "entropy" if method == "Entropy" else f"percentile({extra.get('CalibPercentile', 99.999)})"


def _products_of_activations(model: Model) -> List[str]:
    """The names of the MatMuls whose second operand is no constant."""
    graph = graph_of(model)
    constants = {item.name for item in graph.initializer} | {node.output[0] for node in graph.node if node.op_type == "Constant"}
    return [node.name for node in graph.node if node.op_type == "MatMul" and node.input[1] not in constants]


def _plain(value: Any) -> Any:
    """A number of numpy as one of Python, whole where it is."""
    number = value.item() if getattr(value, "size", 0) == 1 else value
    return int(number) if isinstance(number, float) and number.is_integer() else number


def _add_overrides(request: Request, overrides: Mapping[str, Any], extra: Mapping[str, Any]) -> None:
    def set_type(rule: Rule, quant_type: Any) -> None:
        rule.update(activations=format_of(quant_type), weights=format_of(quant_type))
        if extra.get("WeightSymmetric") is None:
            rule["weight_symmetric"] = _is_signed(quant_type)

    for tensor, written in overrides.items():
        where = f"TensorQuantOverrides['{tensor}']"
        DICTS.check(written, where)
        given = [{word: _plain(value) for word, value in single.items()} for single in written]
        for single in given:
            _fates.check(single, _words.OVERRIDES, where)
        if _numbers.check(given, where):
            request.numbers[tensor] = given
        request.rules += _numbers.rules_of(tensor, given, set_type)


def _weight_settings(given: Mapping[str, Any], extra: Mapping[str, Any]) -> Dict[str, Any]:
    symmetric = extra.get("WeightSymmetric")
    return {"weights": format_of(given["weight_type"]), "weight_granularity": "per_axis" if given["per_channel"] else "per_tensor",
            "weight_symmetric": _is_signed(given["weight_type"]) if symmetric is None else bool(symmetric),
            "equalize": False, **({"reduce_range": True} if given["reduce_range"] else {})}


def _float8_settings(given: Mapping[str, Any]) -> Dict[str, Any]:
    if {format_of(given["activation_type"]), format_of(given["weight_type"])} != {"fp8_e4m3"}:
        raise InvalidArgumentError("activation_type and weight_type: QFLOAT8E4M3FN is for both or for none")
    return {"placement": "compute", "activation_scaled": True, "weight_scaled": True}


def static(given: Mapping[str, Any]) -> Request:
    """quantize_static with all its arguments."""
    _fates.check(given, _words.STATIC, "quantize_static")
    extra = given["extra_options"] or {}
    _fates.check(extra, _words.EXTRA, "extra_options", is_lenient=True)
    is_float8 = "fp8_e4m3" in (format_of(given["activation_type"]), format_of(given["weight_type"]))
    request = Request(least_range=extra.get("MinimumRealRange") or 0)
    settings = request.settings
    settings.update(activations=format_of(given["activation_type"]),
                    activation_range=_range_of(name_of(given["calibrate_method"]), extra, is_float8),
                    activation_symmetric=bool(extra.get("ActivationSymmetric") or extra.get("CalibTensorRangeSymmetric")), **_weight_settings(given, extra))
    if is_float8:
        for word in ("activation_symmetric", "weight_symmetric", "reduce_range"):
            settings.pop(word, None)
        settings.update(_float8_settings(given))
    elif not given["reduce_range"]:
        settings["integer_kernels"] = "safe_int8"
    if extra.get("ActivationRestrictedAsymmetric"):
        if settings["activations"] != "uint8":
            raise InvalidArgumentError(f"extra_options: ActivationRestrictedAsymmetric=True is for activation_type=QUInt8, not "
                                       f"{_words.type_name(given['activation_type'])}")
        request.is_restricted = True
    if extra.get("BlockSize"):
        settings.update(weight_granularity="per_block", weight_block_size=extra["BlockSize"])
    if extra.get("ForceQuantizeNoInputCheck"):
        settings["placement"] = "all"
    if extra.get("QuantizeBias") is False:
        settings["biases"] = "none"
    if extra.get("SmoothQuant"):
        settings["smooth_quant"] = extra.get("SmoothQuantAlpha", 0.5)
    request.arguments.update(form="qoperator" if name_of(given["quant_format"]) == "QOperator" else "qdq",
                             external_data=bool(given["use_external_data_format"]))
    request.rules += selecting(given["op_types_to_quantize"], given["nodes_to_quantize"], given["nodes_to_exclude"])
    if extra.get("MatMulConstBOnly"):
        request.rules += selecting(None, None, _products_of_activations(given["model_input"]))
    word = "OpTypesToExcludeOutputQuantization"
    request.rules += kept_float(given["model_input"], {word: extra.get(word) or ()})
    _add_overrides(request, extra.get("TensorQuantOverrides") or {}, extra)
    return request


def dynamic(given: Mapping[str, Any]) -> Request:
    """quantize_dynamic with all its arguments."""
    _fates.check(given, _words.DYNAMIC, "quantize_dynamic")
    extra = given["extra_options"] or {}
    _fates.check(extra, _words.DYNAMIC_EXTRA, "extra_options", is_lenient=True)
    if _words.type_name(given["weight_type"]) not in ("QInt8", "QUInt8"):
        raise UnsupportedError(f"quantize_dynamic: weight_type={_words.type_name(given['weight_type'])} is refused: integers of each inference have "
                               "8 bits. Instead: QInt8 or QUInt8, or MatMulNBitsQuantizer for fewer bits")
    return Request("INT8_DYNAMIC", _weight_settings(given, extra),
                   selecting(given["op_types_to_quantize"], given["nodes_to_quantize"], given["nodes_to_exclude"]),
                   {"external_data": bool(given["use_external_data_format"])})
