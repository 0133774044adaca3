"""`bitpress check`, and the check after `quantize`, say what ONNX Runtime does with a model."""

import json
import platform

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper


def classifier(extra=()):
    """Conv, Relu, Softplus (which has no integer kernel), Gemm."""
    rng = np.random.default_rng(2)
    weights = {name: (rng.standard_normal(shape) * 0.2).astype(np.float32)
               for name, shape in [("w1", (8, 3, 3, 3)), ("b1", (8,)), ("w2", (8, 10)), ("b2", (10,))]}
    node = helper.make_node
    nodes = [node("Conv", ["x", "w1", "b1"], ["c"], "conv"), node("Relu", ["c"], ["r"], "relu"),
             node("GlobalAveragePool", ["r"], ["g"], "pool"), node("Flatten", ["g"], ["f"], "flatten"),
             node("Gemm", ["f", "w2", "b2"], ["y"], "head"), *extra]
    graph = helper.make_graph(nodes, "net", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 3, 8, 8])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 10])],
                              [numpy_helper.from_array(value, name) for name, value in weights.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.fixture
def model_path(tmp_path):
    onnx.save(classifier(), tmp_path / "m.onnx")
    return tmp_path / "m.onnx"


@pytest.fixture
def samples(tmp_path):
    folder = tmp_path / "samples"
    folder.mkdir()
    for i in range(4):
        np.save(folder / f"{i}.npy", np.random.default_rng(i).standard_normal((1, 3, 8, 8)).astype(np.float32))
    return folder


def check(bitpress, model, tmp_path, *options):
    bitpress.ok("check", model, "--json", tmp_path / "report.json", *options)
    return json.loads((tmp_path / "report.json").read_text())


@pytest.mark.quick
def test_what_computes_on_integers(model_path, samples, tmp_path, bitpress):
    text = bitpress.checking.ok("quantize", model_path, "-o", tmp_path / "q.onnx", "--config", "INT8", "--data", samples)
    assert "loads and runs" in text and "1 QLinearConv" in text and "computed in float" not in text
    report = check(bitpress, tmp_path / "q.onnx", tmp_path, "--data", samples)
    assert report["is_loaded"] and report["is_run"] and not report["is_made_up"] and report["float_nodes"] == []
    assert report["integer_operators"]["QLinearConv"] == 1 and report["integer_operators"]["QGemm"] == 1
    assert report["library_operators"] == {}


@pytest.mark.parametrize("options, op_type, words", [
    (["--config", "A16W8"], "Conv", "INT16; its integer kernels take 8 bits"),
    (["--config", "INT8", "--rule", "tensors=r: exclude"], "FusedConv", "read as float"),
    (["--config", "INT8", "--rule", "tensors=x: exclude"], "Conv", "was not quantized"),
    (["--config", "INT8", "--rule", "op_types=Conv: weights=int4"], "Conv", "INT4"),
    (["--config", "INT8", "--set", "exclude_nodes=conv"], "Conv", "not quantized"),
])
def test_reasons(options, op_type, words, model_path, samples, tmp_path, bitpress):
    bitpress.ok("quantize", model_path, "-o", tmp_path / "q.onnx", "--data", samples, *options)
    nodes = check(bitpress, tmp_path / "q.onnx", tmp_path)["float_nodes"]
    assert any(node["op_type"].endswith(op_type[-4:]) and words in node["reason"] for node in nodes), nodes


def test_float_models_have_nothing_to_report(model_path, tmp_path, bitpress):
    report = check(bitpress, model_path, tmp_path)
    assert report["is_run"] and report["float_nodes"] == [] and report["num_integer_nodes"] == 0


def test_a_model_that_does_not_load(tmp_path, bitpress):
    onnx.save(classifier([helper.make_node("Nothing", ["y"], ["z"], "strange", domain="my.domain")]), tmp_path / "m.onnx")
    model = onnx.load(tmp_path / "m.onnx")
    model.opset_import.append(helper.make_opsetid("my.domain", 1))
    onnx.save(model, tmp_path / "m.onnx")
    message = bitpress.error("check", tmp_path / "m.onnx")
    assert "does not load" in message
    text = bitpress.checking.ok("quantize", tmp_path / "m.onnx", "-o", tmp_path / "q.onnx", "--config", "MX6", "--as-is")
    assert "DOES NOT LOAD" in text and "my.domain" in text
    assert (tmp_path / "q.onnx").exists()


def test_a_made_up_sample_may_not_suit(tmp_path, bitpress):
    # A window of five on a time axis of unknown length.
    node = helper.make_node("Conv", ["x", "w"], ["y"], "conv")
    weight = numpy_helper.from_array(np.ones((2, 3, 5), np.float32), "w")
    graph = helper.make_graph([node], "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 3, "T"])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)], [weight])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "m.onnx")
    # A step is too few, 32 are enough.
    text = bitpress.checking.ok("quantize", tmp_path / "m.onnx", "-o", tmp_path / "q.onnx", "--config", "MX6")
    assert "loads and runs it" in text
    report = json.loads(bitpress.ok("check", tmp_path / "q.onnx", "--json", "-"))
    assert report["is_run"] and report["is_made_up"]
    assert sum(report["work"].values()) == 2 * 3 * 5 * (32 - 4)
    # Steps of time may come first, too.
    nodes = [helper.make_node("Transpose", ["x"], ["t"], "turn"), helper.make_node("Unsqueeze", ["t", "zero"], ["u"], "unsqueeze"),
             helper.make_node("Conv", ["u", "w"], ["y"], "conv")]
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["T", 3])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)], [weight, numpy_helper.from_array(np.array([0]), "zero")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "steps.onnx")
    report = json.loads(bitpress.ok("check", tmp_path / "steps.onnx", "--json", "-"))
    assert report["is_run"] and sum(report["work"].values()) == 2 * 3 * 5 * (32 - 4)
    # The product needs 48 columns, which nothing says.
    node = helper.make_node("MatMul", ["x", "w"], ["y"], "product")
    graph = helper.make_graph([node], "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", "T"])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
                              [numpy_helper.from_array(np.ones((48, 2), np.float32), "w")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "m.onnx")
    text = bitpress.checking.ok("quantize", tmp_path / "m.onnx", "-o", tmp_path / "q.onnx", "--config", "MX6")
    assert "did not run on a made-up sample" in text and "--data" in text
    assert "did not run on a made-up sample: give a real one (--data)" in bitpress.error("check", tmp_path / "q.onnx")
    assert "loads" not in bitpress.ok("quantize", tmp_path / "m.onnx", "-o", tmp_path / "q.onnx", "--config", "MX6",
                                      "--check", "off")


