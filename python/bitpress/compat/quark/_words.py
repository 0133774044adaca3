"""The table of fates of AMD Quark's words."""

import dataclasses
import re

from bitpress._native import list_finetune_options
from bitpress.compat._fates import Word, honoured, notice, refused, table

_NPU = "it adapts models to AMD's NPU compiler"
_REMOVAL = "`float_between`: no quantizer between a product, sum or pool and {} that alone reads it; not given, {}"
_GRAPH = "ONNX Runtime's basic optimizations prepare every model; it is not rewritten further"
_SCALES = "scales are shared where elements only move"
_MEMORY = "calibration takes one pass, and memory that does not grow with the samples"

# QuantizationConfig(...)
FIELDS = table([
    honoured("calibrate_method", "`activation_range`; those of PowerOfTwoMethod and Int16Method also `*_scale_kind`"),
    honoured("quant_format", "QDQ, or QOperator as `form=\"qoperator\"`"),
    honoured("activation_type", "`activations`"),
    honoured("weight_type", "`weights`"),
    honoured("input_nodes", "nodes before them are excluded (rule `to=...`)"),
    honoured("output_nodes", "nodes behind them are excluded (rule `from=...`)"),
    honoured("op_types_to_quantize", "a rule excludes all others (`not_op_types`)"),
    honoured("nodes_to_quantize", "a rule excludes all others (`not_names`)"),
    notice("extra_op_types_to_quantize", "every operator is quantized anyway (`placement=all`)", (), []),
    honoured("nodes_to_exclude", "rules with `exclude`; a name that begins with ^ is a regular expression"),
    honoured("subgraphs_to_exclude", "rules `from=... to=...: exclude`"),
    honoured("specific_tensor_precision", "with `MixedPrecisionTensor`: rules for tensors"),
    notice("execution_providers", "calibration runs on the CPU", ("CPUExecutionProvider",), ["CPUExecutionProvider"]),
    honoured("per_channel", "`weight_granularity=per_axis`"),
    honoured("reduce_range", "`reduce_range`"),
    honoured("optimize_model", "False is `as_is=True`"),
    honoured("use_dynamic_quant", "`activation_range=dynamic`"),
    honoured("use_external_data_format", "`external_data`"),
    refused("convert_fp16_to_fp32", "FLOAT16 networks become FLOAT where activations become integers, and keep their type in other formats", "leave it out", False),
    refused("convert_nchw_to_nhwc", "inputs keep their layout", "leave it out, or transpose the input in the model", False),
    honoured("include_sq", "`smooth_quant` with SmoothAlpha"),
    refused("include_rotation", "QuaRot's rotations, which go into the weights, are not done", "rotate=32 of bitpress.quantize, which turns the inputs of products, or include_sq=True", False),
    honoured("include_cle", "`equalize`; a Clip such as ReLU6 between layers stays, as there"),
    honoured("include_auto_mp", "with `AutoMixprecision`"),
    honoured("include_fast_ft", "`finetune`, with `FastFinetune`"),
    notice("enable_npu_cnn", _NPU + "; power-of-two scales come from the calibration method", False),
    notice("enable_npu_transformer", _NPU, False),
    notice("debug_mode", "nothing more is printed", False),
    refused("crypto_mode", "models go through temporary files", "leave it out, on a machine whose temporary folder is private", False),
    notice("print_summary", "quantize_model returns nothing to print; `bitpress inspect` does", True, False),
    notice("ignore_warnings", "notices are Python warnings", True, False),
    notice("log_severity_level", "there is no log", 1),
])

