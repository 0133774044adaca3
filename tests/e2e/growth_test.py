"""A quantized model that takes more bytes than the float one is said to, with what the bytes are for."""

import re

import numpy as np
import onnx
import pytest
from models import make_model, save
from onnx import helper, numpy_helper

UNITS = {"B": 1, "kB": 1e3, "MB": 1e6}


def dense_path(width, folder):
    weight = np.random.default_rng(3).standard_normal((width, width)).astype(np.float32)
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"], "dense")]
    return save(make_model(nodes, [("x", ["N", width])], [("y", ["N", width])], {"w": weight}), folder / "float.onnx")


def parts_of(text):
    """The bytes by which the model grew, and the parts of them; nothing if it did not grow."""
    found = re.search(r"^  WARNING: larger than the float model by ([\d.]+) (\w+), because: (.*)$", text, re.MULTILINE)
    if found is None:
        return None
    parts = {}
    for part in found[3].split(", "):
        what, sign, number, unit = re.fullmatch(r"(.*) ([+-])([\d.]+) (\w+)", part).groups()
        parts[what] = float(sign + number) * UNITS[unit]
    return float(found[1]) * UNITS[found[2]], parts


@pytest.mark.parametrize("config", ["MX6", "BFP16"])
def test_functions_outweigh_a_tiny_model(config, tmp_path, bitpress):
    given = dense_path(16, tmp_path)
    text = bitpress.ok("quantize", given, "-o", tmp_path / "q.onnx", "--config", config)
    growth, parts = parts_of(text)
    assert abs(growth - ((tmp_path / "q.onnx").stat().st_size - given.stat().st_size)) < 10
    assert abs(sum(parts.values()) - growth) < 50, "the figures are rounded to 10 bytes"
    model = onnx.load(tmp_path / "q.onnx")
    functions = next(number for what, number in parts.items() if what.startswith("functions"))
    assert abs(functions - sum(function.ByteSize() for function in model.functions)) < 10
    metadata = next(number for what, number in parts.items() if what.startswith("metadata"))
    assert abs(metadata - sum(entry.ByteSize() for entry in model.metadata_props)) < 10
    assert next(iter(parts)).startswith("functions"), "the largest part comes first"


@pytest.mark.parametrize("config", ["INT8_DYNAMIC", "MX6", "INT4_WEIGHTS", "FP16_SIMULATED"])
def test_nothing_to_quantize_is_the_given_model(config, tmp_path, bitpress):
    """Metadata that say how nothing was quantized would be half of a tiny model."""
    model = make_model([helper.make_node("NonZero", ["x"], ["y"], "places")], [("x", [48])], [], {})
    model.graph.output.append(helper.make_tensor_value_info("y", onnx.TensorProto.INT64, [1, "M"]))
    given = save(model, tmp_path / "given.onnx")
    text = bitpress.ok("quantize", given, "-o", tmp_path / "q.onnx", "--config", config)
    assert "nothing was quantized" in text and parts_of(text) is None
    written = onnx.load(tmp_path / "q.onnx")
    assert not written.metadata_props and written.graph == onnx.load(given).graph


def test_constants_that_the_preparation_computes(tmp_path, bitpress):
    """Codes become floats, which have as many elements."""
    nodes = [helper.make_node("Cast", ["codes"], ["floats"], "cast", to=onnx.TensorProto.FLOAT),
             helper.make_node("Add", ["x", "floats"], ["y"], "add")]
    model = make_model(nodes, [("x", [64, 64])], [("y", [64, 64])], {"codes": np.arange(4096, dtype=np.int8).reshape(64, 64)})
    text = bitpress.ok("quantize", save(model, tmp_path / "float.onnx"), "-o", tmp_path / "q.onnx", "--config", "INT8_WEIGHTS")
    _, parts = parts_of(text)
    assert parts["constants that the preparation computed"] > 64 * 64 * 2.9


def test_many_small_constants_do_not_grow_together(tmp_path, bitpress):
    """Each of these tables is small, and the file would be several times as large with all of them."""
    nodes = [helper.make_node("MatMul", ["x", "w"], ["v0"], "dense")]
    constants = {"w": np.random.default_rng(3).standard_normal((32, 32)).astype(np.float32)}
    for i in range(8):
        constants[f"row{i}"], constants[f"column{i}"] = np.arange(32, dtype=np.float32)[None], np.arange(32, dtype=np.float32)[:, None] * (i + 1)
        nodes += [helper.make_node("Mul", [f"row{i}", f"column{i}"], [f"p{i}"], f"outer{i}"), helper.make_node("Cos", [f"p{i}"], [f"c{i}"], f"cos{i}"),
                  helper.make_node("Mul", [f"v{i}", f"c{i}"], [f"v{i + 1}"], f"mul{i}")]
    given = save(make_model(nodes, [("x", [32, 32])], [("v8", [32, 32])], constants), tmp_path / "float.onnx")
    text = bitpress.ok("quantize", given, "-o", tmp_path / "q.onnx", "--config", "INT8_WEIGHTS")
    assert "computed at load as before" in text and "7 constants" in text
    assert parts_of(text)[1]["constants that the preparation computed"] <= 4096


@pytest.mark.parametrize("config", ["MX6", "INT4_WEIGHTS"])
def test_a_larger_model_shrinks(config, tmp_path, bitpress):
    given = dense_path(160, tmp_path)
    text = bitpress.ok("quantize", given, "-o", tmp_path / "q.onnx", "--config", config)
    assert parts_of(text) is None
    assert (tmp_path / "q.onnx").stat().st_size < given.stat().st_size
