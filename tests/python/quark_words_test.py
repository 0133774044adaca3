"""Words of Quark 0.13 that its scripts and its manual use: what they give here."""

import json
import warnings

import numpy as np
import onnx
import pytest
from package_helpers import Reader, outputs, sqnr_db

import bitpress
from bitpress.compat import Notice
from bitpress.compat.quark import _quantizer
from bitpress.compat.quark import onnx as q
from bitpress.compat.quark._algorithm_types import ALGORITHMS
from bitpress.compat.quark._mixed import _DISTANCES
from bitpress.compat.quark._translate import translate

pytestmark = [pytest.mark.filterwarnings("ignore::bitpress.compat.Notice"), pytest.mark.usefixtures("one_thread")]
WIDE = q.QLayerConfig(q.Int16Spec(), q.Int16Spec())


def run(config, model, tmp_path, data=None):
    path = tmp_path / "out.onnx"
    q.ModelQuantizer(config).quantize_model(str(model), str(path), data)
    onnx.checker.check_model(str(path), full_check=True)
    return path


def formats_of(path):
    return {weight.name: weight.format for weight in bitpress.inspect(path).constants}


def test_getting_started(tmp_path, conv_path, images):
    """The first example of Quark's manual."""
    config = q.QConfig.get_default_config("A8W8")
    assert config.global_quant_config.activation_type is q.ExtendedQuantType.QInt8
    path = run(config, conv_path, tmp_path, Reader(images, "image"))
    assert sqnr_db(outputs(conv_path, {"image": images})[0], outputs(path, {"image": images}, on_integers=False)[0]) > 30


@pytest.mark.quick
def test_extra_options_of_newer_versions():
    options = {"EnableNPUCnn": True, "AdjustWeightScaleForInt32Bias": False, "LWPUseHistogram": False, "QuantizationPreference": "speed",
               "TensorsRangeFile": "ranges.json", "UseQDQContribOps": True}
    with pytest.warns(Notice) as found:
        request = translate(q.QConfig(**options))
    assert request.settings["biases"] == "int8"  # as for Quark's NPU
    texts = " ".join(str(item.message) for item in found)
    assert all(f"{word}=" in texts for word in options if word != "EnableNPUCnn") and "EnableNPUCnn" not in texts
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        request = translate(q.QuantizationConfig(extra_options={"InputNodes": ["stem"], "OutputNodes": ["head"], "UseGPTQ": True,
                                                                "GPTQParams": {"Bits": 4, "GroupSize": 32, "PercDamp": 0.1}}))
    assert request.settings["finetune"] == "gptq" and request.settings["weights"] == "int4"
    assert request.settings["weight_block_size"] == 32 and request.settings["finetune_ridge"] == 0.1
    assert [rule for rule in request.rules if "to" in rule or "from" in rule] == [
        {"to": ["stem"], "nodes": ["(?!(?:stem)$).*"], "exclude": True}, {"from": ["head"], "nodes": ["(?!(?:head)$).*"], "exclude": True}]
    nbits = {"UseMatMulNBits": True, "MatMulNBitsParams": {"Algorithm": "GPTQ", "GroupSize": 64}, "GPTQParams": {"PercDamp": 0.2, "GroupSize": 32}}
    settings = translate(q.QuantizationConfig(extra_options=nbits)).settings
    assert (settings["finetune"], settings["finetune_ridge"], settings["weight_block_size"]) == ("gptq", 0.2, 64)
    both = q.QuantizationConfig(include_fast_ft=True, extra_options={"UseGPTQ": True, "BiasCorrection": True, "FastFinetune": {}})
    assert translate(both).settings["finetune"] == "gptq+bias_correction+adaround"


