"""quantize_static, quantize_dynamic, quantize, their configurations, and quant_pre_process."""

import os
import re
import tempfile
import warnings
from pathlib import Path
from typing import Any, Callable, Dict, List, Mapping, Optional, Tuple, Union

import bitpress
from bitpress._errors import ArgumentTypeError, InvalidArgumentError, QuantizationWarning
from bitpress._files import Model, PathLike
from bitpress.compat import _fates, _numbers
from bitpress.compat._enums import CalibrationMethod, QuantFormat, QuantType
from bitpress.compat._graphs import model_of
from bitpress.compat.onnxruntime import _nbits, _words
from bitpress.compat.onnxruntime._translate import Request, dynamic, static

# Selectors of rules, by the script's words that they come from.
_SELECTORS = {"not_op_types": "op_types_to_quantize", "not_names": "nodes_to_quantize", "names": "nodes_to_exclude",
              "tensors": "TensorQuantOverrides"}


class QuantConfig:
    """What both kinds of configurations have. Every argument is an attribute, which a script may change."""

    def __init__(self, activation_type: Any = QuantType.QUInt8, weight_type: Any = QuantType.QInt8, op_types_to_quantize: Optional[List[str]] = None,
                 nodes_to_quantize: Optional[List[str]] = None, nodes_to_exclude: Optional[List[str]] = None, per_channel: bool = False,
                 reduce_range: bool = False, use_external_data_format: bool = False) -> None:
        self.op_types_to_quantize = op_types_to_quantize or []
        self.per_channel = per_channel
        self.reduce_range = reduce_range
        self.weight_type = weight_type
        self.activation_type = activation_type
        self.nodes_to_quantize = nodes_to_quantize or []
        self.nodes_to_exclude = nodes_to_exclude or []
        self.use_external_data_format = use_external_data_format


class StaticQuantConfig(QuantConfig):
    """The arguments of quantize_static."""

    def __init__(self, calibration_data_reader: Any, calibrate_method: Any = CalibrationMethod.MinMax, quant_format: Any = QuantFormat.QDQ,
                 activation_type: Any = QuantType.QInt8, weight_type: Any = QuantType.QInt8, op_types_to_quantize: Optional[List[str]] = None,
                 nodes_to_quantize: Optional[List[str]] = None, nodes_to_exclude: Optional[List[str]] = None, per_channel: bool = False,
                 reduce_range: bool = False, use_external_data_format: bool = False, calibration_providers: Optional[List[str]] = None,
                 extra_options: Optional[Dict[str, Any]] = None) -> None:
        super().__init__(activation_type, weight_type, op_types_to_quantize, nodes_to_quantize, nodes_to_exclude, per_channel, reduce_range,
                         use_external_data_format)
        self.calibration_data_reader = calibration_data_reader
        self.calibrate_method = calibrate_method
        self.quant_format = quant_format
        self.calibration_providers = calibration_providers
        self.extra_options = extra_options or {}


class DynamicQuantConfig(QuantConfig):
    """The arguments of quantize_dynamic."""

    def __init__(self, weight_type: Any = QuantType.QInt8, op_types_to_quantize: Optional[List[str]] = None,
                 nodes_to_quantize: Optional[List[str]] = None, nodes_to_exclude: Optional[List[str]] = None, per_channel: bool = False,
                 reduce_range: bool = False, use_external_data_format: bool = False, extra_options: Optional[Dict[str, Any]] = None) -> None:
        super().__init__(QuantType.QUInt8, weight_type, op_types_to_quantize, nodes_to_quantize, nodes_to_exclude, per_channel, reduce_range,
                         use_external_data_format)
        self.extra_options = extra_options or {}


def _measured(request: Request, plan: bitpress.Plan, calibration: PathLike) -> Tuple[List[Dict[str, Any]], Dict[str, Any]]:
    """Rules and numbers for activations that follow from the ranges of the samples."""
    rows = {row["value"] for row in plan.tensors if row["role"] == "activation"}
    ranges = {name: (min(item.min, 0.0), max(item.max, 0.0)) for name, item in bitpress.read_calibration(calibration).tensors.items() if name in rows}
    below = [re.escape(name) for name, (least, _) in ranges.items() if request.is_restricted and least < 0]
    return ([{"tensors": below, "activation_symmetric": True}] if below else [],
            {name: [{"rmin": least, "rmax": least + request.least_range}] for name, (least, most) in ranges.items()
             if most - least < request.least_range})


