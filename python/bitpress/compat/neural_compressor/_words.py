"""The table of fates of ONNX Neural Compressor's words."""

from bitpress.compat._fates import honoured, notice, refused, table

_WHOLE = "weights are quantized one at a time anyway"
_CPU = "models are quantized on the CPU"
_CALIBRATION = "every sample that is read counts"
_LEVEL = "ORT_DISABLE_ALL: the model is not prepared (`as_is`); ORT_ENABLE_BASIC: as always; a notice says that higher ones change nothing"

# StaticQuantConfig(...), and what SmoothQuantConfig passes on to it
STATIC = table([
    honoured("calibration_data_reader", "`data`; one without rewind() is copied to a temporary file as it is read"),
    honoured("calibrate_method", "`activation_range`: MinMax, Entropy, Percentile"),
    honoured("quant_format", "QOperator as `form=\"qoperator\"`, or QDQ"),
    honoured("activation_type", "`activations`"),
    honoured("weight_type", "`weights`"),
    honoured("op_types_to_quantize", "all other operators of the model are excluded"),
    honoured("nodes_to_quantize", "all other nodes are excluded"),
    honoured("nodes_to_exclude", "a rule excludes them"),
    honoured("per_channel", "`weight_granularity`"),
    honoured("reduce_range", "`reduce_range`"),
    honoured("use_external_data_format", "`external_data`"),
    honoured("extra_options", "see below"),
    honoured("calibration_sampling_size", "`samples`"),
    honoured("quant_last_matmul", "False excludes the last MatMul"),
    honoured("execution_provider", "see below; None is the first that this machine offers"),
    honoured("white_list", "as op_types_to_quantize"),
])

DYNAMIC = table([
    *[word for name, word in STATIC.items()
      if name not in ("calibration_data_reader", "calibrate_method", "activation_type", "calibration_sampling_size", "quant_format",
                      "extra_options")],
    notice("quant_format", "integers of each inference have DynamicQuantizeLinear and integer operators", "QOperator"),
    honoured("extra_options", "see \"`extra_options` of `DynamicQuantConfig`\""),
])

# extra_options={...}
EXTRA = table([
    honoured("ActivationSymmetric", "`activation_symmetric`"),
    honoured("WeightSymmetric", "`weight_symmetric`"),
    notice("AddQDQPairToWeight", "weights are stored as codes", False),
    notice("DedicatedQDQPair", "a value that is read in the same way is quantized once; the outputs are the same", False),
    refused("OpTypesToExcludeOutputQuantization", "quantizers belong to who reads a value", "set_local or nodes_to_exclude for the readers", []),
    honoured("SmoothQuant", "`smooth_quant`"),
    honoured("SmoothQuantAlpha", "`smooth_quant`: a number or \"auto\""),
    notice("SmoothQuantFolding", "factors are folded where nothing else reads the value, and a Mul elsewhere", True),
    notice("SmoothQuantOpTypes", "MatMul and Gemm are smoothed", ["Gemm", "MatMul"], ["Gemm", "Conv", "MatMul", "FusedConv"]),
    notice("SmoothQuantCalibIter", _CALIBRATION, 100),
    notice("SmoothQuantScalesPerOp", "readers of one value share its factors", False),
    honoured("Percentile", "`activation_range=percentile(P)`"),
    notice("CalibMovingAverage", "min-max of all samples", False),
    notice("CalibTensorRangeSymmetric", "symmetric types have symmetric ranges, others are not widened", False),
])

# extra_options={...} of DynamicQuantConfig
_WITH_SAMPLES = "it needs samples, which a dynamic configuration has not"
DYNAMIC_EXTRA = table([
    EXTRA["WeightSymmetric"],
    notice("ActivationSymmetric", "DynamicQuantizeLinear's codes are asymmetric", False),
    *[EXTRA[name] for name in ("AddQDQPairToWeight", "DedicatedQDQPair", "OpTypesToExcludeOutputQuantization")],
    refused("SmoothQuant", _WITH_SAMPLES, "SmoothQuantConfig", False),
    *[notice(name, _WITH_SAMPLES)
      for name in ("SmoothQuantAlpha", "SmoothQuantFolding", "SmoothQuantOpTypes", "SmoothQuantCalibIter", "SmoothQuantScalesPerOp",
                   "Percentile")],
    notice("CalibMovingAverage", _WITH_SAMPLES, False),
    notice("CalibTensorRangeSymmetric", _WITH_SAMPLES, False),
])

# The words that set_local may give to some operators; all others hold for the whole model.
_WHOLE_MODEL = "it holds for the whole model, as the general configuration says"
LOCAL_STATIC = table([
    *[STATIC[name] for name in ("calibrate_method", "activation_type", "weight_type", "per_channel", "reduce_range", "extra_options")],
    *[notice(name, _WHOLE_MODEL) for name in STATIC
      if name not in ("calibrate_method", "activation_type", "weight_type", "per_channel", "reduce_range", "extra_options")],
])
LOCAL_EXTRA = table([
    *[EXTRA[name] for name in ("ActivationSymmetric", "WeightSymmetric", "Percentile")],
    refused("SmoothQuant", _WHOLE_MODEL, "the general configuration's extra_options", False),
    *[notice(name, _WHOLE_MODEL, *EXTRA[name].neutral) for name in EXTRA
      if name not in ("ActivationSymmetric", "WeightSymmetric", "Percentile", "SmoothQuant")],
])
LOCAL_DYNAMIC = table([
    *[DYNAMIC[name] for name in ("weight_type", "per_channel", "reduce_range", "extra_options")],
    *[notice(name, _WHOLE_MODEL) for name in DYNAMIC if name not in ("weight_type", "per_channel", "reduce_range", "extra_options")],
])
SMOOTH = table([
    honoured("alpha", "`smooth_quant`: a number or \"auto\""),
    notice("folding", "factors are folded where nothing else reads the value, and a Mul elsewhere", True),
    notice("op_types", "MatMul and Gemm are smoothed", ["Gemm", "MatMul"], ["Gemm", "Conv", "MatMul", "FusedConv"]),
    notice("calib_iter", _CALIBRATION, 100),
    notice("scales_per_op", "readers of one value share its factors", False),
    notice("auto_alpha_args", "alpha from 0 to 1 in steps of 0.05, by the error of the products",
           {"alpha_min": 0.3, "alpha_max": 0.7, "alpha_step": 0.05, "attn_method": "min"}),
])

