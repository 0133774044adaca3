"""ModelQuantizer: runs bitpress.quantize with what a configuration of Quark's means."""

import contextlib
import os
from pathlib import Path
from typing import Any, Collection, Dict, Iterator, Mapping, Optional, Sequence, Union

import numpy as np

import bitpress
from bitpress._errors import ArgumentTypeError, Error, InvalidArgumentError, UnsupportedError
from bitpress._files import Model, PathLike
from bitpress._samples import SharedSamples
from bitpress.compat import _fates, _numbers
from bitpress.compat._graphs import graph_of, kept_float
from bitpress.compat._samples import learning_from_all
from bitpress.compat._values import PATH, TEXT, Kind
from bitpress.compat.quark._algorithm_types import AlgoConfig
from bitpress.compat.quark._algorithms import Measurement, Request, Rule, Target
from bitpress.compat.quark._output_metric import OutputMetric
from bitpress.compat.quark._nodes import fitting, say_left, write_nodes_of_quark, write_small_form
from bitpress.compat.quark._translate import translate
from bitpress.compat.quark._types import QuantizationConfig

_NUM_RANDOM_SAMPLES = 10
_MODEL = Kind("a path, bytes, or a model with SerializeToString()",
              lambda value: isinstance(value, (str, bytes, os.PathLike)) or hasattr(value, "SerializeToString"), takes_none=False)
_READER = Kind("a reader with get_next(), or an iterable of dicts",
               lambda value: hasattr(value, "get_next") or (hasattr(value, "__iter__") and not isinstance(value, (bytes, str))))
_SEED = 1705472343
# The operators that a search can lower.
_SEARCHED = {"Conv", "ConvTranspose", "Gemm", "MatMul", "FusedConv", "FusedGemm", "FusedMatMul", "LSTM", "GRU", "RNN"}

# Selectors of rules, by the script's words that they come from.
_SELECTORS = {
    "not_op_types": "op_types_to_quantize, OpTypesToQuantize", "not_names": "nodes_to_quantize, NodesToQuantize",
    "op_types": "TargetOpType, target_op_type, layer_type_config", "names": "nodes_to_exclude, exclude, specific_layer_config",
    "nodes": "nodes_to_exclude, exclude, specific_layer_config", "tensors": "MixedPrecisionTensor, TensorQuantOverrides, OpTypesToExcludeOutputQuantization",
}


def input_shapes(model: Model, given: Union[Mapping[str, Sequence[int]], Sequence[Any]]) -> Dict[str, Sequence[int]]:
    """The shapes of a model's inputs, as far as a script does not say others."""
    shapes: Dict[str, Sequence[int]] = {name: list(shape) for name, shape in bitpress.inspect(model).input_shapes.items()}
    if isinstance(given, Mapping):
        shapes.update({name: list(shape) for name, shape in given.items() if name in shapes})
    elif given and all(isinstance(size, int) for size in given):
        shapes[next(iter(shapes))] = list(given)
    else:
        shapes.update({name: list(shape) for name, shape in zip(list(shapes), given or ())})
    return shapes


class RandomDataReader:
    """Samples of random numbers, the same ones in every run.

    Args:
        model_input: its inputs are looked up, unless `input_shape` has them.
        input_shape: of each input, a dict, a list in the order of the inputs, or of a single input its sizes; dimensions that are not
            known are 1.
        input_data_range: smallest and largest value of each input; nothing: 0 to 1.
    """

    def __init__(self, model_input: Model, input_shape: Union[Mapping[str, Sequence[int]], Sequence[Any]] = (),
                 input_data_range: Optional[Mapping[str, Sequence[float]]] = None) -> None:
        self._types = _input_types(model_input)
        self._shapes = {name: [max(size, 1) for size in shape] for name, shape in input_shapes(model_input, input_shape).items()}
        lacking = set(self._shapes) - set(self._shapes if input_data_range is None else input_data_range)
        if lacking:
            raise InvalidArgumentError(f"RandomDataReaderInputDataRange lacks the input '{min(lacking)}'")
        self._ranges = input_data_range
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
        kind = np.dtype(self._types.get(name, np.float32))
        if kind.kind in "iub":
            return random.integers(int(low), int(high) + 1, shape).astype(kind)
        return random.uniform(low, high, shape).astype(kind)


def _config(request: Request, rules: Sequence[Rule] = ()) -> bitpress.Config:
    settings, rules = learning_from_all(request.settings), [*request.rules, *rules]
    if request.only_op_types:
        rules.append({"not_op_types": list(request.only_op_types), "exclude": True, "optional": True})
    name = f"quark {settings['activations']}/{settings['weights']}"
    return bitpress.Config.from_json(f'{{"name": "{name}"}}').changed(rules=rules, **settings)