@pytest.mark.quick
def test_algorithms_learn_one_after_the_other():
    settings = translate(q.QConfig(algo_config=[q.AdaQuantConfig(), q.BiasCorrectionConfig()])).settings
    assert settings["finetune"] == "bias_correction+adaquant"
    with pytest.warns(Notice, match="adaquant beside another of AdaRound and AdaQuant changes nothing"):
        settings = translate(q.QConfig(algo_config=[q.AdaRoundConfig(num_iterations=3), q.AdaQuantConfig(num_iterations=9)])).settings
    assert (settings["finetune"], settings["finetune_rounds"]) == ("adaround", 3)
    legacy = translate(q.QuantizationConfig(), [q.SmoothQuantConfig(0.7)])
    assert legacy.settings["smooth_quant"] == 0.7


def test_outputs_of_operators_stay_float(tmp_path, conv_path, images):
    def quantized(**options):
        path = run(q.QuantizationConfig(include_cle=False, extra_options=options), conv_path, tmp_path, Reader(images, "image"))
        return {node.input[0] for node in onnx.load(path).graph.node if node.op_type == "QuantizeLinear"}

    everything = quantized()
    assert {"sum", "pooled", "active"} <= everything
    assert everything - quantized(OpTypesToExcludeOutputQuantization=["Add", "GlobalAveragePool"]) == {"sum", "pooled"}
    assert everything - quantized(NodesToExcludeOutputQuantization=["relu"]) == {"active"}
    with pytest.warns(Notice, match="OpTypesToExcludeOutputQuantization: the model has no 'Softmax'"):
        assert quantized(OpTypesToExcludeOutputQuantization=["Softmax"]) == everything
    config = q.QuantizationConfig(extra_options={"OpTypesToExcludeOutputQuantization": ["Add"]})
    for model in (onnx.load(conv_path), conv_path.read_bytes()):
        made = q.ModelQuantizer(config).quantize_model(model, None, Reader(images, "image"))
        assert "sum" not in {node.input[0] for node in made.graph.node if node.op_type == "QuantizeLinear"}


@pytest.mark.quick
def test_what_fits_nothing_is_said_with_the_word_that_gave_it(tmp_path, conv_path):
    def passed_over(config):
        with pytest.warns(Notice) as found:
            run(config, conv_path, tmp_path)
            q.get_library_path("CUDA")  # one notice at least
        return [str(item.message) for item in found if "passed over" in str(item.message)]

    spec = q.QLayerConfig(q.BFloat16Spec(), q.BFloat16Spec())
    (text,) = passed_over(q.QConfig(spec, exclude=["stam"]))
    assert text.startswith("passed over: QConfig: exclude: 'stam' matches") and "did you mean 'stem'" in text
    (text,) = passed_over(q.QConfig(spec, layer_type_config={None: ["conv"]}))
    assert text.startswith("passed over: QConfig: layer_type_config: 'conv' matches")
    target = q.QLayerConfig(q.BFP16Spec(), q.BFP16Spec())
    assert passed_over(q.QConfig(spec, algo_config=[q.AutoMixprecisionConfig(target)])) == []  # Quark's own operator types
    (text,) = passed_over(q.QConfig(spec, algo_config=[q.AutoMixprecisionConfig(target, ["Conv", "MatMul"])]))
    assert text.startswith("passed over: AutoMixprecisionConfig: target_op_type: 'MatMul'")


def test_hqq_is_scales_with_the_least_squared_error(tmp_path, matmul_path, sequences):
    def losses(**words):
        config = q.QuantizationConfig(extra_options={"UseMatMulNBits": True, "MatMulNBitsParams": {"GroupSize": 32, **words}})
        path = run(config, matmul_path, tmp_path)
        assert bitpress.inspect(path).operators["com.microsoft::MatMulNBits"] == 2
        return sqnr_db(outputs(matmul_path, {"x": sequences})[0], outputs(path, {"x": sequences})[0])

    with pytest.warns(Notice, match="Algorithm='HQQ' is taken as .*weight_range=mse"):
        hqq = losses(Algorithm="HQQ")
    assert hqq > losses(Symmetric=False)