def _write(given: Mapping[str, Any], request: Request, data: Any, calibration: Optional[PathLike] = None) -> None:
    model, numbers = given["model_input"], request.numbers
    made = bitpress.Config(request.config) if request.config else bitpress.Config.from_json('{"name": "quantize_static"}')
    config: Any = made.changed(rules=request.rules, **request.settings)
    arguments = dict(request.arguments)
    if calibration is not None:
        if not os.path.exists(calibration):
            bitpress.calibrate(model, data, calibration, config=config)
        arguments["calibration"], data = calibration, None
    if request.is_measured:
        rules, found = _measured(request, bitpress.plan(model, config), arguments["calibration"])
        config, numbers = config.changed(rules=rules), {**found, **numbers}
    if numbers:
        arguments["plan"], config = _numbers.give(bitpress.plan(model, config), numbers, "TensorQuantOverrides"), None
    report = bitpress.quantize(model, Path(given["model_output"]), config, data, **arguments)
    _fates.say_report(report, _SELECTORS)
    if arguments.get("form") == "qoperator":
        _fates.say_left(report, "quant_format=QOperator")


def quantize_static(model_input: Model, model_output: PathLike, calibration_data_reader: Any = None, quant_format: Any = QuantFormat.QDQ,
                    op_types_to_quantize: Optional[List[str]] = None, per_channel: bool = False, reduce_range: bool = False,
                    activation_type: Any = QuantType.QInt8, weight_type: Any = QuantType.QInt8, nodes_to_quantize: Optional[List[str]] = None,
                    nodes_to_exclude: Optional[List[str]] = None, use_external_data_format: bool = False,
                    calibrate_method: Any = CalibrationMethod.MinMax, calibration_providers: Optional[List[str]] = None,
                    extra_options: Optional[Dict[str, Any]] = None, calibration_cache_path: Optional[PathLike] = None) -> None:
    """Writes a model whose activations have fixed scales, from samples. docs/migrate_onnxruntime.md says what each word becomes.

    Raises:
        Error: a refused word, an unknown one, a value of a wrong type or out of range.
    """
    given = dict(locals())
    request = static(given)
    if calibration_cache_path is not None and os.path.exists(calibration_cache_path):
        with open(calibration_cache_path, "rb") as file:
            if file.read(1) == b"{":
                raise InvalidArgumentError(f"calibration_cache_path='{calibration_cache_path}' is JSON, ONNX Runtime's own cache; expected a file that "
                                           "bitpress.calibrate wrote, or a path where there is none yet")
    elif calibration_data_reader is None:
        raise InvalidArgumentError("quantize_static needs samples: calibration_data_reader is not given, and there is no file at calibration_cache_path")
    with tempfile.TemporaryDirectory(prefix="bitpress-") as folder:
        file_of_ranges = Path(folder) / "ranges.bpc" if request.is_measured else None
        _write(given, request, calibration_data_reader, calibration_cache_path or file_of_ranges)


def quantize_dynamic(model_input: Model, model_output: PathLike, op_types_to_quantize: Optional[List[str]] = None, per_channel: bool = False,
                     reduce_range: bool = False, weight_type: Any = QuantType.QInt8, nodes_to_quantize: Optional[List[str]] = None,
                     nodes_to_exclude: Optional[List[str]] = None, use_external_data_format: bool = False,
                     extra_options: Optional[Dict[str, Any]] = None) -> None:
    """Writes a model whose products round activations at run time, each row by its own range. Errors are those of quantize_static()."""
    given = dict(locals())
    _write(given, dynamic(given), None)


_STATIC_WORDS = ("calibration_data_reader", "quant_format", "op_types_to_quantize", "per_channel", "reduce_range", "activation_type", "weight_type",
                 "nodes_to_quantize", "nodes_to_exclude", "use_external_data_format", "calibrate_method", "calibration_providers", "extra_options")
_DYNAMIC_WORDS = ("op_types_to_quantize", "per_channel", "reduce_range", "weight_type", "nodes_to_quantize", "nodes_to_exclude",
                  "use_external_data_format", "extra_options")


def quantize(model_input: Model, model_output: PathLike, quant_config: Any) -> None:
    """Writes the model that a configuration asks for."""
    if isinstance(quant_config, StaticQuantConfig):
        quantize_static(model_input, model_output, **{word: getattr(quant_config, word) for word in _STATIC_WORDS})
    elif isinstance(quant_config, DynamicQuantConfig):
        quantize_dynamic(model_input, model_output, **{word: getattr(quant_config, word) for word in _DYNAMIC_WORDS})
    elif isinstance(quant_config, _nbits.WeightOnlyQuantConfig):
        quantizer = _nbits.MatMulNBitsQuantizer(model_input, algo_config=quant_config)
        quantizer.process()
        quantizer.model.save_model_to_file(model_output, True)
    else:
        raise ArgumentTypeError(f"quant_config is {type(quant_config).__name__}; expected a StaticQuantConfig, a DynamicQuantConfig, or the configuration "
                                "of a MatMulNBitsQuantizer")


