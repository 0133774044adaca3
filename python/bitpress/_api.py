"""The functions of the interface: arguments are checked, models and samples made into what the library reads."""

import contextlib
import json
import os
import tempfile
import warnings
from pathlib import Path
from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple, Union

from bitpress import _native
from bitpress._errors import ArgumentTypeError, InvalidArgumentError
from bitpress._files import Model, PathLike, existing, model_file
from bitpress._progress import Progress, Reporting
from bitpress._runtime import use_onnxruntime
from bitpress._samples import Data, sample_arguments

Rule = Union[str, Mapping[str, Any]]


def _setting_text(key: str, value: Any) -> str:
    if isinstance(value, bool):
        yes, no = ("on", "off") if "on|off" in settings().get(key, ("", ""))[0] else ("true", "false")
        return yes if value else no
    if value is None:
        return "none"
    if isinstance(value, (str, int, float)):
        return str(value)
    if isinstance(value, (list, tuple)) and all(isinstance(item, str) for item in value):
        return ";".join(value)
    raise ArgumentTypeError(f"setting {key} is {type(value).__name__}; expected a text, a number, a bool or a list of texts")


def _rule_text(rule: Rule) -> str:
    if isinstance(rule, str):
        return rule
    if isinstance(rule, Mapping):
        return json.dumps(dict(rule))
    raise ArgumentTypeError(f"a rule is a text 'WHO: WHAT' or a dict, not {type(rule).__name__}")


def _rule_texts(rules: Sequence[Rule]) -> List[str]:
    return [_rule_text(rule) for rule in ([rules] if isinstance(rules, (str, Mapping)) else rules)]


class Config:
    """What becomes of a model.

    Examples:
        >>> Config("MX6", weights="mxfp4_e2m1", rules=["op_types=Gemm: exclude"])

    Args:
        name: a preset (`presets()`), a format for both sides, or a `.json` file; any case.
        rules: other settings for some nodes or tensors, as texts 'WHO: WHAT' or as dicts.
        settings: changes of single settings (`settings()`).

    Raises:
        InvalidArgumentError: an unknown word, with the nearest.
    """

    def __init__(self, name: PathLike, *, rules: Sequence[Rule] = (), **settings: Any) -> None:
        text = os.fspath(name)
        if text.endswith(".json"):
            existing(text, "configuration")
        self._native = _native.Config(text)
        self._change(rules, settings)

    def changed(self, *, rules: Sequence[Rule] = (), **settings: Any) -> "Config":
        """A copy with further rules and settings."""
        copy = Config.from_json(self.to_json())
        copy._change(rules, settings)
        return copy

    def _change(self, rules: Sequence[Rule], settings: Mapping[str, Any]) -> None:
        if rules or settings:
            texts = [(key, _setting_text(key, value)) for key, value in settings.items()]
            self._native = self._native.changed(texts, _rule_texts(rules))

    def __reduce__(self) -> Tuple[Any, ...]:
        return Config.from_json, (self.to_json(),)

    @staticmethod
    def from_json(text: str) -> "Config":
        config = Config.__new__(Config)
        config._native = _native.Config.from_json(text)
        return config

    def to_json(self) -> str:
        return self._native.to_json()

    @property
    def name(self) -> str:
        return self._native.name

    @property
    def settings(self) -> Dict[str, str]:
        """Every setting and its value."""
        return dict(self._native.settings)

    @property
    def rules(self) -> List[str]:
        return list(self._native.rules)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Config) and self._native == other._native

    def __hash__(self) -> int:
        return hash(self._native)

    def __repr__(self) -> str:
        return f"Config.from_json({self.to_json()!r})"


class Plan:
    """What becomes of every tensor. `data` is the JSON object of a plan file, which may be edited."""

    def __init__(self, text: str) -> None:
        self.data: Dict[str, Any] = json.loads(text)

    @staticmethod
    def load(path: PathLike) -> "Plan":
        return Plan(existing(path, "plan").read_text(encoding="utf-8"))

    @property
    def tensors(self) -> List[Dict[str, Any]]:
        """A dict for each tensor: value, role, format, and axis, reason, uses, ... as far as it has them."""
        rows: List[Dict[str, Any]] = self.data["tensors"]
        return rows

    def to_json(self) -> str:
        return json.dumps(self.data, indent=1)

    def save(self, path: PathLike) -> None:
        Path(path).write_text(self.to_json() + "\n", encoding="utf-8")

    def __repr__(self) -> str:
        return f"<Plan of {len(self.tensors)} tensors>"


