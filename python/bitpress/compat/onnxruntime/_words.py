"""The table of fates of the words of ONNX Runtime's quantization tool."""

from bitpress.compat import _values as v
from bitpress.compat._enums import CalibrationMethod, QuantFormat, QuantType
from bitpress.compat._fates import Table, Word, honoured, notice, refused, table, with_kinds
from bitpress.compat.neural_compressor import _words as nc
from bitpress.compat.quark import _words as quark

_CPU = "samples run on the CPU"
_BLOCKS = "blocks run along the axis that products are summed over"
_SHAPES = "shapes are inferred as far as possible when a model is read"

SAMPLES = v.Kind("a reader with get_next(), or samples as bitpress.quantize takes them",
                 lambda value: not isinstance(value, (bool, int, float)) and not hasattr(value, "SerializeToString"))
MODEL = v.Kind("a path or an onnx.ModelProto", lambda value: v.PATH.is_type(value) or hasattr(value, "SerializeToString"), takes_none=False)
# Scripts also give members of onnx.TensorProto, which are numbers.
_ONNX_TYPES = {member.tensor_type: member.name for member in QuantType}


def type_name(value: object) -> str:
    """The name of a member of QuantType, also for a number of onnx.TensorProto."""
    return _ONNX_TYPES.get(value, str(value)) if type(value) is int else v.name_of(value)


TYPE = v.Kind("one of " + ", ".join(map(repr, QuantType.__members__)), lambda value: hasattr(value, "name") or type(value) in (int, str),
              lambda value: type_name(value) in QuantType.__members__, takes_none=False)

_SELECTING = [honoured("op_types_to_quantize", "all other operators of the model are excluded"),
              *[nc.STATIC[name] for name in ("nodes_to_quantize", "nodes_to_exclude", "per_channel", "reduce_range", "use_external_data_format")]]
_SELECTING_KINDS = {"op_types_to_quantize": v.NAMES, "nodes_to_quantize": v.NAMES, "nodes_to_exclude": v.NAMES, "per_channel": v.FLAG,
                    "reduce_range": v.FLAG, "use_external_data_format": v.FLAG, "weight_type": TYPE, "extra_options": v.MAPPING}

# quantize_static(...) and StaticQuantConfig(...)
STATIC = with_kinds(table([
    honoured("model_input", "a path or an onnx.ModelProto"),
    honoured("model_output", "the file to write"),
    honoured("calibration_data_reader", "`data`; one without rewind() is copied to a temporary file as it is read"),
    honoured("quant_format", "QDQ, or QOperator as `form=\"qoperator\"`"),
    *_SELECTING,
    honoured("activation_type", "`activations`"),
    honoured("weight_type", "`weights`; unsigned ones are asymmetric unless WeightSymmetric is given"),
    honoured("calibrate_method", "`activation_range`: min_max, entropy, percentile; Distribution is for QFLOAT8E4M3FN, and for integers min_max with a notice, "
             "as in ONNX Runtime"),
    honoured("calibration_cache_path", "a file of `bitpress.calibrate`: written if it is not there, and read otherwise. ONNX Runtime's own JSON is "
             "an error"),
    notice("calibration_providers", _CPU, ["CPUExecutionProvider"]),
    honoured("extra_options", "see below"),
]), {**_SELECTING_KINDS, "model_input": MODEL, "model_output": v.PATH.needed(), "calibration_data_reader": SAMPLES,
     "quant_format": v.one_of(*QuantFormat.__members__), "activation_type": TYPE, "calibrate_method": v.one_of(*CalibrationMethod.__members__),
     "calibration_cache_path": v.PATH, "calibration_providers": v.LIST})

# quantize_dynamic(...) and DynamicQuantConfig(...)
DYNAMIC = with_kinds(table([
    *[STATIC[name] for name in ("model_input", "model_output")], *_SELECTING, STATIC["weight_type"],
    honoured("extra_options", "see \"`extra_options` of `quantize_dynamic`\""),
]), {**_SELECTING_KINDS, "model_input": MODEL, "model_output": v.PATH.needed()})

QUANTIZE = with_kinds(table([
    STATIC["model_input"], STATIC["model_output"],
    honoured("quant_config", "StaticQuantConfig, DynamicQuantConfig, or the configuration of a MatMulNBitsQuantizer"),
]), {"model_input": MODEL, "model_output": v.PATH.needed()})

