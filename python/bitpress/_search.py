"""Mixed precision: sensitivity of layers, search for a plan, and trying configurations."""

import json
import tempfile
from pathlib import Path
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Union

from bitpress import _native
from bitpress._api import ConfigLike, Plan, Rule, _config, _count, _rule_texts, _setting_text
from bitpress._errors import InvalidArgumentError
from bitpress._files import Model, PathLike, model_file
from bitpress._progress import Progress, Reporting
from bitpress._runtime import use_onnxruntime
from bitpress._samples import Data, sample_arguments

Candidates = Union[str, Sequence[str]]
# Called with the path of a model; better the larger it is.
Metric = Callable[[str], float]


class SearchResult:
    """The result of a search.

    Attributes:
        plan: of the chosen point, for quantize(plan=...) with the same model and samples.
        data: the whole report, as `bitpress search --json` writes it: points, targets, what was measured.
    """

    def __init__(self, plan: Plan, data: Dict[str, Any]) -> None:
        self.plan = plan
        self.data = data

    @property
    def is_reached(self) -> bool:
        """True if the target was reached within the budget."""
        return bool(self.data["is_reached"])

    @property
    def final(self) -> Dict[str, Any]:
        """The measured losses of the quantized model."""
        return dict(self.data["final"])

    def __repr__(self) -> str:
        return f"<SearchResult {self.final}>"


def _names(candidates: Candidates) -> str:
    return candidates if isinstance(candidates, str) else ",".join(candidates)


def _list(words: Union[str, Sequence[str]]) -> List[str]:
    return [words] if isinstance(words, str) else list(words)


def _space(candidates: Candidates, weights: Candidates, activations: Candidates, variants: Sequence[Mapping[str, Any]],
           layer_types: Union[str, Sequence[str]], layer_names: Union[str, Sequence[str]], kept_layers: Union[str, Sequence[str]],
           output_index: Optional[int], config: Optional[ConfigLike], rules: Sequence[Rule], settings: Mapping[str, Any], method: str,
           sensitivity_samples: Optional[int], as_is: bool, threads: int) -> _native.SpaceArguments:
    space = _native.SpaceArguments()
    space.candidates, space.weight_candidates, space.activation_candidates = _names(candidates), _names(weights), _names(activations)
    space.base = None if config is None else _config(config, (), {})
    space.settings = [(key, _setting_text(key, value)) for key, value in settings.items()]
    space.rules = _rule_texts(rules)
    space.variants = [[(key, _setting_text(key, value)) for key, value in variant.items()]
                      for variant in ([variants] if isinstance(variants, Mapping) else variants)]
    space.layer_types, space.layer_names, space.kept_layers = _list(layer_types), _list(layer_names), _list(kept_layers)
    space.output_index = None if output_index is None else _count("output_index", output_index)
    space.method = method
    space.num_sensitivity_samples = 0 if sensitivity_samples is None else _count("sensitivity_samples", sensitivity_samples, 1)
    space.as_is, space.num_threads = as_is, _count("threads", threads)
    return space


def sensitivity(model: Model, data: Data, candidates: Candidates = (), *, weight_candidates: Candidates = (),
                activation_candidates: Candidates = (), variants: Sequence[Mapping[str, Any]] = (),
                layer_types: Union[str, Sequence[str]] = (), layer_names: Union[str, Sequence[str]] = (),
                kept_layers: Union[str, Sequence[str]] = (), output_index: Optional[int] = None, output: Optional[PathLike] = None,
                config: Optional[ConfigLike] = None, method: str = "fast", sensitivity_samples: Optional[int] = None, measure_time: bool = False, image: str = "",
                labels: Optional[PathLike] = None, samples: int = 0, shard: str = "", rules: Sequence[Rule] = (), as_is: bool = False, threads: int = 0,
                progress: Progress = None, **settings: Any) -> Dict[str, Any]:
    """Measures what the outputs lose when one layer alone gets a candidate, for each layer and candidate.

    Arguments that are not listed are those of quantize().

    Args:
        candidates: formats or presets, or "float"; a list or a text with commas.
        weight_candidates: those of weights; then each side of a layer is measured by itself.
        activation_candidates: those of activations.
        variants: instead of candidates, settings that a layer may have in place of those of `config`:
            [{"activations": "int8", "weights": "int8"}]. All its other settings stay as `config` has them.
        layer_types: operator types of the layers that may change (default: all that multiply).
        layer_names: their names (default: all).
        kept_layers: names of layers that stay as `config` has them.
        output_index: position of the only output that losses are about (default: all outputs together).
        output: also write the report there, as JSON.
        config: of everything that no candidate is about (default: the finest candidates).
        method: `fast`, `exact` or `both`.
        shard: only one part of the layers: "2/8" is the second of eight. `output` is a journal then; merge() makes one of all parts,
            and with the name of an output and `.journal` behind it, sensitivity() and search() go on from it.

    Returns:
        The report: `layers`, each with its `parts`.
    """
    if shard and output is None:
        raise InvalidArgumentError("shard needs an output: the journal is its result")
    space = _space(candidates, weight_candidates, activation_candidates, variants, layer_types, layer_names, kept_layers, output_index,
                   config, rules, settings, method, sensitivity_samples, as_is, threads)
    use_onnxruntime()
    with tempfile.TemporaryDirectory(prefix="bitpress-") as folder, model_file(model) as path:
        target = Path(folder) / "sensitivity.json" if output is None else Path(output)
        with sample_arguments(data, labels, image, samples) as source, Reporting(progress) as callback:
            report: Dict[str, Any] = json.loads(_native.measure_sensitivity(path, target, source, space, measure_time, shard, callback))
    return report


