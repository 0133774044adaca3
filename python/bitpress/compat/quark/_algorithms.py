"""Quark's algorithms: fine-tuning, equalization, smoothing, GPTQ, mixed precision."""

from dataclasses import dataclass, field
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple

from bitpress._errors import InvalidArgumentError, UnsupportedError
from bitpress.compat import _fates
from bitpress.compat._samples import ALL_SAMPLES
from bitpress.compat.quark import _words
from bitpress.compat.quark._formats import check_keys, layer_settings, name_of, set_format
from bitpress.compat.quark._types import AlgoConfig, QLayerConfig

Rule = Dict[str, Any]

# How much of a bias counts as range where Quark "appends" it: found in models that it wrote.
_BIAS_SHARE = 0.05
_SINGLE_FLOATS = ("fp16", "bf16")
_LAYERS = ("Conv", "ConvTranspose", "Gemm", "MatMul")


@dataclass(frozen=True)
class Target:
    """Operators are lowered as long as a target is reached: what bitpress.search is asked."""

    text: str
    op_types: Sequence[str]
    changes: Mapping[str, Any]  # the settings of a lowered layer; all others stay as they are
    strategy: str = "greedy"
    judge: Optional["Judge"] = None
    output_index: int = 0  # the output that the target is about
    names: Sequence[str] = ()  # of layers that may be lowered; nothing: all
    kept_names: Sequence[str] = ()


@dataclass(frozen=True)
class Judge:
    """A function of the user that judges the output of a model, all samples in one array."""

    function: Callable[..., float]
    output_index: int = 0
    is_distance: bool = False  # it gets the float model's output first, and less of it is better


@dataclass
class Request:
    """The arguments of a call of bitpress.quantize."""

    settings: Dict[str, Any] = field(default_factory=dict)
    rules: List[Rule] = field(default_factory=list)
    arguments: Dict[str, Any] = field(default_factory=dict)
    target: Optional[Target] = None
    only_op_types: Sequence[str] = ()
    random_shapes: Optional[Mapping[str, Sequence[int]]] = None  # of random samples, if they are wanted
    random_ranges: Optional[Mapping[str, Sequence[float]]] = None
    search_samples: int = 0  # that automatic mixed precision measures with; 0: all

    def calibrate_with(self, count: Optional[int]) -> None:
        """Limits the samples that scales follow from. Fine-tuning has a number of its own."""
        if count is not None and 0 < count < ALL_SAMPLES:
            self.settings["calibration_samples"] = int(count)

    def search_with(self, count: Optional[int]) -> None:
        if count is not None and 0 < count < ALL_SAMPLES:
            self.search_samples = int(count)

    def exclude(self, **selector: Sequence[str]) -> None:
        """Leaves the selected nodes float. Quark passes over names that a model does not have."""
        self.rules.append({**selector, "exclude": True, "optional": True})


def _is_float_side(settings: Mapping[str, Any], side: str) -> bool:
    return settings.get(side, "none") in _SINGLE_FLOATS


def _add_finetuning(request: Request, algorithm: str, options: Mapping[str, Any]) -> None:
    if algorithm == "adaround" and _is_float_side(request.settings, "weights"):
        raise UnsupportedError(f"adaround learns roundings, and {request.settings['weights']} has no scale to round with. Instead: adaquant")
    request.settings["finetune"] = algorithm
    _add_finetune_settings(request, options)


def _add_finetune_settings(request: Request, options: Mapping[str, Any]) -> None:
    """Adds the settings that the library's table of fates has for the words. Quark says "all samples" with a large number."""
    for word, value in options.items():
        setting = _words.FINETUNE_SETTINGS.get(word)
        if setting in (None, "finetune") or value is None or (setting == "finetune_samples" and not 0 < value < ALL_SAMPLES):
            continue
        request.settings[setting] = list(value) if isinstance(value, tuple) else value


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
        _add_finetuning(request, algorithm, options)


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
    given = _in_newer_words(given)
    _fates.check(given, _words.AUTO_MIXPRECISION, "AutoMixprecision")
    both = given.get("TargetQuantType")
    wanted = {"activations": given.get("ActTargetQuantType", both), "weights": given.get("WeightTargetQuantType"),
              "biases": given.get("BiasTargetQuantType")}
    if wanted["weights"] is None and both is not None and name_of(both) in ("QBFP", "QMX"):
        wanted["weights"] = both  # Quark lowers both sides then
    changes: Dict[str, Any] = {}
    for side, value in wanted.items():
        if value is not None:
            set_format(changes, side, value, options)
    if not changes:
        raise InvalidArgumentError("AutoMixprecision names no target type (TargetQuantType, ActTargetQuantType, WeightTargetQuantType)")
    request.settings["dual_quant"] = bool(given.get("DualQuantNodes", False))
    op_types = _op_types(given.get("TargetOpType"))
    goal = _goal(given)
    if goal is None:
        request.rules.append({"op_types": op_types, "optional": True, **changes})
        return
    text, judge = goal
    request.search_with(given.get("DataSize"))
    request.target = Target(text, op_types, changes, judge=judge, output_index=given.get("OutputIndex") or 0)


def _in_newer_words(given: Mapping[str, Any]) -> Dict[str, Any]:
    """Older examples write l2_target for L2Target, and so on."""
    newer = {_words.snake_case(word): word for word in _words.AUTO_MIXPRECISION}
    words: Dict[str, Any] = {}
    for word, value in given.items():
        name = newer.get(word, word)
        if name != word:
            _fates.say(f"AutoMixprecision: {word} is taken as {name}")
        if name in words:
            raise InvalidArgumentError(f"AutoMixprecision: {name} is given twice, once as '{word}'")
        words[name] = value
    return words


