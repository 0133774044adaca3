"""`--target bitpress` writes products with weights in blocks as operators of ours that compute from the codes, and that plain ONNX
Runtime runs as functions."""

import subprocess
import sys
from collections import Counter

import numpy as np
import onnx
import pytest
from models import change_attributes, sqnr_db
from onnx import TensorProto, helper, numpy_helper

# One of each way to compute products: of whole numbers, with and without sub-blocks, of floats, and without blocks. Then formats with
# sizes of their own; the sums of the last blocks are too large for whole products. All others: format_table_test.py.
FORMATS = ["mxint8", "mx6", "mxfp8_e4m3", "bf16", "bfp(bits=13, block=32)", "mxint8(block=256)"]


def model(rng):
    """Products of every kind, with lengths that blocks do not divide."""
    weights = {"first": (80, 56), "bias": (56,), "second": (72, 56), "third": (72, 40), "vector": (40,),
               "last": (40, 24)}
    constants = [numpy_helper.from_array(rng.standard_normal(shape).astype(np.float32) / 4, name) for name, shape in weights.items()]
    node = helper.make_node
    nodes = [node("Gemm", ["x", "first", "bias"], ["a"], "gemm"), node("Relu", ["a"], ["b"], "relu"),
             node("Gemm", ["b", "second"], ["c"], "transposed", transB=1), node("MatMul", ["c", "third"], ["d"], "product"),
             node("Add", ["vector", "d"], ["e"], "add"), node("MatMul", ["e", "last"], ["y"], "one"),
             node("MatMul", ["d", "last"], ["z"], "other")]
    graph = helper.make_graph(nodes, "products", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 80])],
                              [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", 24]) for name in "yz"], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    path = tmp_path_factory.mktemp("products") / "model.onnx"
    onnx.save(model(np.random.default_rng(2)), path)
    return path


@pytest.fixture(scope="module")
def of_mx6(source, bitpress):
    """The model with both sides in mx6, to be damaged."""
    bitpress.ok("quantize", source, "-o", source.with_name("mx6.onnx"), "--config", "MX6", "--target", "bitpress")
    return source.with_name("mx6.onnx")


@pytest.fixture(scope="module")
def of_sizes(source, bitpress):
    """The model with weights in a format with sizes of its own, to be damaged."""
    path = source.with_name("sizes.onnx")
    bitpress.ok("quantize", source, "-o", path, "--config", "BF16", "--activations", "none", "--weights", "bfp(bits=13,block=32)",
                "--target", "bitpress")
    return path


def rows(count, length=80):
    return np.random.default_rng(1).standard_normal((count, length)).astype(np.float32)


def operators(path):
    return Counter(node.op_type for node in onnx.load(path).graph.node)


def check(path, sessions, least_db):
    """The operators and their functions agree, for any number of rows."""
    ours, plain = sessions(path)
    for count in (1, 7, 50):
        for found, wanted in zip(ours.run(None, {"x": rows(count)}), plain.run(None, {"x": rows(count)})):
            assert found.shape == wanted.shape and sqnr_db(wanted, found) > least_db
    assert all(output.size == 0 for output in ours.run(None, {"x": rows(0)}))


@pytest.mark.parametrize("options, same", [
    (["--config", "MX6"], "bitpress"),
    (["--config", "MXFP4E2M1", "--activations", "none"], "bitpress"),
    (["--config", "INT4_WEIGHTS"], "portable"),
    (["--config", "INT8_WEIGHTS"], "portable"),
    (["--config", "MX6", "--set", "operators=quark"], "portable"),
    (["--config", "MX6", "--storage", "simulated"], "portable"),
], ids=lambda value: "-".join(value) if isinstance(value, list) else value)
def test_by_default_block_formats_compute_from_codes(options, same, source, tmp_path, bitpress):
    bitpress.ok("quantize", source, "-o", tmp_path / "default.onnx", *options)
    for target in ("bitpress", "portable"):
        bitpress.ok("quantize", source, "-o", tmp_path / f"{target}.onnx", *options, "--target", target)
    default = operators(tmp_path / "default.onnx")
    assert default == operators(tmp_path / f"{same}.onnx")
    if "simulated" not in options:
        assert default != operators(tmp_path / ("portable.onnx" if same == "bitpress" else "bitpress.onnx"))


def test_integers_of_onnx_runtime_keep_the_tiles_of_their_threads(of_mx6, sessions):
    """Both use the tiles of AMX, if there are some, and ONNX Runtime configures those of a thread only once."""
    random = np.random.default_rng(3)
    weight, x = random.integers(-128, 128, (256, 256), dtype=np.int8), random.integers(0, 256, (64, 256), dtype=np.uint8)
    graph = helper.make_graph([helper.make_node("MatMulInteger", ["x", "w"], ["y"])], "integers",
                              [helper.make_tensor_value_info("x", TensorProto.UINT8, x.shape)],
                              [helper.make_tensor_value_info("y", TensorProto.INT32, x.shape)], [numpy_helper.from_array(weight, "w")])
    path = of_mx6.with_name("integers.onnx")
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    integers, products = sessions(path)[1], sessions(of_mx6)[0]
    wanted = products.run(None, {"x": rows(50)})
    for _ in range(3):
        assert np.array_equal(integers.run(None, {"x": x})[0], x.astype(np.int32) @ weight.astype(np.int32))
        assert all(np.array_equal(*pair) for pair in zip(products.run(None, {"x": rows(50)}), wanted))


@pytest.mark.parametrize("target, has_products", [("auto", False), ("bitpress", True)])
def test_products_of_half_models_are_replaced_on_demand(target, has_products, tmp_path, bitpress):
    half = numpy_helper.from_array(rows(48, 48).astype(np.float16), "w")
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"], "product")], "half",
                              [helper.make_tensor_value_info("x", TensorProto.FLOAT16, ["N", 48])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT16, ["N", 48])], [half])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "half.onnx")
    text = bitpress.ok("quantize", tmp_path / "half.onnx", "-o", tmp_path / "q.onnx", "--config", "MX6", "--activations", "none",
                       "--target", target)
    assert ("MatMul_mx6" in operators(tmp_path / "q.onnx")) == has_products
    assert ("its product is FLOAT16" in text) != has_products


