"""Quark's automatic mixed precision, of both interfaces."""

import os
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple

import numpy as np

from bitpress._errors import InvalidArgumentError, UnsupportedError
from bitpress.compat import _fates
from bitpress.compat._values import name_of
from bitpress.compat.quark import _words
from bitpress.compat.quark._algorithm_types import AutoMixprecisionConfig
from bitpress.compat.quark._algorithms import MetricFunction, Measurement, Request, Rule, Target
from bitpress.compat.quark._dictionaries import layer_from_dict
from bitpress.compat.quark._checks import check_targets
from bitpress.compat.quark._formats import layer_settings, set_format
from bitpress.compat.quark._types import QLayerConfig

_LAYERS = ("Conv", "ConvTranspose", "Gemm", "MatMul")
_LEAST = 1e-10


def add_auto_mixprecision(request: Request, given: Mapping[str, Any], options: Mapping[str, Any]) -> None:
    """extra_options["AutoMixprecision"]. Without a target every operator of the types is lowered."""
    newer = {_words.camel_case(word): word for word in _words.AMP}
    if "TargetLayerConfig" in given:
        words = {newer.get(word, word): value for word, value in given.items()}
        target = words["target_layer_config"]
        if isinstance(target, Mapping) and not any(isinstance(key, QLayerConfig) for key in target):
            words["target_layer_config"] = layer_from_dict(target, "AutoMixprecision: TargetLayerConfig")
        _add_promotion(request, words, options, "AutoMixprecision", is_lenient=True)
        return
    given = _in_newer_words(given)
    _fates.check(given, {**_words.AUTO_MIXPRECISION, **{name: _words.AMP[word] for name, word in newer.items() if name not in _words.AUTO_MIXPRECISION}},
                 "AutoMixprecision", is_lenient=True)
    for name in given:
        if name in newer and name not in _words.AUTO_MIXPRECISION:
            _fates.say(f"AutoMixprecision: {name} without TargetLayerConfig changes nothing")
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
        raise InvalidArgumentError("AutoMixprecision names no target (TargetLayerConfig, or TargetQuantType, ActTargetQuantType, WeightTargetQuantType)")
    request.settings["dual_quant"] = bool(given.get("DualQuantNodes", False))
    op_types = _op_types(given.get("TargetOpType"))
    request.named("AutoMixprecision: TargetOpType" if given.get("TargetOpType") else "", op_types)
    goal = _goal(given)
    if goal is None:
        request.rules.append({"op_types": op_types, "optional": True, **changes})
        return
    text, metric = goal
    request.search_with(given.get("DataSize"))
    request.target = Target(text, op_types, [changes], metric=metric, output_index=given.get("OutputIndex") or 0)


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


def _goal(given: Mapping[str, Any]) -> Optional[Tuple[str, Optional[MetricFunction]]]:
    """The target of AutoMixprecision as text, and the function that measures it; None: there is none."""
    loss, distance, output = given.get("Top1AccTarget"), given.get("L2Target"), given.get("OutputIndex") or 0
    if loss is not None:
        function = given.get("EvaluateFunction")
        if function is None:
            raise InvalidArgumentError("AutoMixprecision: Top1AccTarget needs EvaluateFunction, which gives the accuracy of outputs")
        if distance is not None:
            _fates.say("AutoMixprecision: Top1AccTarget is the target; L2Target changes nothing")
        return f"metric_drop<={loss}", MetricFunction(function, output)
    if given.get("EvaluateFunction") is not None:
        _fates.say("AutoMixprecision: EvaluateFunction without Top1AccTarget changes nothing")
    if distance is None:
        if output:
            _fates.say(f"AutoMixprecision: OutputIndex={output} without a target changes nothing: every layer is lowered")
        return None
    return f"l2<={distance}", None


def _mean_of_samples(function: Callable[[Any, Any], float]) -> Callable[[Any, Any], float]:
    return lambda x, y: float(np.mean([function(a.astype(np.float64).ravel(), b.astype(np.float64).ravel()) for a, b in zip(x, y)]))


def _divergence(x: Any, y: Any) -> float:
    """Quark's: outputs are moved to 0 where they are negative, and divided by their sum."""
    def shares(values: Any) -> Any:
        moved = values - min(values.min(), 0.0)
        return moved / moved.sum() if moved.sum() > 0 else np.full_like(moved, 1 / moved.size)

    p, q = shares(x), shares(y)
    return float(np.sum(p * np.log((p + _LEAST) / (q + _LEAST))))


def _negative_psnr(x: Any, y: Any) -> float:
    """In dB, against the largest magnitude of the float output."""
    error, largest = float(np.mean((x - y) ** 2)), float(np.max(np.abs(x)))
    return 10 * float(np.log10(error or _LEAST)) - 20 * float(np.log10(largest or _LEAST))


_DISTANCES = {"kl": _mean_of_samples(_divergence), "psnr": _mean_of_samples(_negative_psnr)}


