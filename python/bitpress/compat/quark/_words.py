"""The table of fates of AMD Quark's words."""

import dataclasses
import re

from bitpress._native import list_finetune_options
from bitpress.compat import _values as v
from bitpress.compat._fates import Word, honoured, notice, refused, table, with_kinds
from bitpress.compat.quark._names import NAMES

_NPU = "it adapts models to AMD's NPU compiler"
_REMOVAL = "`float_between`: no quantizer between a product, sum or pool and {} that alone reads it; not given, {}"
_GRAPH = "ONNX Runtime's basic optimizations prepare every model; it is not rewritten further"
_SCALES = "scales are shared where elements only move"
_MEMORY = "calibration takes one pass, and memory that does not grow with the samples"
_ROTATIONS = "QuaRot's rotations, which go into the weights, are not done"
_INSTEAD_OF_ROTATIONS = "rotate=32 of bitpress.quantize, which turns the inputs of products, or include_sq=True"
_SPECS = "what its name says"

TYPES = v.one_of("QInt8", "QUInt8", "QInt16", "QUInt16", "QInt32", "QUInt32", "QInt4", "QUInt4", "QFloat16", "QBFloat16", "QBloat16", "QBFP",
                  "QMX", "Int8", "UInt8", "Int16", "UInt16", "Int32", "UInt32", "Float16", "BFloat16", takes_none=False)
_SUBGRAPHS = v.Kind("a list of subgraphs ([starts], [ends])", v.LIST.is_type,
                    lambda value: all(v.LIST.is_type(item) and len(item) == 2 and all(map(v.NAMES.is_type, item)) for item in value))
_SIZES = v.list_of(v.whole(1))
_SHAPES = v.either(v.Kind("a dict of input -> list of sizes", lambda value: v.MAPPING.is_type(value) and all(map(_SIZES.is_type, value.values())),
                          lambda value: all(map(_SIZES.is_allowed, value.values()))), _SIZES, v.list_of(_SIZES))
_RANGES = v.Kind("a dict of input -> [smallest, largest]",
                 lambda value: v.MAPPING.is_type(value) and all(v.list_of(v.NUMBER).is_type(item) for item in value.values()),
                 lambda value: all(len(item) == 2 and item[0] <= item[1] for item in value.values()))
_DEVICE = v.Kind("'cpu', 'cuda:N' or 'hip:N'", v.TEXT.is_type, lambda value: re.fullmatch(r"cpu|(cuda|hip|rocm)(:\d+)?", value.lower()) is not None)

# QuantizationConfig(...)
FIELDS = with_kinds(table([
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
    refused("convert_nchw_to_nhwc", "inputs keep their layout", "leave it out, or passes=\"nhwc-inputs=all\" of bitpress.quantize", False),
    honoured("include_sq", "`smooth_quant` with SmoothAlpha"),
    refused("include_rotation", _ROTATIONS, _INSTEAD_OF_ROTATIONS, False),
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
]), {
    "calibrate_method": v.one_of("MinMax", "Entropy", "Percentile", "Distribution", "LayerWisePercentile", "NonOverflow", "MinMSE", takes_none=False),
    "quant_format": v.one_of("QDQ", "QOperator", takes_none=False), "activation_type": TYPES, "weight_type": TYPES,
    **dict.fromkeys(("input_nodes", "output_nodes", "op_types_to_quantize", "nodes_to_quantize", "extra_op_types_to_quantize", "nodes_to_exclude"),
                    v.NAMES),
    "subgraphs_to_exclude": _SUBGRAPHS, "execution_providers": v.either(v.NAMES, v.TEXT),
    **dict.fromkeys(("specific_tensor_precision", "per_channel", "reduce_range", "optimize_model", "use_dynamic_quant", "use_external_data_format",
                     "include_sq", "include_cle", "include_auto_mp", "include_fast_ft"), v.FLAG),
    "log_severity_level": v.whole(0, 4),
})

# Fields that None is no value of.
NEEDED = ("calibrate_method", "quant_format", "activation_type", "weight_type")

