"""From AMD Quark's words to ours: what ModelQuantizer asks of bitpress.quantize.

Quark quantizes every operator, takes the floor of a block's exponent, keeps short blocks, equalizes layers and quantizes
biases: a configuration that comes through here means the same.
"""

import re
from typing import Any, Dict, Mapping, Sequence

from bitpress._errors import ArgumentTypeError, InvalidArgumentError, UnsupportedError
from bitpress.compat import _fates, _numbers
from bitpress.compat._values import name_of
from bitpress.compat.quark import _words
from bitpress.compat.quark._algorithm_types import AlgoConfig, AutoMixprecisionConfig
from bitpress.compat.quark._algorithms import (
    Request,
    Rule,
    add_algorithm,
    add_equalization,
    add_fast_finetune,
    add_gptq_params,
    add_matmul_nbits,
    add_smoothing,
    learn,
)
from bitpress.compat.quark._checks import check_algorithms, check_config, checked_legacy
from bitpress.compat.quark._formats import all_but, block_axis, calibration, is_integer, layer_settings, set_format
from bitpress.compat.quark._joined import joined_settings
from bitpress.compat.quark._mixed import add_auto_mixprecision, add_promotion
from bitpress.compat.quark._types import Config, QConfig, QuantizationConfig

# Settings that do what Quark's kernels and placement do.
_LIKE_QUARK = {"placement": "all", "scale": "floor", "short_axis": "axis", "weight_granularity": "per_tensor", "equalize_clips": "keep",
               "integer_kernels": "safe_int8"}


# Words of extra_options that QConfig says otherwise.
_OF_OLDER_INTERFACE = {
    "UseGPTQ": "GPTQConfig in algo_config", "GPTQParams": "GPTQConfig in algo_config", "BiasCorrection": "BiasCorrectionConfig in algo_config",
    "SpecificTensorPrecision": "TensorQuantOverrides", "MXAttributes": "MXInt8Spec and similar specs", "BFPAttributes": "BFP16Spec, MX4Spec and similar specs",
    "FastFinetune": "AdaRoundConfig or AdaQuantConfig in algo_config", "AutoMixprecision": "AutoMixprecisionConfig in algo_config",
    "MixedPrecisionTensor": "TensorQuantOverrides", "SmoothAlpha": "SmoothQuantConfig in algo_config",
    "CLESteps": "CLEConfig in algo_config", "CLEScaleAppendBias": "CLEConfig in algo_config",
    "CalibMovingAverage": "calibration_method of the specification",
}


def node_rule(nodes: Any) -> Rule:
    """The words of a rule for a name, a regular expression that begins with ^, or a subgraph (starts, ends)."""
    if isinstance(nodes, str):
        return {"nodes" if nodes.startswith("^") else "names": [nodes], "optional": True}
    if isinstance(nodes, (tuple, list)) and len(nodes) == 2 and not any(isinstance(part, str) for part in nodes):
        return {"from": list(nodes[0]), "to": list(nodes[1])}
    raise ArgumentTypeError(f"{nodes!r} is neither a name, a regular expression that begins with ^, nor a subgraph ([starts], [ends])")


def _add_exclusions(request: Request, excluded: Sequence[Any]) -> None:
    for nodes in excluded:
        if isinstance(nodes, str):
            request.exclude(**{"nodes" if nodes.startswith("^") else "names": [nodes]})
        elif isinstance(nodes, list) and nodes and all(isinstance(item, tuple) for item in nodes):
            _add_exclusions(request, nodes)
        else:
            request.rules.append({**node_rule(nodes), "exclude": True})


def _only_nodes(request: Request, names: Sequence[str]) -> None:
    if names:
        request.exclude(not_names=list(names))


def _add_ends(request: Request, starts: Sequence[str], ends: Sequence[str]) -> None:
    """Nothing before the starts and nothing behind the ends is quantized."""
    for word, names in (("to", starts), ("from", ends)):
        if names:
            request.rules.append({word: list(names), "nodes": [all_but(names)], "exclude": True})