def _say_missing_types(request: Request, target: Target, there: Collection[str]) -> None:
    """Says which of the script's operator types the model has not; an error if it has none of them."""
    missing = [name for name in target.op_types if request.words.get(name) and name not in there]
    for name in missing:
        near = _fates.nearest(name, there)
        text = f"{request.words[name]}: '{name}' matches no operator type in the model" + (f" (did you mean '{near}'?)" if near else "")
        if len(missing) == len(target.op_types):
            raise InvalidArgumentError(text)
        _fates.say(f"passed over: {text}")


def _search(request: Request, target: Target, config: bitpress.Config, model: Model, data: Any) -> bitpress.Plan:
    """The plan with as many layers lowered as the target allows."""
    there = set(bitpress.inspect(model).operators)
    _say_missing_types(request, target, there)
    others = set(target.op_types) & there - _SEARCHED
    if others:
        raise UnsupportedError(f"automatic mixed precision: {', '.join(sorted(others))} among the target operator types (TargetOpType, "
                               "target_op_type) is refused with a target: only operators that multiply are searched. Instead: leave it "
                               "out, or name no target")
    if data is None:
        raise InvalidArgumentError(f"automatic mixed precision with a target ({target.text}) needs samples: calibration_data_reader")
    num_samples = request.search_samples
    metric = None
    if target.metric is not None:
        if not isinstance(data, SharedSamples):
            raise InvalidArgumentError("automatic mixed precision with a function that measures outputs needs a calibration_data_reader")
        metric = OutputMetric(target.metric, data, num_samples)
    found = bitpress.search(model, data, target=target.text, strategy=target.strategy, cost="mac_bits", config=config, progress=False,
                            variants=target.variants, layer_types=target.op_types, layer_names=target.names,
                            kept_layers=target.kept_names, output_index=target.output_index, metric=metric, samples=num_samples,
                            as_is=request.arguments.get("as_is", False))
    if not found.is_reached:
        _fates.say(f"automatic mixed precision: the target {target.text} is not reached: {found.data['why_not']}")
    return found.plan


def _input_types(model: Model) -> Mapping[str, Any]:
    from onnx.helper import tensor_dtype_to_np_dtype

    return {value.name: tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type) for value in graph_of(model).input}


def _measure(request: Request, wanted: Measurement, config: bitpress.Config, model: Model, data: Any) -> Sequence[Rule]:
    """Measures the layers, and returns the rules that give each the variant that it loses least with."""
    if data is None:
        raise InvalidArgumentError("AutoMixprecisionConfig: measuring layers (sensitivity_cache_file, metric_threshold=None, or a list of "
                                   "target_layer_config) needs samples: calibration_data_reader")
    file = wanted.file
    if file is not None and os.path.exists(file):
        _fates.say(f"AutoMixprecisionConfig: sensitivity_cache_file={file!r} is there; it is neither read nor written, layers are measured anew")
        file = None
    report = bitpress.sensitivity(model, data, variants=wanted.variants, layer_types=wanted.op_types, layer_names=wanted.names,
                                  kept_layers=wanted.kept_names, output_index=wanted.output_index, config=config, output=file,
                                  samples=request.search_samples, as_is=request.arguments.get("as_is", False), progress=False)
    if not wanted.is_applied:
        return []
    rules = []
    for layer in report["layers"]:
        losses = [part["fast"]["noise"] for part in layer["parts"][1:]]  # the first part is the layer as it was
        rules.append({"names": [layer["node"]], **wanted.variants[losses.index(min(losses))]})
    return rules


def _word_of(error: Error, request: Request, data: Any) -> Optional[str]:
    """The script's word that an error of the library is about, which has words of its own; None: the error is about something else."""
    if data is None and "give samples" in str(error):
        return "quantize_model: there is no calibration_data_reader"
    found = [word for name, word in request.words.items() if word and f"'{name}'" in str(error)]
    return found[0] if found else None