@pytest.mark.parametrize("name", FORMATS)
def test_weights_only(name, source, tmp_path, bitpress, sessions):
    text = bitpress.ok("quantize", source, "-o", tmp_path / "q.onnx", "--config", "BF16", "--activations", "none", "--weights", name,
                       "--target", "bitpress")
    assert "5 nodes compute from codes of weights" in text
    found = operators(tmp_path / "q.onnx")
    base = name.split("(")[0]
    ends = ["", "_padded"] if name == base else ["_1", "_2"]
    assert sum(count for op, count in found.items() if op.startswith(f"MatMul_{base}")) == 4
    assert set(found) <= {"Add", *[f"{kind}_{base}{end}" for end in ends for kind in ("MatMul", "MatMulClip")]}
    assert sum(count for op, count in found.items() if op.startswith("MatMulClip")) == 1 and found["Add"] == 1, "d has two readers"
    check(tmp_path / "q.onnx", sessions, least_db=120)
    # The same weights as in a file with decoders.
    bitpress.ok("quantize", source, "-o", tmp_path / "p.onnx", "--config", "BF16", "--activations", "none", "--weights", name)
    for file in ("q", "p"):
        bitpress.ok("unpack", tmp_path / f"{file}.onnx", "-o", tmp_path / f"{file}_floats.onnx")
    constants = [{tensor.name: numpy_helper.to_array(tensor) for tensor in onnx.load(tmp_path / f"{file}_floats.onnx").graph.initializer}
                 for file in "qp"]
    for weight in ("first", "second", "third", "last"):
        assert constants[0][weight].tobytes() == constants[1][weight].tobytes()
    listed = bitpress.ok("inspect", tmp_path / "q.onnx", "--tensors")
    assert listed.count(f" {name} ") >= 4 or listed.count(name) >= 4
    if name == base:
        return
    again = bitpress.ok("quantize", tmp_path / "q.onnx", "-o", tmp_path / "again.onnx", "--config", "MX6")
    assert "the model is already quantized" in again and operators(tmp_path / "again.onnx") == found


