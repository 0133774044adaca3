"""Quark's mixed precision, symmetry and block attributes mean here what they mean there."""

import contextlib
import itertools
import warnings

import models
import numpy as np
import onnx
import onnxruntime
import pytest
from package_helpers import Reader, outputs, sqnr_db

import bitpress
from bitpress.compat import Notice, quark
from bitpress.compat.quark import _quantizer
from bitpress.compat.quark._translate import translate
from bitpress.compat.quark.onnx import ExtendedQuantType, ModelQuantizer, QConfig, QLayerConfig
from bitpress.compat.quark.onnx.quantization.config import data_type
from bitpress.compat.quark.onnx.quantization.config.config import Config, QuantizationConfig

pytestmark = [pytest.mark.filterwarnings("ignore::bitpress.compat.Notice"), pytest.mark.usefixtures("one_thread")]
Q = ExtendedQuantType
LAYERS = ["Conv", "ConvTranspose", "Gemm", "MatMul"]


def configure(activations, weights, words=None, **options):
    """The configuration of a script; `words` are those of AutoMixprecision."""
    mixed = {"AutoMixprecision": words} if words is not None else {}
    return QuantizationConfig(activation_type=activations, weight_type=weights, include_auto_mp=True if mixed else None,
                              extra_options={**mixed, **options})


def plan_of(config, model, samples):
    """The plan that ModelQuantizer carries out."""
    request = translate(config)
    ours = _quantizer._config(request)
    if request.target is None:
        return bitpress.plan(model, ours)
    with contextlib.closing(_quantizer.SharedSamples(Reader(samples, "image"))) as data:
        return _quantizer._search(request, request.target, ours, model, data)


def rows_of(plan):
    """The treatment of each input of each node."""
    return {(use["node"], use["input"]): {key: value for key, value in row.items() if key not in ("uses", "graph_output")}
            for row in plan.tensors for use in row["uses"]}


@pytest.mark.parametrize("wide, narrow, options", [
    ((Q.QInt16, Q.QInt8), {"ActTargetQuantType": Q.QInt8, "WeightTargetQuantType": Q.QInt8}, {}),
    ((Q.QInt16, Q.QInt16), {"ActTargetQuantType": Q.QUInt8, "WeightTargetQuantType": Q.QInt8},
     {"ActivationSymmetric": True, "Int32Bias": False, "Percentile": 99.9}),
    ((Q.QBFloat16, Q.QBFloat16), {"TargetQuantType": Q.QMX, "DualQuantNodes": True},
     {"MXAttributes": {"element_dtype": "fp8_e4m3", "axis": 1, "block_size": 32, "rounding_mode": 2}}),
    ((Q.QBFP, Q.QBFP), {"TargetQuantType": Q.QMX},
     {"BFPAttributes": {"bfp_method": "to_bfp", "bit_width": 16, "block_size": 8, "rounding_mode": 0},
      "MXAttributes": {"element_dtype": "int8", "rounding_mode": 1}}),
])
def test_a_searched_model_has_exactly_the_settings_that_were_asked_for(wide, narrow, options, conv_path, images):
    """Layers that a target lowers have the rows that they have without a target, and layers that it keeps those without lowering."""
    def rows(words):
        return rows_of(plan_of(configure(*wide, words, **options), conv_path, images))

    everything, nothing = rows({"TargetOpType": LAYERS, **narrow}), rows(None)
    assert rows({"TargetOpType": LAYERS, "L2Target": 1e9, **narrow}) == everything
    if "DualQuantNodes" not in narrow:
        assert rows({"TargetOpType": LAYERS, "L2Target": 1e-9, **narrow}) == nothing
    some = rows({"TargetOpType": ["Gemm"], "L2Target": 1e9, **narrow})
    assert {key: row for key, row in some.items() if key[0] == "head"} == {
        key: row for key, row in everything.items() if key[0] == "head"}
    assert all(row["format"] == nothing[key]["format"] for key, row in some.items() if key[0] != "head")
    formats = {row["format"] for row in everything.values() if row["format"] != "none"}
    if narrow.get("ActTargetQuantType") is Q.QInt8:
        assert formats == {"int8", "int16", "int32"}  # and not uint8, as in the preset INT8


