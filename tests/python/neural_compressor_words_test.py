"""ONNX Neural Compressor's configurations as scripts pass them around, its quantizer of MatMul, and what is said of a model."""

import json
import warnings

import models
import numpy as np
import onnx
import onnxruntime
import pytest
from package_helpers import Rewinding, outputs, sqnr_db

import bitpress
from bitpress.compat import Notice
from bitpress.compat.neural_compressor import config
from bitpress.compat.neural_compressor._translate import translate
from bitpress.compat.neural_compressor.quantization import QuantFormat, QuantType, algorithm_entry, autotune, quantize, tuning
from bitpress.compat.neural_compressor.quantization import matmul_4bits_quantizer, matmul_nbits_quantizer
from bitpress.compat.quark.onnx import ExtendedQuantType, ModelQuantizer
from bitpress.compat.quark.onnx.quantization.config.config import QuantizationConfig

pytestmark = [pytest.mark.usefixtures("one_thread")]
quiet = pytest.mark.filterwarnings("ignore")


def products(model):
    """The attributes of each MatMulNBits, by its name."""
    return {node.name: {item.name: item.i for item in node.attribute} for node in model.graph.node if node.op_type == "MatMulNBits"}


@quiet
def test_the_quantizer_of_products(matmul_path, sequences):
    quantizer = matmul_nbits_quantizer.MatMulNBitsQuantizer(str(matmul_path), block_size=32, is_symmetric=False)
    quantizer.process()
    assert {name: (item["bits"], item["block_size"], item["accuracy_level"]) for name, item in products(quantizer.model).items()} == {
        "make_query": (4, 32, 1), "make_key": (4, 32, 1)}
    same = quantize(str(matmul_path), None, config.RTNConfig("uint", 4, 32, False))
    assert quantizer.model.SerializeToString() == same.SerializeToString()
    plain = sqnr_db(outputs(matmul_path, {"x": sequences})[0], outputs(same.SerializeToString(), {"x": sequences})[0])
    for algorithm in (matmul_4bits_quantizer.GPTQWeightOnlyQuantConfig(Rewinding(sequences, "x"), percdamp=0.05),
                      matmul_4bits_quantizer.AWQWeightOnlyQuantConfig(calibration_data_reader=Rewinding(sequences, "x"))):
        quantizer = matmul_4bits_quantizer.MatMul4BitsQuantizer(onnx.load(matmul_path), 32, algo_config=algorithm, accuracy_level=4)
        quantizer.process()
        assert {item["accuracy_level"] for item in products(quantizer.model).values()} == {4}
        assert sqnr_db(outputs(matmul_path, {"x": sequences})[0], outputs(quantizer.model.SerializeToString(), {"x": sequences})[0]) > plain
    quantizer = matmul_nbits_quantizer.MatMulNBitsQuantizer(
        str(matmul_path), block_size=16, is_symmetric=True, accuracy_level=4, nodes_to_exclude=["make_key"], n_bits=8,
        algo_config=matmul_nbits_quantizer.DefaultWeightOnlyQuantConfig(quant_format=QuantFormat.QOperator))
    quantizer.process()
    assert products(quantizer.model) == {"make_query": {"K": 48, "N": 48, "accuracy_level": 4, "bits": 8, "block_size": 16}}


@pytest.mark.quick
def test_options_of_the_quantizer_reach_the_configuration():
    algorithm = matmul_nbits_quantizer.GPTQWeightOnlyQuantConfig([], 0.2, actorder=True, quant_format=QuantFormat.QDQ)
    made = matmul_nbits_quantizer.MatMulNBitsQuantizer("m.onnx", 64, True, 4, ["head"], algorithm, 8)._config
    assert type(made) is config.GPTQConfig
    assert made.given == {"weight_dtype": "int", "weight_bits": 8, "weight_group_size": 64, "weight_sym": True, "accuracy_level": 4,
                          "nodes_to_exclude": ["head"], "quant_format": QuantFormat.QDQ, "calibration_data_reader": [], "percdamp": 0.2,
                          "actorder": True}
    for options, text in [({"providers": ["CUDAExecutionProvider"]}, "MatMulNBitsQuantizer: providers=.*CUDA.* changes nothing here"),
                          ({"algo_config": None, "optimization_level": None}, None)]:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            matmul_nbits_quantizer.MatMulNBitsQuantizer("m.onnx", **options)
        assert len(caught) == (text is not None)
    with pytest.warns(Notice, match="RTNWeightOnlyQuantConfig: ratios={'a': 1} changes nothing here"):
        matmul_nbits_quantizer.RTNWeightOnlyQuantConfig({"a": 1})