@pytest.mark.quick
def test_arguments_by_position_are_attributes():
    assert vars(q.QLayerConfig(None, q.Int8Spec(), q.Int16Spec()))["weight"].data_type is q.Int16
    spec = q.UInt8Spec(True, q.ScaleType.PowerOf2, q.CalibMethod.MinMax)
    assert (spec.symmetric, spec.scale_type, spec.calibration_method, spec.data_type) == (True, q.ScaleType.PowerOf2, q.CalibMethod.MinMax, q.UInt8)
    assert isinstance(q.XInt8Spec(), q.Int8Spec) and isinstance(spec, q.QTensorConfig)
    cle = q.CLEConfig("max", 3)
    assert (cle.cle_steps, cle.cle_scale_append_bias, cle.name) == (3, True, "cle")
    cle.cle_steps = 5  # a script may change it until it quantizes
    assert translate(q.QConfig(algo_config=[cle])).settings["equalize_steps"] == 5
    assert translate(q.QConfig(algo_config=[q.GPTQConfig(4, 128, 32)])).settings["weight_block_size"] == 32
    layer = q.QLayerConfig(q.Int8Spec(), q.Int8Spec())
    layer.weight = q.Int16Spec()
    assert translate(q.QConfig(layer)).settings["weights"] == "int16"
    # Two layers with equal specifications are two keys, as in Quark.
    same = {q.QLayerConfig(weight=q.Int8Spec()): ["a"], q.QLayerConfig(weight=q.Int8Spec()): ["b"]}
    assert [rule["names"] for rule in translate(q.QConfig(specific_layer_config=same)).rules] == [["a"], ["b"]]


@pytest.mark.quick
def test_functions_take_quarks_arguments_in_its_order(conv_path, images, tmp_path):
    out = tmp_path / "out.onnx"
    q.quantize_static(str(conv_path), str(out), Reader(images, "image"), None, q.QuantFormat.QDQ, q.CalibrationMethod.MinMax, ["depthwise"])
    assert "INT8" not in formats_of(out).get("stem.weight", "float")
    q.quantize_dynamic(str(conv_path), str(out), ["Gemm"])
    assert bitpress.inspect(out).operators["DynamicQuantizeLinear"] == 1
    assert q.quantize_static(str(conv_path), None, Reader(images, "image")).graph.node