# extra_options={...} of both interfaces, and further arguments of QConfig
OPTIONS = table([
    honoured("ActivationSymmetric", "`activation_symmetric`; not given, integers are asymmetric"),
    honoured("WeightSymmetric", "`weight_symmetric`; not given, signed weights are symmetric and unsigned ones are not"),
    honoured("Percentile", "`activation_range=percentile(P)`"),
    honoured("CalibMovingAverage", "`activation_range=moving_average`, which does not depend on the order of samples"),
    notice("CalibMovingAverageConstant", "the average of all samples is taken", 0.01),
    notice("CalibTensorRangeSymmetric", "symmetric types have symmetric ranges, others are not widened", False),
    honoured("CalibDataSize", "`calibration_samples`, which does not limit fine-tuning"),
    notice("CalibWorkerNum", _MEMORY, 1),
    notice("CalibOptimizeMem", _MEMORY, True),
    notice("CalibOptimizeDisk", _MEMORY, True),
    notice("CalibPassthroughOpTypes", _SCALES, []),
    notice("NumBins", "histograms have bins of 1/256 of their values", 2048, 128),
    notice("NumQuantizedBins", "histograms have bins of 1/256 of their values", 128),
    notice("LWPMetric", "the candidate with the least squared error is taken", "mse"),
    notice("PercentileCandidates", "candidates are those of docs/range_methods.md", [99.99, 99.999, 99.99999]),
    notice("MinMSEModePof2Scale", "all samples are looked at", "All"),
    honoured("WeightCalibrateMethod", "`weight_range`"),
    notice("MinMSEModeFloatScale", "the whole tensor is looked at", "All"),
    honoured("UseRandomData", "samples from RandomDataReaderInputShape"),
    honoured("RandomDataReaderInputShape", "the shapes of random samples"),
    honoured("RandomDataReaderInputDataRange", "their ranges"),
    honoured("Int16Scale", "`activation_scale_kind` and `weight_scale_kind` int16"),
    honoured("BFPAttributes", "the format of QBFP"),
    honoured("MXAttributes", "the format of QMX"),
    honoured("FastFinetune", "`finetune`"),
    honoured("AutoMixprecision", "rules for the operators that are lowered"),
    honoured("MixedPrecisionTensor", "rules for tensors"),
    honoured("TensorQuantOverrides", "rules for tensors"),
    honoured("SmoothAlpha", "`smooth_quant`"),
    honoured("CLESteps", "`equalize_steps`"),
    honoured("CLEScaleAppendBias", "`equalize_bias=0.05`, the share that Quark takes"),
    notice("CLEWeightThreshold", "every channel with a weight is scaled", 0.5),
    notice("CLETotalLayerDiffThreshold", "steps end where no factor changes by a thousandth", 1.9e-7),
    notice("CLEBalanceMethod", "ranges are balanced by their largest magnitude", "max"),
    notice("CLEScaleUseThreshold", "every channel with a weight is scaled", True),
    honoured("ReplaceClip6Relu", "`equalize_clips`: the Clip is kept, with a limit for each channel where True"),
    honoured("QuantizeBias", "False is `biases=none`"),
    honoured("Int32Bias", "`biases=int32`, or the format of the weights; False is the default for power-of-two scales"),
    honoured("Int16Bias", "`biases=int16`"),
    notice("AdjustBiasScale", "biases have the scale of the products that they are added to", True),
    honoured("ActivationScaled", "`activation_scaled`"),
    honoured("WeightScaled", "`weight_scaled`"),
    honoured("BF16QDQToCast", "`operators=cast`"),
    notice("BF16WithClip", "bfloat16 reaches as far as float32", False),
    refused("EnableVaimlBF16", "it writes a form that only one compiler reads", "BF16QDQToCast", False),
    notice("RefineBlockAxis", "blocks of matrix products always run along the axis that is summed over", True),
    honoured("WeightsOnly", "`activations=none`"),
    honoured("UseMatMulNBits", "weights in blocks and operators that compute from codes (`target=\"onnxruntime\"`)"),
    honoured("MatMulNBitsParams", "GroupSize, Symmetric, Bits, AccuracyLevel, Algorithm"),
    honoured("OpTypesToQuantize", "as op_types_to_quantize"),
    honoured("NodesToQuantize", "as nodes_to_quantize"),
    notice("ExtraOpTypesToQuantize", "every operator is quantized anyway (`placement=all`)", []),
    notice("QuantizeAllOpTypes", "every operator is quantized anyway (`placement=all`)", True),
    notice("ForceQuantizeNoInputCheck", "every operator is quantized anyway (`placement=all`)", True),
    notice("MatMulConstBOnly", "products of activations are quantized too, where both sides are", False),
    honoured("EnableSubgraph", "bodies of If, Loop and Scan stay float; True is refused"),
    notice("AddQDQPairToWeight", "weights are stored as codes", False),
    notice("DedicatedQDQPair", "a value that is read in the same way is quantized once; the outputs are the same", False),
    notice("DedicateDQNode", "a value that is read in the same way is quantized once; the outputs are the same", False),
    honoured("EnableDualQuantNodePairs", "`dual_quant`"),
    refused("OpTypesToExcludeOutputQuantization", "quantizers belong to who reads a value", "exclude the readers", []),
    refused("NodesToExcludeOutputQuantization", "quantizers belong to who reads a value", "exclude the readers", []),
    notice("QDQOpTypePerChannelSupportToAxis", "channels are those of the product that a weight is in", {}),
    notice("UseUnsignedReLU", "asymmetric ranges cover zero; unsigned types need no more", False),
    notice("AlignEltwiseQuantType", "constants of Mul, Add and their kin have the format of activations", True),
    *[notice(name, _SCALES, True)
      for name in ("AlignConcat", "AlignPool", "AlignPad", "AlignSlice", "AlignTranspose", "AlignReshape")],
    honoured("RemoveQDQConvClip", _REMOVAL.format("a Clip from 0 to 6 or to 1", "True")),
    *[honoured(f"RemoveQDQConv{name}", _REMOVAL.format(name, default))
      for name, default in (("Relu", "True"), ("LeakyRelu", "True"), ("PRelu", "True"), ("Gelu", "False"))],
    honoured("RemoveQDQMulAdd", "`float_between`: True is none between Mul and Add"),
    honoured("RemoveQDQInstanceNorm", "`float_between`: True is none between InstanceNormalization and those activation functions either"),
    honoured("RemoveFusedQDQ", "`float_between_blocks`: True holds for block formats, too"),
    honoured("RemoveQDQBetweenOps", "`float_between`: pairs of operator types"),
    *[notice(name, _NPU, False)
      for name in ("SimulateDPU", "ConvertLeakyReluToDPUVersion", "ConvertSigmoidToHardSigmoid", "ConvertHardSigmoidToDPUVersion",
                   "ConvertAvgPoolToDPUVersion", "ConvertClipToDPUVersion", "ConvertReduceMeanToDPUVersion",
                   "ConvertSoftmaxToDPUVersion", "NPULimitationCheck", "AdjustShiftCut", "AdjustShiftBias", "AdjustShiftRead",
                   "AdjustShiftWrite", "AdjustHardSigmoid", "AdjustShiftSwish")],
    notice("MaxLoopNum", _NPU, 5),
    honoured("OptimizeModel", "False is `as_is=True`"),
    honoured("SkipPreprocess", "True is `as_is=True`"),
    *[notice(name, _GRAPH, True) for name in ("SimplifyModel", "RemoveInputInit", "FoldBatchNorm")],
    *[notice(name, _GRAPH, False)
      for name in ("FuseInstanceNorm", "FuseL2Norm", "FuseGelu", "FuseLayerNorm", "FoldRelu", "ConvertBNToConv",
                   "ConvertReduceMeanToGlobalAvgPool", "SplitLargeKernelPool", "ConvertSplitToSlice", "ConvertClipToRelu",
                   "FillAllValueInfo")],
    *[notice(name, _GRAPH, [], {}) for name in ("SimplifyModelOptions", "CopySharedInit", "CopyBiasInit")],
    refused("PreprocessYAML", "there are no files of passes", "change the model before"),
    refused("ConvertOpsetVersion", "models keep their opset", "onnx.version_converter before"),
    refused("ConvertFP16ToFP32", "models are quantized in the type that they have; float16 is", "leave it out", False),
    refused("ConvertNCHWToNHWC", "inputs keep their layout", "leave it out, or transpose the input in the model", False),
    notice("QuantizeFP16", "float16 models are quantized as they are", True),
    notice("UseFP32Scale", "scales are float32 where the operator set takes them", True),
    refused("FixShapes", "shapes stay as they are", "onnxruntime.tools.make_dynamic_shape_fixed before"),
    notice("SaveAndRestore", "a stopped fine-tuning goes on by itself; calibrations are files of bitpress.calibrate"),
    notice("SaveTensorHistFig", "no figures are drawn", False),
    notice("TmpDir", "the system's temporary folder is used (TMPDIR)"),
    refused("UserCustomOpLibPath", "operators that ONNX Runtime does not have cannot be run here", "exclude them in a model without"),
    refused("EncryptionAlgorithm", "nothing is encrypted", "leave it out"),
    refused("CryptoMode", "models go through temporary files", "leave it out, on a machine whose temporary folder is private", False),
    notice("ExecutionProviders", "calibration runs on the CPU", ["CPUExecutionProvider"]),
    notice("DebugMode", "nothing more is printed", False),
    notice("PrintSummary", "quantize_model returns nothing to print; `bitpress inspect` does", True, False),
    notice("IgnoreWarnings", "notices are Python warnings", True, False),
    notice("EvalMetrics", "bitpress.evaluate compares models", False),
    notice("EvalDataReader", "bitpress.evaluate compares models"),
])

