"""`--target bitpress` writes convolutions with weights in blocks as operators of ours that quantize their input and compute from
the codes, and that plain ONNX Runtime runs as functions."""

import os
import re
import subprocess
from collections import Counter

import numpy as np
import onnx
import onnxruntime
import pytest
from models import change_attributes, sqnr_db
from onnx import TensorProto, helper, numpy_helper

# Blocks of 32, 16 with sub-blocks, and 8. All others, on single convolutions: format_table_test.py.
WHOLE = ["MXINT8", "MX6", "BFP16"]


def save(path, nodes, constants, inputs, outputs, seed=3):
    """A model of these nodes; constants are shapes, or arrays."""
    rng = np.random.default_rng(seed)
    values = {name: value if isinstance(value, np.ndarray) else (rng.standard_normal(value) / np.sqrt(np.prod(value[1:]))).astype(np.float32)
              for name, value in constants.items()}
    info = lambda name, shape: helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
    graph = helper.make_graph(nodes, "convolutions", [info(*item) for item in inputs.items()], [info(*item) for item in outputs.items()],
                              [numpy_helper.from_array(value, name) for name, value in values.items()])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def conv(inputs, output, **attributes):
    return helper.make_node("Conv", inputs, [output], f"conv_{output}", **attributes)


@pytest.fixture(scope="module")
def network(tmp_path_factory):
    """Convolutions of every kind: first layer, depthwise, with what follows them."""
    nodes = [conv(["x", "stem", "stem_bias"], "a", strides=[2, 2], pads=[0, 0, 1, 1]), helper.make_node("Clip", ["a", "zero", "six"], ["b"], "clip"),
             conv(["b", "expand", "expand_bias"], "c"), helper.make_node("Relu", ["c"], ["d"], "relu"),
             conv(["d", "depthwise"], "e", group=70, pads=[1, 1, 1, 1]), helper.make_node("Clip", ["e", "zero", "six"], ["f"], "clip_2"),
             conv(["f", "project", "project_bias"], "g"), helper.make_node("Add", ["b", "g"], ["h"], "residual"),
             conv(["h", "full"], "i", auto_pad="SAME_UPPER", strides=[2, 2]), helper.make_node("Relu", ["i"], ["j"], "relu_2"),
             conv(["j", "wide"], "k", group=33, kernel_shape=[5, 5], strides=[2, 2], pads=[2, 2, 2, 2]),
             conv(["j", "shared"], "l"), conv(["j", "shared", "shared_bias"], "m"), helper.make_node("Add", ["l", "m"], ["n"], "sum"),
             helper.make_node("Relu", ["n"], ["y"], "relu_3"), helper.make_node("Identity", ["k"], ["z"], "end")]
    constants = {"stem": (16, 3, 3, 3), "stem_bias": (16,), "expand": (70, 16, 1, 1), "expand_bias": (70,), "depthwise": (70, 1, 3, 3),
                 "project": (16, 70, 1, 1), "project_bias": (16,), "full": (33, 16, 3, 3), "wide": (33, 1, 5, 5), "shared": (24, 33, 1, 1), "shared_bias": (24,),
                 "zero": np.array(0, np.float32), "six": np.array(6, np.float32)}
    return save(tmp_path_factory.mktemp("network") / "model.onnx", nodes, constants, {"x": ["N", 3, 22, 26]}, {"y": ["N", 24, 6, 7], "z": ["N", 33, 3, 4]})


def operators(path):
    return Counter(node.op_type for node in onnx.load(path).graph.node)


def check(path, sessions, shape, least_db):
    """The operators and their functions agree, for any number of images."""
    ours, plain = sessions(path)
    for count in (1, 9):
        x = np.random.default_rng(count).standard_normal((count, *shape)).astype(np.float32)
        for found, wanted in zip(ours.run(None, {"x": x}), plain.run(None, {"x": x})):
            assert found.shape == wanted.shape and sqnr_db(wanted, found) > least_db
    assert all(output.size == 0 for output in ours.run(None, {"x": np.zeros((0, *shape), np.float32)}))


