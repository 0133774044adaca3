"""ModelQuantizer: runs bitpress.quantize with what a configuration of Quark's means."""

import contextlib
import os
from pathlib import Path
from typing import Any, Iterator, Mapping, Optional, Sequence

import numpy as np

import bitpress
from bitpress._errors import InvalidArgumentError, UnsupportedError
from bitpress._files import Model, PathLike
from bitpress._samples import SharedSamples
from bitpress.compat import _fates
from bitpress.compat._samples import learning_from_all
from bitpress.compat.quark._algorithms import Request, Target
from bitpress.compat.quark._judge import OutputMetric
from bitpress.compat.quark._translate import translate
from bitpress.compat.quark._types import AlgoConfig, QConfig, QuantizationConfig

_NUM_RANDOM_SAMPLES = 10
_SEED = 1705472343
# The operators that a search can lower.
_SEARCHED = {"Conv", "ConvTranspose", "Gemm", "MatMul", "FusedConv", "FusedGemm", "FusedMatMul", "LSTM", "GRU", "RNN"}


class RandomDataReader:
    """Samples of random numbers, the same ones in every run.

    Args:
        model: its inputs are looked up, unless `shapes` has them.
        shapes: of each input; dimensions that are not known are 1.
        ranges: smallest and largest value of each input; nothing: 0 to 1.
    """

    def __init__(self, model: Model, shapes: Optional[Mapping[str, Sequence[int]]] = None,
                 ranges: Optional[Mapping[str, Sequence[float]]] = None) -> None:
        found = bitpress.inspect(model).input_shapes
        self._shapes = {name: (shapes or {}).get(name, [max(size, 1) for size in shape]) for name, shape in found.items()}
        if ranges is not None and set(self._shapes) - set(ranges):
            raise InvalidArgumentError(f"RandomDataReaderInputDataRange lacks the input '{min(set(self._shapes) - set(ranges))}'")
        self._ranges = ranges
        self.rewind()

    def rewind(self) -> None:
        self._samples = self._make()

    def get_next(self) -> Optional[Mapping[str, Any]]:
        return next(self._samples, None)

    def _make(self) -> Iterator[Mapping[str, Any]]:
        random = np.random.default_rng(_SEED)
        for _ in range(_NUM_RANDOM_SAMPLES):
            yield {name: self._values(random, name, shape) for name, shape in self._shapes.items()}

    def _values(self, random: np.random.Generator, name: str, shape: Sequence[int]) -> Any:
        low, high = self._ranges[name] if self._ranges is not None else (0, 1)
        return random.uniform(low, high, shape).astype(np.float32)


def _config(request: Request) -> bitpress.Config:
    settings, rules = learning_from_all(request.settings), list(request.rules)
    if request.only_op_types:
        rules.append({"not_op_types": list(request.only_op_types), "exclude": True, "optional": True})
    name = f"quark {settings['activations']}/{settings['weights']}"
    return bitpress.Config.from_json(f'{{"name": "{name}"}}').changed(rules=rules, **settings)


def _search(request: Request, target: Target, config: bitpress.Config, model: Model, data: Any) -> bitpress.Plan:
    """The plan with as many layers lowered as the target allows."""
    others = set(target.op_types) & set(bitpress.inspect(model).operators) - _SEARCHED
    if others:
        raise UnsupportedError(f"automatic mixed precision: {', '.join(sorted(others))} among the target operator types (TargetOpType, "
                               "target_op_type) is refused with a target: only operators that multiply are searched. Instead: leave it "
                               "out, or name no target")
    if data is None:
        raise InvalidArgumentError(f"automatic mixed precision with a target ({target.text}) needs samples: calibration_data_reader")
    num_samples = request.arguments.get("samples", 0)
    metric = None
    if target.judge is not None:
        if not isinstance(data, SharedSamples):
            raise InvalidArgumentError("automatic mixed precision with a function that judges outputs needs a calibration_data_reader")
        metric = OutputMetric(target.judge, data, num_samples)
    found = bitpress.search(model, data, target=target.text, strategy=target.strategy, cost="mac_bits", config=config, progress=False,
                            variants=[target.changes], layer_types=target.op_types, layer_names=target.names,
                            kept_layers=target.kept_names, output_index=target.output_index, metric=metric, samples=num_samples,
                            as_is=request.arguments.get("as_is", False))
    if not found.is_reached:
        _fates.say(f"automatic mixed precision: the target {target.text} is not reached: {found.data['why_not']}")
    return found.plan