@quiet
def test_entries_of_algorithms_and_levels_of_preparation(tmp_path, matmul_path, sequences):
    made = algorithm_entry.rtn_quantize_entry(str(matmul_path), config.get_default_rtn_config())
    assert len(products(made)) == 2
    path = tmp_path / "static.onnx"
    algorithm_entry.static_quantize_entry(str(matmul_path), config.StaticQuantConfig(), Rewinding(sequences, "x"), path)
    assert "QLinearMatMul" in bitpress.inspect(path).operators
    # A product and an Add stay two operators without preparation.
    model = two_nodes(tmp_path / "two.onnx")
    levels = onnxruntime.GraphOptimizationLevel
    types = [{node.op_type for node in quantize(str(model), None, config.RTNConfig(quant_format="QDQ", weight_group_size=16), level).graph.node}
             for level in (levels.ORT_ENABLE_BASIC, levels.ORT_DISABLE_ALL)]
    assert "Gemm" in types[0] and "Add" in types[1] and "Gemm" not in types[1]
    with pytest.warns(Notice, match="optimization_level=ORT_ENABLE_ALL changes nothing here"):
        quantize(str(model), None, config.RTNConfig(), levels.ORT_ENABLE_ALL)


def two_nodes(path):
    rng = np.random.default_rng(8)
    weights = {"w": (16, 16), "b": (16,)}
    nodes = [onnx.helper.make_node("MatMul", ["x", "w"], ["product"], name="first"),
             onnx.helper.make_node("Add", ["product", "b"], ["y"], name="add")]
    io = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["N", 16]) for name in ("x", "y")]
    graph = onnx.helper.make_graph(nodes, "two", io[:1], io[1:], [
        onnx.numpy_helper.from_array(rng.standard_normal(shape).astype(np.float32), name) for name, shape in weights.items()])
    return models.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8), path)


@pytest.mark.quick
def test_arguments_by_position():
    static = config.StaticQuantConfig([], "Entropy", QuantFormat.QDQ, QuantType.QInt8)
    assert (static.calibrate_method.name, static.quant_format, static.activation_type) == ("Entropy", QuantFormat.QDQ, QuantType.QInt8)
    assert config.SmoothQuantConfig(0.7).alpha == 0.7
    dynamic = config.DynamicQuantConfig(QuantType.QUInt8, ["MatMul"])
    assert (dynamic.weight_type, dynamic.op_types_to_quantize) == (QuantType.QUInt8, ["MatMul"])
    assert config.GPTQConfig("uint", 8, 64, False, "fp32", 4, 0.1, 128, True).actorder is True
    assert config.AWQConfig("int", 4, 32, True, "fp32", 0, False).enable_auto_scale is False


@pytest.mark.quick
def test_dictionaries_keep_local_configurations(tmp_path):
    made = config.RTNConfig(weight_bits=4).set_local("fc1", config.RTNConfig(weight_bits=8, weight_sym=False))
    there = made.to_dict()
    assert set(there) == {"global", "local"} and there["local"]["fc1"]["weight_bits"] == 8
    assert config.RTNConfig.from_dict(there) == made and config.RTNConfig.from_dict(there) != config.RTNConfig(weight_bits=4)
    assert config.RTNConfig(weight_bits=2).to_dict()["weight_bits"] == 2
    given = {"global": {"weight_bits": 8}, "local": {"fc.*": {"weight_bits": 4, "weight_group_size": 128}}}
    read = config.RTNConfig.from_dict(given)
    assert (read.weight_bits, read.local_config["fc.*"].weight_group_size) == (8, 128)
    made.to_json_file(tmp_path / "rtn.json")
    assert config.RTNConfig.from_json_file(tmp_path / "rtn.json") == made
    # Members of enums are the numbers of the other tool's files.
    static = config.StaticQuantConfig([], activation_type=QuantType.QInt8, quant_format=QuantFormat.QDQ, calibrate_method="Percentile")
    static.set_local("Conv", config.OperatorConfig(QuantType.QUInt8, weight_sym=False))
    text = json.loads(static.to_json_string())
    assert (text["global"]["activation_type"], text["global"]["quant_format"], text["global"]["calibrate_method"]) == (3, 1, "Percentile")
    assert "calibration_data_reader" not in text["global"] and text["local"]["Conv"]["weight_type"] == 2
    read = config.StaticQuantConfig.from_dict(text)
    assert (read.activation_type, read.quant_format) == (QuantType.QInt8, QuantFormat.QDQ)
    assert json.loads(config.RTNConfig(weight_bits=8).to_json_string(use_diff=True)) == {"weight_bits": 8}
    assert config.RTNConfig(weight_bits=8).get_diff_dict(config.RTNConfig()) == {"weight_bits": 8}


