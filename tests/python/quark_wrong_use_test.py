"""Wrong uses of Quark's interface: each is an error of ours that names the script's word, before anything is computed."""

import pytest
from package_helpers import Reader

import bitpress
from bitpress.compat import Notice, quark
from bitpress.compat.quark import onnx as q
from bitpress.compat.quark._dictionaries import algorithm_from_dict
from bitpress.compat.quark._translate import translate

pytestmark = [pytest.mark.quick, pytest.mark.filterwarnings("ignore::bitpress.compat.Notice")]
QMX, QBFP, INT8 = q.ExtendedQuantType.QMX, q.ExtendedQuantType.QBFP, q.Int8Spec
MIXED = {"ActTargetQuantType": q.QuantType.QInt8}
LAYER = q.QLayerConfig(q.Int8Spec(), q.Int8Spec())


def legacy(**fields):
    return translate(q.QuantizationConfig(**fields))


def options(**words):
    return legacy(extra_options=words)


def blocks(word, **attributes):
    kind = QMX if word == "MXAttributes" else QBFP
    return legacy(activation_type=kind, weight_type=kind, extra_options={word: attributes})


def learning(**words):
    return legacy(include_fast_ft=True, extra_options={"FastFinetune": words})


def mixed(**words):
    return legacy(include_auto_mp=True, extra_options={"AutoMixprecision": {**MIXED, **words}})


def newer(*arguments, **words):
    return translate(q.QConfig(*arguments, **words))


def algorithm(kind, *arguments, **words):
    return newer(algo_config=[kind(*arguments, **words)])


def promotion(*arguments, **words):
    return algorithm(q.AutoMixprecisionConfig, *(arguments or (LAYER,)), **words)


def search(**words):
    return q.AutoSearchPro({"model_input": "model.onnx", "calib_data_reader": [{}], **words})