@pytest.mark.quick
def test_dictionaries_are_spelled_as_quarks():
    # The example of the page about it.
    page = q.QConfig(global_config=q.QLayerConfig(input_tensors=q.XInt8Spec(), weight=q.XInt8Spec()),
                     algo_config=[q.CLEConfig(cle_steps=2)], extra_options={"SimplifyModel": False, "Int32Bias": False}).to_dict()
    spec = {"symmetric": True, "scale_type": "ScaleType.PowerOf2", "calibration_method": "CalibMethod.MinMSE",
            "quant_granularity": "QuantGranularity.Tensor", "data_type": "Int8"}
    assert page == {"global_config": {"input_tensors": spec, "weight": spec}, "specific_layer_config": [], "layer_type_config": [],
                    "exclude": [], "algo_config": [{"name": "cle", "cle_steps": 2}], "use_external_data_format": False,
                    "extra_options": {"SimplifyModel": False, "Int32Bias": False}}
    layer = q.QLayerConfig(input_tensors=q.UInt8Spec(calibration_method=q.CalibMethod.MinMax), weight=q.Int8Spec())
    config = q.QConfig(layer, {q.QLayerConfig(weight=q.Int16Spec()): ["head"]}, {None: ["Gemm"]}, ["stem"],
                       [q.AdaRoundConfig(num_iterations=5), q.CLEConfig()], CalibDataSize=7)
    spec = {"symmetric": False, "scale_type": "ScaleType.Float32", "calibration_method": "CalibMethod.MinMax",
            "quant_granularity": "QuantGranularity.Tensor", "data_type": "UInt8"}
    weight = {**spec, "symmetric": True, "calibration_method": "CalibMethod.Percentile", "data_type": "Int8"}
    wanted = {"global_config": {"input_tensors": spec, "weight": weight},
              "specific_layer_config": [[{"weight": {**weight, "data_type": "Int16"}}, ["head"]]],
              "layer_type_config": [[None, ["Gemm"]]], "exclude": ["stem"],
              "algo_config": [{"name": "adaround", "num_iterations": 5}, {"name": "cle"}], "use_external_data_format": False,
              "extra_options": {"CalibDataSize": 7}}
    assert config.to_dict() == wanted
    again = q.QConfig.from_dict(json.loads(json.dumps(wanted)))
    assert again.to_dict() == wanted and translate(again) == translate(config)
    assert q.QConfig.from_dict({"global_config": wanted["global_config"]}).algo_config == []
    assert q.QLayerConfig.from_dict(layer.to_dict()).to_dict() == layer.to_dict()
    overrides = {"x": [{"quant_type": q.ExtendedQuantType.QInt16}]}
    again = q.QConfig.from_dict(json.loads(json.dumps(q.QConfig(TensorQuantOverrides=overrides).to_dict())))
    assert translate(again) == translate(q.QConfig(TensorQuantOverrides=overrides))
    amp = q.AutoMixprecisionConfig({layer: ["stem"]}, metric_threshold=0.5, metric_default="kl")
    assert q.AutoMixprecisionConfig.from_dict(json.loads(json.dumps(amp.to_dict()))).to_dict() == amp.to_dict()
    assert q.GPTQConfig(4).get_options()["GPTQParams"]["Bits"] == 4 and q.SmoothQuantConfig().get_options() == {"SmoothAlpha": 0.5}
    assert q.CLEConfig().get_options()["CLETotalLayerDiffThreshold"] == 1.9e-7


# Automatic mixed precision


def promoted(target, **words):
    return q.QConfig(WIDE, algo_config=[q.AutoMixprecisionConfig(target, **words)])


def narrow(kind=q.Int8Spec):
    return q.QLayerConfig(kind(calibration_method=q.CalibMethod.MinMax), q.Int8Spec())


def narrow_weights(path):
    """The layers with int8 weights; preparation gives the first one's another name."""
    return {name.split("_")[-2] for name, found in formats_of(path).items() if found == "INT8" and name.endswith("weight_codes")}


def test_the_manuals_first_example_of_mixed_precision(tmp_path, conv_path, images):
    file = tmp_path / "sensitivity.json"
    path = run(promoted(narrow(), metric_default="psnr", metric_threshold=-20, sensitivity_cache_file=str(file)), conv_path, tmp_path,
               Reader(images, "image"))
    assert narrow_weights(path) == {"stem.weight", "depthwise.weight", "project.weight", "head.weight"}
    report = json.loads(file.read_text())
    assert [layer["node"] for layer in report["layers"]] == ["stem", "depthwise", "project", "head"]
    file.write_text("{}")  # Quark's own, perhaps
    with pytest.warns(Notice, match="sensitivity_cache_file=.* is there; it is neither read nor written"):
        run(promoted(narrow(), sensitivity_cache_file=file), conv_path, tmp_path, Reader(images, "image"))
    assert file.read_text() == "{}"


def test_without_a_threshold_layers_are_only_measured(tmp_path, conv_path, images):
    config = promoted(narrow(), metric_threshold=None, sensitivity_cache_file=tmp_path / "s.json")
    with pytest.warns(Notice, match="metric_threshold=None: layers are measured, and none is lowered"):
        path = run(config, conv_path, tmp_path, Reader(images, "image"))
    assert narrow_weights(path) == set() and len(json.loads((tmp_path / "s.json").read_text())["layers"]) == 4
    with pytest.raises(bitpress.InvalidArgumentError, match="measuring layers .*metric_threshold=None.* calibration_data_reader"):
        run(config, conv_path, tmp_path)