# extra_options={...} of both interfaces, and further arguments of QConfig
OPTIONS = with_kinds(table([
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
    notice("LWPUseHistogram", "histograms have bins of 1/256 of their values", True),
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
    notice("QuantizationPreference", "calibration and fine-tuning have no trade of accuracy for speed or memory"),
    honoured("UseGPTQ", "`finetune=gptq`, with `GPTQParams`"),
    honoured("GPTQParams", "the words of `GPTQConfig`"),
    honoured("BiasCorrection", "`finetune=bias_correction`"),
    refused("RConfigPath", _ROTATIONS, _INSTEAD_OF_ROTATIONS),
    refused("RMatrixDim", _ROTATIONS, _INSTEAD_OF_ROTATIONS, 4096),
    refused("UseRandomHad", _ROTATIONS, _INSTEAD_OF_ROTATIONS, False),
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
    notice("AdjustWeightScaleForInt32Bias", "weight scales are raised where a bias would not fit int32, always", True),
    honoured("ActivationScaled", "`activation_scaled`"),
    honoured("WeightScaled", "`weight_scaled`"),
    honoured("BF16QDQToCast", "`operators=cast`"),
    notice("BF16WithClip", "bfloat16 reaches as far as float32", False),
    refused("EnableVaimlBF16", "it writes a form that only one compiler reads", "BF16QDQToCast", False),
    notice("RefineBlockAxis", "blocks of matrix products always run along the axis that is summed over", True),
    honoured("WeightsOnly", "`activations=none`"),
    honoured("UseMatMulNBits", "weights in blocks and operators that compute from codes (`target=\"onnxruntime\"`)"),
    honoured("MatMulNBitsParams", "GroupSize, Symmetric, Bits, AccuracyLevel, Algorithm"),
    honoured("InputNodes", "as input_nodes"),
    honoured("OutputNodes", "as output_nodes"),
    honoured("SpecificTensorPrecision", "as specific_tensor_precision"),
    notice("NodesWithMixedPrecision", "mixed precision knows its nodes", [], {}),
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
    honoured("OpTypesToExcludeOutputQuantization", "rules leave the outputs of these operators float"),
    honoured("NodesToExcludeOutputQuantization", "rules leave the outputs of these nodes float"),
    notice("QDQOpTypePerChannelSupportToAxis", "channels are those of the product that a weight is in", {}),
    notice("UseUnsignedReLU", "asymmetric ranges cover zero; unsigned types need no more", False),
    notice("AlignEltwiseQuantType", "constants of Mul, Add and similar operators have the format of activations", True),
    *[notice(name, _SCALES, True)
      for name in ("AlignConcat", "AlignPool", "AlignPad", "AlignSlice", "AlignTranspose", "AlignReshape")],
    honoured("RemoveQDQConvClip", _REMOVAL.format("a Clip from 0 to 6 or to 1", "True")),
    *[honoured(f"RemoveQDQConv{name}", _REMOVAL.format(name, default))
      for name, default in (("Relu", "True"), ("LeakyRelu", "True"), ("PRelu", "True"), ("Gelu", "False"))],
    honoured("RemoveQDQMulAdd", "`float_between`: True is none between Mul and Add"),
    honoured("RemoveQDQInstanceNorm", "`float_between`: True is none between InstanceNormalization and those activation functions either"),
    honoured("RemoveFusedQDQ", "`float_between_blocks`: True holds for block formats, too"),
    honoured("RemoveQDQBetweenOps", "`float_between`: pairs of operator types"),
    honoured("EnableNPUCnn", "as enable_npu_cnn: biases have the type of weights"),
    *[notice(name, _NPU, False)
      for name in ("ConvertInstanceNormToDPUVersion", "SimulateDPU", "ConvertLeakyReluToDPUVersion", "ConvertSigmoidToHardSigmoid", "ConvertHardSigmoidToDPUVersion",
                   "ConvertAvgPoolToDPUVersion", "ConvertClipToDPUVersion", "ConvertReduceMeanToDPUVersion",
                   "ConvertSoftmaxToDPUVersion")],
    *[notice(name, "target=\"ryzenai\" of bitpress.quantize keeps these limits", False)
      for name in ("NPULimitationCheck", "AdjustShiftCut", "AdjustShiftBias", "AdjustShiftRead", "AdjustShiftWrite", "AdjustHardSigmoid",
                   "AdjustShiftSwish")],
    notice("MaxLoopNum", _NPU, 5),
    honoured("OptimizeModel", "False is `as_is=True`"),
    honoured("SkipPreprocess", "True is `as_is=True`"),
    *[notice(name, _GRAPH, True) for name in ("SimplifyModel", "RemoveInputInit", "FoldBatchNorm")],
    *[notice(name, _GRAPH, False)
      for name in ("FuseInstanceNorm", "FuseL2Norm", "FuseGelu", "FuseLayerNorm", "FoldRelu", "ConvertBNToConv",
                   "ConvertReduceMeanToGlobalAvgPool", "SplitLargeKernelPool", "ConvertSplitToSlice", "ConvertClipToRelu",
                   "FillAllValueInfo")],
    *[notice(name, _GRAPH, [], {}) for name in ("SimplifyModelOptions", "CopySharedInit", "CopyBiasInit")],
    *[notice(name, "operators are those of the format and of `operators`", value)
      for name, value in (("UseQDQContribOps", False), ("UseQDQVitisCustomOps", True))],
    notice("UsePowerOf2Scale", "the calibration method and the specification say it", True, False),
    refused("PreprocessYAML", "there are no files of passes", "change the model before"),
    refused("ShapeShifterYaml", "there are no files of passes", "change the model before"),
    refused("ConvertOpsetVersion", "models keep their opset", "onnx.version_converter before"),
    refused("ConvertFP16ToFP32", "models are quantized in the type that they have; float16 is", "leave it out", False),
    refused("ConvertNCHWToNHWC", "inputs keep their layout", "leave it out, or passes=\"nhwc-inputs=all\" of bitpress.quantize", False),
    notice("QuantizeFP16", "float16 models are quantized as they are", True),
    notice("UseFP32Scale", "scales are float32 where the operator set takes them", True),
    refused("FixShapes", "shapes stay as they are", "passes=\"fix-shapes=INPUT:1x3x224x224\" of bitpress.quantize"),
    notice("TensorsRangeFile", "ranges are measured in each run; calibrations are files of bitpress.calibrate"),
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
]), {
    **dict.fromkeys(("ActivationSymmetric", "WeightSymmetric", "CalibMovingAverage", "UseRandomData", "Int16Scale", "CLEScaleAppendBias",
                     "ReplaceClip6Relu", "QuantizeBias", "Int32Bias", "Int16Bias", "ActivationScaled", "WeightScaled", "BF16QDQToCast",
                     "WeightsOnly", "UseMatMulNBits", "EnableSubgraph", "EnableDualQuantNodePairs", "OptimizeModel", "SkipPreprocess",
                     "EnableNPUCnn", "UseGPTQ", "BiasCorrection", "SpecificTensorPrecision", "RemoveQDQConvClip", "RemoveQDQConvRelu",
                     "RemoveQDQConvLeakyRelu", "RemoveQDQConvPRelu", "RemoveQDQConvGelu", "RemoveQDQMulAdd", "RemoveQDQInstanceNorm",
                     "RemoveFusedQDQ"), v.FLAG),
    **dict.fromkeys(("BFPAttributes", "MXAttributes", "FastFinetune", "AutoMixprecision", "MixedPrecisionTensor", "TensorQuantOverrides",
                     "MatMulNBitsParams", "GPTQParams", "QDQOpTypePerChannelSupportToAxis"), v.MAPPING),
    **dict.fromkeys(("OpTypesToQuantize", "NodesToQuantize", "ExtraOpTypesToQuantize", "InputNodes", "OutputNodes",
                     "OpTypesToExcludeOutputQuantization", "NodesToExcludeOutputQuantization", "CalibPassthroughOpTypes"), v.NAMES),
    **dict.fromkeys(("CalibDataSize", "CalibWorkerNum", "NumQuantizedBins", "MaxLoopNum", "RMatrixDim"), v.whole(1)),
    **dict.fromkeys(("CLEWeightThreshold", "CLETotalLayerDiffThreshold"), v.number(0)),
    **dict.fromkeys(("TensorsRangeFile", "SaveAndRestore", "TmpDir"), v.PATH),
    "NumBins": v.whole(0), "CLESteps": v.whole(-1), "SmoothAlpha": v.number(0, 1), "Percentile": v.number(50, 100),
    "CalibMovingAverageConstant": v.number(0, 1, is_above=True), "PercentileCandidates": v.list_of(v.number(50, 100)),
    "LWPMetric": v.one_of("mae", "mse"), "MinMSEModePof2Scale": v.one_of("All", "MostCommon", "Percentile"),
    "MinMSEModeFloatScale": v.one_of("All", "HistCenter", "Percentile"), "WeightCalibrateMethod": v.one_of("MinMax", "MinMSE"),
    "CLEBalanceMethod": v.one_of("max"), "QuantizationPreference": v.one_of("accuracy", "speed", "resource_efficiency"),
    "RandomDataReaderInputShape": _SHAPES, "RandomDataReaderInputDataRange": _RANGES, "ExecutionProviders": v.either(v.NAMES, v.TEXT),
})

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