@quiet
def test_dictionaries_mean_the_same(tmp_path, matmul_path, images, conv_path):
    made = config.RTNConfig(weight_group_size=16).set_local("make_q", config.RTNConfig(weight_dtype="fp32"))
    wanted = quantize(str(matmul_path), None, made).SerializeToString()
    for same in (config.RTNConfig.from_dict(made.to_dict()), {"rtn": made.to_dict()}, {"rtn": json.loads(made.to_json_string())}):
        assert quantize(str(matmul_path), None, same).SerializeToString() == wanted
    static = config.StaticQuantConfig(Rewinding(images, "image"), activation_type=QuantType.QInt8).set_local(
        "Conv", config.OperatorConfig(QuantType.QUInt8, weight_sym=False))
    read = config.StaticQuantConfig.from_dict(json.loads(static.to_json_string()))
    assert translate(read, conv_path) == translate(static, conv_path)


@pytest.mark.quick
def test_sums_of_configurations():
    one = config.RTNConfig(weight_bits=4).set_local("fc1", config.RTNConfig(weight_bits=8))
    two = config.RTNConfig(weight_bits=8).set_local("fc2", config.RTNConfig(weight_group_size=128))
    both = one + two
    assert both is one and both.weight_bits == 4 and set(both.local_config) == {"fc1", "fc2"}
    named = config.RTNConfig(weight_bits=4) + config.RTNConfig(weight_bits=8, white_list=["head"])
    assert named.local_config["head"].weight_bits == 8
    mixed = config.RTNConfig() + config.GPTQConfig(weight_bits=8)
    assert isinstance(mixed, config.ComposableConfig) and set(mixed.to_dict()) == {"rtn", "gptq"}
    assert config.ComposableConfig.from_dict(mixed.to_dict()) == mixed and len((mixed + config.AWQConfig()).config_list) == 3
    assert [type(item).__name__ for item in tuning.TuningConfig(mixed).config_set] == ["RTNConfig", "GPTQConfig", "AWQConfig"]
    registry = config.config_registry.get_cls_configs()
    assert registry["awq"] is config.AWQConfig and len(registry) == 6
    assert config.get_default_awq_config() == config.AWQConfig() and config.get_default_sq_config() == config.SmoothQuantConfig()
    assert len(config.get_all_config_set_from_config_registry()) == 6


@pytest.mark.quick
def test_lists_expand_in_the_order_of_the_reference():
    def tried(made, *words):
        return [tuple(item[word] for word in words) for item in tuning.TuningConfig(made).config_set]

    # The first option of operators changes fastest, and those of the model last.
    assert tried(config.RTNConfig(weight_sym=[True, False], weight_bits=[4, 8]), "weight_bits", "weight_sym") == [
        (4, True), (8, True), (4, False), (8, False)]
    assert tried(config.GPTQConfig(weight_bits=[4, 8], mse=[False, True], actorder=[False, True]), "actorder", "mse", "weight_bits") == [
        (False, False, 4), (False, False, 8), (True, False, 4), (True, False, 8), (False, True, 4), (False, True, 8), (True, True, 4),
        (True, True, 8)]
    static = tuning.TuningConfig(config.StaticQuantConfig.get_config_set_for_tuning(execution_provider="CPUExecutionProvider")).config_set
    assert [(item.quant_last_matmul, item.per_channel) for item in static] == [(True, True), (True, False), (False, True), (False, False)] * 4
    assert [("Add" in item.op_types_to_quantize, "Gather" in item.op_types_to_quantize, "Attention" in item.op_types_to_quantize)
            for item in static[::4]] == [(True, True, True), (False, True, True), (False, False, True), (False, False, False)]
    dynamic = tuning.TuningConfig(config.DynamicQuantConfig.get_config_set_for_tuning()).config_set
    assert len(dynamic) == 20 and ["MatMul" in item.op_types_to_quantize for item in dynamic[::4]] == [True] * 4 + [False]
    assert [item.alpha for item in tuning.TuningConfig(config.SmoothQuantConfig.get_config_set_for_tuning()).config_set] == [
        0.3, 0.35, 0.4, 0.45, 0.5, 0.55, 0.6, 0.65]
    assert tried(config.SmoothQuantConfig(alpha=np.arange(2) / 2), "alpha") == [(0.0,), (0.5,)]
    local = config.RTNConfig(weight_bits=[4, 8]).set_local("fc", config.RTNConfig(weight_bits=[4, 8]))
    assert [item.local_config["fc"].weight_bits for item in local.expand()] == [4, 8]
    # Equal configurations are tried once, in the order of a sampler.
    assert len(tuning.TuningConfig([config.RTNConfig(), config.RTNConfig(), config.RTNConfig(weight_bits=8)]).trials()) == 2
    backwards = tuning.TuningConfig(config.RTNConfig(weight_bits=[4, 8]), lambda configs: reversed(range(len(configs))))
    assert [item.weight_bits for item in backwards.trials()] == [8, 4]


