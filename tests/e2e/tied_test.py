"""A head that multiplies with the table of the lookup reads the same codes; lookups decode only the rows they take."""

import functools
from collections import Counter

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

ROWS, COLUMNS = 2000, 128


def model(form, rng):
    """A lookup, a layer and a head: behind a Transpose, as a copy, or of other numbers."""
    table = rng.standard_normal((ROWS, COLUMNS)).astype(np.float32)
    constants = {"table": table, "weight": rng.standard_normal((COLUMNS, COLUMNS)).astype(np.float32) / 10}
    node = helper.make_node
    nodes = [node("Gather", ["table", "ids"], ["rows"], "lookup"), node("MatMul", ["rows", "weight"], ["a"], "layer"),
             node("Tanh", ["a"], ["b"], "tanh")]
    if form == "transpose":
        nodes.append(node("Transpose", ["table"], ["head"], "turn", perm=[1, 0]))
    else:
        constants["head"] = np.ascontiguousarray(table.T) * (1 if form == "copy" else 2)
    nodes.append(node("MatMul", ["b", "head"], ["y"], "head"))
    graph = helper.make_graph(nodes, "tied", [helper.make_tensor_value_info("ids", TensorProto.INT64, ["N", "S"])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", "S", ROWS])],
                              [numpy_helper.from_array(array, name) for name, array in constants.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.fixture(scope="module")
def source_of(tmp_path_factory):
    """source_of(form) returns the path of the model."""

    @functools.cache
    def make(form):
        path = tmp_path_factory.mktemp("source") / f"{form}.onnx"
        onnx.save(model(form, np.random.default_rng(5)), path)
        return path

    return make


def run(path):
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    ids = np.random.default_rng(1).integers(-ROWS, ROWS, (3, 7))
    return [session.run(None, {"ids": some})[0] for some in (ids, ids[:1, :1], ids[:0], ids[:, :0])]


def operators(path):
    return Counter(node.op_type for node in onnx.load(path).graph.node)


def blocks(config, name):
    return ["--config", config, "--activations", "none", "--set", f"embeddings={name}"]


# A head that is a copy becomes one behind a Transpose before anything is written.
@pytest.mark.parametrize("form, settings, target", [
    ("transpose", blocks("MX6", "mx6"), "portable"), ("copy", blocks("MX6", "mx6"), "portable"),
    pytest.param("transpose", blocks("MX6", "mx6"), "bitpress", marks=pytest.mark.quick), ("copy", blocks("MX6", "mx6"), "bitpress"),
    ("transpose", blocks("MX9", "mx9"), "portable"), ("transpose", blocks("MXFP4E2M1", "mxfp4_e2m1"), "bitpress"),
    ("transpose", blocks("MXFP6E2M3", "mxfp6_e2m3"), "portable"), ("transpose", blocks("MXINT8", "mxint8"), "portable"),
    ("transpose", blocks("BFP16", "bfp16"), "portable"), ("transpose", blocks("MXFP8E4M3", "mxfp8_e4m3"), "portable"),
    ("transpose", ["--config", "INT4_WEIGHTS", "--set", "embeddings=uint4"], "portable"),
    ("copy", ["--config", "INT4_WEIGHTS", "--set", "embeddings=uint4"], "portable"),
    ("transpose", ["--config", "INT4_WEIGHTS", "--weights", "uint3", "--set", "embeddings=uint3", "--set", "weight_symmetric=true"], "portable"),
    ("transpose", ["--config", "INT4_WEIGHTS", "--set", "embeddings=uint4", "--set", "weight_symmetric=true"], "portable"),
    ("transpose", ["--config", "INT4_WEIGHTS", "--set", "embeddings=uint4", "--accuracy-level", "1"], "onnxruntime"),
    ("copy", ["--config", "INT4_WEIGHTS", "--set", "embeddings=uint4", "--accuracy-level", "1"], "onnxruntime"),
    ("transpose", ["--config", "INT8_WEIGHTS", "--set", "weight_granularity=per_axis"], "portable"),
    ("copy", ["--config", "INT8_WEIGHTS", "--set", "weight_granularity=per_axis"], "portable"),
    ("transpose", ["--config", "INT8_WEIGHTS"], "portable"),
    # The table has the wider format, and the head takes it.
    ("copy", ["--config", "MXFP4E2M1", "--activations", "none"], "portable"),
    ("transpose", ["--config", "MXFP4E2M1", "--activations", "none"], "bitpress"),
    ("copy", ["--config", "INT4_WEIGHTS"], "portable"), ("transpose", ["--config", "INT4_WEIGHTS", "--accuracy-level", "1"], "onnxruntime"),
])
def test_heads_read_the_codes_of_the_table(form, settings, target, source_of, tmp_path, bitpress):
    source = source_of(form)
    shared, simulated = tmp_path / "shared.onnx", tmp_path / "simulated.onnx"
    bitpress.ok("quantize", source, "-o", shared, *settings, "--target", target)
    onnx.checker.check_model(shared, full_check=True)
    listed = bitpress.ok("inspect", shared, "--tensors")
    lists = [line for line in listed.splitlines() if f"{ROWS}, {COLUMNS}" in line]
    assert len(lists) == 1 and lists[0].strip().startswith("table ") and "FLOAT" not in lists[0]
    assert f"{COLUMNS}, {ROWS}" not in listed
    plain = [word for word in settings if not word.startswith("--accuracy") and word != "1"]
    bitpress.ok("quantize", source, "-o", simulated, *plain, "--storage", "simulated")
    expected = run(simulated)
    for found, wanted in zip(run(shared), expected):
        assert found.shape == wanted.shape
        np.testing.assert_allclose(found, wanted, rtol=0, atol=2e-5 * 40)
    unpacked = tmp_path / "unpacked.onnx"
    bitpress.ok("unpack", shared, "-o", unpacked)
    assert not any(name.startswith("Gather_") for name in operators(unpacked))
    for found, wanted in zip(run(unpacked), expected):
        np.testing.assert_allclose(found, wanted, rtol=0, atol=2e-5 * 40)


def test_heads_of_other_numbers_have_codes_of_their_own(source_of, tmp_path, bitpress):
    source = source_of("other")
    bitpress.ok("quantize", source, "-o", tmp_path / "q.onnx", "--config", "MX6", "--activations", "none", "--set", "embeddings=mx6")
    found = operators(tmp_path / "q.onnx")
    assert found["Gather_mx6"] == 1 and found["MatMul_mx6"] == 2 and found["Transpose"] == 0


def test_heads_take_the_wider_format_of_their_table(source_of, tmp_path, bitpress):
    source = source_of("copy")
    narrow = ["--rule", "nodes=head: weights=mxfp4_e2m1"]
    settings = ["--config", "MXFP4E2M1", "--activations", "none"]
    text = bitpress.ok("quantize", source, "-o", tmp_path / "shared.onnx", *settings)
    assert "tied head:   'head' reads the codes of 'table' (mxint8); a rule with weights=FORMAT" in text
    assert "tied head" not in bitpress.ok("quantize", source, "-o", tmp_path / "own.onnx", *settings, *narrow)
    copy = ROWS * COLUMNS * 4.25 / 8
    saved = (tmp_path / "own.onnx").stat().st_size - (tmp_path / "shared.onnx").stat().st_size
    assert 0.95 * copy < saved < 1.1 * copy
    wanted = run(source)[0]
    errors = [np.square(run(tmp_path / name)[0] - wanted).sum() for name in ("shared.onnx", "own.onnx")]
    assert errors[0] < errors[1]
    for options, name in ([], "mxint8"), (narrow, "mxfp4_e2m1"):
        rows = bitpress.ok("plan", source, *settings, *options).splitlines()
        assert any('"head"' in row and f'"format":"{name}"' in row for row in rows)


@pytest.mark.parametrize("form, is_shared", [("mx4", False), ("mxint8", True)])
def test_learned_heads_have_codes_of_their_own_below_8_bits(form, is_shared, source_of, tmp_path, bitpress):
    source = source_of("transpose")
    (tmp_path / "data").mkdir()
    for i in range(4):
        np.save(tmp_path / "data" / f"{i}.npy", np.random.default_rng(i).integers(0, ROWS, (1, 16)))
    text = bitpress.ok("quantize", source, "-o", tmp_path / "q.onnx", "--config", form, "--activations", "none", "--set",
                       f"embeddings={form}", "--target", "portable", "--finetune", "gptq", "--data", tmp_path / "data")
    found = operators(tmp_path / "q.onnx")
    assert found[f"Gather_{form}"] == 1 and found["Transpose"] == is_shared  # of the decoded table
    assert ("it shares the codes of the table" in text) == is_shared


def test_rules_name_lookups_and_heads(source_of, bitpress):
    text = bitpress.ok("plan", source_of("transpose"), "--config", "MX6", "--activations", "none", "--rule", "roles=lm_head: weights=mx9",
                       "--rule", "roles=embedding: embeddings=mx9")
    rows = [line for line in text.splitlines() if '"role":"weight"' in line and '"format":"mx9"' in line]
    assert len(rows) == 2 and '"role":"embedding"' in rows[0] and '"role":"lm_head"' in rows[1]


def test_rotations_leave_heads_with_their_table(source_of, tmp_path, bitpress):
    source = source_of("copy")
    text = bitpress.ok("quantize", source, "-o", tmp_path / "q.onnx", "--config", "MXFP4E2M1", "--set", "rotate=32")
    assert "not MatMul 'head': it is a table of embeddings" in text
    assert "tied head:   'head' reads the codes of 'table' (mxint8)" in text
    assert operators(tmp_path / "q.onnx")["MatMul_mxint8"] == 1