def camel_case(name: str) -> str:
    """Returns the word as the older interface spells it."""
    return "".join(part.upper() if part in ("cle", "lr", "mse", "gds", "qdq") else part.capitalize() for part in name.split("_"))


def _in_snake_case(word: Word) -> Word:
    """Returns the word as the newer interface spells it."""
    return dataclasses.replace(word, name=snake_case(word.name))


_LEARNING = with_kinds(table(_learning_word(*row) for row in list_finetune_options()), {
    "OptimAlgorithm": v.Kind("'adaround' or 'adaquant'", v.TEXT.is_type, lambda value: value.lower() in ("adaround", "adaquant")), "OptimDevice": _DEVICE, "InferDevice": _DEVICE, "TargetOpType": v.NAMES,
    **dict.fromkeys(("DataSize", "NumIterations", "BatchSize", "NumBatches", "LogPeriod", "BlockSize"), v.whole(1)),
    **dict.fromkeys(("FixedSeed", "OutputIndex", "NumWorkers"), v.whole(0)), "MemOptLevel": v.whole(0, 2),
    **dict.fromkeys(("LearningRate", "PercDamp"), v.number(0, is_above=True)), "RegParam": v.number(0),
    **dict.fromkeys(("WarmStart", "DropRatio"), v.number(0, 1)), **dict.fromkeys(("LRAdjust", "BetaRange"), v.list_of(v.NUMBER, 2)),
    **dict.fromkeys(("CacheDir", "RefModelPath"), v.PATH),
    **dict.fromkeys(("ActOrder", "DynamicBatch", "EarlyStop", "SelectiveUpdate", "UpdateBias", "OutputQDQ", "Parallel", "SelectMaxMemLayer",
                     "PinMemory", "UseGDS", "MSE", "PerChannel"), v.FLAG),
})
# Names of our settings of fine-tuning, by the words of both interfaces.
FINETUNE_SETTINGS = {spelled.name: setting for name, fate, setting, _ in list_finetune_options() if fate == "honoured"
                     for spelled in (_LEARNING[name], _in_snake_case(_LEARNING[name]))}