def test_the_newer_interface_keeps_settings_too(conv_path, images):
    wide = quark.Int16Spec(calibration_method=quark.CalibMethod.MinMax)
    narrow = QLayerConfig(input_tensors=quark.UInt8Spec(calibration_method=quark.CalibMethod.Entropy), weight=quark.UInt8Spec(symmetric=False))

    def rows(**words):
        amp = quark.AutoMixprecisionConfig(target_layer_config=narrow, **words)
        return rows_of(plan_of(QConfig(QLayerConfig(wide, wide), algo_config=[amp]), conv_path, images))

    everything = rows()
    assert rows(metric_threshold=1e9) == everything
    assert everything["head", 0]["range"] == "entropy" and not everything["head", 1]["symmetric"]
    some, same = rows(metric_threshold=1e9, exclude_layers=["stem"]), rows(exclude_layers=["stem"])
    assert some == same and some["stem", 1]["format"] == "int16" and some["stem", 1]["symmetric"]
    some = rows(metric_threshold=1e9, include_layers=["head", "project"])
    assert some == rows(include_layers=["head", "project"]) and some["depthwise", 1]["format"] == "int16"


def test_words_about_which_operators_are_lowered(conv_path, images):
    words = {"TargetOpType": ["Conv", "Relu"], "ActTargetQuantType": Q.QInt8}
    assert rows_of(plan_of(configure(Q.QInt16, Q.QInt8, words), conv_path, images))["relu", 0]["format"] == "int8"
    with pytest.raises(bitpress.UnsupportedError, match="Relu among the target operator types .TargetOpType"):
        plan_of(configure(Q.QInt16, Q.QInt8, {**words, "L2Target": 1}), conv_path, images)
    # A type that the model does not have is nothing to refuse.
    assert plan_of(configure(Q.QInt16, Q.QInt8, {**words, "TargetOpType": ["Conv", "Attention"], "L2Target": 1e9}), conv_path, images)


def test_what_lowers_without_being_asked_is_said():
    words = {"AutoMixprecision": {"TargetQuantType": Q.QBFP}}
    with pytest.warns(Notice, match="AutoMixprecision without include_auto_mp=True: layers are lowered"):
        translate(QuantizationConfig(activation_type=Q.QBFloat16, weight_type=Q.QBFloat16, extra_options=words))


def test_the_output_that_a_target_is_about(tmp_path, images):
    """The second output has large values and large errors, which count only where they are asked for."""
    path = models.save(models.conv_model_with_a_large_output(), tmp_path / "two.onnx")

    def num_lowered(**words):
        words = {"TargetQuantType": Q.QBFP, "L2Target": 0.5, **words}
        rows = rows_of(plan_of(configure(Q.QBFloat16, Q.QBFloat16, words), path, images))
        return sum(row["format"] == "bfp16" for row in rows.values())

    assert num_lowered() == num_lowered(OutputIndex=0) > num_lowered(OutputIndex=1) == 0
    with pytest.raises(bitpress.InvalidArgumentError, match="no output 2; the model has 2"):
        num_lowered(OutputIndex=2)


@pytest.mark.quick
def test_symmetry_where_a_script_says_nothing(conv_path):
    def symmetry(activations, weights, **options):
        rows = rows_of(bitpress.plan(conv_path, _quantizer._config(translate(configure(activations, weights, **options)))))
        return rows["head", 0]["symmetric"], rows["head", 1]["symmetric"]

    assert symmetry(Q.QInt8, Q.QInt8) == (False, True)
    assert symmetry(Q.QInt16, Q.QUInt8) == (False, False)
    assert symmetry(Q.QInt8, Q.QUInt8, ActivationSymmetric=True, WeightSymmetric=True) == (True, True)
    assert symmetry(Q.QUInt8, Q.QInt8, WeightSymmetric=False) == (False, False)
    rule = translate(configure(Q.QInt8, Q.QInt8, TensorQuantOverrides={"pooled": [{"quant_type": Q.QUInt16}]})).rules[-1]
    assert (rule["activation_symmetric"], rule["weight_symmetric"]) == (False, False)
    # The newer interface says it in each specification.
    assert translate(QConfig()).settings["activation_symmetric"] is True