def test_fastest_sums(source, tmp_path, bitpress, sessions):
    """Products of many rows are a little nearer to the exact ones with AMX, and the same elsewhere."""
    common = ["--config", "MXFP4E2M1", "--activations", "none", "--target", "bitpress"]
    bitpress.ok("quantize", source, "-o", tmp_path / "fixed.onnx", *common)
    text = bitpress.ok("quantize", source, "-o", tmp_path / "q.onnx", *common, "--fastest-sums")
    onnx.checker.check_model(tmp_path / "q.onnx", full_check=True)
    products = [node for node in onnx.load(tmp_path / "q.onnx").graph.node if node.op_type.startswith("MatMul")]
    assert [attribute.s for node in products for attribute in node.attribute if attribute.name == "sums"] == [b"fastest"] * 5
    check(tmp_path / "q.onnx", sessions, least_db=120)
    fixed, fastest = (sessions(tmp_path / f"{name}.onnx")[0].run(None, {"x": rows(50)}) for name in ("fixed", "q"))
    has_tiles = "AMX" in bitpress.ok("doctor")
    assert any(np.any(a != b) for a, b in zip(fixed, fastest)) == has_tiles
    assert ("changes nothing on this machine" in text) != has_tiles
    # Few rows are summed in the fixed order.
    fixed, fastest = (sessions(tmp_path / f"{name}.onnx")[0].run(None, {"x": rows(15)}) for name in ("fixed", "q"))
    assert all(np.array_equal(a, b) for a, b in zip(fixed, fastest))
    # Only runs that bring many rows for a sample are worth a hint.
    assert "would take less time with --fastest-sums" not in bitpress.ok("quantize", source, "-o", tmp_path / "fixed.onnx", *common)
    assert "changes nothing: no matrix product" in bitpress.ok("quantize", source, "-o", tmp_path / "none.onnx", "--config", "INT4_WEIGHTS",
                                                               "--fastest-sums")


@pytest.mark.parametrize("name, rows_of", [
    pytest.param("mx6", "mx6", marks=pytest.mark.quick), ("mxfp8_e4m3", "mxfp8_e4m3"), ("bfp16", "bfp16"), ("bf16", "bf16"),
    ("bfp(bits=13, block=32)", "bfp(bits=13, block=32)"), ("mxfp8_e4m3(block=16)", "mxfp8_e4m3(block=16)"), ("mxint8(block=256)", "")])
def test_both_sides(name, rows_of, source, tmp_path, bitpress, sessions):
    """`rows_of`: the format whose values the rows have, where products are of whole numbers or summed in parts."""
    text = bitpress.ok("quantize", source, "-o", tmp_path / "q.onnx", "--config", name, "--target", "bitpress")
    assert "5 nodes compute from codes of weights" in text
    products = [node for node in onnx.load(tmp_path / "q.onnx").graph.node if node.op_type.startswith("MatMul")]
    attributes = [{attribute.name: attribute.s.decode() for attribute in node.attribute if attribute.type == onnx.AttributeProto.STRING}
                  for node in products]
    named = {"format": name} if "(" in name else {}
    assert attributes == [{**named, "rows": rows_of}] * 5
    # Sums of another order may round another way where the next quantizer decides.
    check(tmp_path / "q.onnx", sessions, least_db=35)


@pytest.mark.parametrize("activations, weights", [("mxfp8_e4m3", "mxfp4_e2m1"), ("bf16", "mxint8")])
def test_sides_in_two_formats(activations, weights, source, tmp_path, bitpress, sessions):
    """Rows of floats by whole elements are summed in parts, which some processors take in an order of their own."""
    text = bitpress.ok("quantize", source, "-o", tmp_path / "q.onnx", "--config", activations, "--weights", weights, "--target", "bitpress")
    assert "5 nodes compute from codes of weights" in text
    products = [node for node in onnx.load(tmp_path / "q.onnx").graph.node if node.op_type.startswith("MatMul")]
    assert {helper.get_node_attr_value(node, "rows").decode() for node in products} == {activations}
    check(tmp_path / "q.onnx", sessions, least_db=35)


