"""`quantize` ends with size, closeness, time, and what computes how, and with a warning for what a user would want to know."""

import json
import re

import numpy as np
import onnx
import pytest
from models import make_model, save, save_noise
from onnx import TensorProto, helper


def dense(folder, width=96, extra=()):
    weight = np.random.default_rng(3).standard_normal((width, width)).astype(np.float32) / 8
    nodes = [helper.make_node("MatMul", ["x", "w"], ["a"], "first"), helper.make_node("MatMul", ["a", "v"], ["y"], "second"), *extra]
    return save(make_model(nodes, [("x", ["N", width])], [("y", ["N", width])], {"w": weight, "v": weight.T.copy()}), folder / "m.onnx")


def verdict_of(bitpress, folder, model, *options):
    """The text, and the warnings by kind."""
    report = folder / "report.json"
    text = bitpress.terse.ok("quantize", model, "-o", folder / "q.onnx", *options, "--json", report)
    verdict = json.loads(report.read_text())["verdict"]
    lines = [verdict["lines"][0], *("  " + line.replace("option 'data'", "--data") for line in verdict["lines"][1:])]
    assert text.splitlines()[:len(lines)] == lines and 3 <= len(lines) <= 4
    assert text.count("  WARNING: ") == len(verdict["warnings"])
    return text, {warning["kind"]: warning["text"] for warning in verdict["warnings"]}


@pytest.mark.quick
def test_three_lines(tmp_path, bitpress):
    model, samples = dense(tmp_path), save_noise(tmp_path / "samples", (1, 96), 8)
    text, warnings = verdict_of(bitpress, tmp_path, model, "--config", "INT8", "--data", samples)
    first, second, third = text.splitlines()[:3]
    share = 100 * (tmp_path / "q.onnx").stat().st_size / model.stat().st_size
    assert re.fullmatch(rf".*q.onnx: .* kB, {share:.0f} % of the given model's .* kB; ONNX Runtime .* loads and runs it", first)
    found = re.fullmatch(r"  closeness: ([\d.]+) dB at output 'y' on 8 samples; time: [\d.]+ of the given model's, .* ms instead of .* ms on "
                         r"this machine", second)
    assert float(found[1]) > 30
    assert re.fullmatch(r"  products: 100 % on integers; constants: \d\d % of their bytes are quantized", third)
    assert warnings.keys() <= {"slower", "larger"}, warnings


def test_times_of_layers(tmp_path, bitpress):
    rng = np.random.default_rng(5)
    weights = {"w": rng.standard_normal((64, 16, 3, 3)).astype(np.float32), "v": rng.standard_normal((64, 1, 1, 1)).astype(np.float32)}
    nodes = [helper.make_node("Conv", ["x", "w"], ["a"], "first", pads=[1, 1, 1, 1]), helper.make_node("Relu", ["a"], ["b"], "relu"),
             helper.make_node("Conv", ["b", "v"], ["c"], "", group=64), helper.make_node("MatMul", ["c", "u"], ["y"])]
    weights["u"] = rng.standard_normal((32, 32)).astype(np.float32)
    model = save(make_model(nodes, [("x", [1, 16, 32, 32])], [("y", [1, 64, 32, 32])], weights), tmp_path / "m.onnx")
    samples = save_noise(tmp_path / "samples", (1, 16, 32, 32), 4)
    for config in ("INT8", "MX6", "BF16", "FP16", "XINT8"):
        verdict_of(bitpress, tmp_path, model, "--config", config, "--data", samples)
        layers = json.loads((tmp_path / "report.json").read_text())["check"]["layers"]
        assert {(layer["name"], layer["op_type"]) for layer in layers} == {("first", "Conv"), ("c", "Conv"), ("y", "MatMul")}, config
        assert all(layer["seconds"] > 0 and layer["given_seconds"] > 0 for layer in layers), config
        losses = [layer["seconds"] - layer["given_seconds"] for layer in layers]
        assert losses == sorted(losses, reverse=True)


def test_shares_count_products(tmp_path, bitpress):
    """The second product has a quarter of the first one's columns, and is the one that stays float."""
    rng = np.random.default_rng(1)
    weights = {"w": rng.standard_normal((64, 64)).astype(np.float32), "v": rng.standard_normal((64, 16)).astype(np.float32)}
    nodes = [helper.make_node("MatMul", ["x", "w"], ["a"], "first"), helper.make_node("MatMul", ["a", "v"], ["y"], "second")]
    model = save(make_model(nodes, [("x", ["N", 64])], [("y", ["N", 16])], weights), tmp_path / "m.onnx")
    options = ["--config", "INT8_DYNAMIC", "--rule", "nodes=second: exclude"]
    assert "products: 80 % on integers, 20 % in float" in verdict_of(bitpress, tmp_path, model, *options)[0]
    options = ["--config", "MX6", "--rule", "nodes=second: exclude"]
    assert "products: 80 % from codes of weights, 20 % in float" in verdict_of(bitpress, tmp_path, model, *options)[0]


