"""Scripts for AMD Quark give the nodes that Quark writes, where Quark puts them."""

import collections

import numpy as np
import onnx
import onnxruntime
import pytest
from package_helpers import Reader, outputs, sqnr_db

import bitpress
from bitpress.compat.quark.onnx import ExtendedQuantType, ModelQuantizer, QuantFormat
from bitpress.compat.quark.onnx.quantization.config.config import Config, QuantizationConfig
from bitpress.compat.quark.onnx.quantization.config.custom_config import get_default_config

pytestmark = [pytest.mark.filterwarnings("ignore::bitpress.compat.Notice"), pytest.mark.usefixtures("one_thread")]
Q = ExtendedQuantType
LAYERS = ["Conv", "ConvTranspose", "Gemm", "MatMul"]


def write(model, path, activations, weights=None, data=None, operators=None, **options):
    """The nodes of a model that a script made, in their order."""
    fields = {name: options.pop(name) for name in ("include_auto_mp", "include_fast_ft", "include_cle", "per_channel") if name in options}
    config = Config(QuantizationConfig(activation_type=activations, weight_type=weights or activations, extra_options=options, **fields))
    keywords = {} if operators is None else {"operators": operators}
    ModelQuantizer(config, **keywords).quantize_model(str(model), str(path), data)
    onnx.checker.check_model(str(path), full_check=True)
    return list(onnx.load(str(path)).graph.node)


def counted(nodes):
    return collections.Counter((node.domain, node.op_type) for node in nodes)