def _promotion_goal(given: Mapping[str, Any], threshold: float, where: str) -> Tuple[str, Optional[MetricFunction]]:
    """Returns the goal, and the function that measures it, if one does. The model is good enough at or below the threshold."""
    output, metric = given.get("metric_output_index") or 0, given.get("metric_default") or "l2"
    evaluate, distance = given.get("metric_evaluate_fn"), given.get("metric_distance_fn")
    if evaluate is not None and distance is not None:
        raise InvalidArgumentError(f"{where}: metric_distance_fn and metric_evaluate_fn exclude each other; give one of them")
    if evaluate is not None:
        return f"metric_drop<={threshold}", MetricFunction(evaluate, output)
    distance = distance or _DISTANCES.get(metric)
    if distance is not None:
        return f"metric>={-threshold}", MetricFunction(distance, output, is_distance=True)
    return {"l2": f"l2<={threshold}", "sqnr": f"sqnr>={-threshold}", "cosine": f"cosine>={1 - threshold}"}[metric], None


def add_promotion(request: Request, algorithm: AutoMixprecisionConfig, options: Mapping[str, Any]) -> None:
    """AutoMixprecisionConfig, also with the arguments of earlier versions."""
    given = algorithm.options
    if not any(word in given for word in algorithm.older):
        _add_promotion(request, given, options, "AutoMixprecisionConfig")
        return
    if given.get("target_layer_config") is not None:
        older = next(word for word in algorithm.older if word in given)
        raise InvalidArgumentError(f"AutoMixprecisionConfig: {older} is of versions without target_layer_config; give metric_threshold, "
                                   "metric_output_index, metric_evaluate_fn, which replace such words")
    add_auto_mixprecision(request, {_words.camel_case(name): value for name, value in given.items() if value is not None}, options)


def _add_promotion(request: Request, given: Mapping[str, Any], options: Mapping[str, Any], where: str, is_lenient: bool = False) -> None:
    """Without a threshold every candidate gets the target's formats, with None the layers are only measured."""
    _fates.check(given, _words.AMP, where, is_lenient)
    target: Any = given.get("target_layer_config")
    check_targets(target, f"{where}: target_layer_config")
    names, kept = list(given.get("include_layers") or ()), list(given.get("exclude_layers") or ())
    op_types, output = _op_types(given.get("target_op_type")), given.get("metric_output_index") or 0
    request.named(f"{where}: target_op_type" if given.get("target_op_type") else "", op_types)
    request.named(f"{where}: include_layers, exclude_layers", [*names, *kept])
    threshold = given.get("metric_threshold", 0)
    request.settings["dual_quant"] = bool(given.get("dual_quant_nodes", False))
    if isinstance(target, Mapping) and all(target.values()):
        _fates.say(f"{where}: target_layer_config has no entry with []: its first one is for all other layers, too")
        target = {**target, next(iter(target)): []}
    if isinstance(target, Mapping) and len(target) > 1:
        if threshold != 0:
            raise UnsupportedError(f"{where}: metric_threshold with several target_layer_config for different layers is refused: a search gives "
                                   "all layers the same choices. Instead: a list of target_layer_config")
        _add_rules(request, target, op_types, names, kept, options)
        return
    layers = list(target) if isinstance(target, (list, tuple, Mapping)) else [target]
    variants = [layer_settings(layer, options) for layer in layers]
    file = given.get("sensitivity_cache_file")
    if file is not None or threshold is None or (len(variants) > 1 and not threshold):
        request.measurement = Measurement(op_types, variants, output, names, kept, None if file is None else os.fspath(file),
                                          is_applied=threshold == 0 and len(variants) > 1)
    if threshold or request.measurement is not None:
        request.search_with(given.get("data_size"))
    if threshold:
        text, function = _promotion_goal(given, threshold, where)
        strategy = "optimal" if given.get("metric_optimize_object") == "quality" else "greedy"
        request.target = Target(text, op_types, variants, strategy, function, output, names, kept)
        return
    for word in ("metric_evaluate_fn", "metric_distance_fn"):
        if given.get(word) is not None:
            _fates.say(f"{where}: {word} without metric_threshold changes nothing: "
                       + ("layers are measured by their own errors" if threshold is None else "every layer is lowered"))
    if threshold is None:
        _fates.say(f"{where}: metric_threshold=None: layers are measured, and none is lowered")
    elif len(variants) == 1:
        _add_rules(request, {layers[0]: names}, op_types, (), kept, options)


def _add_rules(request: Request, target: Mapping[QLayerConfig, Sequence[str]], op_types: Sequence[str], names: Sequence[str],
               kept: Sequence[str], options: Mapping[str, Any]) -> None:
    # The one for all others first: later rules count more.
    for layer, of_layer in sorted(target.items(), key=lambda item: bool(item[1])):
        who: Rule = {"op_types": list(op_types), "optional": True}
        if of_layer or names:
            who["names"] = list(of_layer or names)
        if kept:
            who["not_names"] = list(kept)
        request.rules.append({**who, **layer_settings(layer, options)})
