"""Quark's algorithms: fine-tuning, equalization, smoothing, GPTQ, mixed precision."""

from dataclasses import dataclass, field
from typing import Any, Dict, List, Mapping, Optional, Sequence

from bitpress._errors import InvalidArgumentError, UnsupportedError
from bitpress.compat import _fates
from bitpress.compat.quark import _words
from bitpress.compat.quark._formats import check_keys, format_of, layer_settings, name_of
from bitpress.compat.quark._types import AlgoConfig, QLayerConfig

Rule = Dict[str, Any]

# How much of a bias counts as range where Quark "appends" it: found in models that it wrote.
_BIAS_SHARE = 0.05
_SINGLE_FLOATS = ("fp16", "bf16")


@dataclass
class Request:
    """What bitpress.quantize is asked."""

    settings: Dict[str, Any] = field(default_factory=dict)
    rules: List[Rule] = field(default_factory=list)
    arguments: Dict[str, Any] = field(default_factory=dict)
    only_op_types: Sequence[str] = ()
    random_shapes: Optional[Mapping[str, Sequence[int]]] = None  # of random samples, if they are wanted
    random_ranges: Optional[Mapping[str, Sequence[float]]] = None

    def take_samples(self, count: Optional[int]) -> None:
        """Of two wishes the larger counts: one reading of the samples serves all."""
        if count is not None and 0 < count < 1_000_000_000:
            self.arguments["samples"] = max(int(count), self.arguments.get("samples", 0))

    def exclude(self, pattern: str) -> None:
        self.settings.setdefault("exclude_nodes", []).append(pattern)


def _is_float_side(settings: Mapping[str, Any], side: str) -> bool:
    return settings.get(side, "none") in _SINGLE_FLOATS


def _add_finetuning(request: Request, algorithm: str) -> None:
    if algorithm == "adaround" and _is_float_side(request.settings, "weights"):
        raise UnsupportedError(f"adaround learns roundings, and {request.settings['weights']} has no scale to round with. Instead: adaquant")
    request.settings["finetune"] = algorithm


def add_fast_finetune(request: Request, wanted: Optional[bool], given: Optional[Mapping[str, Any]]) -> None:
    if given is not None:
        _fates.check(given, _words.FAST_FINETUNE, "FastFinetune")
    if wanted is False and given is not None:
        _fates.say("include_fast_ft=False: FastFinetune is there, but nothing is fine-tuned")
    if wanted is None and given is not None:
        _fates.say("FastFinetune without include_fast_ft=True: weights are fine-tuned")
    if wanted or (wanted is None and given is not None):
        options = given or {}
        algorithm = str(options.get("OptimAlgorithm", "adaround")).lower()
        if algorithm not in ("adaround", "adaquant"):
            raise InvalidArgumentError(f"FastFinetune: OptimAlgorithm={algorithm!r} is neither 'adaround' nor 'adaquant'")
        _add_finetuning(request, algorithm)
        request.take_samples(options.get("DataSize"))


def add_smoothing(request: Request, alpha: Any) -> None:
    request.settings["smooth_quant"] = 0.5 if alpha is None else alpha


def add_equalization(request: Request, options: Mapping[str, Any], steps: str, bias: str) -> None:
    request.settings["equalize"] = True
    request.settings["equalize_steps"] = options.get(steps, 1)
    request.settings["equalize_bias"] = _BIAS_SHARE if options.get(bias, True) else 0


def add_matmul_nbits(request: Request, given: Mapping[str, Any]) -> None:
    check_keys(given, ("Algorithm", "GroupSize", "Symmetric", "Bits", "AccuracyLevel"), "MatMulNBitsParams")
    algorithm = given.get("Algorithm", "DEFAULT")
    if algorithm not in ("DEFAULT", "GPTQ"):
        raise UnsupportedError(f"MatMulNBitsParams: Algorithm={algorithm!r} is refused: it is not done here. Instead: 'DEFAULT', 'GPTQ'")
    sign = "" if given.get("Symmetric", True) else "u"
    request.settings.update(activations="none", weights=f"{sign}int{given.get('Bits', 4)}", weight_granularity="per_block",
                            weight_block_size=given.get("GroupSize", 128), weight_symmetric=given.get("Symmetric", True),
                            placement="compute", biases="none", equalize=False)
    if algorithm == "GPTQ":
        request.settings["finetune"] = "gptq"
    request.only_op_types = ("MatMul",)
    request.arguments.update(target="onnxruntime", accuracy_level=4 if given.get("AccuracyLevel", 0) == 4 else 1)


