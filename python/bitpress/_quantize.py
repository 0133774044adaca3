"""Quantizing a model, and the plan for it."""

import contextlib
import tempfile
from pathlib import Path
from typing import Any, Iterator, Mapping, Optional, Sequence, Tuple, Union

from bitpress import _native
from bitpress._api import ConfigLike, Plan, Rule, _config, _count, _setting_text
from bitpress._errors import InvalidArgumentError, QuantizationWarning, warn
from bitpress._files import Model, PathLike, existing, model_file
from bitpress._progress import Progress, Reporting
from bitpress._runtime import use_onnxruntime
from bitpress._samples import Data, sample_arguments


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
    arguments.storage, arguments.target, arguments.form = "packed", "auto", "qdq"
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
             target: str = "auto", accuracy_level: int = 4, form: str = "qdq", portable: bool = True,
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
        target: the operators of weights in blocks. `auto`: those of the `bitpress` library for block formats, which compute from
            codes and have functions of ONNX operators for sessions without it, and `portable` ones for integers; or
            `portable`, `onnxruntime` (MatMulNBits) or `bitpress` for all of them.
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

    Returns:
        The report, whose text (`print(report)`) is the verdict: size, closeness, time, and what computes how.

    Warns:
        QuantizationWarning: for each thing that a user of the model should know; `report.warnings` has them, too.

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
    replaced = _native.replaced_data_note(Path(output))
    if replaced:
        warn(QuantizationWarning(replaced, "removed"))
    with _plan_file(plan, arguments), model_file(model) as path, sample_arguments(data, labels, image, samples) as source:
        with Reporting(progress) as callback:
            report = _native.quantize(path, Path(output), source, arguments, callback)
    for kind, text in report.warnings:
        warn(QuantizationWarning(text, kind))
    return report


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