ConfigLike = Union[PathLike, Config]


def as_config(config: ConfigLike, rules: Sequence[Rule], settings: Mapping[str, Any]) -> Config:
    if isinstance(config, Config):
        return config.changed(rules=rules, **settings)
    if isinstance(config, (str, os.PathLike)):
        return Config(config, rules=rules, **settings)
    raise ArgumentTypeError(f"config is {type(config).__name__}; expected a name, a .json file or a Config")


def _config(config: ConfigLike, rules: Sequence[Rule], settings: Mapping[str, Any]) -> _native.Config:
    return as_config(config, rules, settings)._native


def _count(name: str, value: int, least: int = 0) -> int:
    if value < least:
        raise InvalidArgumentError(f"{name}={value}: expected {least} or more")
    return value


def presets() -> List[str]:
    """The names of all presets; each also as NAME_ADAQUANT and NAME_ADAROUND."""
    return list(_native.list_presets())


def settings() -> Dict[str, Tuple[str, str]]:
    """Every setting: key -> (allowed values, what it means)."""
    return {key: (allowed, meaning) for key, allowed, meaning in _native.list_settings()}


def _quantize_arguments(config: Optional[ConfigLike], plan: Union[PathLike, Plan, None], calibration: Optional[PathLike],
                        rules: Sequence[Rule], as_is: bool, threads: int, settings: Mapping[str, Any]) -> _native.QuantizeArguments:
    arguments = _native.QuantizeArguments()
    if plan is None:
        if config is None:
            raise InvalidArgumentError("neither config nor plan is given: config is a preset, a format, a .json file or a Config")
        arguments.config = _config(config, rules, settings)
    else:
        changes = [key for key in settings if not key.startswith("finetune")]
        if rules or changes:
            raise InvalidArgumentError(f"a plan holds the decisions already; {next(iter(changes), 'rules')} cannot change them")
        arguments.plan_settings = [(key, _setting_text(key, value)) for key, value in settings.items()]
    arguments.as_is = as_is
    arguments.num_threads = _count("threads", threads)
    arguments.storage, arguments.target, arguments.form = "packed", "portable", "qdq"
    if calibration is not None:
        arguments.calibration = existing(calibration, "calibration")
    return arguments


@contextlib.contextmanager
def _plan_file(plan: Union[PathLike, Plan, None], arguments: _native.QuantizeArguments) -> Iterator[None]:
    """The plan in a file, as the library reads it."""
    with tempfile.TemporaryDirectory(prefix="bitpress-") as folder:
        if isinstance(plan, Plan):
            arguments.plan_file = Path(folder) / "plan.json"
            plan.save(arguments.plan_file)
        elif plan is not None:
            arguments.plan_file = existing(plan, "plan")
        yield