_CALIBRATE_ARGS = {"symmetric": "CalibTensorRangeSymmetric", "moving_average": "CalibMovingAverage", "averaging_constant": "CalibMovingAverageConstant",
                   "max_intermediate_outputs": "CalibMaxIntermediateOutputs", "percentile": "CalibPercentile"}
_NEVER = ("Cast", "DequantizeLinear", "QuantizeLinear")


def get_qdq_config(model_input: Model, calibration_data_reader: Any, calibrate_method: Any = CalibrationMethod.MinMax,
                   calibrate_args: Optional[Dict[str, Any]] = None, activation_type: Any = QuantType.QUInt8, weight_type: Any = QuantType.QInt8,
                   activation_symmetric: bool = False, weight_symmetric: Optional[bool] = None, per_channel: bool = False,
                   reduce_range: bool = False, keep_removable_activations: bool = False, min_real_range: Optional[float] = None,
                   tensor_quant_overrides: Optional[Dict[str, List[Dict[str, Any]]]] = None, calibration_providers: Optional[List[str]] = None,
                   op_types_to_quantize: Optional[List[str]] = None, nodes_to_exclude: Union[List[str], Callable[[Any, Any], bool], None] = None,
                   extra_options: Optional[Dict[str, Any]] = None) -> StaticQuantConfig:
    """The configuration that quantizes around every operator, but for excluded nodes and types.

    Args:
        nodes_to_exclude: names, or a function of an onnx.ModelProto and an onnx.NodeProto.
    """
    _fates.check(locals(), _words.QDQ_CONFIG, "get_qdq_config")
    for word in calibrate_args or ():
        if word not in _CALIBRATE_ARGS:
            raise InvalidArgumentError(_fates.unknown(word, _CALIBRATE_ARGS, "calibrate_args"))
    model = model_of(model_input)
    excluded = list(nodes_to_exclude) if not callable(nodes_to_exclude) and nodes_to_exclude else []
    nodes = [node for node in model.graph.node if not op_types_to_quantize or node.op_type in op_types_to_quantize]
    if callable(nodes_to_exclude):
        excluded += [node.name for node in nodes if nodes_to_exclude(model, node)]
    types = {node.op_type for node in nodes if node.name not in excluded}
    options = {"MinimumRealRange": min_real_range, "QDQKeepRemovableActivations": keep_removable_activations,
               "ActivationSymmetric": activation_symmetric, "WeightSymmetric": weight_symmetric, "ForceQuantizeNoInputCheck": True,
               "TensorQuantOverrides": dict(tensor_quant_overrides or {}),
               **{_CALIBRATE_ARGS[word]: value for word, value in (calibrate_args or {}).items()}, **(extra_options or {})}
    has_external = any(item.data_location == item.EXTERNAL for item in model.graph.initializer)
    return StaticQuantConfig(calibration_data_reader, calibrate_method, QuantFormat.QDQ, activation_type, weight_type,
                             list(op_types_to_quantize or sorted(types - set(_NEVER))), None, excluded, per_channel, reduce_range, has_external,
                             calibration_providers, options)


def quant_pre_process(input_model: Optional[Model] = None, output_model_path: Optional[PathLike] = None, skip_optimization: bool = False,
                      skip_onnx_shape: bool = False, skip_symbolic_shape: bool = False, auto_merge: bool = False, int_max: int = 2**31 - 1,
                      guess_output_rank: bool = False, verbose: int = 0, save_as_external_data: bool = False,
                      all_tensors_to_one_file: bool = False, external_data_location: Optional[str] = None,
                      external_data_size_threshold: int = 1024, input_model_path: Optional[PathLike] = None) -> None:
    """Writes the float model with constants and BatchNorm folded, as quantizing begins with it anyway."""
    given = dict(locals())
    if given["input_model"] is None:
        given["input_model"] = input_model_path
    _fates.check(given, _words.PREPROCESS, "quant_pre_process")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", QuantizationWarning)  # that nothing is quantized
        bitpress.quantize(given["input_model"], Path(str(output_model_path)), bitpress.Config.from_json('{"name": "quant_pre_process"}'),
                          as_is=bool(skip_optimization), external_data=bool(save_as_external_data))