# The word that the error names, and the use.
USES = [
    # QuantizationConfig
    *[(word, lambda word=word, value=value: legacy(**{word: value})) for word, value in (
        ("calibrate_method", None), ("calibrate_method", "Min"), ("calibrate_method", 3), ("quant_format", "QOperators"), ("quant_format", None),
        ("activation_type", "int8"), ("activation_type", None), ("activation_type", 8), ("weight_type", "QInt7"), ("weight_type", ["QInt8"]),
        ("weight_type", q.VitisQuantFormat.FixNeuron), ("quant_format", q.VitisQuantFormat.FixNeuron),
        ("input_nodes", "stem"), ("output_nodes", 3), ("op_types_to_quantize", "Conv"), ("op_types_to_quantize", [1]),
        ("nodes_to_quantize", "stem"), ("nodes_to_exclude", "stem"), ("nodes_to_exclude", [None]), ("subgraphs_to_exclude", ["stem"]),
        ("subgraphs_to_exclude", [("a", "b")]), ("subgraphs_to_exclude", [(["a"], ["b"], ["c"])]), ("execution_providers", 1),
        ("per_channel", "no"), ("per_channel", 2), ("reduce_range", "false"), ("optimize_model", "yes"), ("use_dynamic_quant", []),
        ("use_external_data_format", "on"), ("include_cle", "True"), ("include_sq", 0.5), ("include_fast_ft", "adaround"),
        ("include_auto_mp", "auto"), ("enable_npu_cnn", "x"), ("specific_tensor_precision", {}), ("debug_mode", "yes"),
        ("log_severity_level", "warning"), ("log_severity_level", 9), ("extra_options", "ActivationSymmetric"), ("extra_options", 1),
        ("extra_options", ["WeightSymmetric"]))],
    ("actvation_type", lambda: q.QuantizationConfig(actvation_type=QMX)),
    ("QuantizationConfig", lambda: q.QuantizationConfig(*range(40))),
    ("global_quant_cfg", lambda: q.Config(global_quant_cfg=None)),
    ("ModelQuantizer", lambda: q.ModelQuantizer("A8W8")),
    ("ModelQuantizer", lambda: q.ModelQuantizer(q.Config("A8W8"))),
    ("config_name", lambda: q.QConfig.get_default_config(8)),
    ("A9W8", lambda: q.QConfig.get_default_config("A9W8")),
    ("A8W8_QCONFIG", lambda: q.QConfig.get_default_config("A8W8_QCONFIG")),
    # extra_options
    *[(word, lambda word=word, value=value: options(**{word: value})) for word, value in (
        ("ActivationSymmetric", "no"), ("WeightSymmetric", "yes"), ("Percentile", "99.9"), ("Percentile", 101), ("Percentile", True),
        ("Percentile", float("nan")), ("CalibDataSize", "all"), ("CalibDataSize", 0), ("CalibDataSize", -5), ("CalibDataSize", 2.5),
        ("CalibMovingAverage", "x"), ("CalibMovingAverageConstant", 0), ("CalibTensorRangeSymmetric", "x"), ("CalibWorkerNum", 0),
        ("SmoothAlpha", "auto"), ("SmoothAlpha", 2), ("CLESteps", "many"), ("CLESteps", -3), ("CLEBalanceMethod", "mean"),
        ("ReplaceClip6Relu", "x"), ("Int32Bias", "x"), ("Int16Scale", "x"), ("QuantizeBias", "x"), ("WeightScaled", "x"),
        ("BF16QDQToCast", "x"), ("WeightsOnly", "x"), ("WeightCalibrateMethod", "Entropy"), ("WeightCalibrateMethod", 1),
        ("LWPMetric", "rmse"), ("PercentileCandidates", 99.9), ("PercentileCandidates", ["x"]), ("MinMSEModePof2Scale", "Some"),
        ("QuantizationPreference", "fast"), ("OpTypesToQuantize", "Conv"), ("NodesToQuantize", 1), ("InputNodes", "stem"),
        ("OutputNodes", "head"), ("OpTypesToExcludeOutputQuantization", "Conv"), ("NodesToExcludeOutputQuantization", [1]),
        ("RandomDataReaderInputShape", 3), ("RandomDataReaderInputShape", {"x": ["a"]}), ("RandomDataReaderInputDataRange", {"x": [1, 0]}),
        ("MXAttributes", "int8"), ("BFPAttributes", ["to_bfp"]), ("FastFinetune", "adaround"), ("AutoMixprecision", True),
        ("MixedPrecisionTensor", ["x"]), ("TensorQuantOverrides", "x"), ("TensorQuantOverrides", {"x": {"quant_type": QMX}}),
        ("TensorQuantOverrides", {"x": [{"quant_type": "int8"}]}), ("TensorQuantOverrides", {"x": [{"scale": 0.5}]}),
        ("MatMulNBitsParams", 4), ("GPTQParams", "x"), ("EnableSubgraph", "x"), ("EnableNPUCnn", "x"), ("UseGPTQ", "x"),
        ("TmpDir", 3), ("SimplifyModel", "x"), ("AlignConcat", "x"), ("ShapeShifterYaml", "x.yaml"), ("RConfigPath", "r.json"))],
    ("MixedPrecisionTensor", lambda: options(MixedPrecisionTensor={q.ExtendedQuantType.QInt16: ["x"], q.ExtendedQuantType.QInt8: ["x"]})),
    ("MixedPrecisionTensor", lambda: options(MixedPrecisionTensor={"int16": ["x"]})),
    *[(key, lambda key=key, value=value: options(UseMatMulNBits=True, MatMulNBitsParams={key: value})) for key, value in (
        ("Bits", "4"), ("Bits", 3), ("GroupSize", 0), ("Symmetric", "x"), ("AccuracyLevel", 9), ("Algorithm", "AWQ"))],
    *[(key, lambda key=key, value=value: options(UseGPTQ=True, GPTQParams={key: value})) for key, value in (
        ("Bits", "8"), ("GroupSize", -2), ("PercDamp", -1), ("MSE", "x"))],
    # MXAttributes and BFPAttributes
    *[(key, lambda key=key, value=value: blocks("MXAttributes", **{key: value})) for key, value in (
        ("axis", 7), ("axis", "1"), ("axis", 1.0), ("element_dtype", "fp8"), ("element_dtype", 8), ("block_size", 0), ("block_size", 2.5),
        ("block_size", True), ("rounding_mode", True), ("rounding_mode", 3), ("rounding_mode", "even"), ("elment_dtype", "int8"))],
    *[(key, lambda key=key, value=value: blocks("BFPAttributes", **{key: value})) for key, value in (
        ("bfp_method", "bfp"), ("bfp_method", 1), ("bit_width", "16"), ("bit_width", 3), ("axis", 9), ("block_size", -8),
        ("exponent_bits", 0), ("exponent_bits", 9), ("sub_block_size", "2"), ("convert_to_bfloat_before_bfp", 1))],
    ("sub_block_size", lambda: blocks("BFPAttributes", bfp_method="to_bfp_prime", block_size=16, sub_block_size=3)),
    # FastFinetune and its newer classes
    *[(key, lambda key=key, value=value: learning(**{key: value})) for key, value in (
        ("DataSize", -1), ("DataSize", 0), ("DataSize", "all"), ("NumIterations", 0), ("NumIterations", "1000"), ("LearningRate", 0),
        ("LearningRate", "0.1"), ("BatchSize", 0), ("FixedSeed", -1), ("FixedSeed", 1.5), ("OptimAlgorithm", "sgd"), ("OptimAlgorithm", 1),
        ("OptimDevice", "tpu"), ("OptimDevice", 0), ("InferDevice", "cuda:x"), ("EarlyStop", "yes"), ("TargetOpType", "Conv"),
        ("LRAdjust", 0.5), ("MemOptLevel", 3), ("DropRatio", 2), ("OutputIndex", "logits"), ("RefModelPath", "x.onnx"))],
    ("num_iteration", lambda: q.AdaRoundConfig(num_iteration=5)),
    ("AdaRoundConfig", lambda: q.AdaRoundConfig(*range(40))),
    ("optim_device", lambda: q.AdaQuantConfig("cpu", optim_device="cpu")),
    *[(key, lambda key=key, value=value: algorithm(q.AdaQuantConfig, **{key: value})) for key, value in (
        ("num_iterations", "1"), ("data_size", -1), ("learning_rate", -1), ("infer_device", 3), ("early_stop", "x"))],
    ("bits", lambda: algorithm(q.GPTQConfig, "8")),
    ("bits", lambda: algorithm(q.GPTQConfig, 7)),
    ("group_size", lambda: algorithm(q.GPTQConfig, group_size="all")),
    ("perc_damp", lambda: algorithm(q.GPTQConfig, perc_damp=0)),
    ("alpha", lambda: algorithm(q.SmoothQuantConfig, "auto")),
    ("alpha", lambda: algorithm(q.SmoothQuantConfig, 1.5)),
    ("cle_steps", lambda: algorithm(q.CLEConfig, cle_steps=1.5)),
    ("BiasCorrectionConfig", lambda: q.BiasCorrectionConfig(1)),
    ("QuarotConfig", lambda: algorithm(q.QuarotConfig)),
    # Mixed precision
    *[(key, lambda key=key, value=value: mixed(**{key: value})) for key, value in (
        ("L2Target", 0), ("L2Target", -1), ("L2Target", "0.5"), ("Top1AccTarget", 2), ("Top1AccTarget", "x"), ("EvaluateFunction", 3),
        ("OutputIndex", "logits"), ("OutputIndex", -1), ("DataSize", "all"), ("DataSize", -1), ("TargetOpType", 3), ("DualQuantNodes", "x"),
        ("ActTargetQuantType", "int8"), ("TargetQuantType", 5), ("Top1AccTarget", 0.1))],
    ("AutoMixprecision", lambda: legacy(include_auto_mp=True)),
    ("AutoMixprecision", lambda: legacy(include_auto_mp=True, extra_options={"AutoMixprecision": {}})),
    ("TargetLayerConfig", lambda: mixed(TargetLayerConfig={"weihgt": {"data_type": "Int8"}})),
    ("target_layer_config", lambda: q.AutoMixprecisionConfig()),
    ("target_layer_config", lambda: promotion("Int8")),
    ("target_layer_config", lambda: promotion(None)),
    ("target_layer_config", lambda: promotion([])),
    ("target_layer_config", lambda: promotion({LAYER: "stem"})),
    ("target_layer_config", lambda: promotion({LAYER: ["stem"], q.QLayerConfig(weight=q.MX6Spec()): []}, metric_threshold=1)),
    ("l2_target", lambda: promotion(LAYER, l2_target=1)),
    *[(key, lambda key=key, value=value: promotion(**{key: value})) for key, value in (
        ("metric_default", "mse"), ("metric_default", 1), ("metric_threshold", "low"), ("metric_optimize_object", "size"),
        ("metric_evaluate_fn", 1), ("metric_distance_fn", "l2"), ("metric_output_index", "logits"), ("metric_output_index", -1),
        ("include_layers", "stem"), ("exclude_layers", 3), ("target_op_type", 3), ("data_size", -1), ("worker_num", 0),
        ("shared_param_mode", "copy"), ("dual_quant_nodes", "x"), ("sensitivity_cache_file", 3), ("subgraph_json", "x.json"))],
    ("metric_distance_fn", lambda: promotion(metric_threshold=1, metric_distance_fn=max, metric_evaluate_fn=max)),
    # QConfig and its parts
    *[(word, lambda word=word, value=value: newer(**{word: value})) for word, value in (
        ("global_config", "A8W8"), ("global_config", q.Int8Spec()), ("specific_layer_config", [LAYER]), ("specific_layer_config", {LAYER: "stem"}),
        ("specific_layer_config", {"Int8": ["stem"]}), ("layer_type_config", {LAYER: "Conv"}), ("layer_type_config", {3: ["Conv"]}),
        ("exclude", "stem"), ("exclude", [3]), ("algo_config", "cle"), ("algo_config", ["cle"]), ("algo_config", [q.CLEConfig]),
        ("use_external_data_format", "x"), ("extra_options", 3), ("CalibDataSize", "all"))],
    ("weight", lambda: newer(q.QLayerConfig(input_tensors=INT8(), weight="Int8"))),
    ("weight", lambda: newer(q.QLayerConfig(input_tensors=INT8(), weight=INT8))),
    ("wieght", lambda: q.QLayerConfig(wieght=INT8())),
    ("input_tensors", lambda: q.QLayerConfig(input_tensors=INT8(), activation=INT8())),
    ("symetric", lambda: INT8(symetric=True)),
    ("Int8Spec", lambda: INT8(True, 1, 2, 3, 4, 5)),
    *[(word, lambda word=word, value=value: newer(q.QLayerConfig(INT8(**{word: value}), INT8()))) for word, value in (
        ("symmetric", "no"), ("scale_type", "Pow2"), ("scale_type", None), ("calibration_method", 1), ("calibration_method", "Mean"),
        ("quant_granularity", "Row"), ("quant_granularity", None), ("data_type", "int7"), ("data_type", 8), ("data_type", None))],
    ("global_config", lambda: q.QConfig.from_dict({})),
    ("globl_config", lambda: q.QConfig.from_dict({"globl_config": {}})),
    ("QConfig.from_dict", lambda: q.QConfig.from_dict("A8W8")),
    ("scale_type", lambda: q.QConfig.from_dict({"global_config": {"weight": {"scale_type": "ScaleType.Float"}}})),
    ("data_type", lambda: q.QConfig.from_dict({"global_config": {"weight": {"data_type": "Int7"}}})),
    ("weigt", lambda: q.QConfig.from_dict({"global_config": {"weigt": {}}})),
    ("algo_config", lambda: q.QConfig.from_dict({"global_config": {}, "algo_config": [{"name": "clee"}]})),
    ("layer_type_config", lambda: q.QConfig.from_dict({"global_config": {}, "layer_type_config": [3]})),
    ("name", lambda: algorithm_from_dict({})),
    ("alhpa", lambda: algorithm_from_dict({"name": "smooth_quant", "alhpa": 0.5})),
    # Functions
    ("device", lambda: quark.get_library_path(None)),
    ("TPU", lambda: quark.get_library_path("TPU")),
    ("quantize_static", lambda: q.quantize_static("m.onnx", "o.onnx", None, None, *range(40))),
    ("weight_typ", lambda: q.quantize_static("m.onnx", "o.onnx", weight_typ=QMX)),
    ("weight_typ", lambda: q.quantize_dynamic("m.onnx", "o.onnx", weight_typ=QMX)),
    ("dr", lambda: q.CachedDataReader([1])),
    ("dr", lambda: q.CachedDataReader(Reader([], "x"))),
    # Searches
    ("config_name", lambda: q.get_auto_search_config("A8W8")),
    ("model_input", lambda: q.AutoSearchPro({"calib_data_reader": [{}]})),
    ("calib_data_reader", lambda: q.AutoSearchPro({"model_input": "m.onnx"})),
    ("config", lambda: q.AutoSearchPro("A8W8_SEARCH")),
    *[(word, lambda word=word, value=value: search(**{word: value})) for word, value in (
        ("n_trials", 0), ("n_trials", "many"), ("search_algo", "SGD"), ("search_metric", "top1"), ("search_evaluator", 1), ("search_space", []),
        ("search_space", {"zzz": [1]}), ("direction", "up"), ("calib_data_reader", 5), ("output_dir", 3))],
    ("only_if", lambda: q.generate_all_configs({"activation_params": {"symmetric": [True]}})),
    ("symmetric", lambda: q.generate_all_configs({"activation": ["Int8Spec"], "activation_params": {"symmetric": True, "only_if": "activation"}})),
    ("weight_type", lambda: q.SearchSpace({"weight_type": q.QuantType.QInt8}).get_all_configs()),
    ("weight_typ", lambda: q.SearchSpace({"weight_typ": [1]}).get_all_configs()),
    ("config", lambda: q.AutoSearch("m.onnx", q.QuantizationConfig())),
    ("calibration_data_reader", lambda: q.AutoSearch("m.onnx", q.Config())),
]