# extra_options["FastFinetune"], in Quark's older words
FAST_FINETUNE = table(word for word in _LEARNING.values() if word.name not in _OF_GPTQ)

# AdaRoundConfig(...), AdaQuantConfig(...)
FINETUNE = table(_in_snake_case(word) for word in FAST_FINETUNE.values() if word.name != "OptimAlgorithm")

# The other algorithms
GPTQ = with_kinds(table([
    honoured("bits", "`weights`"),
    honoured("group_size", "`weight_granularity=per_block`; -1 is none"),
    honoured("per_channel", "`weight_granularity`"),
    honoured("weight_symmetric", "`weight_symmetric`"),
    honoured("mse", "`finetune=clip_search+gptq+bias_correction`"),
    *[_in_snake_case(_LEARNING[name]) for name in ("BlockSize", "PercDamp", "ActOrder")],
]), {"bits": v.one_of(4, 8, 16), "group_size": v.whole(-1), **dict.fromkeys(("per_channel", "weight_symmetric", "mse", "act_order"), v.FLAG),
     "block_size": v.whole(1), "perc_damp": v.number(0, is_above=True)})
SMOOTH_QUANT = with_kinds(table([honoured("alpha", "`smooth_quant`")]), {"alpha": v.number(0, 1)})
CLE = with_kinds(table([
    honoured("cle_steps", "`equalize_steps`"),
    honoured("cle_scale_append_bias", "`equalize_bias=0.05`, the share that Quark takes"),
    notice("cle_balance_method", "ranges are balanced by their largest magnitude", "max"),
    notice("cle_weight_threshold", "every channel with a weight is scaled", 0.5),
    notice("cle_scale_use_threshold", "every channel with a weight is scaled", True),
    notice("cle_total_layer_diff_threshold", "steps end where no factor changes by a thousandth", 1.9e-7),
]), {"cle_steps": v.whole(-1), "cle_scale_append_bias": v.FLAG, "cle_balance_method": v.one_of("max"),
     **dict.fromkeys(("cle_weight_threshold", "cle_total_layer_diff_threshold"), v.number(0))})