def _op_types(given: Any) -> List[str]:
    return [given] if isinstance(given, str) else list(given or _LAYERS)


def _goal(given: Mapping[str, Any]) -> Optional[Tuple[str, Optional[Judge]]]:
    """The target of AutoMixprecision as text, and who judges it; None: there is none."""
    loss, distance, output = given.get("Top1AccTarget"), given.get("L2Target"), given.get("OutputIndex", 0)
    if loss is not None:
        function = given.get("EvaluateFunction")
        if not callable(function):
            raise InvalidArgumentError("AutoMixprecision: Top1AccTarget needs EvaluateFunction, which gives the accuracy of outputs")
        if distance is not None:
            _fates.say("AutoMixprecision: Top1AccTarget is the target; L2Target changes nothing")
        return f"metric_drop<={loss}", Judge(function, output)
    if given.get("EvaluateFunction") is not None:
        _fates.say("AutoMixprecision: EvaluateFunction without Top1AccTarget changes nothing")
    if distance is None:
        if output:
            _fates.say(f"AutoMixprecision: OutputIndex={output} without a target changes nothing: every layer is lowered")
        return None
    return f"l2<={distance}", None


def add_algorithm(request: Request, algorithm: AlgoConfig, options: Mapping[str, Any]) -> None:
    given, where = algorithm.options, type(algorithm).__name__
    if algorithm.name in ("adaround", "adaquant"):
        _fates.check(given, _words.FINETUNE, where)
        _add_finetuning(request, algorithm.name, given)
    elif algorithm.name == "gptq":
        _fates.check(given, _words.GPTQ, where)
        symmetric = bool(given.get("weight_symmetric", True))
        _add_finetune_settings(request, given)
        passes = "clip_search+gptq+bias_correction" if given.get("mse") else "gptq"
        request.settings.update(finetune=passes, weights=f"{'' if symmetric else 'u'}int{given.get('bits', 8)}", weight_symmetric=symmetric)
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
        raise UnsupportedError(f"{where} is refused: QuaRot's rotations, which go into the weights, are not done. Instead: "
                               "rotate=32 of bitpress.quantize, which turns the inputs of products, or SmoothQuantConfig")


def _target_text(metric: str, threshold: float) -> str:
    """A threshold of Quark's, below which the model is good enough, as a target of ours."""
    texts = {"l2": f"l2<={threshold}", "sqnr": f"sqnr>={-threshold}", "cosine": f"cosine>={1 - threshold}"}
    if metric not in texts:
        raise UnsupportedError(f"AutoMixprecisionConfig: metric_default='{metric}' is refused: it is not measured. Instead: "
                               + ", ".join(repr(word) for word in texts))
    return texts[metric]


def _promotion_goal(given: Mapping[str, Any], threshold: float) -> Tuple[str, Optional[Judge]]:
    """Returns the goal, and the judge if a function measures it. A function that evaluates counts more than one that compares."""
    output = given.get("metric_output_index", 0)
    if given.get("metric_evaluate_fn") is not None:
        return f"metric_drop<={threshold}", Judge(given["metric_evaluate_fn"], output)
    if given.get("metric_distance_fn") is not None:
        return f"metric>={-threshold}", Judge(given["metric_distance_fn"], output, is_distance=True)
    return _target_text(given.get("metric_default", "l2"), threshold), None


def _add_promotion(request: Request, given: Mapping[str, Any], options: Mapping[str, Any]) -> None:
    """Without a threshold every candidate gets the target's formats."""
    target = given.get("target_layer_config")
    if isinstance(target, list):
        raise UnsupportedError("AutoMixprecisionConfig: a list of target_layer_config is refused. Instead: one of them, or bitpress.search")
    if isinstance(target, QLayerConfig):
        target = {target: []}
    if not isinstance(target, Mapping) or not target:
        raise InvalidArgumentError("AutoMixprecisionConfig needs a target_layer_config")
    op_types = _op_types(given.get("target_op_type"))
    threshold = given.get("metric_threshold", 0)
    if threshold is None:
        raise UnsupportedError("AutoMixprecisionConfig: metric_threshold=None is refused: no model comes of it. Instead: bitpress.sensitivity")
    request.settings["dual_quant"] = bool(given.get("dual_quant_nodes", False))
    if not threshold:
        for word in ("metric_evaluate_fn", "metric_distance_fn"):
            if given.get(word) is not None:
                _fates.say(f"AutoMixprecisionConfig: {word} without metric_threshold changes nothing: every layer is lowered")
    if threshold:
        if len(target) > 1:
            raise UnsupportedError("AutoMixprecisionConfig: metric_threshold with several target_layer_config is refused: a layer is lowered "
                                   "once. Instead: one of them, or bitpress.search")
        ((layer, names),) = target.items()
        request.search_with(given.get("data_size"))
        text, judge = _promotion_goal(given, threshold)
        strategy = "optimal" if given.get("metric_optimize_object") == "quality" else "greedy"
        request.target = Target(text, op_types, layer_settings(layer, options), strategy, judge, given.get("metric_output_index") or 0,
                                list(names or given.get("include_layers") or ()), list(given.get("exclude_layers") or ()))
        return
    # The one for all others first: later rules count more.
    for layer, names in sorted(target.items(), key=lambda item: bool(item[1])):
        who: Rule = {"op_types": op_types, "optional": True}
        if names or given.get("include_layers"):
            who["names"] = list(names or given["include_layers"])
        if given.get("exclude_layers"):
            who["not_names"] = list(given["exclude_layers"])
        request.rules.append({**who, **layer_settings(layer, options)})
