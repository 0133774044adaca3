"""Quark's algorithms: fine-tuning, equalization, smoothing, GPTQ. Mixed precision is in _mixed.py."""

from dataclasses import dataclass, field
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence

from bitpress._errors import UnsupportedError
from bitpress.compat import _fates
from bitpress.compat._samples import ALL_SAMPLES
from bitpress.compat.quark import _words
from bitpress.compat.quark._algorithm_types import AlgoConfig

Rule = Dict[str, Any]

# How much of a bias counts as range where Quark "appends" it: found in models that it wrote.
_BIAS_SHARE = 0.05
_SINGLE_FLOATS = ("fp16", "bf16")


@dataclass(frozen=True)
class Target:
    """Operators are lowered as long as a target is reached: what bitpress.search is asked."""

    text: str
    op_types: Sequence[str]
    variants: Sequence[Mapping[str, Any]]  # the settings that a lowered layer may have; all others stay as they are
    strategy: str = "greedy"
    metric: Optional["MetricFunction"] = None
    output_index: int = 0  # the output that the target is about
    names: Sequence[str] = ()  # of layers that may be lowered; nothing: all
    kept_names: Sequence[str] = ()


@dataclass(frozen=True)
class Measurement:
    """Layers are measured one by one: what bitpress.sensitivity is asked."""

    op_types: Sequence[str]
    variants: Sequence[Mapping[str, Any]]
    output_index: int = 0
    names: Sequence[str] = ()
    kept_names: Sequence[str] = ()
    file: Optional[str] = None  # where the report goes
    is_applied: bool = False  # each layer gets the variant that it loses least with


@dataclass(frozen=True)
class MetricFunction:
    """A function of the user that measures the output of a model, all samples in one array."""

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
    measurement: Optional[Measurement] = None
    outputs_kept_float: Mapping[str, Sequence[str]] = field(default_factory=dict)  # by the script's word: types or names of producers
    only_op_types: Sequence[str] = ()
    numbers: Dict[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict)  # of single tensors, for the plan
    words: Dict[str, str] = field(default_factory=dict)  # of the script, by the names of nodes and tensors that they were given
    random_shapes: Optional[Any] = None  # of random samples, if they are wanted
    random_ranges: Optional[Mapping[str, Sequence[float]]] = None
    search_samples: int = 0  # that automatic mixed precision measures with; 0: all

    def named(self, word: str, names: Any) -> None:
        """Remembers that names are those of the script's word, for errors about them."""
        for name in flat(list(names)):
            if word or name not in self.words:
                self.words[name] = word

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


def flat(names: Any) -> List[str]:
    """The names in lists of lists."""
    return [names] if isinstance(names, str) else [name for part in names for name in flat(part)]


def _is_float_side(settings: Mapping[str, Any], side: str) -> bool:
    return settings.get(side, "none") in _SINGLE_FLOATS


def _add_finetuning(request: Request, algorithm: str, options: Mapping[str, Any]) -> None:
    if algorithm == "adaround" and _is_float_side(request.settings, "weights"):
        raise UnsupportedError(f"adaround learns roundings, and {request.settings['weights']} has no scale to round with. Instead: adaquant")
    if any(other in request.settings.get("finetune", "") for other in ("adaround", "adaquant")):
        _fates.say(f"{algorithm} beside another of AdaRound and AdaQuant changes nothing: the first one counts")
        return
    learn(request, algorithm)
    _add_finetune_settings(request, options)


def learn(request: Request, *passes: str) -> None:
    """Adds passes of fine-tuning, in Quark's order."""
    wanted = {*request.settings.get("finetune", "").split("+"), *passes}
    order = ("clip_search", "gptq", "bias_correction", "adaround", "adaquant")
    request.settings["finetune"] = "+".join(name for name in order if name in wanted)


def _add_finetune_settings(request: Request, options: Mapping[str, Any]) -> None:
    """Adds the settings that the library's table of fates has for the words. Quark says "all samples" with a large number."""
    for word, value in options.items():
        setting = _words.FINETUNE_SETTINGS.get(word)
        if setting in (None, "finetune") or value is None or (setting == "finetune_samples" and not 0 < value < ALL_SAMPLES):
            continue
        request.settings[setting] = list(value) if isinstance(value, tuple) else value