BIAS_CORRECTION = table([])
QUAROT = table([refused(name, _ROTATIONS, _INSTEAD_OF_ROTATIONS) for name in ("r_matrix_dim", "use_random_had", "r_config_path")])

# extra_options["AutoMixprecision"], in Quark's older words
AUTO_MIXPRECISION = with_kinds(table([
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
]), {"TargetOpType": v.either(v.NAMES, v.TEXT),
     **dict.fromkeys(("TargetQuantType", "ActTargetQuantType", "WeightTargetQuantType", "BiasTargetQuantType"), TYPES),
     "DualQuantNodes": v.FLAG, "OutputIndex": v.whole(0), "DataSize": v.whole(0), "NumTarget": v.whole(0),
     "L2Target": v.number(0, is_above=True), "Top1AccTarget": v.number(0, 1), "EvaluateFunction": v.FUNCTION})

# AutoMixprecisionConfig(...); with upper case letters, as TargetLayerConfig, the newer words of extra_options["AutoMixprecision"]
AMP = with_kinds(table([
    honoured("target_layer_config", "the formats of a rule; with a dict one rule for each entry; of a list each layer gets the one that it loses least with"),
    honoured("target_op_type", "its operator types"),
    honoured("include_layers", "the names of layers that are lowered"),
    honoured("exclude_layers", "names of layers that stay as they are"),
    honoured("dual_quant_nodes", "`dual_quant`"),
    notice("no_input_qdq_shared", "a value gets the format of each reader", False),
    notice("shared_param_mode", "values that share a scale change together", "propagate"),
    honoured("data_size", "`samples`"),
    honoured("metric_output_index", "the output that the threshold is about (default 0)"),
    honoured("metric_default", "l2, sqnr and cosine as targets of a `search`; kl and psnr as its metric, with Quark's formulas"),
    honoured("metric_threshold", "the target of a `search`; None: layers are measured, and stay as they are"),
    honoured("metric_optimize_object", "speed: the greedy strategy; quality: the least cost that reaches the target"),
    notice("worker_num", "models run on all cores", 1),
    honoured("metric_evaluate_fn", "called with the output of all samples, one array; better the larger it is, may fall by the threshold"),
    honoured("metric_distance_fn", "called with the float model's output and the quantized one's; the threshold is the largest distance"),
    honoured("sensitivity_cache_file", "the report of `bitpress.sensitivity` is written there; a file that is there is not read"),
    refused("subgraph_json", "groups of nodes are not measured together", "specific_layer_config with subgraphs"),
]), {"target_op_type": v.either(v.NAMES, v.TEXT), "include_layers": v.NAMES, "exclude_layers": v.NAMES, "data_size": v.whole(0),
     "dual_quant_nodes": v.FLAG, "shared_param_mode": v.one_of("propagate", "unshare"), "metric_output_index": v.whole(0),
     "metric_default": v.one_of("l2", "kl", "cosine", "sqnr", "psnr"), "metric_threshold": v.NUMBER, "worker_num": v.whole(1),
     "metric_optimize_object": v.one_of("speed", "quality"), "metric_evaluate_fn": v.FUNCTION, "metric_distance_fn": v.FUNCTION,
     "sensitivity_cache_file": v.PATH, "subgraph_json": v.PATH})

# QTensorConfig(...) and the specifications
SPEC = with_kinds(table([honoured(name, _SPECS) for name in ("symmetric", "scale_type", "calibration_method", "quant_granularity", "data_type")]), {
    "symmetric": v.FLAG, "scale_type": v.one_of("Float32", "PowerOf2", "Int16", takes_none=False),
    "calibration_method": v.one_of("MinMax", "MinMSE", "Percentile", "Entropy", "LayerwisePercentile", "Distribution", takes_none=False),
    "quant_granularity": v.one_of("Tensor", "Channel", "Group", takes_none=False),
})