@pytest.mark.parametrize("preset", [*WHOLE, "MXFP4E2M1", "BF16"])
def test_a_network(preset, network, tmp_path, bitpress, sessions):
    text = bitpress.ok("quantize", network, "-o", tmp_path / "q.onnx", "--config", preset, "--target", "bitpress")
    assert "8 nodes compute from codes of weights" in text
    found = operators(tmp_path / "q.onnx")
    assert not set(found) & {"Conv", "Clip", "Relu", "Add"} and not any("Quantize" in op for op in found), found
    assert sum(count for op, count in found.items() if op.startswith("ConvAdd_")) == 2
    # Sums of another order may round another way where the next quantizer decides.
    check(tmp_path / "q.onnx", sessions, (3, 22, 26), least_db=20 if preset == "MXFP4E2M1" else 30)
    assert bitpress.ok("inspect", tmp_path / "q.onnx", "--tensors").count(f" {preset.lower()[:4]}") >= 5
    # The same weights as in files with decoders.
    bitpress.ok("quantize", network, "-o", tmp_path / "p.onnx", "--config", preset, "--target", "portable")
    for file in "qp":
        bitpress.ok("unpack", tmp_path / f"{file}.onnx", "-o", tmp_path / f"{file}_floats.onnx")
    floats = operators(tmp_path / "q_floats.onnx")
    assert floats["Conv"] == 8 and floats["Clip"] >= 2 and not any(op.startswith("Conv_") for op in floats)
    constants = [{tensor.name: numpy_helper.to_array(tensor) for tensor in onnx.load(tmp_path / f"{file}_floats.onnx").graph.initializer}
                 for file in "qp"]
    for weight in ("stem", "expand", "depthwise", "project", "full", "wide", "shared"):
        assert constants[0][weight].tobytes() == constants[1][weight].tobytes()
    x = np.random.default_rng(0).standard_normal((2, 3, 22, 26)).astype(np.float32)
    outputs = [sessions(tmp_path / f"{file}_floats.onnx")[0].run(None, {"x": x}) for file in "qp"]
    for found, wanted in zip(*outputs):
        assert sqnr_db(wanted, found) > 100