def half_model(dtype):
    rng = np.random.default_rng(8)
    constants = {name: (rng.standard_normal(shape) / 8).astype(np.float16) for name, shape in
                 {"first": (80, 56), "bias": (56,), "last": (56, 40), "vector": (40,)}.items()}
    nodes = [helper.make_node("Gemm", ["x", "first", "bias"], ["a"], "gemm"), helper.make_node("Relu", ["a"], ["b"], "relu"),
             helper.make_node("MatMul", ["b", "last"], ["c"], "product"), helper.make_node("Add", ["c", "vector"], ["y"], "add")]
    info = lambda name, shape: helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), shape)
    graph = helper.make_graph(nodes, "half", [info("x", ["N", 80])], [info("a", ["N", 56]), info("y", ["N", 40])],
                              [numpy_helper.from_array(value.astype(dtype), name) for name, value in constants.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize("options", [["MX6"], ["MXINT8"], ["bfp(bits=12, block=16)"], ["MXFP4E2M1", "--activations", "none"]])
def test_half_models(options, tmp_path, bitpress, sessions):
    for name, dtype in (("half", np.float16), ("floats", np.float32)):
        onnx.save(half_model(dtype), tmp_path / f"{name}.onnx")
        text = bitpress.ok("quantize", tmp_path / f"{name}.onnx", "-o", tmp_path / f"{name}_q.onnx", "--config", *options, "--target", "bitpress")
        assert "2 nodes compute from codes of weights" in text and "decoded at load" not in text
    x = rows(9).astype(np.float16)
    ours, plain = sessions(tmp_path / "half_q.onnx")
    found = ours.run(None, {"x": x})
    assert all(y.dtype == np.float16 for y in found)
    # The product of floats, rounded once.
    wanted = sessions(tmp_path / "floats_q.onnx")[0].run(None, {"x": x.astype(np.float32)})
    assert found[0].tobytes() == wanted[0].astype(np.float16).tobytes()
    for y, portable, of_floats in zip(found[1:], plain.run(None, {"x": x})[1:], wanted[1:]):
        assert sqnr_db(portable.astype(np.float32), y.astype(np.float32)) > 30 and sqnr_db(of_floats, y.astype(np.float32)) > 30
    bitpress.ok("unpack", tmp_path / "half_q.onnx", "-o", tmp_path / "unpacked.onnx")
    unpacked = sessions(tmp_path / "unpacked.onnx")[0].run(None, {"x": x})
    assert all(sqnr_db(a.astype(np.float32), b.astype(np.float32)) > 30 for a, b in zip(unpacked, found))


@pytest.mark.parametrize("name", ["mxint8", "bfp(bits=12, block=16)"])
@pytest.mark.parametrize("limits", [(-0.5, 0.75), (None, 0.5), (-0.25, None), (None, None)])
def test_limits(name, limits, tmp_path, bitpress, sessions):
    rng = np.random.default_rng(4)
    names = ["" if limit is None else f"limit_{i}" for i, limit in enumerate(limits)]
    constants = [numpy_helper.from_array(np.array(limit, np.float32), name) for limit, name in zip(limits, names) if name]
    nodes = [helper.make_node("MatMul", ["x", "w"], ["a"], "product"), helper.make_node("Add", ["a", "bias"], ["b"], "add"),
             helper.make_node("Clip", ["b", *names], ["y"], "clip")]
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 80])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 56])],
                              [*constants, numpy_helper.from_array(rng.standard_normal((80, 56)).astype(np.float32) / 9, "w"),
                               numpy_helper.from_array(rng.standard_normal(56).astype(np.float32), "bias")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "m.onnx")
    bitpress.ok("quantize", tmp_path / "m.onnx", "-o", tmp_path / "q.onnx", "--config", name, "--target", "bitpress")
    found = operators(tmp_path / "q.onnx")
    assert sum(count for op, count in found.items() if op.startswith("MatMul")) == 1 and not set(found) & {"Add", "Clip", "MatMul"}
    bitpress.ok("unpack", tmp_path / "q.onnx", "-o", tmp_path / "floats.onnx")
    assert operators(tmp_path / "floats.onnx")["Clip"] == (0 if limits == (None, None) else 1)
    x = rows(9)
    x[3, 4] = np.nan
    wanted = sessions(tmp_path / "floats.onnx")[0].run(None, {"x": x})[0]
    for session in sessions(tmp_path / "q.onnx"):
        y = session.run(None, {"x": x})[0]
        assert np.isnan(y[3]).all() and np.isnan(wanted[3]).all()
        assert sqnr_db(np.delete(wanted, 3, 0), np.delete(y, 3, 0)) > 100
        low, high = [np.float32(infinity if limit is None else limit) for limit, infinity in zip(limits, (-np.inf, np.inf))]
        kept = np.delete(y, 3, 0)
        assert kept.min() >= low and kept.max() <= high