# extra_options["GPTQParams"], extra_options["MatMulNBitsParams"]
GPTQ_PARAMS = table(dataclasses.replace(GPTQ[snake], name=name) for name, snake in (
    ("Bits", "bits"), ("BlockSize", "block_size"), ("PercDamp", "perc_damp"), ("GroupSize", "group_size"), ("ActOrder", "act_order"),
    ("PerChannel", "per_channel"), ("WeightSymmetric", "weight_symmetric"), ("MSE", "mse")))
MATMUL_NBITS = with_kinds(table([
    honoured("GroupSize", "`weight_block_size`"),
    honoured("Symmetric", "`weight_symmetric`"),
    honoured("Bits", "`weights`"),
    honoured("AccuracyLevel", "`accuracy_level`"),
    honoured("Algorithm", "GPTQ is `finetune=gptq`; HQQ is `weight_range=mse` with zero points, which chooses scales by the squared error"),
]), {"GroupSize": v.whole(16), "Symmetric": v.FLAG, "Bits": v.one_of(4, 8), "AccuracyLevel": v.whole(0, 4),
     "Algorithm": v.one_of("DEFAULT", "GPTQ", "HQQ")})

# extra_options["TensorQuantOverrides"][tensor]
_NUMBERS = "the plan's `scale` and `zero_point`; a list of dicts has those of a weight's channels"
OVERRIDES = with_kinds(table([
    honoured("quant_type", "`activations` and `weights` of a rule"),
    honoured("axis", "`weight_granularity=per_axis`"),
    honoured("symmetric", "`activation_symmetric` and `weight_symmetric`"),
    honoured("reduce_range", "`reduce_range`"),
    *[honoured(name, _NUMBERS) for name in ("scale", "zero_point", "rmin", "rmax")],
]), {"quant_type": TYPES, "axis": v.whole(-8, 7), "symmetric": v.FLAG, "reduce_range": v.FLAG, "scale": v.number(0, is_above=True),
     "zero_point": v.whole(-(2**31), 2**32), "rmin": v.NUMBER, "rmax": v.NUMBER})

# extra_options["MXAttributes"], extra_options["BFPAttributes"]
_BLOCK_KINDS = {"axis": v.whole(-5, 4), "block_size": v.whole(1), "rounding_mode": v.Kind("0, 1 or 2", v.whole(0).is_type)}
MX_ATTRIBUTES = with_kinds(table([
    honoured("element_dtype", "the format: fp8_e5m2, fp8_e4m3, fp6_e3m2, fp6_e2m3, fp4_e2m1 or int8"),
    honoured("axis", "`block_axis`"),
    honoured("block_size", "the format's block"),
    honoured("rounding_mode", "`activation_rounding`, `weight_rounding` of int8 elements; floating-point elements round half to even"),
]), {**_BLOCK_KINDS, "element_dtype": v.TEXT})
BFP_ATTRIBUTES = with_kinds(table([
    honoured("bfp_method", "to_bfp is `bfp16` or `bfp(...)`, to_bfp_prime is `mx4`, `mx6`, `mx9` or `mx(...)`"),
    honoured("axis", "`block_axis`"),
    *[honoured(name, "the format's") for name in ("bit_width", "block_size", "sub_block_size", "sub_block_shift_bits", "exponent_bits")],
    honoured("rounding_mode", "`activation_rounding`, `weight_rounding`"),
    refused("convert_to_bfloat_before_bfp", "values are rounded once", "0", 0, False),
    refused("use_compiler_version_cpu_kernel", "there is one kernel", "0", 0, False),
]), {**_BLOCK_KINDS, "bfp_method": v.TEXT, "bit_width": v.whole(10, 32), "exponent_bits": v.whole(1, 8),
     **dict.fromkeys(("sub_block_size", "sub_block_shift_bits"), v.whole(0))})