def test_the_check_runs_convolutions_and_the_report_names_them(leaky_network, tmp_path, bitpress):
    text = bitpress.checking.ok("quantize", leaky_network, "-o", tmp_path / "q.onnx", "--config", "MX6", "--target", "bitpress")
    assert "loads and runs" in text
    bitpress.ok("check", tmp_path / "q.onnx")
    bitpress.ok("report", tmp_path / "q.onnx", "--reference", leaky_network, "-o", tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert all(f"conv_{layer}" in page for layer in "aceg")


@pytest.mark.parametrize("preset", WHOLE + ["MXFP8E4M3", "BF16"])
@pytest.mark.parametrize("weight, attributes, shape", [
    pytest.param((40, 70, 1, 1), {}, (70, 9, 9), marks=pytest.mark.quick), ((40, 40, 1, 1), {"strides": [2, 3]}, (40, 9, 11)), ((40, 24, 3, 3), {"dilations": [2, 1]}, (24, 9, 9)),
    ((40, 24, 2, 3), {"pads": [0, 2, 1, 0], "strides": [1, 2]}, (24, 9, 9)), ((33, 1, 7, 7), {"group": 33, "pads": [3, 3, 3, 3]}, (33, 17, 18)),
    ((66, 2, 3, 3), {"group": 33}, (66, 8, 33)), ((48, 20, 5), {"pads": [2, 2], "dilations": [1]}, (20, 50)), ((48, 1, 9), {"group": 48}, (48, 64))])
def test_one(preset, weight, attributes, shape, tmp_path, bitpress, sessions):
    outputs = ["N", *[None] * len(shape)]
    save(tmp_path / "m.onnx", [conv(["x", "w", "b"], "y", **attributes)], {"w": weight, "b": weight[:1]}, {"x": ["N", *shape]}, {"y": outputs})
    text = bitpress.ok("quantize", tmp_path / "m.onnx", "-o", tmp_path / "q.onnx", "--config", preset, "--target", "bitpress")
    assert "1 nodes compute from codes of weights" in text or "1 node computes from codes" in text
    check(tmp_path / "q.onnx", sessions, shape, least_db=110)


@pytest.mark.parametrize("preset, weight, attributes, shape, reason", [
    ("MXINT8", (40, 64, 3, 3), {}, (64, 9, 9), ""),
    ("MXINT8", (40, 64, 1, 1), {}, (64, 3, 3), "its output has few positions"),
    ("MXINT8", (40, 64, 3), {"pads": [1, 1]}, (64, 4), "its output has few positions"),
    ("MXFP8E4M3", (40, 64, 1, 1), {}, (64, 9, 9), "its products are those of floats, and there is neither AMX nor a fast AVX512_BF16"),
    ("MXFP8E4M3", (40, 3, 3, 3), {}, (3, 9, 9), ""),
    ("MXFP8E4M3", (64, 1, 3, 3), {"group": 64}, (64, 9, 9), ""),
    ("BF16", (40, 3, 3, 3), {}, (3, 9, 9), "its products are those of floats, and there is neither AMX nor a fast AVX512_BF16"),
    ("BF16", (64, 1, 3, 3), {"group": 64}, (64, 9, 9), "its products are those of floats, and there is neither AMX nor a fast AVX512_BF16"),
    ("MXINT8", (40, 1, 100), {}, (1, 200), "its products are those of floats")])
def test_by_default_what_is_faster_as_floats_stays(preset, weight, attributes, shape, reason, tmp_path, program, bitpress):
    outputs = ["N", *[None] * len(shape)]
    save(tmp_path / "m.onnx", [conv(["x", "w", "b"], "y", **attributes)], {"w": weight, "b": weight[:1]}, {"x": ["N", *shape]}, {"y": outputs})
    def quantize(kernels):
        run = subprocess.run([program, "quantize", tmp_path / "m.onnx", "-o", tmp_path / "q.onnx", "--config", preset, "--verbose", "--check", "off"],
                             env={**os.environ, "BITPRESS_KERNELS": kernels}, capture_output=True, text=True, check=True)
        return run.stdout + run.stderr

    text = quantize("PORTABLE")
    assert ("Conv" in operators(tmp_path / "q.onnx")) == bool(reason), text
    assert (f"1 decoded at load: ONNX Runtime's Conv is faster: {reason}" if reason else "compute from codes") in text
    best = re.search(r"kernels: +(AMX|AVX3_BF16)", bitpress.ok("doctor"))
    if reason.endswith("AVX512_BF16") and best:
        assert "compute from codes" in quantize(best[1]) and "Conv" not in operators(tmp_path / "q.onnx")
    bitpress.ok("quantize", tmp_path / "m.onnx", "-o", tmp_path / "q.onnx", "--config", preset, "--target", "bitpress")
    assert "Conv" not in operators(tmp_path / "q.onnx")


@pytest.mark.parametrize("weight, attributes, stays", [((40, 64, 1, 1), {}, False), ((40, 64, 3, 3), {}, True), ((64, 1, 3, 3), {"group": 64}, False)])
@pytest.mark.parametrize("preset", ["MXFP8E4M3", "BF16"])
def test_without_tiles_large_kernels_of_floats_stay(preset, weight, attributes, stays, tmp_path, program, bitpress):
    if not re.search(r"kernels: .*\bAVX2\b", bitpress.ok("doctor")):
        pytest.skip("this processor has no AVX2")
    save(tmp_path / "m.onnx", [conv(["x", "w", "b"], "y", **attributes)], {"w": weight, "b": weight[:1]}, {"x": ["N", 64, 9, 9]}, {"y": ["N", None, None, None]})
    run = subprocess.run([program, "quantize", tmp_path / "m.onnx", "-o", tmp_path / "q.onnx", "--config", preset, "--verbose", "--check", "off"],
                         env={**os.environ, "BITPRESS_KERNELS": "AVX2"}, capture_output=True, text=True, check=True)
    assert ("Conv" in operators(tmp_path / "q.onnx")) == stays, run.stdout + run.stderr


@pytest.mark.parametrize("weights, activations", [
    ("bfp(bits=13, block=32)", "bfp(bits=13, block=32)"), ("mxfp4_e2m1(block=16)", "mx6"), ("mx9", "mxint8(block=16)"),
    ("mx(bits=13, block=20, sub_block=4, shift_bits=2)", "bfp(bits=12, block=20)")])
def test_formats_with_sizes_of_their_own(weights, activations, network, tmp_path, bitpress, sessions):
    text = bitpress.ok("quantize", network, "-o", tmp_path / "q.onnx", "--config", activations, "--weights", weights, "--target", "bitpress")
    assert "8 nodes compute from codes of weights" in text
    found = operators(tmp_path / "q.onnx")
    base = weights.split("(")[0]
    assert set(found) <= {f"{kind}_{base}_{number}" for kind in ("Conv", "ConvAdd") for number in (1, 2)} | {"Identity"}, found
    nodes = [node for node in onnx.load(tmp_path / "q.onnx").graph.node if node.op_type != "Identity"]
    assert {(helper.get_node_attr_value(node, "format"), helper.get_node_attr_value(node, "input_format")) for node in nodes} == {
        (weights.encode(), activations.encode())}
    check(tmp_path / "q.onnx", sessions, (3, 22, 26), least_db=15)
    again = bitpress.ok("quantize", tmp_path / "q.onnx", "-o", tmp_path / "again.onnx", "--config", "MX6")
    assert "the model is already quantized" in again and operators(tmp_path / "again.onnx") == found
    bitpress.ok("unpack", tmp_path / "q.onnx", "-o", tmp_path / "floats.onnx")
    floats = operators(tmp_path / "floats.onnx")
    assert floats["Conv"] == 8 and not any(op.startswith("Conv_") for op in floats)
    x = np.random.default_rng(0).standard_normal((2, 3, 22, 26)).astype(np.float32)
    for found, wanted in zip(*[sessions(tmp_path / f"{file}.onnx")[0].run(None, {"x": x}) for file in ("q", "floats")]):
        assert sqnr_db(wanted, found) > 15
    # One convolution, behind which nothing rounds.
    save(tmp_path / "m.onnx", [conv(["x", "w"], "y", pads=[1, 1, 1, 1])], {"w": (40, 70, 3, 3)}, {"x": ["N", 70, 9, 9]}, {"y": ["N", 40, 9, 9]})
    bitpress.ok("quantize", tmp_path / "m.onnx", "-o", tmp_path / "one.onnx", "--config", activations, "--weights", weights, "--target", "bitpress")
    check(tmp_path / "one.onnx", sessions, (70, 9, 9), least_db=110)


def leaky(x, y, **attributes):
    return helper.make_node("LeakyRelu", [x], [y], f"leaky_{y}", **attributes)


@pytest.fixture(scope="module")
def leaky_network(tmp_path_factory):
    """Convolutions with a LeakyRelu behind them, with one behind an added tensor, and with other ends."""
    nodes = [conv(["x", "stem", "stem_bias"], "a", strides=[2, 2], pads=[1, 1, 1, 1]), leaky("a", "b", alpha=0.25),
             conv(["b", "expand"], "c"), leaky("c", "d"), conv(["d", "depthwise"], "e", group=70, pads=[1, 1, 1, 1]), leaky("e", "f", alpha=-0.5),
             conv(["f", "project", "project_bias"], "g"), helper.make_node("Add", ["b", "g"], ["h"], "residual"), leaky("h", "i", alpha=0.25),
             conv(["i", "full"], "j", pads=[1, 1, 1, 1]), helper.make_node("Relu", ["j"], ["k"], "relu"),
             conv(["k", "last"], "l"), leaky("l", "m", alpha=0.25), helper.make_node("Identity", ["l"], ["y"], "end"),
             helper.make_node("Identity", ["m"], ["z"], "end_2")]
    constants = {"stem": (16, 3, 3, 3), "stem_bias": (16,), "expand": (70, 16, 1, 1), "depthwise": (70, 1, 3, 3), "project": (16, 70, 1, 1),
                 "project_bias": (16,), "full": (33, 16, 3, 3), "last": (24, 33, 1, 1)}
    return save(tmp_path_factory.mktemp("leaky") / "leaky.onnx", nodes, constants, {"x": ["N", 3, 22, 26]}, {"y": ["N", 24, 11, 13], "z": ["N", 24, 11, 13]})


@pytest.mark.parametrize("preset, least_db", [("MX6", 30), ("MXFP4E2M1", 20)])
def test_leaky_relu_is_part_of_the_operator(preset, least_db, leaky_network, tmp_path, bitpress, sessions):
    text = bitpress.ok("quantize", leaky_network, "-o", tmp_path / "q.onnx", "--config", preset, "--target", "bitpress")
    assert "6 nodes compute from codes of weights" in text
    found = operators(tmp_path / "q.onnx")
    # Another node reads what is in front of the last LeakyRelu.
    assert found["LeakyRelu"] == 1 and not set(found) & {"Conv", "Relu", "Add"} and not any("Quantize" in op for op in found), found
    slopes = {node.name: round(attribute.f, 4) for node in onnx.load(tmp_path / "q.onnx").graph.node for attribute in node.attribute
              if attribute.name == "slope"}
    assert slopes == {"conv_a": 0.25, "conv_c": 0.01, "conv_e": -0.5, "conv_g": 0.25}
    check(tmp_path / "q.onnx", sessions, (3, 22, 26), least_db)
    # Unpacking gives it back.
    bitpress.ok("unpack", tmp_path / "q.onnx", "-o", tmp_path / "floats.onnx")
    nodes = [node for node in onnx.load(tmp_path / "floats.onnx").graph.node if node.op_type == "LeakyRelu"]
    assert sorted(round(helper.get_node_attr_value(node, "alpha"), 4) for node in nodes) == [-0.5, 0.01, 0.25, 0.25, 0.25]
    assert operators(tmp_path / "floats.onnx")["Conv"] == 6
    x = np.random.default_rng(0).standard_normal((2, 3, 22, 26)).astype(np.float32)
    for found, wanted in zip(*[sessions(tmp_path / f"{file}.onnx")[0].run(None, {"x": x}) for file in ("q", "floats")]):
        assert sqnr_db(wanted, found) > least_db


@pytest.mark.parametrize("shape, weight, attributes", [
    ((70, 9, 9), (40, 70, 1, 1), {}), ((33, 17, 18), (33, 1, 7, 7), {"group": 33}), ((3, 21, 19), (16, 3, 3, 3), {}), ((40, 50), (24, 40, 5), {})])
def test_leaky_relu_alone(shape, weight, attributes, tmp_path, bitpress, sessions):
    nodes = [conv(["x", "w", "b"], "a", **attributes), leaky("a", "y", alpha=0.3)]
    save(tmp_path / "m.onnx", nodes, {"w": weight, "b": weight[:1]}, {"x": ["N", *shape]}, {"y": ["N", *[None] * len(shape)]})
    bitpress.ok("quantize", tmp_path / "m.onnx", "-o", tmp_path / "q.onnx", "--config", "MXINT8", "--target", "bitpress")
    assert operators(tmp_path / "q.onnx") == {"Conv_mxint8_1": 1}
    check(tmp_path / "q.onnx", sessions, shape, least_db=110)


def test_leaky_relu_stays_where_all_numbers_are_taken(tmp_path, bitpress, sessions):
    """Operators that end in a LeakyRelu have numbered names, of which there are four for each format of weights."""
    inputs = ["mxint8", "mxfp6_e2m3", "mxfp6_e3m2", "mxfp4_e2m1", "bfp(bits=13, block=32)"]
    values = ["x", *[f"v{i}" for i in range(len(inputs))]]
    nodes = [node for i in range(len(inputs)) for node in (conv([values[i], f"w{i}"], f"c{i}"), leaky(f"c{i}", values[i + 1]))]
    save(tmp_path / "m.onnx", nodes, {f"w{i}": (40, 40, 1, 1) for i in range(len(inputs))}, {"x": ["N", 40, 6, 6]}, {values[-1]: ["N", 40, 6, 6]})
    rules = [word for i, name in enumerate(inputs) for word in ("--rule", f"names=conv_c{i}: activations={name}")]
    text = bitpress.ok("quantize", tmp_path / "m.onnx", "-o", tmp_path / "q.onnx", "--config", "MXINT8", *rules, "--target", "bitpress")
    assert "4 nodes compute from codes of weights" in text and "4 other kinds of mxint8 are in the model already" in text
    found = operators(tmp_path / "q.onnx")
    assert found["LeakyRelu"] == 1 and [found[f"Conv_mxint8_{number}"] for number in (1, 2, 3, 4)] == [1, 1, 1, 1], found
    check(tmp_path / "q.onnx", sessions, (40, 6, 6), least_db=15)


@pytest.fixture(scope="module")
def one(tmp_path_factory, bitpress):
    """one(config) returns a quantized convolution, to be damaged."""
    folder = tmp_path_factory.mktemp("one")
    save(folder / "m.onnx", [conv(["x", "w", "b"], "y")], {"w": (40, 70, 1, 1), "b": (40,)}, {"x": ["N", 70, 4, 4]}, {"y": ["N", 40, 4, 4]})

    def quantized(config):
        path = folder / f"{config}.onnx"
        if not path.exists():
            bitpress.ok("quantize", folder / "m.onnx", "-o", path, "--config", config, "--target", "bitpress")
        return path

    return quantized


@pytest.mark.parametrize("change, message", [
    ({"format": "mxint8(block=64)"}, "no format of this operator"), ({"input_format": "bf16"}, "blocks on one side"), ({"format": ""}, "attribute format"),
    ({"input_format": "mxint8"}, "blocks of 16 and of 32"), ({"input_format": "mxint(8)"}, "attribute input_format"),
    ({"format": "bfp(bits=20, block=16)"}, "no format of this operator|more than 9 bits")])
def test_damaged_formats_are_errors(change, message, one, tmp_path, bitpress, sessions):
    damaged = onnx.load(one("bfp(bits=12, block=16)"))
    for attribute in next(node for node in damaged.graph.node if node.op_type == "Conv_bfp_1").attribute:
        if attribute.name in change:
            attribute.s = change[attribute.name].encode()
    onnx.save(damaged, tmp_path / "damaged.onnx")
    with pytest.raises(Exception, match=message):
        sessions(tmp_path / "damaged.onnx")
    if message != "blocks of 16 and of 32":  # which floats may have
        bitpress.error("unpack", tmp_path / "damaged.onnx", "-o", tmp_path / "u.onnx")


def test_what_stays(tmp_path, bitpress, sessions):
    """Convolutions that have no operator keep their decoder, and the summary says why."""
    nodes = [conv(["x", "grouped"], "a", group=2), conv(["a", "three"], "y", pads=[1, 1, 1, 1])]
    save(tmp_path / "m.onnx", nodes, {"grouped": (40, 20, 1, 1), "three": (8, 40, 3, 3)}, {"x": ["N", 40, 6, 6]}, {"y": ["N", 8, 6, 6]})
    text = bitpress.ok("quantize", tmp_path / "m.onnx", "-o", tmp_path / "q.onnx", "--config", "MX6", "--target", "bitpress")
    assert "its groups have many channels" in text and operators(tmp_path / "q.onnx")["Conv"] == 1
    text = bitpress.ok("quantize", tmp_path / "m.onnx", "-o", tmp_path / "w.onnx", "--config", "MX6", "--activations", "none", "--target",
                       "bitpress")
    assert "the input of its Conv is not quantized" in text and operators(tmp_path / "w.onnx")["Conv"] == 2
    check(tmp_path / "q.onnx", sessions, (40, 6, 6), least_db=30)


@pytest.mark.parametrize("attributes", [{"strides": [1]}, {"dilations": [1], "auto_pad": "SAME_UPPER"}, {"pads": [0, 0, -1, 0]}, {"group": 0}])
def test_unusual_attributes(attributes, tmp_path, bitpress):
    """Attributes that no Conv should have are refused, or the node is left as it is."""
    save(tmp_path / "m.onnx", [conv(["x", "w"], "y", **attributes)], {"w": (40, 70, 1, 1)}, {"x": ["N", 70, 4, 4]}, {"y": ["N", 40, "A", "B"]})
    done = bitpress.run("quantize", tmp_path / "m.onnx", "-o", tmp_path / "q.onnx", "--config", "MX6", "--target", "bitpress")
    if done.returncode == 0:
        assert operators(tmp_path / "q.onnx")["Conv"] == 1


@pytest.mark.parametrize("change, message", [
    ({"shape": [40, 70, 1]}, "strides"), ({"shape": [40, 70]}, "three or four"), ({"shape": [40, 70, 1, -1]}, "from 1 on"),
    ({"shape": [40, 35, 3, 1]}, "blocks"), ({"strides": [0, 1]}, "strides"), ({"strides": [1]}, "strides"), ({"pads": [0, 0, 0, -1]}, "pads"),
    ({"pads": [0, 0, 0, 1 << 40]}, "pads"), ({"dilations": [1, 1 << 31]}, "dilations"), ({"group": 7}, "group"), ({"group": 0}, "group"),
    ({"blocks": [40, 70, 1]}, "four positive"), ({"blocks": [40, 35, 2, 2]}, "blocks"), ({"scale_choice": "high"}, "high"),
    ({"rounding_mode": 3}, "rounding_mode"), ({"least": "x"}, "least")])
def test_damaged_attributes_are_errors(change, message, one, tmp_path, sessions):
    change_attributes(one("MX6"), tmp_path / "damaged.onnx", lambda node: node.op_type.startswith("Conv_"), change)
    with pytest.raises(Exception, match=message):
        sessions(tmp_path / "damaged.onnx")


@pytest.mark.parametrize("weight, attributes, shape, message", [
    ((40, 70, 1, 1), {}, (2, 69, 4, 4), "70 channels"), ((40, 70, 3, 3), {}, (2, 70, 2, 4), "below the kernel"),
    ((40, 70, 1, 1), {}, (2, 70, 4), "4 dimensions")])
def test_wrong_inputs_are_errors(weight, attributes, shape, message, tmp_path, bitpress, operator_library):
    save(tmp_path / "m.onnx", [conv(["x", "w"], "y", **attributes)], {"w": weight}, {"x": ["N", 70, "H", "W"]}, {"y": ["N", 40, "A", "B"]})
    bitpress.ok("quantize", tmp_path / "m.onnx", "-o", tmp_path / "q.onnx", "--config", "MX6", "--target", "bitpress")
    model = onnx.load(tmp_path / "q.onnx")
    model.graph.input[0].CopyFrom(helper.make_tensor_value_info("x", TensorProto.FLOAT, [f"d{i}" for i in range(len(shape))]))
    model.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", TensorProto.FLOAT, None))
    onnx.save(model, tmp_path / "any.onnx")
    options = onnxruntime.SessionOptions()
    options.register_custom_ops_library(str(operator_library))
    session = onnxruntime.InferenceSession(str(tmp_path / "any.onnx"), options, providers=["CPUExecutionProvider"])
    with pytest.raises(Exception, match=message):
        session.run(None, {"x": np.ones(shape, np.float32)})


def test_padding_that_overflows_is_an_error(tmp_path, bitpress, sessions):
    save(tmp_path / "m.onnx", [conv(["x", "w"], "y", pads=[1, 1, 1, 1])], {"w": (40, 70, 3, 3)}, {"x": ["N", 70, 4, 4]}, {"y": ["N", 40, 4, 4]})
    bitpress.ok("quantize", tmp_path / "m.onnx", "-o", tmp_path / "q.onnx", "--config", "MX6", "--target", "bitpress")
    damaged = onnx.load(tmp_path / "q.onnx")
    node = next(node for node in damaged.graph.node if node.op_type.startswith("Conv_"))
    for attribute in node.attribute:
        if attribute.name in ("pads", "dilations"):
            attribute.ints[:] = [1 << 29] * len(attribute.ints)
    onnx.save(damaged, tmp_path / "damaged.onnx")
    with pytest.raises(Exception, match="too large"):
        sessions(tmp_path / "damaged.onnx")[0].run(None, {"x": np.ones((1, 70, 4, 4), np.float32)})


def test_a_second_quantization_says_so_and_keeps_the_functions(network, tmp_path, bitpress, sessions):
    bitpress.ok("quantize", network, "-o", tmp_path / "q.onnx", "--config", "MXINT8", "--target", "bitpress")
    text = bitpress.ok("quantize", tmp_path / "q.onnx", "-o", tmp_path / "again.onnx", "--config", "MX6")
    assert "the model is already quantized" in text and "Conv_mxint8_by_mxint8" in text and "needs our library" not in text
    assert operators(tmp_path / "again.onnx") == operators(tmp_path / "q.onnx")
    check(tmp_path / "again.onnx", sessions, (3, 22, 26), least_db=30)