def _add_options(request: Request, options: Mapping[str, Any]) -> None:
    """Adds the settings of extra_options that are neither a format nor an algorithm."""
    settings = request.settings
    settings.update(joined_settings(options))
    if options.get("EnableSubgraph"):
        raise UnsupportedError("extra_options: EnableSubgraph=True is refused: bodies of If, Loop and Scan stay float. Instead: leave it out")
    for word, setting in (("ActivationSymmetric", "activation_symmetric"), ("WeightSymmetric", "weight_symmetric"),
                          ("ActivationScaled", "activation_scaled"), ("WeightScaled", "weight_scaled")):
        if options.get(word) is not None:
            settings[setting] = bool(options[word])
    if options.get("Int16Scale"):
        settings["activation_scale_kind"] = settings["weight_scale_kind"] = "int16"
    if options.get("WeightCalibrateMethod") is not None:
        settings["weight_range"] = {"MinMax": "min_max", "MinMSE": "mse"}[name_of(options["WeightCalibrateMethod"])]
    if options.get("ReplaceClip6Relu"):
        settings["equalize_clips"] = "bound"
    if options.get("BF16QDQToCast"):
        settings["operators"] = "quark_cast"
    if options.get("OptimizeModel") is False or options.get("SkipPreprocess"):
        request.arguments["as_is"] = True
    if options.get("EnableDualQuantNodePairs"):
        settings["dual_quant"] = True
    if options.get("WeightsOnly"):
        settings["activations"] = "none"
    request.calibrate_with(options.get("CalibDataSize"))
    request.only_op_types = options.get("OpTypesToQuantize") or request.only_op_types
    _only_nodes(request, options.get("NodesToQuantize") or ())
    _add_ends(request, options.get("InputNodes") or (), options.get("OutputNodes") or ())
    for word in ("OpTypesToQuantize", "NodesToQuantize", "InputNodes", "OutputNodes", "TensorQuantOverrides"):
        request.named(f"extra_options: {word}", options.get(word) or ())
    request.outputs_kept_float = {word: options.get(word) or () for word in ("OpTypesToExcludeOutputQuantization", "NodesToExcludeOutputQuantization")}
    if options.get("UseRandomData"):
        request.random_shapes = options.get("RandomDataReaderInputShape") or {}
        if isinstance(request.random_shapes, Mapping):
            request.named("extra_options: RandomDataReaderInputShape", request.random_shapes)
        request.random_ranges = options.get("RandomDataReaderInputDataRange")
    for tensor, overrides in (options.get("TensorQuantOverrides") or {}).items():
        _add_override(request, tensor, overrides, options)
    if options.get("UseMatMulNBits"):
        add_matmul_nbits(request, options.get("MatMulNBitsParams") or {}, options.get("GPTQParams") or {})


def _add_override(request: Request, tensor: str, overrides: Sequence[Mapping[str, Any]], options: Mapping[str, Any]) -> None:
    where = f"TensorQuantOverrides['{tensor}']"
    for given in overrides:
        _fates.check(given, _words.OVERRIDES, where)
    if _numbers.check(overrides, where):
        request.numbers[tensor] = overrides

    def set_type(rule: Rule, quant_type: Any) -> None:
        for side in ("activations", "weights"):
            set_format(rule, side, quant_type, options)

    request.rules += _numbers.rules_of(tensor, overrides, set_type)


def _add_biases(settings: Dict[str, Any], options: Mapping[str, Any], is_npu: bool) -> None:
    """Biases have the format of weights; of integers only where Int32Bias is off, as it is for Quark's NPU."""
    weights = settings.get("weights", "none")
    if not options.get("QuantizeBias", True):
        settings["biases"] = "none"
    elif options.get("Int16Bias"):
        settings["biases"] = "int16"
    elif is_integer(weights):
        has_powers = settings.get("weight_scale_kind") == "power_of_two"
        settings["biases"] = "int32" if options.get("Int32Bias", not (is_npu or has_powers)) else weights
    else:
        settings["biases"] = weights