# RTNConfig(...), GPTQConfig(...), AWQConfig(...)
WEIGHT_ONLY = table([
    honoured("weight_dtype", "int, uint; fp32 leaves nodes float"),
    honoured("weight_bits", "2, 4 or 8"),
    honoured("weight_group_size", "`weight_block_size`; -1 is one scale for each output"),
    honoured("weight_sym", "`weight_symmetric`"),
    refused("act_dtype", "activations of weight-only models are float", "StaticQuantConfig or DynamicQuantConfig", "fp32"),
    honoured("accuracy_level", "4: activations rounded to 8 bits at run time, others: products of floats"),
    notice("providers", _CPU, ["CPUExecutionProvider"]),
    notice("layer_wise_quant", _WHOLE, False),
    honoured("quant_last_matmul", "False excludes the last MatMul"),
    honoured("quant_format", "QOperator: MatMulNBits (`target=\"onnxruntime\"`); QDQ: standard operators"),
    honoured("nodes_to_exclude", "a rule excludes them"),
    honoured("white_list", "operator types; MatMul by default"),
    honoured("calibration_data_reader", "`data`"),
])
RTN = table([*WEIGHT_ONLY.values(), notice("ratios", "ranges are those of the values", {})])
GPTQ = table([
    *WEIGHT_ONLY.values(),
    honoured("percdamp", "`finetune_ridge`"),
    notice("block_size", "the whole row is solved at once", 128),
    honoured("actorder", "`finetune_activation_order`; not given, inputs with large squares are rounded first"),
    honoured("mse", "`weight_range=mse`"),
    notice("perchannel", "a group has a scale of its own in each output", True),
])
AWQ = table([
    *[word for name, word in WEIGHT_ONLY.items() if name != "layer_wise_quant"],
    honoured("enable_auto_scale", "pass `awq`: factors of input channels from activations and weights"),
    honoured("enable_mse_search", "pass `clip_search`: scales with the least error in the outputs"),
])

# MatMulNBitsQuantizer(...), MatMul4BitsQuantizer(...) and their algo_config
NBITS = table([
    honoured("model", "a path or an onnx.ModelProto; after process() the quantized one, an onnx.ModelProto"),
    honoured("block_size", "`weight_block_size`; -1 is one scale for each output"),
    honoured("is_symmetric", "`weight_symmetric`"),
    honoured("is_signed", "weights that are not symmetric have unsigned codes either way: the same values"),
    honoured("accuracy_level", WEIGHT_ONLY["accuracy_level"].text),
    honoured("nodes_to_exclude", "a rule excludes them"),
    honoured("algo_config", "RTN (without one, and Default), GPTQ, AWQ"),
    honoured("n_bits", "2, 4 or 8"),
    notice("providers", _CPU, ["CPUExecutionProvider"]),
    honoured("optimization_level", _LEVEL),
])
NBITS_ALGORITHMS = {
    **{name: word for words in (AWQ, GPTQ, RTN) for name, word in words.items()},
    "algorithm": honoured("algorithm", "RTN, DEFAULT, GPTQ or AWQ"),
}

# quantize(...) and autotune(...)
QUANTIZE = table([
    honoured("model_input", "a path or an onnx.ModelProto"),
    honoured("model_output", "the file to write; None: the model is returned"),
    honoured("quant_config", "any configuration of this page, or a dict of one"),
    honoured("optimization_level", _LEVEL),
])
AUTOTUNE = table([
    honoured("model_input", "a path or an onnx.ModelProto"),
    honoured("tune_config", "see below"),
    honoured("eval_fn", "gets the path of a model"),
    honoured("eval_args", "further arguments of eval_fn"),
    honoured("calibration_data_reader", "`data` of configurations without one"),
    honoured("optimization_level", _LEVEL),
])

# TuningConfig(...)
TUNING = table([
    honoured("config_set", "configurations, whose lists of values are expanded"),
    honoured("sampler", "a class whose objects give the indices of the configurations in the order of trials"),
    honoured("tolerable_loss", "a share of the float model's result"),
    honoured("max_trials", "configurations at most"),
])

# Title of each table in the documentation.
TABLES = {
    "`quantize`": QUANTIZE,
    "`autotune`": AUTOTUNE,
    "`StaticQuantConfig`": STATIC,
    "`DynamicQuantConfig`": DYNAMIC,
    "`extra_options`": EXTRA,
    "`extra_options` of `DynamicQuantConfig`": DYNAMIC_EXTRA,
    "`StaticQuantConfig` given to `set_local`": LOCAL_STATIC,
    "`extra_options` of such a `StaticQuantConfig`": LOCAL_EXTRA,
    "`DynamicQuantConfig` given to `set_local`": LOCAL_DYNAMIC,
    "`SmoothQuantConfig`, besides those of `StaticQuantConfig`": SMOOTH,
    "`RTNConfig`": RTN,
    "`GPTQConfig`": GPTQ,
    "`AWQConfig`": AWQ,
    "`MatMulNBitsQuantizer`": NBITS,
    "`TuningConfig`": TUNING,
}