@quiet
def test_the_winner_is_the_reference_s(matmul_path):
    results = {"given": 1.0, 1: 0.8, 2: 0.8, 3: 0.999}
    calls = iter(results.values())
    made = autotune(str(matmul_path), tuning.TuningConfig(config.RTNConfig(weight_sym=[True, False], weight_bits=[4, 8], accuracy_level=4)),
                    lambda path: next(calls), optimization_level=onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC)
    wanted = quantize(str(matmul_path), None, config.RTNConfig(weight_sym=False, weight_bits=4, accuracy_level=4))
    assert made.SerializeToString() == wanted.SerializeToString()


@quiet
def test_trials_leave_types_float_without_words_of_their_own(tmp_path, conv_path, images):
    fewer = tuning.TuningConfig(config.StaticQuantConfig.get_config_set_for_tuning(execution_provider="CPUExecutionProvider")).config_set[4]
    path = tmp_path / "out.onnx"
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        quantize(str(conv_path), path, fewer, None, Rewinding(images, "image"))
    assert "QLinearAdd" not in bitpress.inspect(path).operators and "QLinearConv" in bitpress.inspect(path).operators
    assert not any("passed over" in str(warning.message) for warning in caught)


@quiet
def test_names_in_lists_are_expressions_where_the_reference_has_them(matmul_path):
    assert set(products(quantize(str(matmul_path), None, config.RTNConfig(nodes_to_exclude=["make_q"])))) == {"make_key"}
    assert set(products(quantize(str(matmul_path), None, config.RTNConfig(white_list=["make_query"])))) == {"make_query"}


@pytest.mark.quick
def test_attributes_that_change_nothing_are_said():
    made = config.RTNConfig()
    made.weight_bits = 8
    made["weight_sym"] = False
    assert (made.given, made["weight_bits"]) == ({"weight_bits": 8, "weight_sym": False}, 8)
    with pytest.warns(Notice, match="RTNConfig: the attribute weight_bit changes nothing here; did you mean 'weight_bits'"):
        made.weight_bit = 8
    assert (config.StaticQuantConfig(extra_options={"WeightSymmetric": False}).weight_sym, config.StaticQuantConfig().weight_sym) == (False, True)