def from_legacy(config: QuantizationConfig) -> Request:
    """The older interface."""
    config = checked_legacy(config)
    options = config.extra_options
    request = Request()
    settings = request.settings
    settings.update(_LIKE_QUARK, block_axis=block_axis(options))
    set_format(settings, "activations", config.activation_type, options)
    set_format(settings, "weights", config.weight_type, options)
    settings.update(calibration(config.calibrate_method, options))
    settings["weight_granularity"] = "per_axis" if config.per_channel else "per_tensor"
    settings["reduce_range"] = config.reduce_range
    if name_of(config.quant_format) == "QOperator":
        request.arguments["form"] = "qoperator"
    if config.use_dynamic_quant:
        if settings["activations"] not in ("int8", "uint8"):
            raise UnsupportedError(f"use_dynamic_quant=True with activation_type={name_of(config.activation_type)} is refused: "
                                   "DynamicQuantizeLinear gives uint8. Instead: QUInt8")
        if options.get("ActivationSymmetric"):
            _fates.say("extra_options: ActivationSymmetric=True changes nothing here: DynamicQuantizeLinear's codes are asymmetric")
        settings.update(activations="uint8", activation_range="dynamic", placement="compute")
    if config.include_cle:
        add_equalization(request, options, "CLESteps", "CLEScaleAppendBias")
    else:
        settings["equalize"] = False
    _add_biases(settings, options, bool(config.enable_npu_cnn or options.get("EnableNPUCnn")))
    request.arguments.update(external_data=config.use_external_data_format, as_is=not config.optimize_model)
    request.only_op_types = tuple(config.op_types_to_quantize)
    _only_nodes(request, config.nodes_to_quantize)
    _add_ends(request, config.input_nodes, config.output_nodes)
    for word in ("input_nodes", "output_nodes", "op_types_to_quantize", "nodes_to_quantize", "nodes_to_exclude", "subgraphs_to_exclude"):
        request.named(f"QuantizationConfig: {word}", getattr(config, word))
    _add_exclusions(request, [*config.nodes_to_exclude, *config.subgraphs_to_exclude])
    _add_options(request, options)
    if config.include_sq:
        add_smoothing(request, options.get("SmoothAlpha"))
    if options.get("UseGPTQ"):
        add_gptq_params(request, options.get("GPTQParams") or {})
    elif options.get("GPTQParams") and not options.get("UseMatMulNBits"):
        _fates.say("GPTQParams without UseGPTQ=True changes nothing")
    if options.get("BiasCorrection"):
        learn(request, "bias_correction")
    add_fast_finetune(request, config.include_fast_ft, options.get("FastFinetune"))
    mixed = options.get("AutoMixprecision")
    if config.include_auto_mp and mixed is None:
        raise InvalidArgumentError("include_auto_mp=True without extra_options['AutoMixprecision']")
    if mixed is not None and config.include_auto_mp is False:
        _fates.say("include_auto_mp=False: AutoMixprecision is there, but nothing is lowered")
    elif mixed is not None:
        if config.include_auto_mp is None:
            _fates.say("AutoMixprecision without include_auto_mp=True: layers are lowered")
        add_auto_mixprecision(request, mixed, options)
    if config.specific_tensor_precision or options.get("SpecificTensorPrecision"):
        for quant_type, tensors in (options.get("MixedPrecisionTensor") or {}).items():
            rule: Rule = {"tensors": [re.escape(tensor) for tensor in tensors], "optional": True}
            for side in ("activations", "weights"):
                set_format(rule, side, quant_type, options)
            request.rules.append(rule)
            request.named("extra_options: MixedPrecisionTensor", tensors)
    elif options.get("MixedPrecisionTensor"):
        _fates.say("MixedPrecisionTensor without specific_tensor_precision=True changes nothing")
    return request


def from_config(config: QConfig) -> Request:
    """The newer interface."""
    check_config(config)
    options = config.extra_options
    request = Request()
    settings = request.settings
    settings.update(_LIKE_QUARK, activations="none", weights="none", equalize=False)
    settings.update(layer_settings(config.global_config, options))
    if config.global_config.bias is None:
        _add_biases(settings, options, bool(options.get("EnableNPUCnn")))
    for word, instead in _OF_OLDER_INTERFACE.items():
        if options.get(word) is not None:
            _fates.say(f"QConfig: {word} changes nothing here: it is a word of QuantizationConfig. Instead: {instead}")
    request.arguments["external_data"] = config.use_external_data_format
    # From large to small: operator types, then layers, so that the smaller counts.
    for layer, op_types in config.layer_type_config.items():
        what = {"exclude": True} if layer is None else layer_settings(layer, options)
        request.named("QConfig: layer_type_config", op_types)
        request.rules.append({"op_types": list(op_types), "optional": True, **what})
    for layer, nodes in config.specific_layer_config.items():
        for item in nodes:
            request.rules.append({**node_rule(item), **layer_settings(layer, options)})
        request.named("QConfig: specific_layer_config", nodes)
    request.named("QConfig: exclude", config.exclude)
    _add_exclusions(request, config.exclude)
    _add_options(request, options)
    _add_algorithms(request, config.algo_config, options)
    return request


def _add_algorithms(request: Request, algorithms: Sequence[AlgoConfig], options: Mapping[str, Any]) -> None:
    for algorithm in algorithms:
        if isinstance(algorithm, AutoMixprecisionConfig):
            add_promotion(request, algorithm, options)
        else:
            add_algorithm(request, algorithm)


def translate(config: Any, algorithms: Sequence[AlgoConfig] = ()) -> Request:
    """What a configuration asks for, with further algorithms."""
    if isinstance(config, Config):
        config = config.global_quant_config
    if isinstance(config, (QuantizationConfig, QConfig)):
        request = from_legacy(config) if isinstance(config, QuantizationConfig) else from_config(config)
        check_algorithms(algorithms, "algorithms")
        _add_algorithms(request, algorithms, config.extra_options or {})
        return request
    raise ArgumentTypeError(f"ModelQuantizer takes a Config, QuantizationConfig or QConfig, not {type(config).__name__}")
