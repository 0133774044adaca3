"""quantize and autotune."""

import contextlib
import os
import tempfile
from pathlib import Path
from typing import Any, Callable, Iterator, Optional, Sequence, Tuple

import numpy as np

import bitpress
from bitpress._errors import ArgumentTypeError, InvalidArgumentError, UnsupportedError
from bitpress._files import Model, PathLike, existing, model_file
from bitpress.compat import _fates
from bitpress.compat._samples import learning_from_all
from bitpress.compat.neural_compressor import _checks
from bitpress.compat.neural_compressor._translate import translate
from bitpress.compat.neural_compressor._tuning import TuningConfig, config_of
from bitpress.compat.neural_compressor._types import BaseConfig, ComposableConfig

# Selectors of rules, by the script's word that they come from.
_SELECTORS = {"not_op_types": "op_types_to_quantize", "not_names": "nodes_to_quantize", "names": "nodes_to_exclude", "nodes": "set_local",
              "op_types": "set_local"}
_LEVELS = ("ORT_DISABLE_ALL", "ORT_ENABLE_BASIC", "ORT_ENABLE_EXTENDED", "ORT_ENABLE_LAYOUT", "ORT_ENABLE_ALL")


def _is_as_is(level: Any) -> bool:
    """Returns whether a level of optimization says that the model is not prepared."""
    name = getattr(level, "name", level)
    if name is None:
        return False
    if name not in _LEVELS:
        raise InvalidArgumentError(f"optimization_level={level!r}: expected one of {', '.join(_LEVELS)} (onnxruntime.GraphOptimizationLevel)")
    if name not in ("ORT_DISABLE_ALL", "ORT_ENABLE_BASIC"):
        _fates.say(f"optimization_level={name} changes nothing here: models are prepared by the basic optimizations")
    return bool(name == "ORT_DISABLE_ALL")


def _samples(config: BaseConfig, given: Any) -> Any:
    """The samples of a configuration, or those that are given besides."""
    own = getattr(config, "calibration_data_reader", None)
    data = given if own is None else own
    if data is not None:
        _checks.check({"calibration_data_reader": data}, {"calibration_data_reader": _checks.SAMPLES}, type(config).__name__)
    return data


def _write(model: Model, output: Path, config: BaseConfig, data: Any, as_is: bool) -> None:
    where = type(config).__name__
    request = translate(config, model)
    settings = request.settings
    if data is None and ("finetune" in settings or settings.get("activation_range", "dynamic") != "dynamic"):
        raise InvalidArgumentError(f"{where} needs samples: calibration_data_reader is not given")
    made = bitpress.Config.from_json(f'{{"name": "{config.name}"}}').changed(rules=request.rules, **learning_from_all(settings))
    report = bitpress.quantize(model, output, made, data, as_is=as_is, **request.arguments)
    words = {**_SELECTORS, "not_op_types": "op_types_to_quantize" if "op_types_to_quantize" in config.given else "white_list",
             **request.selectors}
    _fates.say_report(report, words, request.quiet)
    if request.arguments.get("form") == "qoperator" and "quant_format" in config.given:
        _fates.say_left(report, "quant_format=QOperator")


@contextlib.contextmanager
def _source(model_input: Any) -> Iterator[Path]:
    """The given model as a file."""
    if isinstance(model_input, (str, os.PathLike)):
        existing(model_input, "model_input")
    elif not isinstance(model_input, bytes) and not hasattr(model_input, "SerializeToString"):
        raise ArgumentTypeError(f"model_input is {type(model_input).__name__}; expected a path or an onnx.ModelProto")
    with model_file(model_input) as source:
        yield source


def _load(path: Path) -> Any:
    import onnx  # takes a while, and most scripts write a file

    return onnx.load(str(path))