def search(model: Model, data: Data, candidates: Candidates = (), *, target: Optional[str] = None, budget: Optional[str] = None,
           weight_candidates: Candidates = (), activation_candidates: Candidates = (), variants: Sequence[Mapping[str, Any]] = (),
           layer_types: Union[str, Sequence[str]] = (), layer_names: Union[str, Sequence[str]] = (),
           kept_layers: Union[str, Sequence[str]] = (), output_index: Optional[int] = None, strategy: str = "optimal",
           cost: Optional[str] = None, bind: Union[str, Sequence[str]] = (), metric: Optional[Metric] = None, measure: int = 0, task: str = "auto", output: Optional[PathLike] = None, picture: Optional[PathLike] = None,
           config: Optional[ConfigLike] = None, method: str = "fast", sensitivity_samples: Optional[int] = None, batch_size: int = 20,
           image: str = "", labels: Union[PathLike, Sequence[int], None] = None, samples: int = 0, rules: Sequence[Rule] = (),
           as_is: bool = False, threads: int = 0, progress: Progress = None, **settings: Any) -> SearchResult:
    """Searches formats for the layers: the least cost that reaches a target, or the least loss within a budget.

    Arguments that are not listed are those of sensitivity() and quantize().

    Args:
        target: "agreement>=97", "sqnr>=15", "cosine>=0.99", "l2<=0.5", "divergence<=0.05", "top1>=80", "top1_drop<=0.5",
            "loss<=1" (percent, as auto() has it); with `metric` also "metric>=0.8" and "metric_drop<=0.01", in its unit.
        budget: "bits<=5", "bytes<=3MB", "mac_bits<=40", "time<=1.3".
        task: as of evaluate(), for a target of its loss, "task_loss<=1" (percent).
        strategy: `optimal`, or `greedy` as AMD Quark's automatic mixed precision.
        cost: what choices cost: bits, bytes, mac_bits or time (default: the budget's, else bits).
        bind: layers of a transformer that get one format: "qkv", the queries, keys and values of an attention; "gate_up", both
            halves of an MLP; or both.
        metric: a measure of your own: called with the path of a model, gives a number that is better the larger it is. It
            gets the float model first, then each quantized model that is tried; all of them run in ONNX Runtime as
            they are, and faster with get_library_path(). The file is gone afterwards.
        measure: so many models of the front are measured besides.
        output: also write the plan there.
        picture: also write the front there, as SVG.
    """
    space = _space(candidates, weight_candidates, activation_candidates, variants, layer_types, layer_names, kept_layers, output_index,
                   config, rules, settings, method, sensitivity_samples, as_is, threads)
    goals = _native.GoalArguments()
    goals.target, goals.budget, goals.cost, goals.strategy = target, budget, cost, strategy
    goals.bind = ",".join(_list(bind)) or "none"
    goals.num_measured = _count("measure", measure)
    goals.task = task
    use_onnxruntime()
    with tempfile.TemporaryDirectory(prefix="bitpress-") as folder, model_file(model) as path:
        plan = Path(folder) / "plan.json" if output is None else Path(output)
        with sample_arguments(data, labels, image, samples) as source, Reporting(progress) as callback:
            report = _native.search(path, plan, None if picture is None else Path(picture), source, space, goals, metric,
                                    _count("batch_size", batch_size, 1), callback)
        return SearchResult(Plan.load(plan), json.loads(report))