def quantize(model: Model, output: PathLike, config: Optional[ConfigLike] = None, data: Optional[Data] = None, *,
             plan: Union[PathLike, Plan, None] = None, calibration: Optional[PathLike] = None,
             kv_scales: Optional[PathLike] = None, save_kv_scales: Optional[PathLike] = None, image: str = "",
             labels: Optional[PathLike] = None, samples: int = 0, rules: Sequence[Rule] = (), storage: str = "packed",
             target: str = "portable", accuracy_level: int = 4, form: str = "qdq", portable: bool = True,
             external_data: bool = False, check: bool = True, as_is: bool = False, threads: int = 0,
             progress: Progress = None, **settings: Any) -> _native.QuantizeReport:
    """Writes the quantized model.

    Args:
        model: a path, bytes, or an object with SerializeToString().
        output: the file to write; may be the model itself. It is replaced at the end and at once.
        config: a preset, a format for both sides, a `.json` file, or a Config; needed without `plan`.
        data: samples for scales and fine-tuning: a folder (see `image`), an array, a dict of input name -> array, an
            iterable of these, or a reader with get_next() and perhaps rewind(). The first dimension counts samples,
            unless an LSTM, GRU or RNN takes it for time: then each item is one.
        plan: the decisions, of `plan()` or `search()`, in place of `config`, `rules` and settings; only settings of fine-tuning
            (`finetune="gptq"`) go with it.
        calibration: statistics of the activations, a file of `calibrate()`.
        kv_scales: scales of key-value caches of integers (kv_cache="int8"), a JSON file as ONNX Runtime GenAI's
            kv_cache_scale_file, instead of samples.
        save_kv_scales: such a file to write the scales to.
        image: how photos in a folder become tensors: "resize=256,crop=224,mean=0.5,std=0.5".
        labels: of a folder: a CSV with the columns file,class; only the listed files count.
        samples: at most so many; 0: all for scales, the first 100 for fine-tuning.
        rules: other settings for some nodes or tensors.
        storage: `packed` codes and scales at their real width, or `simulated` floats that hold the quantized values.
        target: `portable` operators of ONNX, or those of `onnxruntime` or of the `bitpress` library that compute from the codes of
            weights.
        accuracy_level: of the targets `onnxruntime` and, for integers, `bitpress`: 4 rounds activations to 8 bits at run
            time, 1 computes products of floats.
        form: of integers: `qdq` or `qoperator`.
        portable: quantizers also as functions of standard operators, for sessions without our library.
        external_data: the weights in a file of their own, beside the model.
        check: load the result and run a sample, in a process of its own, before it is put in its place.
        as_is: do not fold constants and BatchNorm first.
        threads: 0: one per core.
        progress: called with (stage, done, total); True, False, or None: a bar where standard error is a terminal.
        settings: changes of the configuration, as in Config.

    Raises:
        Error: see its kin. Nothing is written then, nor after Ctrl-C.
    """
    arguments = _quantize_arguments(config, plan, calibration, rules, as_is, threads, settings)
    arguments.storage, arguments.target, arguments.form = storage, target, form
    arguments.accuracy_level, arguments.portable = accuracy_level, portable
    arguments.external_data, arguments.check = external_data, check
    if kv_scales is not None:
        arguments.kv_scales = existing(kv_scales, "kv_scales")
    if save_kv_scales is not None:
        arguments.save_kv_scales = Path(save_kv_scales)
    use_onnxruntime()
    with _plan_file(plan, arguments), model_file(model) as path, sample_arguments(data, labels, image, samples) as source:
        with Reporting(progress) as callback:
            return _native.quantize(path, Path(output), source, arguments, callback)


def quantize_to_bytes(model: Model, config: Optional[ConfigLike] = None, data: Optional[Data] = None,
                      **arguments: Any) -> Tuple[bytes, _native.QuantizeReport]:
    """The same without a file: the serialized model, and the report. Arguments as of quantize(); under 2 GB."""
    if arguments.get("external_data"):
        raise InvalidArgumentError("external data lies in a file: give an output")
    with tempfile.TemporaryDirectory(prefix="bitpress-") as folder:
        output = Path(folder) / "quantized.onnx"
        report = quantize(model, output, config, data, **arguments)
        if len(list(Path(folder).iterdir())) > 1:
            raise InvalidArgumentError("the model is larger than one file may be: give an output")
        return output.read_bytes(), report


def plan(model: Model, config: ConfigLike, *, rules: Sequence[Rule] = (), as_is: bool = False, **settings: Any) -> Plan:
    """Decides what becomes of every tensor. Arguments as of quantize()."""
    use_onnxruntime()
    with model_file(model) as path:
        return Plan(_native.make_plan(path, _config(config, rules, settings), as_is))


def calibrate(model: Model, data: Data, output: PathLike, *, config: Optional[ConfigLike] = None, image: str = "",
              labels: Optional[PathLike] = None, samples: int = 0, per_channel: bool = False, rules: Sequence[Rule] = (),
              as_is: bool = False, shard: str = "", most_failures: int = 0, threads: int = 0, progress: Progress = None,
              **settings: Any) -> _native.Calibration:
    """Gathers statistics of the activations over samples, in one pass, and writes them.

    Arguments that are not listed are those of quantize().

    Args:
        output: the file to write; quantize(calibration=...) reads it.
        config: watch only what this configuration quantizes (default: every float activation).
        per_channel: extremes and sums of each channel of whatever matrix products and convolutions read. Without it only of
            what is multiplied with constant weights, which int8 weights and `smooth_quant` follow from.
        shard: only one part of the samples: "2/8" is the second of eight. merge() adds up the files of all parts.
        most_failures: leave out so many samples at most that cannot be read or run; a warning and `left_out` of the result name
            them. Default: the first one is an error.
    """
    use_onnxruntime()
    if config is None and (rules or settings):
        raise InvalidArgumentError(f"{next(iter(settings), 'rules')} changes a configuration: give config")
    wanted = None if config is None else _config(config, rules, settings)
    with model_file(model) as path, sample_arguments(data, labels, image, samples, shard) as source, Reporting(progress) as callback:
        result = _native.calibrate(path, Path(output), source, wanted, per_channel, as_is, _count("most_failures", most_failures),
                                   _count("threads", threads), callback)
    warn_of_left_out(result.left_out)
    return result