class ModelQuantizer:
    """Quantizes models as a Config, QuantizationConfig or QConfig says.

    Args:
        config: the configuration.
        operators: "quark": activations get Quark's own operators (MXQuantizeDequantize, BFPQuantizeDequantize, and the
            pairs ExtendedQuantizeLinear, ExtendedDequantizeLinear) for its library; "bitpress": ours, which sessions
            without a library can run too.
    """

    def __init__(self, config: Any, operators: str = "bitpress") -> None:
        self.config = config
        self._operators = operators
        self._request = self._translated(config)

    def quantize_model(self, model_input: Model, model_output: Optional[PathLike] = None, calibration_data_reader: Any = None,
                       calibration_data_path: Optional[PathLike] = None, algorithms: Optional[Sequence[AlgoConfig]] = None) -> Any:
        """Writes the quantized model.

        Args:
            model_input: a path or an onnx.ModelProto.
            model_output: the file to write; None: the model is returned.
            calibration_data_reader: a reader with get_next(), perhaps also rewind(), or an iterable of dicts.
            calibration_data_path: or a folder of `.npy` files.
            algorithms: further algorithms, as algo_config.

        Returns:
            An onnx.ModelProto if there is no `model_output`, otherwise None.
        """
        request = self._request if not algorithms else self._with_algorithms(algorithms)
        data = calibration_data_path if calibration_data_reader is None else calibration_data_reader
        if data is None and request.random_shapes is not None:
            data = RandomDataReader(model_input, request.random_shapes, request.random_ranges)
        if request.target is None or data is None or isinstance(data, (str, os.PathLike)):
            return self._quantize(request, model_input, model_output, data)
        # The search, judges of outputs and what follows read them in turn.
        with contextlib.closing(SharedSamples(data)) as samples:
            return self._quantize(request, model_input, model_output, samples)

    def _quantize(self, request: Request, model_input: Model, model_output: Optional[PathLike], data: Any) -> Any:
        arguments = dict(request.arguments)
        config: Any = _config(request)
        if request.target is not None:
            # The plan that was found holds the decisions of the configuration too.
            arguments["plan"], config = _search(request, request.target, config, model_input, data), None
        if model_output is not None:
            _fates.say_unmatched(bitpress.quantize(model_input, Path(model_output), config, data, **arguments))
            return None
        if arguments.pop("external_data", False):
            _fates.say("use_external_data_format=True: the model is returned, with its data inside")
        import onnx  # takes a while, and most scripts write a file

        made, report = bitpress.quantize_to_bytes(model_input, config, data, **arguments)
        _fates.say_unmatched(report)
        return onnx.load_from_string(made)

    def _translated(self, config: Any) -> Request:
        if self._operators not in ("bitpress", "quark"):
            raise InvalidArgumentError(f"operators={self._operators!r}: expected 'bitpress' or 'quark'")
        request = translate(config)
        if self._operators == "quark":
            if request.settings.get("operators") == "cast":
                raise InvalidArgumentError("operators='quark' and BF16QDQToCast=True: a value has the one or the other; give one of them")
            request.settings["operators"] = "quark"
        return request

    def _with_algorithms(self, algorithms: Sequence[AlgoConfig]) -> Request:
        config = self.config
        if not isinstance(config, QConfig):
            raise InvalidArgumentError("algorithms go with a QConfig")
        return self._translated(QConfig(config.global_config, config.specific_layer_config, config.layer_type_config, config.exclude,
                                        [*config.algo_config, *algorithms], config.use_external_data_format, config.extra_options))


def quantize_static(model_input: Model, model_output: PathLike, calibration_data_reader: Any = None, **options: Any) -> None:
    """Quark's function: the fields of QuantizationConfig as arguments."""
    ModelQuantizer(QuantizationConfig(**options)).quantize_model(model_input, model_output, calibration_data_reader)


def quantize_dynamic(model_input: Model, model_output: PathLike, **options: Any) -> None:
    """Quark's function: the fields of QuantizationConfig as arguments."""
    ModelQuantizer(QuantizationConfig(**{"use_dynamic_quant": True, **options})).quantize_model(model_input, model_output)


def get_library_path(device: str = "CPU") -> str:
    """The operator library. One file serves all devices; a notice says what runs there."""
    name = device.upper()
    if name not in ("CPU", "CUDA", "ROCM"):
        raise InvalidArgumentError(f"there is no device '{device}'; it is one of CPU, CUDA, ROCM")
    if name == "CUDA":
        _fates.say(f"get_library_path('{device}'): quantizers and the extended Q/DQ pairs run on the GPU in sessions with CUDAExecutionProvider, "
                   "products and convolutions from codes on the CPU; what was tested on a GPU is in docs/cuda.md")
    if name == "ROCM":
        _fates.say(f"get_library_path('{device}'): the operators run on the CPU; on AMD's GPUs run a model's functions of standard operators "
                   "without the library (docs/cuda.md)")
    return bitpress.get_library_path()