def test_of_a_list_each_layer_gets_what_it_loses_least_with(tmp_path, conv_path, images):
    fine = q.QLayerConfig(q.Int16Spec(), q.Int8Spec(quant_granularity=q.QuantGranularity.Channel))
    coarse = q.QLayerConfig(q.Int8Spec(), q.Int4Spec())
    for targets in ([coarse, fine], [fine, coarse]):
        path = run(promoted(targets, target_op_type=["Conv"]), conv_path, tmp_path, Reader(images, "image"))
        assert narrow_weights(path) == {"stem.weight", "depthwise.weight", "project.weight"}
    path = run(promoted([coarse, fine], metric_threshold=1e9), conv_path, tmp_path, Reader(images, "image"))
    assert set(formats_of(path).values()) & {"INT4"}  # a target is reached at the least cost


@pytest.mark.quick
def test_a_dict_of_targets_has_one_for_all_other_layers():
    def rules(target, **words):
        return [(rule.get("names"), rule["activations"]) for rule in translate(promoted(target, **words)).rules]

    byte, short = narrow(), q.QLayerConfig(q.Int16Spec(), q.Int8Spec())
    assert rules({short: ["stem"], byte: []}) == [(None, "int8"), (["stem"], "int16")]
    with pytest.warns(Notice, match="has no entry with .*: its first one is for all other layers"):
        assert rules({byte: ["stem"]}) == [(None, "int8")]
    assert rules({byte: []}, include_layers=["head"]) == [(["head"], "int8")]


@pytest.mark.quick
def test_kl_and_psnr_have_quarks_formulas():
    x = np.array([[1.0, 2.0, 5.0], [-1.0, 0.0, 3.0]], np.float32)
    y = np.array([[1.0, 3.0, 4.0], [-1.0, 1.0, 3.0]], np.float32)
    # Sums 8 and 8; then moved by 1: [0, 1, 4] / 5 and [0, 2, 4] / 6.
    first = 0.25 * np.log((0.25 + 1e-10) / (0.375 + 1e-10)) + 0.625 * np.log(0.625 / 0.5)
    second = 0.2 * np.log(0.2 / (1 / 3)) + 0.8 * np.log(0.8 / (2 / 3))
    assert _DISTANCES["kl"](x, y) == pytest.approx((first + second) / 2, abs=1e-8)
    psnr = [20 * np.log10(5) - 10 * np.log10(2 / 3), 20 * np.log10(3) - 10 * np.log10(1 / 3)]
    assert _DISTANCES["psnr"](x, y) == pytest.approx(-np.mean(psnr))
    assert _DISTANCES["kl"](x, x) == 0 and _DISTANCES["psnr"](x, x) < -100


def test_thresholds_of_kl_and_psnr_hold(tmp_path, conv_path, images):
    wanted = outputs(conv_path, {"image": images})[0]
    lowered = outputs(run(promoted(narrow()), conv_path, tmp_path, Reader(images, "image")), {"image": images})[0]
    for metric, closer in (("kl", lambda loss: loss / 2), ("psnr", lambda loss: loss - 2)):
        threshold = closer(_DISTANCES[metric](wanted, lowered))
        path = run(promoted(narrow(), metric_default=metric, metric_threshold=threshold), conv_path, tmp_path, Reader(images, "image"))
        assert 0 < len(narrow_weights(path)) < 4, metric
        assert _DISTANCES[metric](wanted, outputs(path, {"image": images})[0]) <= threshold, metric


@pytest.mark.quick
def test_words_of_earlier_versions_of_mixed_precision():
    words = {"act_target_quant_type": q.QuantType.QInt8, "weight_target_quant_type": q.QuantType.QInt8, "target_op_type": ["Conv"]}
    target = translate(q.QConfig(WIDE, algo_config=[q.AutoMixprecisionConfig(l2_target=0.5, output_index=1, **words)])).target
    assert (target.text, target.output_index, target.op_types) == ("l2<=0.5", 1, ["Conv"])
    target = translate(q.QConfig(WIDE, algo_config=[q.AutoMixprecisionConfig(top1_acc_target=0.02, evaluate_function=max, **words)])).target
    assert target.text == "metric_drop<=0.02" and target.metric.function is max