def said(do):
    """What is said at lines of this file, and how many warnings were at lines of others."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        do()
    elsewhere = [warning for warning in caught if warning.filename != __file__]
    assert not elsewhere, [(str(warning.message), warning.filename) for warning in elsewhere]
    return "\n".join(str(warning.message) for warning in caught)


def with_nan(images):
    bad = images.copy()
    bad[3, 0, 0, 0] = np.nan
    return bad


def test_what_a_model_became_is_said_at_the_line_of_the_script(tmp_path, conv_path, matmul_path, images, sequences):
    def static(samples=images, **options):
        return lambda: quantize(str(conv_path), tmp_path / "out.onnx", config.StaticQuantConfig(Rewinding(samples, "image"), **options))

    text = said(static())
    assert "3 int8 weights" in text and "up to twice the formula's" in text
    text = said(static(with_nan(images)))
    assert "7 activations stay float: 'image': NaN was seen in 1 of 14400 elements, ..." in text
    text = said(static(op_types_to_quantize=["conv"]))
    assert "passed over: op_types_to_quantize: 'conv' matches no operator type in the model (did you mean 'Conv'?)" in text
    assert "nothing was quantized" in text
    said(static())
    assert "the model is already quantized" in said(
        lambda: quantize(tmp_path / "out.onnx", tmp_path / "again.onnx", config.StaticQuantConfig(Rewinding(images, "image"))))
    text = said(lambda: quantize(str(matmul_path), None, config.GPTQConfig(), calibration_data_reader=Rewinding(sequences[:1], "x")))
    assert "none of 2 layers has learned weights: 'make_query': it stays as rounded, because" in text
    for options, why in [({"weight_group_size": 24}, "weight_group_size=24: its blocks have 16, 32, 64"),
                         ({"weight_bits": 8}, "weight_bits=8 without accuracy_level=4")]:
        assert why in said(lambda options=options: quantize(str(matmul_path), None, config.RTNConfig(**options)))
    assert "passed over: nodes_to_exclude or set_local: 'head' matches no node's name" in said(
        lambda: quantize(str(matmul_path), None, config.RTNConfig(nodes_to_exclude=["head"])))
    assert "no configuration is within tolerable_loss=-1" in said(
        lambda: autotune(str(matmul_path), tuning.TuningConfig(tolerable_loss=-1), lambda path: 1.0))


def test_quarks_interface_says_the_same(tmp_path, conv_path, images):
    def quantized(samples=images, source=conv_path, **options):
        made = QuantizationConfig(**{"activation_type": ExtendedQuantType.QUInt8, "weight_type": ExtendedQuantType.QInt8, **options})
        return said(lambda: ModelQuantizer(made).quantize_model(str(source), str(tmp_path / "out.onnx"), Rewinding(samples, "image")))

    assert "activations stay float: 'image': NaN was seen" in quantized(with_nan(images))
    assert "passed over: QuantizationConfig: op_types_to_quantize: 'conv' matches no operator type" in quantized(op_types_to_quantize=["conv"])
    learned = {"OptimAlgorithm": "adaround", "NumIterations": 1, "DataSize": 1}
    assert "none of 4 layers has learned weights" in quantized(include_fast_ft=True, extra_options={"FastFinetune": learned})
    lowered = {"TargetOpType": ["Conv", "gemm"], "ActTargetQuantType": ExtendedQuantType.QInt8, "L2Target": 1e9}
    for target in (1e9, None):
        options = {"AutoMixprecision": {**lowered, "L2Target": target}}
        assert "AutoMixprecision: TargetOpType: 'gemm' matches no operator type in the model (did you mean 'Gemm'?)" in quantized(
            activation_type=ExtendedQuantType.QInt16, include_auto_mp=True, extra_options=options)
    options["AutoMixprecision"].update(TargetOpType=["conv"], L2Target=1.0)
    with pytest.raises(bitpress.InvalidArgumentError, match="TargetOpType: 'conv' matches no operator type"):
        quantized(activation_type=ExtendedQuantType.QInt16, include_auto_mp=True, extra_options=options)
    quantized()
    (tmp_path / "out.onnx").rename(tmp_path / "quantized.onnx")
    assert "the model is already quantized" in quantized(source=tmp_path / "quantized.onnx")


@quiet
@pytest.mark.parametrize("activations", [QuantType.QInt8, QuantType.QUInt8])
def test_scales_of_weights_are_the_formulas_but_where_sums_saturate(activations, conv_path, images):
    made = quantize(str(conv_path), None, config.StaticQuantConfig(Rewinding(images, "image"), "MinMax", "QDQ", activations))
    values = {item.name: onnx.numpy_helper.to_array(item) for item in made.graph.initializer}
    folded = quantize(str(conv_path), None, config.StaticQuantConfig(Rewinding(images, "image"), "MinMax", "QDQ", activations, op_types_to_quantize=["Conv"],
                                                                     nodes_to_exclude=["stem", "depthwise", "project"]))
    floats = {item.name: onnx.numpy_helper.to_array(item) for item in folded.graph.initializer}
    ratios = [float(values[name + "_scale"]) / (np.abs(weight).max() / 127) for name, weight in floats.items()
              if weight.ndim == 4 and name + "_scale" in values]
    assert len(ratios) == 3 and all(1 - 1e-5 <= ratio <= 2 + 1e-5 for ratio in ratios)
    assert max(ratios) > 1.01 and min(ratios) < 1 + 1e-5


def test_what_stays_in_another_form_is_said(tmp_path, conv_path, images):
    asked = config.StaticQuantConfig(Rewinding(images, "image"), quant_format=QuantFormat.QOperator, activation_type=QuantType.QInt8,
                                     weight_type=QuantType.QUInt8)
    with pytest.warns(Notice, match="quant_format=QOperator: 4 of the model have no such operator: .*codes than 8 bits"):
        quantize(str(conv_path), str(tmp_path / "out.onnx"), asked)