def add_auto_mixprecision(request: Request, given: Mapping[str, Any], options: Mapping[str, Any]) -> None:
    """Without a target every operator of the types is lowered."""
    _fates.check(given, _words.AUTO_MIXPRECISION, "AutoMixprecision")
    both = given.get("TargetQuantType")
    activation = given.get("ActTargetQuantType", both)
    weight = given.get("WeightTargetQuantType")
    rule: Rule = {"op_types": list(given.get("TargetOpType", ("Conv", "ConvTranspose", "Gemm", "MatMul"))), "optional": True}
    if activation is not None:
        rule["activations"] = format_of(activation, options, request.settings)
    if weight is None and both is not None and name_of(both) in ("QBFP", "QMX"):
        weight = both  # Quark lowers both sides then
    if weight is not None:
        rule["weights"] = format_of(weight, options, request.settings)
    if given.get("BiasTargetQuantType") is not None:
        rule["biases"] = format_of(given["BiasTargetQuantType"], options, request.settings)
    if len(rule) == 2:
        raise InvalidArgumentError("AutoMixprecision names no target type (TargetQuantType, ActTargetQuantType, WeightTargetQuantType)")
    request.rules.append(rule)


def add_algorithm(request: Request, algorithm: AlgoConfig, options: Mapping[str, Any]) -> None:
    given, where = algorithm.options, type(algorithm).__name__
    if algorithm.name in ("adaround", "adaquant"):
        _fates.check(given, _words.FINETUNE, where)
        _add_finetuning(request, algorithm.name)
        request.take_samples(given.get("data_size"))
    elif algorithm.name == "gptq":
        _fates.check(given, _words.GPTQ, where)
        symmetric = bool(given.get("weight_symmetric", True))
        request.settings.update(finetune="gptq", weights=f"{'' if symmetric else 'u'}int{given.get('bits', 8)}", weight_symmetric=symmetric)
        if given.get("group_size", -1) > 0:
            request.settings.update(weight_granularity="per_block", weight_block_size=given["group_size"])
        else:
            request.settings["weight_granularity"] = "per_axis" if given.get("per_channel") else "per_tensor"
    elif algorithm.name == "smooth_quant":
        _fates.check(given, _words.SMOOTH_QUANT, where)
        add_smoothing(request, given.get("alpha"))
    elif algorithm.name == "cle":
        _fates.check(given, _words.CLE, where)
        add_equalization(request, given, "cle_steps", "cle_scale_append_bias")
    elif algorithm.name == "bias_correction":
        _fates.check(given, _words.BIAS_CORRECTION, where)
        request.settings["finetune"] = "bias_correction"
    elif algorithm.name == "auto_mixprecision":
        _fates.check(given, _words.AMP, where)
        _add_promotion(request, given, options)
    else:
        raise UnsupportedError(f"{where} is refused: it is not done here. Instead: SmoothQuantConfig")


def _add_promotion(request: Request, given: Mapping[str, Any], options: Mapping[str, Any]) -> None:
    """Without a threshold every candidate gets the target's formats."""
    target = given.get("target_layer_config")
    if isinstance(target, list):
        raise UnsupportedError("AutoMixprecisionConfig: a list of target_layer_config is refused: nothing is measured. Instead: one of them")
    if isinstance(target, QLayerConfig):
        target = {target: []}
    if not isinstance(target, Mapping) or not target:
        raise InvalidArgumentError("AutoMixprecisionConfig needs a target_layer_config")
    op_types = list(given.get("target_op_type") or ("Conv", "ConvTranspose", "Gemm", "MatMul"))
    # The one for all others first: later rules count more.
    for layer, names in sorted(target.items(), key=lambda item: bool(item[1])):
        who: Rule = {"op_types": op_types, "optional": True}
        if names or given.get("include_layers"):
            who["names"] = list(names or given["include_layers"])
        request.rules.append({**who, **layer_settings(layer, options)})
    if given.get("exclude_layers"):
        general: Rule = {key: request.settings[key] for key in ("activations", "weights") if key in request.settings}
        request.rules.append({"names": list(given["exclude_layers"]), **general})