@pytest.mark.quick
def test_newer_words_of_mixed_precision_in_the_older_interface():
    def request(layer, **words):
        return translate(q.QuantizationConfig(q.CalibrationMethod.MinMax, include_auto_mp=True,
                                              extra_options={"AutoMixprecision": {"TargetLayerConfig": layer, **words}}))

    layer = narrow()
    for given in (layer, layer.to_dict()):
        made = request(given, MetricThreshold=0.5, IncludeLayers=["stem"], MetricDefault="cosine")
        assert (made.target.text, made.target.names) == ("cosine>=0.5", ["stem"])
    assert request(layer, TargetOpType=["Gemm"]).rules[-1]["op_types"] == ["Gemm"]
    with pytest.warns(Notice, match="MetricThreshold without TargetLayerConfig changes nothing"):
        translate(q.QuantizationConfig(include_auto_mp=True, extra_options={
            "AutoMixprecision": {"ActTargetQuantType": q.QuantType.QInt8, "MetricThreshold": 0.5}}))


# Readers


@pytest.mark.quick
def test_random_samples_have_the_types_of_the_inputs(tmp_path):
    from onnx import TensorProto, helper

    graph = helper.make_graph([helper.make_node("Gather", ["table", "ids"], ["y"])], "g",
                              [helper.make_tensor_value_info("ids", TensorProto.INT64, [1, 9])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 9, 2])],
                              [onnx.numpy_helper.from_array(np.ones((5, 2), np.float32), "table")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "g.onnx")
    ids = q.RandomDataReader(str(tmp_path / "g.onnx"), {}, {"ids": [1, 4]}).get_next()["ids"]
    assert q.RandomDataReader(str(tmp_path / "g.onnx"), [2, 3]).get_next()["ids"].shape == (2, 3)
    assert q.RandomDataReader(str(tmp_path / "g.onnx"), [[4, 1]]).get_next()["ids"].shape == (4, 1)
    assert ids.dtype == np.int64 and ids.shape == (1, 9) and set(ids.ravel()) <= {1, 2, 3, 4} and len(set(ids.ravel())) > 1


@pytest.mark.quick
def test_readers(tmp_path, conv_path, images):
    cached = q.CachedDataReader(Reader(images, "image"), 5, quantize_fp16=True)
    assert len(cached) == 5 and cached.get_next()["image"].dtype == np.float16
    assert sum(1 for _ in iter(cached.get_next, None)) == 4
    cached.reset_iter()
    assert sum(1 for _ in iter(cached.get_next, None)) == 5
    turned = q.CachedDataReader(Reader(images, "image"), 1, convert_nchw_to_nhwc=True).get_next()["image"]
    assert turned.shape == (1, 20, 20, 3)
    for i, image in enumerate(images[:3]):
        np.save(tmp_path / f"{i}.npy", image if i else image[None])
    read = q.PathDataReader(str(conv_path), str(tmp_path))
    found = list(iter(read.get_next, None))
    assert np.array_equal(np.concatenate([item["image"] for item in found]), images[:3])
    (tmp_path / "image").mkdir()
    with pytest.raises(bitpress.MissingFileError, match="data_path=.*no folder 'image' with some"):
        q.PathDataReader(str(conv_path), str(tmp_path / "image"))
    from bitpress.compat.quark.onnx.calibration import get_data_reader

    assert isinstance(get_data_reader(str(conv_path), None, str(tmp_path)), q.PathDataReader)
    assert isinstance(get_data_reader(str(conv_path), extra_options={"UseRandomData": True}), _quantizer.RandomDataReader)
    with pytest.raises(bitpress.InvalidArgumentError, match="calibration_data_reader or calibration_data_path, or UseRandomData"):
        get_data_reader(str(conv_path))


