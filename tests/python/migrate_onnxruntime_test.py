"""The page for users of ONNX Runtime's tool has every word of that tool, and the code that it gives instead works."""

import ast
import inspect
import re
from collections import Counter
from pathlib import Path

import models
import numpy as np
import onnx
import onnxruntime.quantization
import pytest
from locations import ROOT
from onnxruntime.quantization import quantize_dynamic, quantize_static
from package_helpers import outputs, sqnr_db

import bitpress

pytestmark = pytest.mark.usefixtures("one_thread")
PAGE = (ROOT / "docs" / "migrate_onnxruntime.md").read_text(encoding="utf-8")
# By the title of a table: the configuration that it changes, and [(their words, our code)] of its rows.
TABLES = {
    title: (config, re.findall(r"^\| (`.*?) \| (.*?) ?\|.*\|$", body, re.MULTILINE)[1:])
    for title, config, body in re.findall(r"^## `(\w+)`\n(?:(?!^## ).)*?<!-- tried: (\w+) -->\n((?:(?!^## ).)*)", PAGE, re.MULTILINE | re.DOTALL)
}
ROWS = [pytest.param(title, theirs, config, code.strip("`"), id=f"{title}-{theirs}") for title, (config, rows) in TABLES.items()
        for theirs, code in rows if code]
# Replacements of names on the page by names in the tests' models, by the title of the table.
NAMES = {"MatMulNBitsQuantizer": {"head": "make_query"}, "extra_options": {"tensors=a:": "tensors=image:"}}


def words(title):
    return {word for theirs, _ in TABLES[title][1] for word in re.findall(r"`([\w.]+)", theirs)}


def parameters_in_source(path, name):
    """Reads the parameters of a class from its source, because its module imports packages that are not installed here."""
    tree = ast.parse(Path(path).read_text(encoding="utf-8"))
    (found,) = (node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == name)
    (init,) = (node for node in found.body if isinstance(node, ast.FunctionDef) and node.name == "__init__")
    return {argument.arg for argument in init.args.args} - {"self"}


def test_every_word_is_on_the_page():
    assert set(TABLES) == {"quantize_static", "extra_options", "quantize_dynamic", "MatMulNBitsQuantizer"}
    assert words("quantize_static") == set(inspect.signature(quantize_static).parameters)
    assert words("quantize_dynamic") == set(inspect.signature(quantize_dynamic).parameters)
    documented = set(re.findall(r"^ {16}([\w.]+) = ", quantize_static.__doc__, re.MULTILINE))
    assert len(documented) > 20 and documented <= words("extra_options")
    source = Path(onnxruntime.quantization.__file__).with_name("matmul_nbits_quantizer.py")
    assert parameters_in_source(source, "MatMulNBitsQuantizer") == words("MatMulNBitsQuantizer")


def embedding_model():
    """A model of a table of words and a product."""
    rng = np.random.default_rng(6)
    constants = {"table": rng.standard_normal((96, 32)).astype(np.float32), "head": rng.standard_normal((32, 16)).astype(np.float32)}
    nodes = [onnx.helper.make_node("Gather", ["table", "ids"], ["rows"], name="look_up"),
             onnx.helper.make_node("MatMul", ["rows", "head"], ["y"], name="make_query")]
    graph = onnx.helper.make_graph(
        nodes, "words", [onnx.helper.make_tensor_value_info("ids", onnx.TensorProto.INT64, ["N"])],
        [onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, ["N", 16])],
        [onnx.numpy_helper.from_array(value, name) for name, value in constants.items()])
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)


def three_products(conv_path, path):
    """The model of convolutions and a Gemm with a MatMul at its end."""
    model = onnx.load(conv_path)
    weight = np.random.default_rng(7).standard_normal((models.NUM_CLASSES, models.NUM_CLASSES)).astype(np.float32)
    model.graph.initializer.append(onnx.numpy_helper.from_array(weight, "last.weight"))
    model.graph.node.append(onnx.helper.make_node("MatMul", ["logits", "last.weight"], ["y"], name="last"))
    model.graph.output[0].name = "y"
    return models.save(model, path)


def types(graph):
    return Counter(node.op_type for node in graph.node)


def quantized_types(graph):
    """The types of the operators whose second operand, a weight in products, is dequantized, or that became operators on codes."""
    dequantized = {output for node in graph.node if node.op_type == "DequantizeLinear" for output in node.output}
    found = {node.op_type for node in graph.node if dequantized & set(node.input[1:2])}
    became = {"ConvInteger": "Conv", "MatMulInteger": "MatMul", "MatMulNBits": "MatMul", "GatherBlockQuantized": "Gather"}
    return found | {became[node.op_type] for node in graph.node if node.op_type in became}


@pytest.mark.parametrize("title, theirs, config, code", ROWS)
def test_what_is_said_works(title, theirs, config, code, tmp_path, conv_path, matmul_path, images, sequences):
    for name, ours in NAMES.get(title, {}).items():
        code = code.replace(name, ours)
    arguments = eval(f"dict({code})")  # noqa: S307 - a page of ours
    model, inputs = conv_path, {"image": images}
    wanted = set(re.findall(r'"(\w+)"', theirs.partition("op_types_to_quantize=")[2]))
    if title == "MatMulNBitsQuantizer" or "smooth" in code:
        model, inputs = matmul_path, {"x": sequences}
    if "not_op_types" in code:
        model = three_products(conv_path, tmp_path / "three.onnx")
    if "embeddings" in code:
        model, inputs = models.save(embedding_model(), tmp_path / "words.onnx"), {"ids": np.arange(96)}
    path = tmp_path / "out.onnx"
    excluded = {"Conv", "Gemm", "MatMul"} - wanted if "not_op_types" in code else set()
    bitpress.quantize(model, path, arguments.pop("config", config), inputs, **arguments)
    onnx.checker.check_model(str(path), full_check=True)
    # The bars are 3 dB below the least on 2026-11-22: 11.0 dB with weights of four bits, 26.5 dB with others.
    bar = 8 if "int4" in code or "int4" in config.lower() or "nbits" in config.lower() else 23.5
    # The upper end: something was quantized.
    assert bar < sqnr_db(outputs(model, inputs)[0], outputs(path, inputs)[0]) < 120
    before, after = onnx.load(model).graph, onnx.load(path).graph
    assert wanted <= quantized_types(after) and not excluded & quantized_types(after)
    assert all(types(after)[name] == types(before)[name] > 0 for name in excluded)