def warn_of_left_out(names: Sequence[str]) -> None:
    if names:
        warnings.warn(f"{len(names)} samples failed and were left out: {', '.join(map(repr, names))}", stacklevel=3)


def merge(files: Sequence[PathLike], output: PathLike,
          most_failures: Optional[int] = None) -> Union[_native.Calibration, _native.EvaluationReport, _native.MomentsReport, int]:
    """Adds up files of calibrate(), evaluate(), moments() or tune(), or of sensitivity(shard=...), of one model: exactly, in any order.

    Args:
        most_failures: how many samples may have been left out in all, because they failed (default: any number).

    Returns:
        What the sum holds: the statistics, the report, what the file of moments holds, or the number of layers.
    """
    return _native.merge([existing(path, "calibration, evaluation, moments or journal") for path in files], Path(output), most_failures)


def read_evaluation(path: PathLike) -> _native.EvaluationReport:
    return _native.read_evaluation(existing(path, "evaluation"))


def read_calibration(path: PathLike) -> _native.Calibration:
    return _native.read_calibration(existing(path, "calibration"))


def evaluate(model: Model, data: Data, reference: Optional[Model] = None, *, image: str = "",
             labels: Union[PathLike, Sequence[int], None] = None, batch_size: Optional[int] = None, samples: int = 0,
             output: Optional[PathLike] = None, shard: str = "", processor: str = "here", most_failures: int = 0, threads: int = 0,
             progress: Progress = None) -> _native.EvaluationReport:
    """Accuracy, closeness to a reference model, time and size.

    Arguments that are not listed are those of quantize().

    Args:
        data: as of quantize().
        reference: the float model to compare with.
        labels: of a folder: a CSV with the columns file,class, and without it one subfolder a class is a label too; of
            other data: the class of each sample.
        batch_size: samples in one run of a model (default: 20).
        output: an evaluation file to write, for merge(). Samples run one at a time then, and no times are measured.
        shard: only one part of the samples: "2/8" is the second of eight.
        processor: compute integer products as x86 with VNNI does ("vnni"), or without it ("no_vnni"): simulated where this
            machine is of the other kind, and then times say nothing.
        most_failures: as of calibrate().
    """
    use_onnxruntime()
    if output is not None and batch_size not in (None, 1):
        raise InvalidArgumentError(f"batch_size={batch_size}: with output, samples run one at a time")
    size = 20 if batch_size is None else _count("batch_size", batch_size, 1)
    written = None if output is None else Path(output)
    with model_file(model) as path, sample_arguments(data, labels, image, samples, shard) as source, Reporting(progress) as callback:
        with model_file(reference) if reference is not None else contextlib.nullcontext() as reference_path:
            result = _native.evaluate(path, reference_path, written, source, size, processor, _count("most_failures", most_failures),
                                      _count("threads", threads), callback)
    warn_of_left_out(result.left_out)
    return result


def check(model: Model, data: Optional[Data] = None, *, image: str = "", labels: Optional[PathLike] = None) -> _native.TargetReport:
    """What ONNX Runtime on this machine makes of a model: whether it loads and runs, what computes on integers."""
    use_onnxruntime()
    with model_file(model) as path, sample_arguments(data, labels, image) as source:
        return _native.check(path, source)


def inspect(model: Model) -> _native.InspectReport:
    """What is in a model file, as it is."""
    with model_file(model) as path:
        return _native.inspect(path)


def unpack(model: Model, output: PathLike, *, drop_quantizers: bool = False, external_data: bool = False, check: bool = True,
           threads: int = 0, progress: Progress = None) -> _native.UnpackReport:
    """Writes the float equivalent of a packed model: weights as the floats that their codes mean.

    Arguments that are not listed are those of quantize().

    Args:
        drop_quantizers: take the quantizers of activations out as well; the outputs change.
    """
    use_onnxruntime()
    with model_file(model) as path, Reporting(progress) as callback:
        return _native.unpack(path, Path(output), drop_quantizers, external_data, check, _count("threads", threads), callback)


def optimize(model: Model, output: PathLike, *, check: bool = True) -> _native.OptimizeReport:
    """Makes a model faster on machines like this one, with the same outputs; the last step before it is deployed.

    Arguments are as of quantize().
    """
    use_onnxruntime()
    with model_file(model) as path:
        return _native.optimize(path, Path(output), check)