def test_there_are_many():
    assert len(USES) > 250


@pytest.mark.parametrize("word, use", [pytest.param(*row, id=f"{i}-{row[0]}") for i, row in enumerate(USES)])
def test_a_wrong_use_names_the_word(word, use):
    with pytest.raises(bitpress.Error) as error:
        use()
    assert word in str(error.value), str(error.value)


@pytest.mark.parametrize("word, arguments", [
    ("model_input", (None, "out.onnx")), ("model_output", ("model", 5)), ("calibration_data_reader", ("model", "out.onnx", 5)),
    ("calibration_data_reader", ("model", "out.onnx", "photos")), ("calibration_data_path", ("model", "out.onnx", None, 5)),
    ("calibration_data_reader", ("model", "out.onnx")), ("algorithms", ("model", "out.onnx", None, None, [q.CLEConfig]))])
def test_a_wrong_argument_of_quantize_model_is_named(word, arguments, conv_path):
    arguments = [str(conv_path) if item == "model" else item for item in arguments]
    with pytest.raises(bitpress.Error, match=word):
        q.ModelQuantizer(q.QConfig()).quantize_model(*arguments)


@pytest.mark.parametrize("word, fields", [
    ("input_nodes", {"input_nodes": ["nowhere"]}), ("output_nodes", {"output_nodes": ["nowhere"]}),
    ("subgraphs_to_exclude", {"subgraphs_to_exclude": [(["nowhere"], ["head"])]}),
    ("InputNodes", {"extra_options": {"InputNodes": ["nowhere"]}}),
    ("RandomDataReaderInputShape", {"extra_options": {"UseRandomData": True, "RandomDataReaderInputShape": {"image": [1, 2, 3]}}})])
def test_what_only_the_model_shows_is_said_with_the_scripts_word(word, fields, conv_path, tmp_path, images):
    data = None if "extra_options" in fields and "UseRandomData" in fields["extra_options"] else Reader(images, "image")
    with pytest.raises(bitpress.Error, match=word):
        q.ModelQuantizer(q.QuantizationConfig(**fields)).quantize_model(str(conv_path), str(tmp_path / "out.onnx"), data)


def test_notices_point_at_the_scripts_line(conv_path, tmp_path, images):
    """However deep in the package they are found."""
    with pytest.warns((Notice, bitpress.QuantizationWarning)) as found:
        options(CalibWorkerNum=4, Percentil=3)
        config = q.QConfig(exclude=["nowhere"], algo_config=[q.AdaRoundConfig(batch_size=5)])
        q.ModelQuantizer(config).quantize_model(str(conv_path), str(tmp_path / "out.onnx"), Reader(images, "image"))
        q.get_library_path("CUDA")
    texts = [str(item.message) for item in found]
    assert all(any(word in text for text in texts) for word in ("CalibWorkerNum", "Percentil", "nowhere", "batch_size", "CUDA"))
    assert {item.filename for item in found} == {__file__}