def add_fast_finetune(request: Request, wanted: Optional[bool], given: Optional[Mapping[str, Any]]) -> None:
    if given is not None:
        _fates.check(given, _words.FAST_FINETUNE, "FastFinetune", is_lenient=True)
    if wanted is False and given is not None:
        _fates.say("include_fast_ft=False: FastFinetune is there, but nothing is fine-tuned")
    if wanted is None and given is not None:
        _fates.say("FastFinetune without include_fast_ft=True: weights are fine-tuned")
    if wanted or (wanted is None and given is not None):
        options = given or {}
        algorithm = (options.get("OptimAlgorithm") or "adaround").lower()
        _add_finetuning(request, algorithm, options)


def add_smoothing(request: Request, alpha: Any) -> None:
    request.settings["smooth_quant"] = 0.5 if alpha is None else alpha


def add_equalization(request: Request, options: Mapping[str, Any], steps: str, bias: str) -> None:
    request.settings["equalize"] = True
    request.settings["equalize_steps"] = options.get(steps, 1)
    request.settings["equalize_bias"] = _BIAS_SHARE if options.get(bias, True) else 0


def add_matmul_nbits(request: Request, given: Mapping[str, Any], of_gptq: Mapping[str, Any]) -> None:
    _fates.check(given, _words.MATMUL_NBITS, "MatMulNBitsParams", is_lenient=True)
    given = {word: value for word, value in given.items() if value is not None}
    algorithm = given.get("Algorithm") or "DEFAULT"
    is_symmetric = bool(given.get("Symmetric", True)) and algorithm != "HQQ"
    request.settings.update(activations="none", weights=f"{'' if is_symmetric else 'u'}int{given.get('Bits', 4)}",
                            weight_granularity="per_block", weight_block_size=given.get("GroupSize", 128), weight_symmetric=is_symmetric,
                            placement="compute", biases="none", equalize=False)
    if algorithm == "GPTQ":
        add_gptq_params(request, of_gptq, is_learning_only=True)
    if algorithm == "HQQ":
        _fates.say("MatMulNBitsParams: Algorithm='HQQ' is taken as scales and zero points of the least squared error (weight_range=mse)"
                   + (", which have zero points: Symmetric changes nothing" if given.get("Symmetric") else ""))
        request.settings["weight_range"] = "mse"
    request.only_op_types = ("MatMul",)
    request.arguments.update(target="onnxruntime", accuracy_level=4 if given.get("AccuracyLevel", 0) == 4 else 1)


def add_gptq_params(request: Request, given: Mapping[str, Any], is_learning_only: bool = False) -> None:
    """GPTQ as the older interface asks for it; MatMulNBitsParams has the format of weights itself."""
    _fates.check(given, _words.GPTQ_PARAMS, "GPTQParams", is_lenient=True)
    add_gptq(request, {_words.snake_case(word): value for word, value in given.items() if word in _words.GPTQ_PARAMS}, is_learning_only)


def add_gptq(request: Request, given: Mapping[str, Any], is_learning_only: bool = False) -> None:
    given = {word: value for word, value in given.items() if value is not None}
    symmetric = bool(given.get("weight_symmetric", True))
    _add_finetune_settings(request, given)
    learn(request, *(("clip_search", "gptq", "bias_correction") if given.get("mse") else ("gptq",)))
    if is_learning_only:
        return
    request.settings.update(weights=f"{'' if symmetric else 'u'}int{given.get('bits', 8)}", weight_symmetric=symmetric)
    if (given.get("group_size") or -1) > 0:
        request.settings.update(weight_granularity="per_block", weight_block_size=given["group_size"])
    else:
        request.settings["weight_granularity"] = "per_axis" if given.get("per_channel") else "per_tensor"


def add_algorithm(request: Request, algorithm: AlgoConfig) -> None:
    given, where = algorithm.options, type(algorithm).__name__
    if algorithm.name in ("adaround", "adaquant"):
        _fates.check(given, _words.FINETUNE, where)
        _add_finetuning(request, algorithm.name, given)
    elif algorithm.name == "gptq":
        _fates.check(given, _words.GPTQ, where)
        add_gptq(request, given)
    elif algorithm.name == "smooth_quant":
        _fates.check(given, _words.SMOOTH_QUANT, where)
        add_smoothing(request, given.get("alpha"))
    elif algorithm.name == "cle":
        _fates.check(given, _words.CLE, where)
        add_equalization(request, given, "cle_steps", "cle_scale_append_bias")
    elif algorithm.name == "bias_correction":
        _fates.check(given, _words.BIAS_CORRECTION, where)
        learn(request, "bias_correction")
    else:
        raise UnsupportedError(f"{where} is refused: QuaRot's rotations, which go into the weights, are not done. Instead: "
                               "rotate=32 of bitpress.quantize, which turns the inputs of products, or SmoothQuantConfig")