# Values with which words of fine-tuning ask for nothing.
_NEUTRAL = {"UpdateBias": (True,), "OptimDevice": ("cpu",), "InferDevice": ("cpu",), "BlockSize": (128,)}
# Words of GPTQ, which has a table of its own.
_OF_GPTQ = ("PercDamp", "ActOrder", "BlockSize", "MSE", "PerChannel")


def _learning_word(name: str, fate: str, setting: str, reason: str) -> Word:
    """A row of the library's table, which `bitpress quantize --finetune-option` reads too."""
    if fate == "honoured":
        return honoured(name, f"`{setting}`")
    if fate == "accepted":
        return notice(name, reason, *_NEUTRAL.get(name, ()))
    text, _, nearest = reason.partition("; ")
    return refused(name, text, nearest)


def snake_case(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


def _in_snake_case(word: Word) -> Word:
    """Returns the word as the newer interface spells it."""
    return dataclasses.replace(word, name=snake_case(word.name))


_LEARNING = table(_learning_word(*row) for row in list_finetune_options())
# Names of our settings of fine-tuning, by the words of both interfaces.
FINETUNE_SETTINGS = {spelled.name: setting for name, fate, setting, _ in list_finetune_options() if fate == "honoured"
                     for spelled in (_LEARNING[name], _in_snake_case(_LEARNING[name]))}

# extra_options["FastFinetune"], in Quark's older words
FAST_FINETUNE = table(word for word in _LEARNING.values() if word.name not in _OF_GPTQ)

# AdaRoundConfig(...), AdaQuantConfig(...)
FINETUNE = table(_in_snake_case(word) for word in FAST_FINETUNE.values() if word.name != "OptimAlgorithm")

# The other algorithms
GPTQ = table([
    honoured("bits", "`weights`"),
    honoured("group_size", "`weight_granularity=per_block`; -1 is none"),
    honoured("per_channel", "`weight_granularity`"),
    honoured("weight_symmetric", "`weight_symmetric`"),
    honoured("mse", "`finetune=clip_search+gptq+bias_correction`"),
    *[_in_snake_case(_LEARNING[name]) for name in ("BlockSize", "PercDamp", "ActOrder")],
])
SMOOTH_QUANT = table([honoured("alpha", "`smooth_quant`")])
CLE = table([
    honoured("cle_steps", "`equalize_steps`"),
    honoured("cle_scale_append_bias", "`equalize_bias=0.05`, the share that Quark takes"),
    notice("cle_balance_method", "ranges are balanced by their largest magnitude", "max"),
    notice("cle_weight_threshold", "every channel with a weight is scaled", 0.5),
    notice("cle_scale_use_threshold", "every channel with a weight is scaled", True),
    notice("cle_total_layer_diff_threshold", "steps end where no factor changes by a thousandth", 1.9e-7),
])
BIAS_CORRECTION = table([])

# extra_options["AutoMixprecision"], in Quark's older words
AUTO_MIXPRECISION = table([
    honoured("TargetOpType", "the operator types that are lowered"),
    honoured("TargetQuantType", "their formats"),
    honoured("ActTargetQuantType", "their `activations`"),
    honoured("WeightTargetQuantType", "their `weights`"),
    honoured("BiasTargetQuantType", "their `biases`"),
    honoured("DualQuantNodes", "`dual_quant`"),
    honoured("OutputIndex", "the output that the target is about (default 0)"),
    honoured("DataSize", "`samples`"),
    honoured("L2Target", "a greedy `search` for the target \"l2<=...\""),
    honoured("Top1AccTarget", "a greedy `search` for the target \"metric_drop<=...\""),
    honoured("EvaluateFunction", "its metric: called with the output of all samples, one array"),
    refused("NumTarget", "layers are lowered until a target is missed, or all of them", "L2Target or Top1AccTarget"),
])

# AutoMixprecisionConfig(...)
AMP = table([
    honoured("target_layer_config", "the formats of a rule; with a dict one rule for each entry"),
    honoured("target_op_type", "its operator types"),
    honoured("include_layers", "the names of layers that are lowered"),
    honoured("exclude_layers", "names of layers that stay as they are"),
    honoured("dual_quant_nodes", "`dual_quant`"),
    notice("no_input_qdq_shared", "a value gets the format of each reader", False),
    notice("shared_param_mode", "values that share a scale change together", "propagate"),
    honoured("data_size", "`samples`"),
    honoured("metric_output_index", "the output that the threshold is about (default 0)"),
    honoured("metric_default", "l2, sqnr and cosine"),
    honoured("metric_threshold", "the target of a `search`"),
    honoured("metric_optimize_object", "speed: the greedy strategy; quality: the least cost that reaches the target"),
    notice("worker_num", "models run on all cores", 1),
    honoured("metric_evaluate_fn", "called with the output of all samples, one array; better the larger it is, may fall by the threshold"),
    honoured("metric_distance_fn", "called with the float model's output and the quantized one's; the threshold is the largest distance"),
    refused("sensitivity_cache_file", "its form is another one", "bitpress.sensitivity(output=...)"),
    refused("subgraph_json", "groups of nodes are not measured together", "specific_layer_config with subgraphs"),
])

# Title of each table in the documentation.
TABLES = {
    "`QuantizationConfig`": FIELDS,
    "`extra_options`": OPTIONS,
    "`extra_options[\"FastFinetune\"]`": FAST_FINETUNE,
    "`AdaRoundConfig`, `AdaQuantConfig`": FINETUNE,
    "`GPTQConfig`": GPTQ,
    "`SmoothQuantConfig`": SMOOTH_QUANT,
    "`CLEConfig`": CLE,
    "`extra_options[\"AutoMixprecision\"]`": AUTO_MIXPRECISION,
    "`AutoMixprecisionConfig`": AMP,
}