class ModelQuantizer:
    """Quantizes models as a Config, QuantizationConfig or QConfig says.

    Args:
        config: the configuration.
        operators: "quark": the nodes that Quark writes, on activations, weights and biases: MXQuantizeDequantize,
            BFPQuantizeDequantize, the pairs ExtendedQuantizeLinear and ExtendedDequantizeLinear, and QuantizeLinear,
            DequantizeLinear for integers. "bitpress": the small form, with weights at their real width, and operators
            that sessions without a library can run too.
    """

    def __init__(self, config: Any, operators: str = "quark") -> None:
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
        request = self._request if not algorithms else self._translated(self.config, algorithms)
        _MODEL.check(model_input, "quantize_model: model_input")
        PATH.check(model_output, "quantize_model: model_output")
        PATH.check(calibration_data_path, "quantize_model: calibration_data_path")
        _READER.check(calibration_data_reader, "quantize_model: calibration_data_reader")
        data = calibration_data_path if calibration_data_reader is None else calibration_data_reader
        if data is None and request.random_shapes is not None:
            data = RandomDataReader(model_input, request.random_shapes, request.random_ranges)
        try:
            is_read_once = request.target is None and request.measurement is None
            if is_read_once or data is None or isinstance(data, (str, os.PathLike)):
                return self._quantize(request, model_input, model_output, data)
            # The search, metrics of outputs and what follows read them in turn.
            with contextlib.closing(SharedSamples(data)) as samples:
                return self._quantize(request, model_input, model_output, samples)
        except Error as error:
            word = _word_of(error, request, data)
            if word is None:
                raise
            raise type(error)(f"{word}: {error}") from error

    def _quantize(self, request: Request, model_input: Model, model_output: Optional[PathLike], data: Any) -> Any:
        request = fitting(request, model_input)
        arguments = dict(request.arguments)
        kept = kept_float(model_input, request.outputs_kept_float)
        config: Any = _config(request, kept)
        if request.measurement is not None:
            config = _config(request, [*kept, *_measure(request, request.measurement, config, model_input, data)])
        if request.target is not None:
            # The plan that was found holds the decisions of the configuration too.
            arguments["plan"], config = _search(request, request.target, config, model_input, data), None
        if request.numbers:
            plan = arguments.get("plan") or bitpress.plan(model_input, config, as_is=arguments.get("as_is", False))
            arguments["plan"], config = _numbers.give(plan, request.numbers, "TensorQuantOverrides"), None
        if model_output is not None:
            report = bitpress.quantize(model_input, Path(model_output), config, data, **arguments)
            _fates.say_report(report, _SELECTORS, (), request.words)
            say_left(request, report)
            return None
        if arguments.pop("external_data", False):
            _fates.say("use_external_data_format=True: the model is returned, with its data inside")
        import onnx  # takes a while, and most scripts write a file

        made, report = bitpress.quantize_to_bytes(model_input, config, data, **arguments)
        _fates.say_report(report, _SELECTORS, (), request.words)
        say_left(request, report)
        return onnx.load_from_string(made)

    def _translated(self, config: Any, algorithms: Sequence[AlgoConfig] = ()) -> Request:
        if self._operators not in ("bitpress", "quark"):
            raise InvalidArgumentError(f"operators={self._operators!r}: expected 'bitpress' or 'quark'")
        request = translate(config, algorithms)
        if self._operators == "quark":
            write_nodes_of_quark(request)
        else:
            write_small_form(request)
        return request


# Arguments of Quark's functions in its order, behind those of the models and samples.
_STATIC = ("quant_format", "calibrate_method", "input_nodes", "output_nodes", "op_types_to_quantize", "extra_op_types_to_quantize", "per_channel",
           "reduce_range", "activation_type", "weight_type", "nodes_to_quantize", "nodes_to_exclude", "subgraphs_to_exclude", "optimize_model",
           "use_external_data_format", "execution_providers", "enable_dpu", "enable_npu_cnn", "enable_npu_transformer",
           "specific_tensor_precision", "convert_fp16_to_fp32", "convert_nchw_to_nhwc", "debug_mode", "crypto_mode", "include_cle", "include_sq",
           "include_rotation", "include_fast_ft", "include_auto_mp", "print_summary", "extra_options")
_DYNAMIC = ("op_types_to_quantize", "per_channel", "reduce_range", "weight_type", "nodes_to_quantize", "nodes_to_exclude", "subgraphs_to_exclude",
            "use_external_data_format", "debug_mode", "crypto_mode", "extra_options")


def _fields(names: Sequence[str], by_position: Sequence[Any], by_name: Mapping[str, Any], where: str) -> QuantizationConfig:
    given = dict(zip(names, by_position))
    if len(by_position) > len(names) or set(given) & set(by_name):
        raise ArgumentTypeError(f"{where}: too many arguments, or one that is given twice; behind the samples it takes {', '.join(names)}")
    given.update(by_name)
    if given.pop("enable_dpu", False):
        _fates.say(f"{where}: enable_dpu=True changes nothing here: it adapts models to AMD's NPU compiler")
    return QuantizationConfig(**given)


def quantize_static(model_input: Model, model_output: Optional[PathLike] = None, calibration_data_reader: Any = None,
                    calibration_data_path: Optional[PathLike] = None, *by_position: Any, **options: Any) -> Any:
    """Quark's function: the fields of QuantizationConfig as arguments."""
    config = _fields(_STATIC, by_position, options, "quantize_static")
    return ModelQuantizer(config).quantize_model(model_input, model_output, calibration_data_reader, calibration_data_path)


def quantize_dynamic(model_input: Model, model_output: Optional[PathLike] = None, *by_position: Any, **options: Any) -> Any:
    """Quark's function: the fields of QuantizationConfig as arguments."""
    config = _fields(_DYNAMIC, by_position, {"use_dynamic_quant": True, **options}, "quantize_dynamic")
    return ModelQuantizer(config).quantize_model(model_input, model_output)


def get_library_path(device: str = "CPU") -> str:
    """The operator library. One file serves all devices; a notice says what runs there."""
    TEXT.needed().check(device, "get_library_path: device")
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