def exact_outputs(path, inputs):
    """What the nodes say, without ONNX Runtime's optimizer."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    options.register_custom_ops_library(bitpress.get_library_path())
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"]).run(None, inputs)[0]


@pytest.mark.parametrize("name", ["MXFP8E4M3", "BF16"])
def test_a_named_configuration_gives_the_model_that_quark_wrote(name, shared, tmp_path):
    """The same nodes, the same constants and the same logits, bit for bit."""
    theirs = shared / "models" / "quark" / f"efficientnet_lite0_{name.lower()}.onnx"
    ours = tmp_path / "ours.onnx"
    ModelQuantizer(Config(get_default_config(name))).quantize_model(str(shared / "models" / "efficientnet_lite0.onnx"), str(ours))
    wanted, found = onnx.load(str(theirs)).graph, onnx.load(str(ours)).graph
    assert counted(found.node) == counted(wanted.node)

    def weights(graph):
        constants = {item.name: item for item in graph.initializer}
        return {node.input[0]: onnx.numpy_helper.to_array(constants[node.input[0]]) for node in graph.node
                if "Quantize" in node.op_type and node.input[0] in constants}

    theirs_by_name, ours_by_name = weights(wanted), weights(found)
    assert len(theirs_by_name) == 100 and set(theirs_by_name) == set(ours_by_name)
    for value, array in theirs_by_name.items():
        np.testing.assert_array_equal(ours_by_name[value], array, value)
    x = {"input": np.load(theirs.with_suffix(".npz"))["input"][:2]}
    np.testing.assert_array_equal(exact_outputs(ours, x).view(np.uint32), exact_outputs(theirs, x).view(np.uint32))


@pytest.mark.parametrize("kind, op_types, options", [
    (Q.QMX, ["MXQuantizeDequantize"], {}), (Q.QBFP, ["BFPQuantizeDequantize"], {}),
    (Q.QBFloat16, ["ExtendedQuantizeLinear", "ExtendedDequantizeLinear"], {}),
    (Q.QFloat16, ["ExtendedQuantizeLinear", "ExtendedDequantizeLinear"], {}),
    (Q.QBFloat16, ["Cast", "Cast"], {"BF16QDQToCast": True}),
])
def test_import_lines_alone_give_quarks_nodes_on_weights_and_biases(kind, op_types, options, tmp_path, conv_path, images):
    nodes = write(conv_path, tmp_path / "quark.onnx", kind, **options)
    assert not any(node.domain == "bitpress" for node in nodes)
    by_output = {output: node for node in nodes for output in node.output}
    for layer in (node for node in nodes if node.op_type in ("Conv", "Gemm")):
        for value in layer.input:
            for op_type in reversed(op_types):
                assert by_output[value].op_type == op_type, (layer.name, value)
                value = by_output[value].input[0]
    # One argument gives the small form, which computes the same.
    small = write(conv_path, tmp_path / "small.onnx", kind, operators="bitpress", **options)
    assert any(node.domain == "bitpress" for node in small) and not any(node.domain == "com.amd.quark" for node in small)
    found, same = (outputs(tmp_path / f"{name}.onnx", {"image": images})[0] for name in ("quark", "small"))
    np.testing.assert_allclose(found, same, rtol=1e-5, atol=1e-5)


def test_casts_and_blocks_stand_in_one_model(tmp_path, conv_path, images):
    """BF16QDQToCast is about BF16 only."""
    nodes = counted(write(conv_path, tmp_path / "out.onnx", Q.QBFloat16, include_auto_mp=True, BF16QDQToCast=True,
                          AutoMixprecision={"TargetOpType": LAYERS, "TargetQuantType": Q.QBFP}))
    assert nodes["", "Cast"] > 4 and nodes["com.amd.quark", "BFPQuantizeDequantize"] > 4
    assert ("com.amd.quark", "ExtendedQuantizeLinear") not in nodes
    with pytest.raises(bitpress.UnsupportedError, match="BF16QDQToCast is refused with operators='bitpress'"):
        write(conv_path, tmp_path / "out.onnx", Q.QBFloat16, Q.QBFP, operators="bitpress", BF16QDQToCast=True)


def test_exponents_that_quarks_operators_do_not_have_give_ours(tmp_path, conv_path):
    with pytest.warns(bitpress.compat.Notice, match="exponent_bits=5: Quark's operators have shared exponents of 8 bits"):
        nodes = write(conv_path, tmp_path / "out.onnx", Q.QBFP, BFPAttributes={"bit_width": 13, "exponent_bits": 5, "block_size": 16})
    assert any(node.domain == "bitpress" for node in nodes)


def test_scaled_bfloat16_has_scales_on_weights(tmp_path, conv_path, images):
    nodes = write(conv_path, tmp_path / "out.onnx", Q.QBFloat16, data=Reader(images, "image"), include_cle=False, WeightScaled=True,
                  ActivationScaled=True)
    graph = onnx.load(str(tmp_path / "out.onnx")).graph
    constants = {item.name: onnx.numpy_helper.to_array(item) for item in graph.initializer if item.data_type == onnx.TensorProto.FLOAT}
    (pair,) = [node for node in nodes if node.op_type == "ExtendedQuantizeLinear" and node.input[0] == "project.weight"]
    assert constants[pair.input[1]] == np.abs(constants["project.weight"]).max() / 2


def joined(nodes):
    """Where activation functions read what their producer gives, without a quantizer."""
    producers = {output: node.op_type for node in nodes for output in node.output}
    return {f"{producers.get(node.input[0])}>{node.op_type}" for node in nodes if node.op_type in ("Relu", "Clip", "Add")}


@pytest.mark.parametrize("kind", [Q.QInt8, Q.QInt16, Q.QBFloat16, Q.QFloat16])
def test_no_quantizer_stands_before_an_activation_function(kind, tmp_path, conv_path, images):
    def places(**options):
        return joined(write(conv_path, tmp_path / "out.onnx", kind, data=Reader(images, "image"), **options))

    assert places() >= {"Conv>Relu", "Conv>Clip"} and "Conv>Add" not in places()
    assert "Conv>Clip" not in places(RemoveQDQConvClip=False) and "Conv>Relu" in places(RemoveQDQConvClip=False)
    assert "Conv>Relu" not in places(RemoveQDQConvRelu=False)
    assert "Conv>Add" in places(RemoveQDQBetweenOps=[("Conv", "Add")])
    with pytest.raises(bitpress.ArgumentTypeError, match="RemoveQDQBetweenOps=.*a list of pairs"):
        places(RemoveQDQBetweenOps=["Conv", "Add"])


@pytest.mark.parametrize("kind", [Q.QMX, Q.QBFP])
def test_blocks_have_a_quantizer_there_unless_a_script_says_no(kind, tmp_path, conv_path):
    assert not joined(write(conv_path, tmp_path / "out.onnx", kind)) & {"Conv>Relu", "Conv>Clip"}
    assert joined(write(conv_path, tmp_path / "out.onnx", kind, RemoveFusedQDQ=True)) >= {"Conv>Relu", "Conv>Clip"}


def test_vint8_has_its_words(tmp_path, conv_path):
    ModelQuantizer(Config(get_default_config("VINT8"))).quantize_model(str(conv_path), str(tmp_path / "out.onnx"))
    assert not joined(onnx.load(str(tmp_path / "out.onnx")).graph.node) & {"Conv>Relu", "Conv>Clip"}


def test_dual_nodes_stand_in_both_directions(tmp_path, conv_path, images):
    """BF16 then BFP in front of a lowered layer, BFP then BF16 behind it."""
    nodes = write(conv_path, tmp_path / "out.onnx", Q.QBFloat16, include_auto_mp=True,
                  AutoMixprecision={"TargetOpType": ["Conv"], "TargetQuantType": Q.QBFP, "DualQuantNodes": True})
    producers = {output: node for node in nodes for output in node.output}
    rows = collections.Counter(f"{producers[node.input[0]].op_type}>{node.op_type}" for node in nodes if node.input[0] in producers)
    assert rows["ExtendedDequantizeLinear>BFPQuantizeDequantize"] > 1
    assert rows["BFPQuantizeDequantize>ExtendedQuantizeLinear"] > 1
    assert sqnr_db(outputs(conv_path, {"image": images})[0], outputs(tmp_path / "out.onnx", {"image": images})[0]) > 30


def test_samples_of_calibration_do_not_limit_fine_tuning(tmp_path, conv_path, images):
    """BF16_MIXED_BFP16_ADAQUANT calibrates with one sample and learns from a thousand."""
    def read(name, **words):
        config = get_default_config(name)
        config.extra_options.update(words)
        reader = Reader(images, "image")
        ModelQuantizer(Config(config)).quantize_model(str(conv_path), str(tmp_path / "out.onnx"), reader)
        return len(images) - len(list(reader.items)), (tmp_path / "out.onnx").read_bytes()

    assert read("BF16_MIXED_BFP16_ADAQUANT")[0] == len(images)
    assert read("A8W8_ADAQUANT", CalibDataSize=2)[0] == len(images)
    few, _ = read("A8W8", CalibDataSize=2)
    assert few == 2


def test_samples_of_calibration_are_counted(tmp_path, conv_path, images):
    def scales(reader, **words):
        ModelQuantizer(Config(QuantizationConfig(activation_type=Q.QInt8, weight_type=Q.QInt8, extra_options=words))).quantize_model(
            str(conv_path), str(tmp_path / "out.onnx"), reader)
        return (tmp_path / "out.onnx").read_bytes()

    assert scales(Reader(images, "image"), CalibDataSize=3) == scales(Reader(images[:3], "image"), CalibDataSize=3)
    assert scales(Reader(images, "image"), CalibDataSize=3) != scales(Reader(images, "image"), CalibDataSize=12)


def test_what_stays_in_another_form_is_said(tmp_path, conv_path, matmul_path, images):
    def quantize(model, data, **fields):
        ModelQuantizer(Config(QuantizationConfig(**fields))).quantize_model(str(model), str(tmp_path / "out.onnx"), data)

    with pytest.warns(bitpress.compat.Notice, match="quant_format=QOperator: 4 of the model have no such operator: .*codes than 8 bits"):
        quantize(conv_path, Reader(images, "image"), activation_type=Q.QInt8, weight_type=Q.QUInt8, quant_format=QuantFormat.QOperator)
    with pytest.warns(bitpress.compat.Notice, match="UseMatMulNBits=True: 2 of the model have no such operator: .*blocks of 24"):
        quantize(matmul_path, None, extra_options={"UseMatMulNBits": True, "MatMulNBitsParams": {"GroupSize": 24, "Bits": 4}})


def test_a_half_precision_model_has_ours_where_quarks_give_floats(tmp_path, conv_path, images):
    model = onnx.load(str(conv_path))
    for item in model.graph.initializer:
        item.CopyFrom(onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(item).astype(np.float16), item.name))
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.elem_type = onnx.TensorProto.FLOAT16
    del model.graph.value_info[:]
    path = tmp_path / "half.onnx"
    onnx.save(model, str(path))
    with pytest.warns(bitpress.compat.Notice, match="the model is FLOAT16"):
        nodes = write(path, tmp_path / "out.onnx", Q.QBFloat16)
    assert counted(nodes)["bitpress", "QuantizeDequantize_bf16"] > 4
    assert counted(write(path, tmp_path / "out.onnx", Q.QMX))["com.amd.quark", "MXQuantizeDequantize"] > 4
