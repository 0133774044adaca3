"""quantize and autotune."""

import tempfile
from pathlib import Path
from typing import Any, Callable, Optional, Sequence, Tuple

import bitpress
from bitpress._errors import InvalidArgumentError
from bitpress._files import Model, PathLike, model_file
from bitpress.compat import _fates
from bitpress.compat._samples import learning_from_all
from bitpress.compat.neural_compressor._translate import translate
from bitpress.compat.neural_compressor._types import BaseConfig, TuningConfig


def _write(model: Model, output: Path, config: BaseConfig, data: Any) -> None:
    request = translate(config, model)
    made = bitpress.Config.from_json(f'{{"name": "{config.name}"}}').changed(rules=request.rules, **learning_from_all(request.settings))
    _fates.say_unmatched(bitpress.quantize(model, output, made, data, **request.arguments))


def _load(path: Path) -> Any:
    import onnx  # takes a while, and most scripts write a file

    return onnx.load(str(path))


def quantize(model_input: Model, model_output: Optional[PathLike], quant_config: BaseConfig, optimization_level: Any = None,
             calibration_data_reader: Any = None) -> Any:
    """Writes the quantized model.

    Args:
        model_input: a path or an object with SerializeToString().
        model_output: the file to write; None: the model is returned.
        quant_config: any configuration of this dialect.
        optimization_level: models are always prepared by ONNX Runtime's basic optimizations.
        calibration_data_reader: samples, where the configuration has none.

    Returns:
        An onnx.ModelProto if there is no `model_output`, otherwise None.
    """
    if optimization_level is not None and "BASIC" not in str(optimization_level):
        _fates.say(f"optimization_level={optimization_level} changes nothing here: models are prepared by the basic optimizations")
    data = getattr(quant_config, "calibration_data_reader", None) or calibration_data_reader
    if model_output is not None:
        _write(model_input, Path(model_output), quant_config, data)
        return None
    with tempfile.TemporaryDirectory(prefix="bitpress-") as folder:
        path = Path(folder) / "quantized.onnx"
        _write(model_input, path, quant_config, data)
        return _load(path)


def autotune(model_input: Model, tune_config: TuningConfig, eval_fn: Callable[..., float], eval_args: Optional[Sequence[Any]] = None,
             calibration_data_reader: Any = None) -> Any:
    """Tries configurations in their order.

    Args:
        eval_fn: called with the path of a model and eval_args; gives a number that is better the larger it is.
        calibration_data_reader: samples; read once for each configuration that needs them, so it needs rewind().

    Returns:
        The onnx.ModelProto of the first configuration that loses at most `tolerable_loss` of the float model's result,
        otherwise of the best one.
    """
    configs = tune_config.config_set[: tune_config.max_trials]
    if not configs:
        raise InvalidArgumentError("TuningConfig: there is no configuration to try (max_trials, config_set)")
    arguments = tuple(eval_args or ())
    best: Optional[Tuple[float, Path]] = None
    with model_file(model_input) as source, tempfile.TemporaryDirectory(prefix="bitpress-") as folder:
        wanted = eval_fn(str(source), *arguments) * (1 - tune_config.tolerable_loss)
        for number, config in enumerate(configs):
            path = Path(folder) / str(number) / "quantized.onnx"
            path.parent.mkdir()
            _write(source, path, config, getattr(config, "calibration_data_reader", None) or calibration_data_reader)
            result = eval_fn(str(path), *arguments)
            if best is None or result > best[0]:
                best = (result, path)
            if result >= wanted:
                return _load(path)
        assert best is not None
        return _load(best[1])