def test_without_temporary_files_the_report_says_that_nothing_was_checked(model_path, tmp_path, bitpress_process, monkeypatch):
    arguments = ["quantize", model_path, "-o", tmp_path / "q.onnx", "--config", "MX6", "--as-is", "--check", "on"]
    assert "not checked" not in bitpress_process.ok(*arguments)
    expected = (tmp_path / "q.onnx").read_bytes()
    monkeypatch.setenv("TMPDIR", "/proc")  # nothing can be written there
    said = bitpress_process.ok(*arguments)
    assert "not checked: cannot create a temporary folder in '/proc'" in said and "loads and runs" not in said
    assert (tmp_path / "q.onnx").read_bytes() == expected


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="other processors multiply signed activations")
def test_products_of_signed_activations_are_named(tmp_path, bitpress):
    """ONNX Runtime makes a pair of signed codes unsigned only where nothing else reads the codes: here two pairs do."""
    constants = {"w": np.ones((8, 8), np.int8), "s": np.float32(0.1), "z": np.int8(0)}
    node = helper.make_node
    nodes = [node("QuantizeLinear", ["x", "s", "z"], ["q"]), node("DequantizeLinear", ["q", "s", "z"], ["a"]),
             node("DequantizeLinear", ["q", "s", "z"], ["b"]), node("DequantizeLinear", ["w", "s", "z"], ["v"]),
             node("MatMul", ["a", "v"], ["p"], "product"), node("Softplus", ["p"], ["y"]), node("Softplus", ["b"], ["other"])]
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [4, 8]) for name in ("x", "y", "other")]
    graph = helper.make_graph(nodes, "net", values[:1], values[1:], [numpy_helper.from_array(np.asarray(v), k) for k, v in constants.items()])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "m.onnx")
    nodes = check(bitpress, tmp_path / "m.onnx", tmp_path)["float_nodes"]
    assert any(node["op_type"] == "MatMul" and "multiplies UINT8 activations" in node["reason"] for node in nodes), nodes