@pytest.mark.parametrize("kernel, group, strides, shape, expected", [
    ((3, 3), 1, (1, 1), (6, 6), 16 * 6 * 6 * 4 * 9), ((3, 3), 4, (1, 1), (6, 6), 16 * 6 * 6 * 9), ((1, 1), 1, (2, 2), (4, 4), 16 * 4 * 4 * 4)])
@pytest.mark.parametrize("config", ["INT8", "MX6", "FP16"])
def test_products_of_convolutions(config, kernel, group, strides, shape, expected, tmp_path, bitpress):
    weight = np.random.default_rng(2).standard_normal((16, 4 // group, *kernel)).astype(np.float32)
    nodes = [helper.make_node("Conv", ["x", "w"], ["y"], "conv", group=group, strides=strides, kernel_shape=kernel)]
    model = save(make_model(nodes, [("x", [1, 4, 8, 8])], [("y", [1, 16, *shape])], {"w": weight}), tmp_path / "m.onnx")
    samples = save_noise(tmp_path / "samples", (1, 4, 8, 8), 4)
    bitpress.checking.ok("quantize", model, "-o", tmp_path / "q.onnx", "--config", config, "--data", samples, "--json", tmp_path / "r.json")
    work = json.loads((tmp_path / "r.json").read_text())["check"]["work"]
    assert work["integers"] + work["codes"] + work["floats"] == expected


def test_what_is_wrong_is_a_warning(tmp_path, bitpress):
    model, samples = dense(tmp_path), save_noise(tmp_path / "samples", (1, 96), 8)
    relu = save(make_model([helper.make_node("Relu", ["x"], ["y"], "relu")], [("x", ["N", 8])], [("y", ["N", 8])], {}), tmp_path / "relu.onnx")
    _, warnings = verdict_of(bitpress, tmp_path, relu, "--config", "MX6")
    assert "deploy the given model" in warnings["nothing_quantized"] and "larger" not in warnings
    _, warnings = verdict_of(bitpress, tmp_path, model, "--config", "int2", "--activations", "none", "--data", samples)
    assert re.search(r"output 'y' is far .*: [\d.]+ dB, where such formats should give 10", warnings["far"])
    _, warnings = verdict_of(bitpress, tmp_path, model, "--config", "INT4_WEIGHTS", "--rule", "nodes=second: exclude")
    assert re.fullmatch(r"\d\d % of the bytes of constants stay float: the plan has the reasons \(bitpress plan\)",
                        verdict_of(bitpress, tmp_path, dense(tmp_path, 256), "--config", "INT4_WEIGHTS", "--rule",
                                   "nodes=second: exclude")[1]["left_float"])
    assert "left_float" not in warnings, "the constants of a small model are few"


def test_details_are_behind_verbose(tmp_path, bitpress):
    model = dense(tmp_path)
    arguments = ["quantize", model, "-o", tmp_path / "q.onnx", "--config", "INT8_DYNAMIC"]
    short, long = bitpress.terse.ok(*arguments), bitpress.terse.ok(*arguments, "--verbose")
    assert "activations:" not in short and "activations: 2 uint8" in long and "computed on integers: 2 MatMulInteger" in long
    assert 3 <= len([line for line in short.splitlines() if "WARNING" not in line]) <= 4


def test_a_lookup_is_no_product(tmp_path, bitpress):
    """The indices of a table of 4 bits come from a MatMulInteger, which multiplies nothing of the model."""
    table = np.random.default_rng(4).standard_normal((64, 32)).astype(np.float32)
    model = make_model([helper.make_node("Gather", ["t", "i"], ["y"], "embed")], [], [("y", ["N", 32])], {"t": table})
    model.graph.input.append(helper.make_tensor_value_info("i", TensorProto.INT64, ["N"]))
    onnx.checker.check_model(model)
    text, _ = verdict_of(bitpress, tmp_path, save(model, tmp_path / "m.onnx"), "--config", "INT4_WEIGHTS", "--set", "embeddings=int4")
    assert "products" not in text and re.search(r"^  constants: \d\d\d? %", text, re.MULTILINE)


def test_a_model_without_floats_is_not_narrowed(tmp_path, bitpress):
    node = helper.make_node("Add", ["x", "x"], ["y"], "twice")
    graph = helper.make_graph([node], "g", [helper.make_tensor_value_info("x", TensorProto.DOUBLE, ["N", 4])],
                              [helper.make_tensor_value_info("y", TensorProto.DOUBLE, ["N", 4])])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "m.onnx")
    text = bitpress.checking.ok("quantize", tmp_path / "m.onnx", "-o", tmp_path / "q.onnx", "--config", "FP16")
    assert "nothing was quantized" in text and "deploy the given model" in text