# extra_options={...} of quantize_static
_NNAPI = refused("extra.Sigmoid.nnapi", "a range of its own for Sigmoid is not available", "TensorQuantOverrides for its output", False)
_BODIES = notice("EnableSubgraph", "bodies of If, Loop and Scan are always quantized", True)
EXTRA = with_kinds(table([
    _NNAPI,
    honoured("ActivationSymmetric", "`activation_symmetric`; the zero point of uint8 is then 128"),
    honoured("ActivationRestrictedAsymmetric", "`activation_symmetric` for the uint8 activations that have negative values in the samples"),
    honoured("WeightSymmetric", "`weight_symmetric`; without it signed weights are symmetric"),
    _BODIES,
    honoured("ForceQuantizeNoInputCheck", "`placement=all`: around every operator"),
    honoured("MatMulConstBOnly", "True excludes products of two activations"),
    nc.EXTRA["AddQDQPairToWeight"],
    honoured("OpTypesToExcludeOutputQuantization", "rules exclude the outputs of such operators"),
    nc.EXTRA["DedicatedQDQPair"],
    notice("QDQOpTypePerChannelSupportToAxis", "channels are those of the product that a weight is in", {}),
    honoured("CalibTensorRangeSymmetric", "`activation_symmetric`"),
    honoured("CalibMovingAverage", "`activation_range=moving_average`: the mean of the samples' extremes, in any order"),
    notice("CalibMovingAverageConstant", "the mean has no constant: every sample counts the same"),
    notice("CalibMaxIntermediateOutputs", "memory does not grow with the samples"),
    notice("CalibStridedMinMax", "samples are read one after another"),
    honoured("CalibPercentile", "`activation_range=percentile(P)`"),
    honoured("QuantizeBias", "False: `biases=none`"),
    nc.EXTRA["SmoothQuant"], nc.EXTRA["SmoothQuantAlpha"], nc.EXTRA["SmoothQuantFolding"],
    notice("UseQDQContribOps", "ONNX's own operators; the operator set becomes one that has the types", False),
    honoured("MinimumRealRange", "activations with a smaller range in the samples get this one, from their least value on"),
    honoured("TensorQuantOverrides", "rules for tensors, and numbers in the plan; see below"),
    notice("QDQKeepRemovableActivations", "a Relu or Clip goes only where the limits of the codes do its work", False),
    notice("QDQDisableWeightAdjustForInt32Bias", "a weight's scale is raised where its bias would not fit", False),
    honoured("BlockSize", "`weight_granularity=per_block`, `weight_block_size`; 0: none"),
    notice("DefaultTensorType", "types of values follow from the model"),
]), {"ActivationSymmetric": v.FLAG, "ActivationRestrictedAsymmetric": v.FLAG, "WeightSymmetric": v.FLAG, "ForceQuantizeNoInputCheck": v.FLAG,
     "MatMulConstBOnly": v.FLAG, "OpTypesToExcludeOutputQuantization": v.NAMES, "CalibTensorRangeSymmetric": v.FLAG, "CalibMovingAverage": v.FLAG,
     "CalibPercentile": v.number(0, 100), "QuantizeBias": v.FLAG, "SmoothQuant": v.FLAG, "SmoothQuantAlpha": v.either(v.number(0, 1), v.one_of("auto")),
     "MinimumRealRange": v.number(0, is_above=True), "TensorQuantOverrides": v.MAPPING, "BlockSize": v.whole(0)})

# extra_options={...} of quantize_dynamic
_DYNAMIC_ASYMMETRIC = "codes of activations are asymmetric at run time"
DYNAMIC_EXTRA = with_kinds(table([
    _NNAPI,
    notice("ActivationSymmetric", _DYNAMIC_ASYMMETRIC, False),
    notice("ActivationRestrictedAsymmetric", _DYNAMIC_ASYMMETRIC, False),
    EXTRA["WeightSymmetric"], _BODIES,
    notice("ForceQuantizeNoInputCheck", "only products are on integers in a dynamic model", False),
    notice("MatMulConstBOnly", "products of two activations are float in a dynamic model", True),
    EXTRA["DefaultTensorType"],
]), {"WeightSymmetric": v.FLAG})