# All pairs that kernels of integers know, and each 32-bit type on each side.
@pytest.mark.parametrize("activations, weights", [
    *itertools.product([Q.QInt8, Q.QUInt8, Q.QInt16, Q.QUInt16], repeat=2), (Q.QInt32, Q.QInt32), (Q.QUInt32, Q.QUInt32),
    (Q.QInt32, Q.QUInt8), (Q.QUInt32, Q.QInt16), (Q.QUInt8, Q.QInt32), (Q.QInt16, Q.QUInt32)])
def test_a_pair_of_integer_types_gives_a_model_that_runs(activations, weights, tmp_path, conv_path, images):
    path = tmp_path / "out.onnx"
    ModelQuantizer(Config(configure(activations, weights))).quantize_model(str(conv_path), str(path), Reader(images, "image"))
    onnx.checker.check_model(str(path), full_check=True)
    assert sqnr_db(outputs(conv_path, {"image": images})[0], outputs(path, {"image": images})[0]) > 20


@pytest.mark.parametrize("attributes, name, rounding", [
    ({"MXAttributes": {}}, "mxint8", "half_to_even"),
    ({"MXAttributes": {"element_dtype": "fp6_e2m3", "block_size": 16, "rounding_mode": 0}}, "mxfp6_e2m3(block=16)", "half_to_even"),
    ({"MXAttributes": {"element_dtype": "int8", "block_size": 64, "rounding_mode": 1}}, "mxint8(block=64)", "half_up"),
    ({"BFPAttributes": {}}, "bfp16", "half_to_even"),
    ({"BFPAttributes": {"bfp_method": "to_bfp", "bit_width": 13, "block_size": 32, "rounding_mode": 0}}, "bfp(bits=13, block=32)",
     "half_away_from_zero"),
    ({"BFPAttributes": {"bfp_method": "to_bfp_prime", "bit_width": 13, "block_size": 16}}, "mx6", "half_to_even"),
    ({"BFPAttributes": {"bfp_method": "to_bfp_prime", "bit_width": 12, "block_size": 32, "sub_block_size": 4, "sub_block_shift_bits": 2,
                        "rounding_mode": 1}}, "mx(bits=12, block=32, sub_block=4, shift_bits=2)", "half_up"),
])
def test_block_attributes_of_any_size(attributes, name, rounding, tmp_path, conv_path, images):
    """Both operator sets compute the same, and the attributes of Quark's are those that were given."""
    (word,) = attributes
    kind, op_type = (Q.QMX, "MXQuantizeDequantize") if word == "MXAttributes" else (Q.QBFP, "BFPQuantizeDequantize")
    config = Config(configure(kind, kind, **attributes))
    settings = translate(config).settings
    assert (settings["activations"], settings["activation_rounding"]) == (name, rounding)
    paths = {operators: tmp_path / f"{operators}.onnx" for operators in ("bitpress", "quark")}
    for operators, path in paths.items():
        ModelQuantizer(config, operators=operators).quantize_model(str(conv_path), str(path))
        onnx.checker.check_model(str(path), full_check=True)
    nodes = [node for node in onnx.load(paths["quark"]).graph.node if node.domain == "com.amd.quark"]
    assert nodes and {node.op_type for node in nodes} == {op_type}
    written = {item.name: onnx.helper.get_attribute_value(item) for item in nodes[0].attribute}
    for key, value in attributes[word].items():
        found = written[key].decode() if isinstance(written[key], bytes) else written[key]
        assert found == value or (key == "rounding_mode" and rounding == "half_to_even"), key
    found = {operators: outputs(path, {"image": images})[0] for operators, path in paths.items()}
    np.testing.assert_allclose(found["bitpress"], found["quark"], rtol=1e-5, atol=1e-5)
    assert sqnr_db(outputs(conv_path, {"image": images})[0], found["quark"]) > 8
    # Without any operator library the functions in the model compute the same.
    alone = onnxruntime.InferenceSession(str(paths["bitpress"]), providers=["CPUExecutionProvider"]).run(None, {"image": images})[0]
    np.testing.assert_allclose(alone, found["bitpress"], rtol=1e-5, atol=1e-5)


@pytest.mark.quick
def test_blocks_run_along_the_given_axis(conv_path):
    def axes(axis, **options):
        options = {"MXAttributes": {"element_dtype": "int8", "axis": axis}, **options}
        rows = rows_of(bitpress.plan(conv_path, _quantizer._config(translate(configure(Q.QMX, Q.QMX, **options)))))
        return rows["stem", 0]["axis"], rows["stem", 1]["axis"], rows["relu", 0]["axis"], rows["head", 0]["axis"]

    assert axes(1) == (1, 1, 1, 1) and axes(2) == (2, 2, 2, 1) and axes(-1) == (3, 3, 3, 1)
    with pytest.raises(bitpress.UnsupportedError, match="different axes"):
        axes(2, BFPAttributes={"axis": 1})


