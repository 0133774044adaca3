"""Quantizing a model, the plan for it, and fine-tuning in parts: moments of some of the samples, and layers that learn from the sum.

Made from python/quantize.py.in by python/make_functions.py, which puts in the options that the library lists (list_options).
"""

import contextlib
import os
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
from bitpress._text import Tokens


@contextlib.contextmanager
def _arguments(config: Optional[ConfigLike], plan: Union[PathLike, Plan, None], rules: Sequence[Rule], settings: Mapping[str, Any],
               options: Mapping[str, Any]) -> Iterator[_native.QuantizeArguments]:
    """What the library takes; a plan lies in a file, as the library reads it."""
    arguments = _native.QuantizeArguments()
    for option in _native.list_options():
        value = options.get(option.key)
        if value is not None:
            arguments.set(option.key, existing(value, option.key) if option.is_read else value)
    with tempfile.TemporaryDirectory(prefix="bitpress-") as folder:
        if plan is None:
            if config is None:
                raise InvalidArgumentError("neither config nor plan is given: config is a preset, a format, a .json file or a Config")
            arguments.set_config(_config(config, rules, settings))
        else:
            if rules:
                raise InvalidArgumentError("a plan holds the decisions already; rules cannot change them")
            file = Path(folder) / "plan.json" if isinstance(plan, Plan) else existing(plan, "plan")
            if isinstance(plan, Plan):
                plan.save(file)
            arguments.set_plan(file, [(key, _setting_text(key, value)) for key, value in settings.items()])
        yield arguments