@pytest.mark.parametrize("data_type", list(q.DataType), ids=lambda item: item.name)
def test_plans_read_and_write_a_configuration_as_a_script_means_it(tmp_path, conv_path, data_type):
    """`like` has a table of Quark's names of its own, which must not differ from this package's."""
    method = q.CalibMethod.MinMSE
    layer = q.QLayerConfig(*[q.QTensorConfig(False, q.ScaleType.PowerOf2, method, q.QuantGranularity.Tensor, data_type)] * 2)
    config = q.QConfig(layer, exclude=["stem"])
    asked = translate(config)
    path = tmp_path / "quark.json"
    path.write_text(json.dumps(config.to_dict()))
    plan = bitpress.plan(conv_path, "INT8", like=path)
    rows = [row for row in plan.tensors if row["role"] != "bias" and row["format"] != "none"]
    assert len(rows) > 4 and all(row["format"] == asked.settings["weights"] for row in rows)
    assert all(row["format"] == "none" for row in plan.tensors if row["uses"][0]["node"] == "stem")
    is_integer = bitpress.formats.find(rows[0]["format"]).is_integer
    if is_integer:
        assert all(row["scale_kind"] == "power_of_two" and not row["symmetric"] for row in rows)
    assert plan.export(path, "quark") == []
    again = q.QConfig.from_dict(json.loads(path.read_text()))
    assert again.exclude == ["stem"] and again.global_config.weight.data_type is data_type
    if is_integer:
        assert vars(again.global_config.input_tensors) == vars(layer.input_tensors)


# Words of algorithms that are settings, with other values than Quark's defaults.
ALGORITHM_WORDS = {"alpha": 0.75, "cle_steps": 3, "cle_scale_append_bias": False, "bits": 4, "group_size": 32, "perc_damp": 0.25, "act_order": True,
                   "per_channel": True, "mse": True, "weight_symmetric": False, "data_size": 6, "num_iterations": 9, "fixed_seed": 4,
                   "target_op_type": ["Conv", "Gemm"]}
# Settings that they change.
ALGORITHM_SETTINGS = ("finetune", "equalize", "smooth_quant", "weights", "weight_symmetric", "weight_granularity", "weight_block_size")


@pytest.mark.parametrize("name", [name for name in ALGORITHMS if name not in ("quarot", "auto_mixprecision")])
def test_plans_read_and_write_algorithms_as_a_script_means_them(tmp_path, conv_path, name):
    """As for data types, `like` has a table of its own: a word is a setting in both, or in none."""
    path = tmp_path / "quark.json"
    layer = q.QLayerConfig(*[q.QTensorConfig()] * 2)

    def of_algorithms(values):
        return {key: value for key, value in values.items() if key.startswith(ALGORITHM_SETTINGS) and key != "equalize_clips"}

    def asked(config):
        return of_algorithms(bitpress.plan(conv_path, "INT8", **of_algorithms(translate(config).settings)).data["config"])

    defaults = ALGORITHMS[name].defaults
    for words in [{}, *({word: ALGORITHM_WORDS.get(word, "x" if value is None else value)} for word, value in defaults.items())]:
        path.write_text(json.dumps({**q.QConfig(layer).to_dict(), "algo_config": [{"name": name, **words}]}))
        plan = bitpress.plan(conv_path, "INT8", like=path)
        is_setting = set(words) <= set(ALGORITHM_WORDS)
        assert [f"'{name}': {word} is left out: " in note for word, note in zip(words, plan.imported.notes)] == [True] * (not is_setting)
        if is_setting:
            config = q.QConfig(layer, algo_config=[ALGORITHMS[name](**words)])
            assert of_algorithms(plan.data["config"]) == asked(config), words
            assert plan.export(path, "quark") == []
            assert asked(q.QConfig.from_dict(json.loads(path.read_text()))) == asked(config), words