def test_block_formats_of_a_model_have_roundings_of_their_own(conv_path):
    options = {"MXAttributes": {"element_dtype": "int8", "rounding_mode": 1}, "BFPAttributes": {"rounding_mode": 0}}
    rows = rows_of(bitpress.plan(conv_path, _quantizer._config(translate(configure(Q.QMX, Q.QBFP, **options)))))
    assert (rows["head", 0]["rounding"], rows["head", 1]["rounding"]) == ("half_up", "half_away_from_zero")
    for attributes, error in [({"block_size": "32"}, bitpress.ArgumentTypeError), ({"block_size": 0}, bitpress.InvalidArgumentError),
                              ({"axis": "1"}, bitpress.ArgumentTypeError), ({"rounding_mode": 3}, bitpress.UnsupportedError)]:
        with pytest.raises(error, match=next(iter(attributes))[:5]):
            translate(configure(Q.QMX, Q.QMX, MXAttributes=attributes))


def test_quarks_operators_stand_in_a_row(tmp_path, conv_path, images):
    """DualQuantNodes as its documentation has it: a pair of BF16, then a node of BFP, on one tensor; and a pair of int16 too."""
    for wide, first in ((Q.QBFloat16, "ExtendedDequantizeLinear"), (Q.QInt16, "DequantizeLinear")):
        config = Config(configure(wide, wide, {"TargetOpType": LAYERS, "TargetQuantType": Q.QBFP, "DualQuantNodes": True}))
        path = tmp_path / "out.onnx"
        ModelQuantizer(config, operators="quark").quantize_model(str(conv_path), str(path), Reader(images, "image"))
        nodes = onnx.load(path).graph.node
        producers = {output: node.op_type for node in nodes for output in node.output}
        before = [producers.get(node.input[0]) for node in nodes if node.op_type == "BFPQuantizeDequantize"]
        assert before.count(first) >= 3, before
        assert sqnr_db(outputs(conv_path, {"image": images})[0], outputs(path, {"image": images})[0]) > 35
    with pytest.raises(bitpress.InvalidArgumentError, match="BF16QDQToCast"):
        ModelQuantizer(Config(configure(Q.QBFloat16, Q.QBFloat16, BF16QDQToCast=True)), operators="quark")
    with pytest.raises(bitpress.InvalidArgumentError, match="operators='amd'"):
        ModelQuantizer(Config(), operators="amd")


def test_words_of_the_other_interface_are_said():
    with pytest.warns(Notice, match="QConfig: FastFinetune changes nothing here.*AdaRoundConfig"):
        translate(QConfig(extra_options={"FastFinetune": {"OptimAlgorithm": "adaround"}}))


def test_older_words():
    with pytest.warns(Notice, match="l2_target is taken as L2Target"):
        request = translate(configure(Q.QInt16, Q.QInt8, {"act_target_quant_type": Q.QInt8, "l2_target": 0.5}))
    assert request.target.text == "l2<=0.5" and request.target.variants[0]["activations"] == "int8"
    with pytest.raises(bitpress.InvalidArgumentError, match="L2Target is given twice, once as 'l2_target'"):
        translate(configure(Q.QInt16, Q.QInt8, {"L2Target": 1, "l2_target": 0.5}))
    with pytest.raises(bitpress.UnsupportedError, match="NumTarget=3 is refused"):
        translate(configure(Q.QInt16, Q.QInt8, {"ActTargetQuantType": Q.QInt8, "NumTarget": 3}))
    spec = quark.Int8Spec()
    spec.set_symmetric(False)
    spec.set_data_type(data_type.UInt8)
    assert vars(spec) == vars(quark.QTensorConfig(symmetric=False, calibration_method=quark.CalibMethod.Percentile, data_type=data_type.UInt8))
    assert translate(QConfig(QLayerConfig(spec, spec))).settings["activations"] == "uint8"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        translate(QConfig(QLayerConfig(activation=spec, weight=spec)))