def autotune(model: Model, output: PathLike, data: Data, *, configs: Sequence[ConfigLike] = (), tolerable_loss: float = 0.01,
             metric: Optional[Metric] = None, max_trials: int = 100, validation: Optional[Data] = None,
             validation_labels: Union[PathLike, Sequence[int], None] = None, image: str = "",
             labels: Union[PathLike, Sequence[int], None] = None, samples: int = 100, validation_samples: int = 0,
             batch_size: int = 20, check: bool = True, as_is: bool = False, threads: int = 0,
             progress: Progress = None) -> Dict[str, Any]:
    """Tries configurations in their order, and writes the model of the first that loses little enough, else of the best.

    Arguments that are not listed are those of quantize().

    Args:
        configs: names, `.json` files or Configs (default: INT8, learned INT8, wider activations, BF16).
        tolerable_loss: in parts of the float model's top-1; without labels of the agreement with it; without class
            scores of the outputs' energy.
        metric: a measure of your own instead, as of search().
        validation: samples to measure with (default: those of `data`).

    Returns:
        The report: `chosen`, `is_tolerable`, `measure`, and the `trials`.
    """
    arguments = _native.AutoArguments()
    arguments.want, arguments.tolerable_loss, arguments.max_trials = "first", tolerable_loss, _count("max_trials", max_trials, 1)
    arguments.batch_size = _count("batch_size", batch_size, 1)
    return _auto(arguments, model, output, data, configs, metric, validation, validation_labels, image, labels, samples, validation_samples,
                 check, as_is, threads, progress)


def auto(model: Model, output: PathLike, data: Optional[Data] = None, *, want: str = "balanced", budget: Optional[str] = None,
         configs: Sequence[ConfigLike] = (), task: str = "auto", metric: Optional[Metric] = None, validation: Optional[Data] = None,
         validation_labels: Union[PathLike, Sequence[int], None] = None, image: str = "",
         labels: Union[PathLike, Sequence[int], None] = None, samples: int = 100, validation_samples: int = 0,
         page: Optional[PathLike] = None, target: str = "auto", batch_size: int = 1, check: bool = True, as_is: bool = False,
         threads: int = 0, progress: Progress = None) -> Dict[str, Any]:
    """From a float model to the file that suits its network, this machine and a preference.

    Tries a short list of configurations, measures each beside the float model, and writes the best one. Arguments that are not listed
    are those of quantize() and autotune().

    Args:
        data: samples for ranges and for measuring (default: none; then only configurations that need none are tried, and no loss is
            measured).
        want: within the limits, `balanced` is the smallest file that is not slower than the float model, or a clearly
            faster one within 5 % of its size, `smaller` the smallest, `faster` the fastest, `closest` the one that loses least.
        budget: limits: "bytes<=3MB,time<=0.8,loss<=1%" (default: a loss of 1 %, no more bytes than the float file, and 1.05
            of the float model's time where the file shall not be slower).
        configs: the configurations to try (default: those that suit the network).
        task: as of evaluate().
        validation_samples: most samples to measure with (default: as many as ten seconds allow).
        page: also write a page about the model there, with all trials.

    Returns:
        The report: `chosen`, `is_tolerable`, `network`, `measure`, `front`, `notes`, and the `trials`.
    """
    arguments = _native.AutoArguments()
    arguments.want, arguments.budget, arguments.task, arguments.target = want, budget, task, target
    arguments.page = None if page is None else Path(page)
    arguments.batch_size = _count("batch_size", batch_size, 1)
    return _auto(arguments, model, output, data, configs, metric, validation, validation_labels, image, labels, samples, validation_samples,
                 check, as_is, threads, progress)


def _auto(arguments: _native.AutoArguments, model: Model, output: PathLike, data: Optional[Data], configs: Sequence[ConfigLike],
          metric: Optional[Metric], validation: Optional[Data], validation_labels: Union[PathLike, Sequence[int], None], image: str,
          labels: Union[PathLike, Sequence[int], None], samples: int, validation_samples: int, check: bool, as_is: bool, threads: int,
          progress: Progress) -> Dict[str, Any]:
    is_autotune = arguments.want == "first"
    if validation is None and (validation_labels is not None or (validation_samples and is_autotune)):
        raise InvalidArgumentError("validation_labels and validation_samples are about validation: give it")
    arguments.configs = [_config(config, (), {}) for config in configs]
    arguments.check, arguments.as_is, arguments.num_threads = check, as_is, _count("threads", threads)
    use_onnxruntime()
    with model_file(model) as path, sample_arguments(data, labels, image, samples) as source, \
            sample_arguments(validation, validation_labels, "" if validation is None else image, validation_samples) as measured, \
            Reporting(progress) as callback:
        report: Dict[str, Any] = json.loads(_native.auto(path, Path(output), source, measured, arguments, metric, callback))
    return report
