"""Configurations and plans, and the functions of the interface that check arguments and pass models and samples on to the library."""

import contextlib
import json
import os
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple, Union

from bitpress import _native
from bitpress._errors import ArgumentTypeError, InvalidArgumentError, warn
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
    """What to make of a model: a format or preset, and changes of single settings.

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
    """The decision for every tensor. `data` is the JSON object of a plan file, which may be edited."""

    def __init__(self, text: str) -> None:
        self.data: Dict[str, Any] = json.loads(text)
        self.imported: Optional[_native.ImportReport] = None  # what plan(like=...) took

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

    def export(self, path: PathLike, kind: str = "aimet-1.0.0") -> List[str]:
        """Writes the decisions as a file of another tool: "aimet-0.6.1", "aimet-1.0.0", "aimet-2.0.0", "aimet-2.1.0",
        "onnxruntime" (TensorQuantOverrides), "nncf" (IgnoredScope), "genai" (QuantConfig) or "quark" (QConfig). Returns what such
        a file cannot say."""
        text, notes = _native.export_decisions(json.dumps(self.data), None, kind)
        Path(path).write_text(text, encoding="utf-8")
        return notes

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
    """The names of all presets; each also as NAME_ADAQUANT, NAME_ADAROUND and NAME_BLOCKS."""
    return list(_native.list_presets())


def settings() -> Dict[str, Tuple[str, str]]:
    """Every setting: key -> (allowed values, what it means)."""
    return {key: (allowed, meaning) for key, allowed, meaning in _native.list_settings()}


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
        warn(UserWarning(f"{len(names)} samples failed and were left out: {', '.join(map(repr, names))}"))


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
             output: Optional[PathLike] = None, shard: str = "", processor: str = "here", task: str = "auto", most_failures: int = 0,
             threads: int = 0, progress: Progress = None) -> _native.EvaluationReport:
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
        task: in whose terms the model is measured besides: classes, detection, segmentation, embedding, text, regression, "auto"
            (found from the outputs) or "none"; settings follow behind a colon: "detection:layout=yolo8,labels=instances.json".
            With `output`, only a task that is named is measured, because parts may find different ones.
        most_failures: as of calibrate().
    """
    use_onnxruntime()
    if output is not None and batch_size not in (None, 1):
        raise InvalidArgumentError(f"batch_size={batch_size}: with output, samples run one at a time")
    size = 20 if batch_size is None else _count("batch_size", batch_size, 1)
    written = None if output is None else Path(output)
    with model_file(model) as path, sample_arguments(data, labels, image, samples, shard) as source, Reporting(progress) as callback:
        with model_file(reference) if reference is not None else contextlib.nullcontext() as reference_path:
            result = _native.evaluate(path, reference_path, written, source, size, processor, task, _count("most_failures", most_failures),
                                      _count("threads", threads), callback)
    warn_of_left_out(result.left_out)
    return result


def check(model: Model, data: Optional[Data] = None, *, image: str = "", labels: Optional[PathLike] = None,
          target: PathLike = "auto") -> _native.TargetReport:
    """Tells what ONNX Runtime on this machine makes of a model: whether it loads and runs, what computes on integers.

    Arguments that are not listed are those of evaluate().

    Args:
        target: a name that `bitpress targets` lists, or a JSON file: what its rules do not take is in `broken_rules`, and what is
            legal and slow in `advice`.
    """
    use_onnxruntime()
    with model_file(model) as path, sample_arguments(data, labels, image) as source:
        return _native.check(path, source, os.fspath(target))


def inspect(model: Model) -> _native.InspectReport:
    """Describes a model file as it is."""
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


def hub(folder: PathLike, output: PathLike, dtypes: Sequence[str] = (), data: Optional[Data] = None, *, budget: str = "", image: str = "",
        samples: int = 0, threads: int = 0, progress: Progress = None) -> _native.HubReport:
    """Makes the files of a model folder under the names that transformers.js, sentence-transformers and ONNX Runtime GenAI look for.

    Arguments that are not listed are those of quantize().

    Args:
        folder: config.json, the tokenizer, and onnx/ with float models.
        output: the folder to write; may be `folder` itself.
        dtypes: the files to make: fp32, fp16, q8, int8, uint8, q4, q4f16, qint8_avx512_vnni, qint8_avx512, qint8_arm64,
            quint8_avx2; nothing: those without the name of a processor.
        budget: chooses one file for each float model (report.choice): "bytes<=60MB" or "bytes<=30%" of all of them together, "loss<=1%" of
            each one, the energy of its error. Nothing: nothing is chosen.
        data: what the files are compared with the float model on. Without it, models that take tokens get random ones.
    """
    use_onnxruntime()
    with sample_arguments(data, None, image, samples) as source, Reporting(progress) as callback:
        return _native.hub(existing(folder, "folder"), Path(output), list(dtypes), budget, source, _count("threads", threads), callback)


def optimize(model: Model, output: PathLike, *, check: bool = True) -> _native.OptimizeReport:
    """Makes a model faster on machines like this one, with the same outputs; the last step before it is deployed.

    Arguments are as of quantize().
    """
    use_onnxruntime()
    with model_file(model) as path:
        return _native.optimize(path, Path(output), check)