# extra_options["TensorQuantOverrides"][tensor]
OVERRIDES = with_kinds(table([
    *[quark.OVERRIDES[name] for name in ("quant_type", "axis", "symmetric", "reduce_range", "scale", "zero_point", "rmin", "rmax")],
    refused("convert", "a value has one pair for all its readers", "quant_type, which all readers get"),
]), {**{name: word.takes for name, word in quark.OVERRIDES.items() if word.takes is not None}, "quant_type": TYPE})

# get_qdq_config(...)
QDQ_CONFIG = with_kinds(table([
    STATIC["model_input"], STATIC["calibration_data_reader"], STATIC["calibrate_method"],
    honoured("calibrate_args", "symmetric, moving_average, averaging_constant, max_intermediate_outputs, percentile: the words of extra_options that "
             "begin with Calib"),
    STATIC["activation_type"], STATIC["weight_type"],
    honoured("activation_symmetric", "ActivationSymmetric"),
    honoured("weight_symmetric", "WeightSymmetric"),
    STATIC["per_channel"], STATIC["reduce_range"],
    honoured("keep_removable_activations", "QDQKeepRemovableActivations"),
    honoured("min_real_range", "MinimumRealRange"),
    honoured("tensor_quant_overrides", "TensorQuantOverrides"),
    STATIC["calibration_providers"], STATIC["op_types_to_quantize"],
    honoured("nodes_to_exclude", "names, or a function of model and node"),
    honoured("extra_options", "see \"`extra_options` of `quantize_static`\""),
]), {"calibrate_args": v.MAPPING, "tensor_quant_overrides": v.MAPPING, "min_real_range": v.number(0, is_above=True), "activation_symmetric": v.FLAG,
     "weight_symmetric": v.FLAG, "keep_removable_activations": v.FLAG, "nodes_to_exclude": v.either(v.NAMES, v.FUNCTION),
     **{name: word.takes for name, word in STATIC.items() if word.takes is not None and name not in (
        "model_output", "quant_format", "nodes_to_quantize", "nodes_to_exclude", "use_external_data_format", "calibration_cache_path")}})

# quant_pre_process(...)
PREPROCESS = with_kinds(table([
    honoured("input_model", STATIC["model_input"].text),
    honoured("output_model_path", "the file to write"),
    honoured("skip_optimization", "True writes the model as it is"),
    *[notice(name, _SHAPES, default) for name, default in (
        ("skip_onnx_shape", False), ("skip_symbolic_shape", False), ("auto_merge", False), ("int_max", 2**31 - 1), ("guess_output_rank", False),
        ("verbose", 0))],
    honoured("save_as_external_data", "`external_data`"),
    notice("all_tensors_to_one_file", "external data are always one file", True, False),
    notice("external_data_location", "external data are always OUTPUT.data"),
    notice("external_data_size_threshold", "small constants stay in the model anyway", 1024),
    honoured("input_model_path", "the older word for input_model"),
]), {"output_model_path": v.PATH.needed(), "skip_optimization": v.FLAG, "save_as_external_data": v.FLAG})

# MatMulNBitsQuantizer(...)
NBITS = with_kinds(table([
    honoured("model", "a path or an onnx.ModelProto; after process() an object whose `model` is the quantized onnx.ModelProto"),
    honoured("bits", "2, 4 or 8"),
    honoured("block_size", "`weight_block_size`"),
    honoured("is_symmetric", "`weight_symmetric`"),
    honoured("accuracy_level", nc.WEIGHT_ONLY["accuracy_level"].text),
    honoured("nodes_to_exclude", "a rule excludes them"),
    honoured("nodes_to_include", "quantized besides those of op_types_to_quantize"),
    honoured("quant_format", "QOperator: MatMulNBits; QDQ: codes of blocks behind a DequantizeLinear"),
    honoured("op_types_to_quantize", "MatMul, Gather, Gemm; MatMul by default"),
    notice("quant_axes", _BLOCKS, (("MatMul", 0), ("Gather", 1)), {"MatMul": 0, "Gather": 1}),
    honoured("channel_wised_quantize", "`weight_granularity=per_axis`; with QDQ only"),
    honoured("algo_config", "see below"),
]), {"model": MODEL, "bits": v.one_of(2, 4, 8), "block_size": v.whole(1), "is_symmetric": v.FLAG, "accuracy_level": v.whole(0, 4),
     "nodes_to_exclude": v.NAMES, "nodes_to_include": v.NAMES, "quant_format": v.one_of(*QuantFormat.__members__),
     "op_types_to_quantize": v.NAMES, "channel_wised_quantize": v.FLAG})