def test_numbers_tell_formats_of_one_base_apart(tmp_path, bitpress, sessions):
    rng = np.random.default_rng(3)
    names = [f"w{i}" for i in range(6)]
    nodes = [helper.make_node("MatMul", ["x" if i == 0 else f"v{i - 1}", name], [f"v{i}" if i < 5 else "y"], f"product_{i}")
             for i, name in enumerate(names)]
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 80])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 80])],
                              [numpy_helper.from_array(rng.standard_normal((80, 80)).astype(np.float32) / 9, name) for name in names])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "m.onnx")
    rules = [word for i in range(6) for word in ("--rule", f"nodes=product_{i}: weights=bfp(bits={10 + i}, block=16)")]
    text = bitpress.ok("quantize", tmp_path / "m.onnx", "-o", tmp_path / "q.onnx", "--config", "BF16", "--activations", "none", *rules,
                       "--target", "bitpress")
    assert "4 nodes compute from codes of weights" in text and "4 other kinds of bfp are in the model already" in text
    found = operators(tmp_path / "q.onnx")
    assert all(found[f"MatMul_bfp_{i}"] == 1 for i in range(1, 5)) and found["MatMul"] == 2
    check(tmp_path / "q.onnx", sessions, least_db=110)


def test_readers_that_are_no_products_keep_the_decoder(tmp_path, bitpress, sessions):
    rng = np.random.default_rng(3)
    node = helper.make_node
    nodes = [node("MatMul", ["x", "w"], ["a"], "product"), node("Transpose", ["w"], ["t"], "turn", perm=[1, 0]),
             node("MatMul", ["a", "t"], ["b"], "back"), node("MatMul", ["stack", "v"], ["s"], "left"), node("MatMul", ["b", "s"], ["y"], "end")]
    constants = {"w": (80, 32), "stack": (80, 48), "v": (48, 24)}
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 80])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 24])],
                              [numpy_helper.from_array(rng.standard_normal(shape).astype(np.float32), name) for name, shape in constants.items()])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "m.onnx")
    text = bitpress.ok("quantize", tmp_path / "m.onnx", "-o", tmp_path / "q.onnx", "--config", "BF16", "--activations", "none", "--weights",
                       "mx6", "--target", "bitpress", "--disable-pass", "optimize")
    assert "compute from codes of weights" in text and "decoded at load" in text
    check(tmp_path / "q.onnx", sessions, least_db=110)


@pytest.mark.parametrize("change, message", [
    ({"blocks": [1, 5, 16]}, "four positive numbers"), ({"blocks": [1, -5, 16, 56]}, "four positive numbers"),
    ({"blocks": [1, 1 << 40, 1 << 40, 56]}, "too large"), ({"blocks": [2, 5, 16, 28]}, "do not describe a matrix"),
    ({"perm": [1, 0]}, "do not describe a matrix"), ({"perm": [0]}, "do not describe a matrix"), ({"blocks": [1, 5, 15, 56]}, "mx6"),
    ({"blocks": [1, 1 << 30, 1 << 9, 1 << 30]}, "mx6"), ({"rows": "mxint8"}, "blocks of 32 and of 16"), ({"rows": "fp16"}, "no products"),
    ({"rows": "no_format"}, "no_format"), ({"sums": "quick"}, "attribute sums"), ({"least": "x"}, "least"), ({"largest": 1}, "largest")])