def quantize(model_input: Model, model_output: Optional[PathLike], quant_config: BaseConfig, optimization_level: Any = None,
             calibration_data_reader: Any = None) -> Any:
    """Writes the quantized model.

    Args:
        model_input: a path or an object with SerializeToString().
        model_output: the file to write; None: the model is returned.
        quant_config: any configuration of this dialect, or a dict {"rtn": {...}}.
        optimization_level: ORT_DISABLE_ALL leaves the preparation by ONNX Runtime's basic optimizations out.
        calibration_data_reader: samples, where the configuration has none.

    Returns:
        An onnx.ModelProto if there is no `model_output`, otherwise None.
    """
    config = config_of(quant_config, "quant_config")
    if isinstance(config, ComposableConfig):
        raise UnsupportedError(f"quant_config: ComposableConfig of {', '.join(part.name for part in config.config_list)} is refused: a model is "
                               "quantized by one of them. Instead: one configuration, or tuning.autotune, which tries each")
    if model_output is not None and not isinstance(model_output, (str, os.PathLike)):
        raise ArgumentTypeError(f"model_output is {type(model_output).__name__}; expected the path of a file to write, or None")
    as_is, data = _is_as_is(optimization_level), _samples(config, calibration_data_reader)
    with _source(model_input) as source, tempfile.TemporaryDirectory(prefix="bitpress-") as folder:
        path = Path(folder) / "quantized.onnx" if model_output is None else Path(model_output)
        _write(source, path, config, data, as_is)
        return _load(path) if model_output is None else None


def _evaluated(eval_fn: Any, path: Path, arguments: Tuple[Any, ...]) -> float:
    result = eval_fn(str(path), *arguments)
    try:
        number = float(result)
    except (TypeError, ValueError) as error:
        raise ArgumentTypeError(f"eval_fn gave {result!r}; expected a number that is better the larger it is") from error
    if np.isnan(number):
        raise InvalidArgumentError("eval_fn gave NaN; expected a number that is better the larger it is")
    return number


def autotune(model_input: Model, tune_config: TuningConfig, eval_fn: Callable[..., float], eval_args: Optional[Sequence[Any]] = None,
             calibration_data_reader: Any = None, optimization_level: Any = None) -> Any:
    """Tries configurations in their order.

    Args:
        eval_fn: called with the path of a model and eval_args; gives a number that is better the larger it is.
        calibration_data_reader: samples; read once for each configuration that needs them, so it needs rewind().
        optimization_level: as of quantize().

    Returns:
        The onnx.ModelProto of the first configuration that loses at most `tolerable_loss` of the float model's result,
        otherwise of the best one.
    """
    if not isinstance(tune_config, TuningConfig):
        raise ArgumentTypeError(f"tune_config is {type(tune_config).__name__}; expected a TuningConfig")
    if not callable(eval_fn):
        raise ArgumentTypeError(f"eval_fn is {type(eval_fn).__name__}; expected a function of the path of a model")
    if eval_args is not None and not isinstance(eval_args, (list, tuple)):
        raise ArgumentTypeError(f"eval_args={eval_args!r}: expected a list of arguments of eval_fn")
    arguments, as_is = tuple(eval_args or ()), _is_as_is(optimization_level)
    best: Optional[Tuple[float, Path]] = None
    with _source(model_input) as source, tempfile.TemporaryDirectory(prefix="bitpress-") as folder:
        wanted = _evaluated(eval_fn, source, arguments) * (1 - tune_config.tolerable_loss)
        for number, config in enumerate(tune_config.trials()):
            path = Path(folder) / str(number) / "quantized.onnx"
            path.parent.mkdir()
            data = _samples(config, calibration_data_reader)
            if hasattr(data, "rewind"):
                data.rewind()
            _write(source, path, config, data, as_is)
            result = _evaluated(eval_fn, path, arguments)
            if best is None or result > best[0]:
                best = (result, path)
            if result >= wanted:
                return _load(path)
        assert best is not None
        _fates.say(f"autotune: no configuration is within tolerable_loss={tune_config.tolerable_loss}: the best of them is returned")
        return _load(best[1])
