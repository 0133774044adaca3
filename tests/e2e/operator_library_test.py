"""Models with operators of another library: a user names the library, and they are calibrated, checked and compared as any other."""

import json
import re

import onnx
import pytest
from locations import built
from onnx import TensorProto, helper
from unusual_models_test import random, save, save_samples

FLOAT = TensorProto.FLOAT


@pytest.fixture
def model(tmp_path):
    """A convolution, and an operator that only bitpress_test_operators has."""
    nodes = [helper.make_node("Conv", ["x", "w"], ["c"], "conv"), helper.make_node("Twice", ["c"], ["y"], "double", domain="test.operators")]
    return save(tmp_path / "m.onnx", nodes, [("x", FLOAT, ["N", 3, 8, 8])], [("y", FLOAT, None)], {"w": random(8, 3, 3, 3)},
                domains=["test.operators"])


@pytest.fixture
def samples(tmp_path):
    return save_samples(tmp_path / "samples", (1, 3, 8, 8))


@pytest.fixture
def library():
    return built("libbitpress_test_operators.so")


def test_a_named_library_gives_samples_to_such_models(model, samples, library, tmp_path, bitpress_process):
    named = ("--operator-library", library, "--data", samples)
    text = bitpress_process.ok("quantize", model, "-o", tmp_path / "q.onnx", "--config", "INT8", *named)
    assert "closeness" in text and "cannot" not in text
    assert "Twice" in {node.op_type for node in onnx.load(tmp_path / "q.onnx").graph.node}
    evaluated = tmp_path / "e.json"
    bitpress_process.ok("evaluate", tmp_path / "q.onnx", "--reference", model, "--json", evaluated, *named)
    assert json.loads(evaluated.read_text())["sqnr_db"] > 25
    bitpress_process.ok("check", tmp_path / "q.onnx", *named)
    bitpress_process.ok("calibrate", model, "-o", tmp_path / "c.bpc", *named)


def test_without_it_the_error_names_the_option(model, samples, tmp_path, bitpress):
    error = bitpress.error("quantize", model, "-o", tmp_path / "q.onnx", "--config", "INT8", "--data", samples)
    assert "there is no operator test.operators:Twice, needed by Twice 'double'" in error
    assert "name the library that has it with --operator-library" in error and "--as-is" in error


@pytest.mark.parametrize("content, why", [(None, "operator library '.*': No such file"), (b"no library", "cannot be loaded")])
def test_what_is_no_library_is_an_error(content, why, model, samples, tmp_path, bitpress_process):
    library = tmp_path / "lib.so"
    if content is not None:
        library.write_bytes(content)
    error = bitpress_process.error("quantize", model, "-o", tmp_path / "q.onnx", "--config", "INT8", "--operator-library", library)
    assert re.search(why, error), error


def test_types_that_onnxruntime_has_no_kernel_for_are_named(tmp_path, bitpress):
    nodes = [helper.make_node("Cast", ["x"], ["h"], "to", to=TensorProto.BFLOAT16), helper.make_node("Conv", ["h", "w"], ["c"], "conv"),
             helper.make_node("Cast", ["c"], ["y"], "from", to=FLOAT)]
    weight = helper.make_tensor("w", TensorProto.BFLOAT16, [8, 3, 3, 3], random(8, 3, 3, 3).ravel().tolist())
    graph = helper.make_graph(nodes, "bf16", [helper.make_tensor_value_info("x", FLOAT, ["N", 3, 8, 8])],
                              [helper.make_tensor_value_info("y", FLOAT, ["N", 8, 6, 6])], [weight])
    model = tmp_path / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)], ir_version=10), model)
    error = bitpress.error("quantize", model, "-o", tmp_path / "q.onnx", "--config", "INT8_WEIGHTS")
    assert "no kernel of Conv(22) for BFLOAT16, needed by node 'conv'" in error and "FLOAT or FLOAT16" in error and "--as-is" in error