def test_damaged_attributes_are_errors(change, message, of_mx6, tmp_path, bitpress, sessions):
    change_attributes(of_mx6, tmp_path / "damaged.onnx", lambda node: node.name == "gemm", change)
    with pytest.raises(Exception, match=message):
        sessions(tmp_path / "damaged.onnx")
    if not {"rows", "sums", "least", "largest"} & set(change):  # which unpacking does not need, or takes as they are
        bitpress.error("unpack", tmp_path / "damaged.onnx", "-o", tmp_path / "u.onnx")


@pytest.mark.parametrize("change, message", [
    ({"format": "mxint8(block=64)"}, "no format of this operator"), ({"format": "bfp(bits=12,block=0)"}, "block=0"), ({}, "attribute format"),
    ({"format": "bfp(bits=13, block=8)"}, "bfp"), ({"format": "bfp(bits=20, block=32)"}, "more than 9 bits"), ({"rows": "mxint8(block=16)"}, "blocks of 16"),
    ({"rows": "bfp(bits=13)"}, "attribute rows")])
def test_damaged_sizes_are_errors(change, message, of_sizes, tmp_path, bitpress, sessions):
    damaged = onnx.load(of_sizes)
    node = next(node for node in damaged.graph.node if node.name == "gemm")
    for attribute in [attribute for attribute in node.attribute if attribute.name in (change or ["format"])]:
        node.attribute.remove(attribute)
    node.attribute.extend(helper.make_attribute(name, value) for name, value in change.items())
    onnx.save(damaged, tmp_path / "damaged.onnx")
    with pytest.raises(Exception, match=message):
        sessions(tmp_path / "damaged.onnx")
    if "rows" not in change:  # which unpacking does not need
        bitpress.error("unpack", tmp_path / "damaged.onnx", "-o", tmp_path / "u.onnx")


MEMORY = """
import ctypes, re, sys
import onnxruntime

def resident():
    ctypes.CDLL(None).malloc_trim(0)
    return int(re.search(r"RssAnon:\\s+(\\d+)", open("/proc/self/status").read())[1])

def session():
    options = onnxruntime.SessionOptions()
    options.register_custom_ops_library(sys.argv[2])
    return onnxruntime.InferenceSession(sys.argv[1], options, providers=["CPUExecutionProvider"])

sessions = [session()]
before = resident()
sessions += [session() for _ in range(3)]
print((resident() - before) / 3)
"""


def test_sessions_and_tied_products_share_arranged_weights(tmp_path, bitpress, operator_library):
    """Each further session holds the codes, which ONNX Runtime has twice, but not their arrangement for two products."""
    size = 2048
    nodes = [helper.make_node("MatMul", ["x", "w"], ["a"], "first"), helper.make_node("MatMul", ["a", "w"], ["y"], "second")]
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", size])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", size])],
                              [numpy_helper.from_array(np.random.default_rng(0).standard_normal((size, size), np.float32), "w")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "m.onnx")
    bitpress.ok("quantize", tmp_path / "m.onnx", "-o", tmp_path / "q.onnx", "--config", "MXINT8", "--target", "bitpress")
    done = subprocess.run([sys.executable, "-c", MEMORY, tmp_path / "q.onnx", operator_library], capture_output=True, text=True, check=True)
    codes = size * size / 1024
    assert float(done.stdout) < 3 * codes, "without sharing it would be four times the codes"


def test_weights_must_be_constants_of_bytes(of_mx6, tmp_path, sessions):
    for kind, message in (("input", "must be a constant"), ("type", "first_codes")):
        damaged = onnx.load(of_mx6)
        node = next(node for node in damaged.graph.node if node.name == "gemm")
        codes = next(tensor for tensor in damaged.graph.initializer if tensor.name == node.input[1])
        if kind == "input":
            damaged.graph.initializer.remove(codes)
            damaged.graph.input.append(helper.make_tensor_value_info(codes.name, TensorProto.UINT8, list(codes.dims)))
        else:
            codes.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(codes).astype(np.float32), codes.name))
        onnx.save(damaged, tmp_path / "damaged.onnx")
        with pytest.raises(Exception, match=message):
            sessions(tmp_path / "damaged.onnx")