def quantize(model: Model, output: PathLike, config: Optional[ConfigLike] = None, data: Optional[Data] = None, *,
             plan: Union[PathLike, Plan, None] = None, image: str = "", labels: Optional[PathLike] = None, samples: int = 0,
             rules: Sequence[Rule] = (),
             calibration: Optional[PathLike] = None, kv_scales: Optional[PathLike] = None, as_is: bool = False,
             disable_pass: Sequence[str] = (), threads: int = 0, save_kv_scales: Optional[PathLike] = None, storage: str = "packed",
             target: str = "auto", accuracy_level: int = 4, form: str = "qdq", portable: bool = True, external_data: bool = False,
             check: bool = True,
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
        image: how photos in a folder become tensors: "resize=256,crop=224,mean=0.5,std=0.5".
        labels: of a folder: a CSV with the columns file,class; only the listed files count.
        samples: at most so many; 0: all for scales, the first 100 for fine-tuning.
        rules: other settings for some nodes or tensors.
        calibration: the statistics of activations for integer formats: a file of `calibrate`, instead of samples.
        kv_scales: the scales of key-value caches of integers (kv_cache=int8): a JSON file as ONNX Runtime GenAI's
            kv_cache_scale_file, instead of samples.
        as_is: do not fold constants and BatchNorm first; needed for models with operators that ONNX Runtime on this machine does
            not have.
        disable_pass: leave a step out, to find the one that a difference comes from.
        threads: number of threads; 0: all cores.
        save_kv_scales: also write the scales of the caches to such a file.
        storage: the storage of weights. packed: codes and scales at their real width; simulated: the quantized values as float32;
            qdq: integers as codes behind a DequantizeLinear, also those of INT4 in blocks, and floats behind the quantizers of
            activations for other formats.
        target: the operators of weights in blocks. auto: bitpress for block formats, but for convolutions that are faster as floats
            and FLOAT16 products; portable for integers and with operators=quark; bitpress: matrix products and convolutions of our
            library, which compute from the codes of all block formats and are functions of standard operators without it, and
            MatMulNBits and GatherBlockQuantized for integers; portable: standard operators, which decode the weights when the model
            is loaded; onnxruntime: MatMulNBits and GatherBlockQuantized, which compute from the codes of integers, MXINT8, MX6,
            MX4, MXFP4 and MXFP6E2M3.
        accuracy_level: the accuracy of MatMulNBits. 4: activations are rounded to 8 bits at run time; 1: activations stay float,
            for weights of 4 bits only.
        form: the form of integer models. qdq: float operators between DequantizeLinear and QuantizeLinear; qoperator: QLinearConv,
            QLinearMatMul, QGemm and other operators on integers.
        portable: write quantizers also as functions of standard operators, so that the model runs without Bitpress's operator
            library, but slower; otherwise it runs with the library only.
        external_data: store the weights in a file of their own, OUTPUT.data; models over 2 GB always do.
        check: load and run the model in a process of its own before it is put in its place. One that crashes ONNX Runtime, or does
            not load or run there, is not written then.
        progress: called with (stage, done, total); True, False, or None: a bar where standard error is a terminal.
        settings: changes of the configuration, as in Config.

    Returns:
        The report, whose text (`print(report)`) is the verdict: size, closeness, time, and what computes how.

    Warns:
        QuantizationWarning: for each thing that a user of the model should know; `report.warnings` has them, too.

    Raises:
        Error: see its kin. Nothing is written then, nor after Ctrl-C.
    """
    options = {"calibration": calibration, "kv_scales": kv_scales, "as_is": as_is, "disable_pass": disable_pass, "threads": threads,
               "save_kv_scales": save_kv_scales, "storage": storage, "target": target, "accuracy_level": accuracy_level,
               "form": form, "portable": portable, "external_data": external_data, "check": check,}
    use_onnxruntime()
    replaced = _native.replaced_data_note(Path(output))
    if replaced:
        warn(QuantizationWarning(replaced, "removed"))
    with _arguments(config, plan, rules, settings, options) as arguments, model_file(model) as path:
        with sample_arguments(data, labels, image, samples) as source, Reporting(progress) as callback:
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


def moments(model: Model, data: Data, output: PathLike, config: Optional[ConfigLike] = None, *, plan: Union[PathLike, Plan, None] = None,
            image: str = "", labels: Optional[PathLike] = None, samples: int = 0, shard: str = "", first: int = 0, total: int = 0,
            rules: Sequence[Rule] = (),
            calibration: Optional[PathLike] = None, kv_scales: Optional[PathLike] = None, as_is: bool = False,
            disable_pass: Sequence[str] = (), threads: int = 0,
            progress: Progress = None, **settings: Any) -> _native.MomentsReport:
    """Gathers what fine-tuning learns from, from some of the samples, and writes it.

    tune() learns from the sum of all parts. Arguments that are not listed are those of quantize(), with a recipe of fine-tuning.

    Args:
        output: the file to write (.bpm); merge() adds up those of all parts.
        shard: only one part of the samples: "2/8" is the second of eight.
        first: of samples in memory: how many come before them. With `first` or `total` all given samples count.
        total: how many there are in all; 0: nobody knows before the end.
    """
    options = {"calibration": calibration, "kv_scales": kv_scales, "as_is": as_is, "disable_pass": disable_pass, "threads": threads,}
    use_onnxruntime()
    is_part = _count("first", first) > 0 or _count("total", total) > 0
    if is_part and (shard or isinstance(data, (str, os.PathLike, Tokens))):
        raise InvalidArgumentError("first and total are for samples in memory; of files, shard takes a part")
    part_of = (first, total) if is_part else None
    with _arguments(config, plan, rules, settings, options) as arguments, model_file(model) as path, Reporting(progress) as callback:
        with sample_arguments(data, labels, image, samples, shard, part_of) as source:
            return _native.moments(path, Path(output), source, arguments, callback)


def tune(model: Model, moments: PathLike, output: PathLike, config: Optional[ConfigLike] = None, data: Optional[Data] = None, *,
         plan: Union[PathLike, Plan, None] = None, layers: str = "", image: str = "", labels: Optional[PathLike] = None, samples: int = 0,
         rules: Sequence[Rule] = (),
         calibration: Optional[PathLike] = None, kv_scales: Optional[PathLike] = None, as_is: bool = False,
         disable_pass: Sequence[str] = (), threads: int = 0,
         progress: Progress = None, **settings: Any) -> _native.TuneReport:
    """Learns some of the layers from the moments of all samples, and writes them to a journal.

    With the journals of all parts merged to OUTPUT.journal, quantize() to OUTPUT goes on from there, and gives the same bytes as
    alone. Arguments that are not listed are those of quantize().

    Args:
        moments: a file of moments() or merge().
        output: the journal to write. A call that was stopped goes on from it.
        data: only where scales follow from samples: integers without `calibration`, and the guard.
        layers: only one part of the layers: "3/16" is the third of sixteen.
    """
    options = {"calibration": calibration, "kv_scales": kv_scales, "as_is": as_is, "disable_pass": disable_pass, "threads": threads,}
    use_onnxruntime()
    with _arguments(config, plan, rules, settings, options) as arguments, model_file(model) as path:
        with sample_arguments(data, labels, image, samples) as source, Reporting(progress) as callback:
            return _native.tune(path, existing(moments, "moments"), Path(output), layers, source, arguments, callback)