# AutoSearchConfig
SEARCH_KINDS = {
    "search_space": v.MAPPING, "search_metric": v.one_of("L2", "L1", "cos", "psnr", "ssim"), "search_algo": v.one_of("grid_search", "random"),
    "search_evaluator": v.FUNCTION, "search_metric_tolerance": v.NUMBER, "search_cache_dir": v.PATH, "search_output_dir": v.PATH,
    "search_log_path": v.PATH, "two_stage_search": v.FLAG, "advanced_fastft_search": v.FLAG, "advanced_fastft_params": v.MAPPING,
    "n_jobs": v.whole(1), "search_devices": v.TEXT, "search_stop_condition": v.MAPPING}

# AutoSearchPro({...})
_ONE_BY_ONE = "trials run one after the other, and the same in every run"
_NO_STUDY = "there is no data base; trials that ask the same are made once"
AUTO_SEARCH_PRO = with_kinds(table([
    honoured("search_space", "lists of values, ranges and groups with `only_if`; `get_auto_search_config`"),
    honoured("n_trials", "so many configurations, evenly over the space"),
    honoured("output_dir", "where the models and `best_params.json` go"),
    honoured("search_algo", "Grid tries configurations in their order; all others an even sample of the space, the same in every run"),
    honoured("search_evaluator", "called with the path of a model; better the larger it is"),
    honoured("search_metric", "L2 and L1 are better the smaller they are, cos, psnr and ssim the larger, whatever `direction` says"),
    honoured("model_input", "the float model"),
    honoured("calib_data_reader", "the samples"),
    honoured("eval_data_reader", "samples to compare outputs with"),
    honoured("two_stage_search", "calibration first, then fine-tuning with the best of it"),
    notice("n_jobs", _ONE_BY_ONE, 1),
    notice("direction", "the best is that with the least loss, whatever the metric", "minimize"),
    notice("base_framework", "models are ONNX", "onnx"),
    notice("temp_dir", "the system's temporary folder is used (TMPDIR)", "./temp_dir"),
    notice("study_storage_db", _NO_STUDY, "auto_search.db"),
    notice("load_study_if_exists", _NO_STUDY, True, False),
    notice("study_name", _NO_STUDY, "AutoSearch"),
    notice("plot_results", "no figures are drawn", False),
]), {"search_space": v.MAPPING, "n_trials": v.whole(1), "output_dir": v.PATH, "search_evaluator": v.FUNCTION, "n_jobs": v.whole(1),
     "search_algo": v.one_of("TPE", "Random", "CmaEs", "GPS", "NSGAII", "QMC", "Grid"), "two_stage_search": v.FLAG, "temp_dir": v.PATH,
     "search_metric": v.one_of("L2", "L1", "cos", "psnr", "ssim"), "direction": v.one_of("minimize", "maximize"),
     "base_framework": v.one_of("onnx"), "study_storage_db": v.TEXT, "study_name": v.TEXT})
# Words of its search_space besides those of QConfig
SEARCH_SPACE = (*OPTIONS, "activation", "activation_params", "weight", "weight_params", "algorithms", "cle_algo", "cle_params", "adaround_params",
                "adaquant_params", "specific_layer_config", "layer_type_config", "exclude", "use_external_data_format")

# Title of each table in the documentation.
TABLES = {
    "`QuantizationConfig`": FIELDS,
    "`extra_options`": OPTIONS,
    "`QTensorConfig` and its specifications": SPEC,
    "`extra_options[\"MXAttributes\"]`": MX_ATTRIBUTES,
    "`extra_options[\"BFPAttributes\"]`": BFP_ATTRIBUTES,
    "`extra_options[\"TensorQuantOverrides\"]`": OVERRIDES,
    "`extra_options[\"FastFinetune\"]`": FAST_FINETUNE,
    "`AdaRoundConfig`, `AdaQuantConfig`": FINETUNE,
    "`GPTQConfig`": GPTQ,
    "`SmoothQuantConfig`": SMOOTH_QUANT,
    "`CLEConfig`": CLE,
    "`QuarotConfig`": QUAROT,
    "`extra_options[\"GPTQParams\"]`": GPTQ_PARAMS,
    "`extra_options[\"MatMulNBitsParams\"]`": MATMUL_NBITS,
    "`extra_options[\"AutoMixprecision\"]`": AUTO_MIXPRECISION,
    "`AutoMixprecisionConfig`": AMP,
    "`AutoSearchPro`": AUTO_SEARCH_PRO,
    "Quark's modules that cannot be used": NAMES,
}