# The configurations of its algorithms
_RATIOS = notice("ratios", "ranges are those of the values", {})
_NODES = honoured("customized_weight_config", "rules: bits, group_size and scheme of single nodes")
_OF_ALL = [NBITS["quant_format"], NBITS["op_types_to_quantize"]]
_NBITS_KINDS = {name: word.takes for name, word in NBITS.items() if word.takes is not None}


def _algorithm(*words: Word) -> Table:
    made = table([*words, *_OF_ALL])
    return with_kinds(made, {name: kind for name, kind in {**_NBITS_KINDS, "customized_weight_config": v.MAPPING, "percdamp": v.number(0, 1),
                                                           "calibration_data_reader": SAMPLES}.items() if name in made})


DEFAULT = _algorithm(*[NBITS[name] for name in ("block_size", "is_symmetric", "accuracy_level", "quant_axes", "bits", "channel_wised_quantize")])
RTN = _algorithm(_RATIOS, _NODES)
K_QUANT = _algorithm(_RATIOS, _NODES)
GPTQ = _algorithm(nc.WEIGHT_ONLY["calibration_data_reader"], *[nc.GPTQ[name] for name in ("percdamp", "block_size", "actorder", "mse", "perchannel")])
HQQ = _algorithm(NBITS["block_size"], NBITS["bits"], notice("axis", _BLOCKS, 1), NBITS["quant_axes"])
WEIGHT_ONLY = _algorithm(honoured("algorithm", "DEFAULT, RTN, k_quant, GPTQ, HQQ"), NBITS["quant_axes"], _NODES)

# qdq_loss_debug
LOSS_DEBUG = table([
    honoured("input_model_path", "of modify_model_output_intermediate_tensors: a file"),
    honoured("output_model_path", "the model whose tensors are outputs as well"),
    honoured("op_types_for_saving", "outputs of these operators; all by default"),
    honoured("save_as_external_data", "data in a file of their own"),
    honoured("augmented_model", "of collect_activations: such a file"),
    honoured("input_reader", "a reader with get_next()"),
    honoured("session_options", "of onnxruntime"),
    honoured("execution_providers", "of onnxruntime"),
    honoured("qdq_activations", "of create_activation_matching: what collect_activations gave for the quantized model"),
    honoured("float_activations", "what it gave for the float model"),
    honoured("float_model_path", "of create_weight_matching: a file"),
    honoured("qdq_model_path", "a file"),
    honoured("x", "of compute_signal_to_quantization_noice_ratio: one array or several"),
    honoured("y", "as many"),
    honoured("weights_match", "of compute_weight_error: what create_weight_matching gave"),
    honoured("activations_match", "of compute_activation_error: what create_activation_matching gave"),
    honoured("err_func", "a function of two arrays, or of two lists of arrays"),
])

# Title of each table in the documentation.
TABLES = {
    "`quantize`": QUANTIZE,
    "`quantize_static`, `StaticQuantConfig`": STATIC,
    "`extra_options` of `quantize_static`": EXTRA,
    "`TensorQuantOverrides`": OVERRIDES,
    "`quantize_dynamic`, `DynamicQuantConfig`": DYNAMIC,
    "`extra_options` of `quantize_dynamic`": DYNAMIC_EXTRA,
    "`get_qdq_config`": QDQ_CONFIG,
    "`quant_pre_process`": PREPROCESS,
    "`MatMulNBitsQuantizer`": NBITS,
    "`DefaultWeightOnlyQuantConfig`": DEFAULT,
    "`RTNWeightOnlyQuantConfig`": RTN,
    "`KQuantWeightOnlyQuantConfig`": K_QUANT,
    "`GPTQWeightOnlyQuantConfig`": GPTQ,
    "`HQQWeightOnlyQuantConfig`": HQQ,
    "`WeightOnlyQuantConfig`": WEIGHT_ONLY,
    "Functions of `qdq_loss_debug`": LOSS_DEBUG,
}
