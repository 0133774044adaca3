"""Models whose types, operator sets or constants are unusual, but right: they are quantized as any other, or a tensor stays
float with its reason in plan and summary."""

import json

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64


def random(*shape, scale=0.2, seed=5):
    return (np.random.default_rng(seed).standard_normal(shape) * scale).astype(np.float32)


def save(path, nodes, inputs, outputs, constants, opset=17, domains=()):
    graph = helper.make_graph(
        nodes, "unusual", [helper.make_tensor_value_info(*value) for value in inputs],
        [helper.make_tensor_value_info(*value) for value in outputs],
        [numpy_helper.from_array(array, name) for name, array in constants.items()])
    opsets = [helper.make_opsetid("", opset), *(helper.make_opsetid(domain, 1) for domain in domains)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8 if opset > 14 else 6), path)
    return path


def save_samples(folder, shape, number=8):
    folder.mkdir()
    for i in range(number):
        np.save(folder / f"{i}.npy", random(*shape, scale=1, seed=i))
    return folder


def plan_of(bitpress, model, tmp_path, *options):
    bitpress.ok("plan", model, "-o", tmp_path / "plan.json", *options)
    return {row["value"]: row for row in json.loads((tmp_path / "plan.json").read_text())["tensors"]}


def run(path, inputs):
    return onnxruntime.InferenceSession(path).run(None, inputs)


def sqnr_db(reference, found):
    return 10 * np.log10(np.sum(reference**2) / np.sum((reference - found) ** 2))


def test_types_behind_operators_of_other_domains_are_written(tmp_path, bitpress):
    # Decoders of ONNX Runtime GenAI look so: inference does not know the type of what a fused operator gives, only that of the
    # weight behind it.
    node = helper.make_node
    nodes = [node("SkipSimplifiedLayerNormalization", ["x", "s", "g"], ["n"], "norm", domain="com.microsoft"),
             node("MatMul", ["n", "w1"], ["a"], "first"), node("Sigmoid", ["a"], ["b"], "gate"),
             node("MatMul", ["b", "w2"], ["y"], "second")]
    model = save(tmp_path / "m.onnx", nodes, [("x", FLOAT, ["N", "T", 64]), ("s", FLOAT, ["N", "T", 64])],
                 [("y", FLOAT, ["N", "T", 64])], {"g": np.ones(64, np.float32), "w1": random(64, 128), "w2": random(128, 64)},
                 domains=["com.microsoft"])
    text = bitpress.ok("quantize", model, "-o", tmp_path / "q.onnx", "--config", "INT4_WEIGHTS", "--target", "onnxruntime")
    assert "2 nodes compute from codes" in text
    written = onnx.load(tmp_path / "q.onnx")
    assert all(info.type.tensor_type.elem_type != TensorProto.UNDEFINED for info in written.graph.value_info)
    inputs = {"x": random(1, 3, 64, scale=1), "s": random(1, 3, 64, scale=1, seed=6)}
    assert sqnr_db(run(model, inputs)[0], run(tmp_path / "q.onnx", inputs)[0]) > 12


@pytest.mark.parametrize("opset", [11, 12])
def test_attributes_that_a_later_operator_set_has_as_inputs(opset, tmp_path, bitpress):
    node = helper.make_node
    nodes = [node("MatMul", ["x", "w1"], ["a"], "first"), node("Relu", ["a"], ["r"], "relu"),
             node("MatMul", ["r", "w2"], ["b"], "second"), node("Unsqueeze", ["b"], ["y"], "unsqueeze", axes=[1])]
    model = save(tmp_path / "m.onnx", nodes, [("x", FLOAT, ["N", 16])], [("y", FLOAT, ["N", 1, 8])],
                 {"w1": random(16, 32), "w2": random(32, 8)}, opset)
    samples = save_samples(tmp_path / "samples", (1, 16))
    text = bitpress.ok("quantize", model, "-o", tmp_path / "q.onnx", "--config", "INT8_ADAQUANT", "--data", samples)
    assert "fine-tuned" in text
    inputs = {"x": random(1, 16, scale=1, seed=3)}
    assert sqnr_db(run(model, inputs)[0], run(tmp_path / "q.onnx", inputs)[0]) > 20


@pytest.mark.parametrize("config", ["INT8", "MXFP8E4M3"])  # the second raises the operator set, in which ONNX infers more
def test_an_output_whose_rank_the_file_states_wrongly(config, tmp_path, bitpress):
    node = helper.make_node
    nodes = [node("MatMul", ["x", "w1"], ["a"], "first"), node("Shape", ["x"], ["shape"], "shape"),
             node("Gather", ["shape", "zero"], ["rows"], "rows", axis=0), node("Unsqueeze", ["rows"], ["row"], "row", axes=[0]),
             node("Concat", ["row", "rest"], ["wanted"], "wanted", axis=0), node("Reshape", ["a", "wanted"], ["y"], "reshape")]
    model = save(tmp_path / "m.onnx", nodes, [("x", FLOAT, ["N", 16])], [("y", FLOAT, [1, "seqlen"])],
                 {"w1": random(16, 32), "zero": np.array(0, np.int64), "rest": np.array([1, -1], np.int64)}, 12)
    samples = save_samples(tmp_path / "samples", (2, 16))
    bitpress.ok("quantize", model, "-o", tmp_path / "q.onnx", "--config", config, "--data", samples)
    inputs = {"x": random(2, 16, scale=1, seed=3)}
    assert sqnr_db(run(model, inputs)[0], run(tmp_path / "q.onnx", inputs)[0]) > 20


def test_operators_whose_schema_gives_one_type(tmp_path, bitpress):
    node = helper.make_node
    nodes = [node("Scaler", ["x"], ["scaled"], "scaler", domain="ai.onnx.ml", offset=[0.5], scale=[2.0]),
             node("MatMul", ["scaled", "w1"], ["a"], "first"), node("Add", ["a", "b1"], ["c"], "bias"),
             node("Relu", ["c"], ["r"], "relu"), node("MatMul", ["r", "w2"], ["y"], "second")]
    model = save(tmp_path / "m.onnx", nodes, [("x", FLOAT, ["N", 4])], [("y", FLOAT, ["N", 8])],
                 {"w1": random(4, 32), "b1": random(32), "w2": random(32, 8)}, domains=["ai.onnx.ml"])
    samples = save_samples(tmp_path / "samples", (1, 4))
    text = bitpress.ok("quantize", model, "-o", tmp_path / "q.onnx", "--config", "INT8", "--data", samples)
    assert "activations: 2 uint8" in text
    inputs = {"x": random(1, 4, scale=1, seed=3)}
    assert sqnr_db(run(model, inputs)[0], run(tmp_path / "q.onnx", inputs)[0]) > 20


def test_values_behind_operators_of_onnxruntime_are_quantized(tmp_path, bitpress):
    node = helper.make_node
    nodes = [node("SkipSimplifiedLayerNormalization", ["x", "x", "g"], ["n"], "norm", domain="com.microsoft"),
             node("MatMul", ["n", "w1"], ["y"], "first")]
    model = save(tmp_path / "m.onnx", nodes, [("x", FLOAT, ["N", "T", 16])], [("y", FLOAT, ["N", "T", 8])],
                 {"g": np.ones(16, np.float32), "w1": random(16, 8)}, domains=["com.microsoft"])
    rows = plan_of(bitpress, model, tmp_path, "--config", "INT8")
    assert rows["n"]["format"] == "uint8"
    samples = save_samples(tmp_path / "samples", (1, 3, 16))
    bitpress.ok("quantize", model, "-o", tmp_path / "q.onnx", "--config", "INT8", "--data", samples)
    inputs = {"x": random(2, 3, 16, scale=1, seed=3)}
    assert sqnr_db(run(model, inputs)[0], run(tmp_path / "q.onnx", inputs)[0]) > 20


def test_values_of_unknown_type_stay_float(tmp_path, bitpress):
    node = helper.make_node
    nodes = [node("Inverse", ["x"], ["n"], "inverse", domain="com.microsoft"), node("MatMul", ["x", "n"], ["y"], "product")]
    model = save(tmp_path / "m.onnx", nodes, [("x", FLOAT, ["N", 4, 4])], [("y", FLOAT, ["N", 4, 4])], {}, domains=["com.microsoft"])
    rows = plan_of(bitpress, model, tmp_path, "--config", "INT8")
    assert "its type is not known" in rows["n"]["reason"]
    samples = save_samples(tmp_path / "samples", (1, 4, 4))
    text = bitpress.ok("quantize", model, "-o", tmp_path / "q.onnx", "--config", "INT8", "--data", samples)
    assert "its type is not known" in text
    run(tmp_path / "q.onnx", {"x": random(1, 4, 4, scale=1, seed=3)})


def test_integers_are_made_of_float_values_only(tmp_path, bitpress):
    half = np.float16
    node = helper.make_node
    nodes = [node("Gemm", ["x", "w1", "b1"], ["a"], "first"), node("Relu", ["a"], ["r"], "relu"),
             node("MatMul", ["r", "w2"], ["y"], "second")]
    model = save(tmp_path / "m.onnx", nodes, [("x", TensorProto.FLOAT16, ["N", 16])], [("y", TensorProto.FLOAT16, ["N", 8])],
                 {"w1": random(16, 32).astype(half), "b1": random(32).astype(half), "w2": random(32, 8).astype(half)})
    samples = tmp_path / "samples"
    samples.mkdir()
    for i in range(4):
        np.save(samples / f"{i}.npy", random(1, 16, scale=1, seed=i).astype(half))
    options = ("--config", "A8W8", "--set", "placement=all")
    assert "FLOAT16" in plan_of(bitpress, model, tmp_path, *options)["x"]["reason"]
    bitpress.ok("quantize", model, "-o", tmp_path / "q.onnx", "--data", samples, *options)
    onnx.checker.check_model(tmp_path / "q.onnx", full_check=True)
    run(tmp_path / "q.onnx", {"x": random(1, 16, scale=1, seed=3).astype(half)})


def lookup(path, table, **more):
    node = helper.make_node
    nodes = [node("Gather", ["table", "i"], ["h"], "look up"), node("MatMul", ["h", "w"], ["y"], "product")]
    return save(path, nodes, [("i", INT64, ["N", 4])], [("y", FLOAT, ["N", 4, 32])], {"table": table, "w": random(64, 32)}, **more)


def test_tables_with_infinity_stay_float(tmp_path, bitpress):
    table = random(100, 64)
    table[3] = -np.inf
    model = lookup(tmp_path / "m.onnx", table)
    rows = plan_of(bitpress, model, tmp_path, "--config", "INT4_WEIGHTS")
    assert rows["table"]["format"] == "none" and "-infinity in row 3" in rows["table"]["reason"]
    text = bitpress.ok("quantize", model, "-o", tmp_path / "q.onnx", "--config", "INT4_WEIGHTS")
    assert "-infinity in row 3" in text
    stored = {tensor.name: numpy_helper.to_array(tensor) for tensor in onnx.load(tmp_path / "q.onnx").graph.initializer}
    np.testing.assert_array_equal(stored["table"], table)


@pytest.mark.parametrize("options, is_said", [(["--config", "MX6", "--set", "embeddings=none"], True), (["--config", "MATMUL_NBITS"], True),
                                              (["--config", "INT8_DYNAMIC", "--set", "embeddings=none"], True),
                                              (["--config", "INT8_DYNAMIC"], False), (["--config", "MX6"], False),
                                              (["--config", "BF16", "--weights", "none"], False)])
def test_a_large_table_that_stays_float_is_said(options, is_said, tmp_path, bitpress):
    text = bitpress.ok("quantize", lookup(tmp_path / "m.onnx", random(2000, 64)), "-o", tmp_path / "q.onnx", *options)
    assert ("a table of 512.00 kB stays float unless asked (embeddings=FORMAT)" in text) == is_said
    assert ((tmp_path / "q.onnx").stat().st_size > 512_000) == (is_said or "none" in options)


@pytest.mark.quick
def test_tables_have_eight_bits_unless_asked(tmp_path, bitpress):
    model = lookup(tmp_path / "m.onnx", random(100, 64))
    assert plan_of(bitpress, model, tmp_path, "--config", "INT4_WEIGHTS")["table"]["format"] == "uint8"
    asked = plan_of(bitpress, model, tmp_path, "--config", "INT4_WEIGHTS", "--set", "embeddings=uint4")
    assert asked["table"]["format"] == "uint4" and asked["w"]["format"] == "uint4"
    # Both compute from the codes in ONNX Runtime.
    text = bitpress.ok("quantize", model, "-o", tmp_path / "q.onnx", "--config", "INT4_WEIGHTS", "--target", "onnxruntime")
    assert "2 nodes compute from codes" in text
    inputs = {"i": np.arange(4).reshape(1, 4)}
    assert sqnr_db(run(model, inputs)[0], run(tmp_path / "q.onnx", inputs)[0]) > 15


@pytest.mark.parametrize("config, format, db", [("INT8_DYNAMIC", "int8", 38), ("UINT8_DYNAMIC_QUANT", "uint8", 28), ("MX4", "mxint8", 5),
                                                ("MX6", "mxint8", 23), ("MX9", "mx9", 42), ("MXFP8E4M3", "mxfp8_e4m3", 25),
                                                ("MXFP4E2M1", "mxint8", 10), ("BF16", "bf16", 48), ("FP16_SIMULATED", "fp16", 60)])
def test_tables_follow_the_weights_by_default(config, format, db, tmp_path, bitpress):
    """A table beside weights of few bits takes most of a file: it has 8 bits and more, or the 16 bits of the weights."""
    model = lookup(tmp_path / "m.onnx", random(2000, 64))
    assert plan_of(bitpress, model, tmp_path, "--config", config)["table"]["format"] == format
    text = bitpress.ok("quantize", model, "-o", tmp_path / "q.onnx", "--config", config)
    assert ("1 in mxint8 because Gather looks rows up" in text) == (format == "mxint8")
    bitpress.ok("quantize", model, "-o", tmp_path / "float_table.onnx", "--config", config, "--set", "embeddings=none")
    bits = {"mx9": 9, "bf16": 16, "fp16": 16}.get(format, 9)
    assert (tmp_path / "q.onnx").stat().st_size < (tmp_path / "float_table.onnx").stat().st_size - 2000 * 64 * (32 - bits) / 8 + 8000
    inputs = {"i": np.arange(4).reshape(1, 4)}
    assert sqnr_db(run(model, inputs)[0], run(tmp_path / "q.onnx", inputs)[0]) > db


def test_rotary_tables_stay_float(tmp_path, bitpress):
    node = helper.make_node
    angles = np.arange(64)[:, None] / 10000 ** (np.arange(16) / 16)
    nodes = [node("Gather", ["cos", "p"], ["c"], "cosines"), node("Gather", ["sin", "p"], ["s"], "sines"),
             node("MatMul", ["x", "w"], ["q"], "product"), node("Mul", ["q", "c"], ["qc"], "turn"),
             node("Mul", ["q", "s"], ["qs"], "turn back"), node("Add", ["qc", "qs"], ["y"], "sum")]
    model = save(tmp_path / "m.onnx", nodes, [("x", FLOAT, ["N", 16]), ("p", INT64, ["N"])], [("y", FLOAT, ["N", 16])],
                 {"cos": np.cos(angles).astype(np.float32), "sin": np.sin(angles).astype(np.float32), "w": random(16, 16)})
    rows = plan_of(bitpress, model, tmp_path, "--config", "INT4_WEIGHTS")
    assert rows["w"]["format"] == "uint4"
    assert all("rotary" in rows[name]["reason"] for name in ("cos", "sin"))


@pytest.mark.parametrize("shape, group", [((16, 1, 3, 3), 16), ((32, 16, 1, 1), 1), ((32, 16, 3, 3), 1), ((32, 4, 3, 3), 4)],
                         ids=["depthwise", "pointwise", "plain", "grouped"])
def test_convolutions_with_blocks_between_integers(shape, group, tmp_path, bitpress):
    node = helper.make_node
    nodes = [node("Conv", ["x", "w"], ["y"], "conv", group=group)]
    model = save(tmp_path / "m.onnx", nodes, [("x", FLOAT, ["N", 16, 8, 8])], [("y", FLOAT, ["N", "C", "H", "W"])],
                 {"w": random(*shape)})
    samples = save_samples(tmp_path / "samples", (1, 16, 8, 8))
    bitpress.ok("quantize", model, "-o", tmp_path / "q.onnx", "--config", "INT8", "--data", samples,
                "--set", "weight_granularity=per_block", "--set", "weight_block_size=8")
    inputs = {"x": random(1, 16, 8, 8, scale=1, seed=3)}
    assert sqnr_db(run(model, inputs)[0], run(tmp_path / "q.onnx", inputs)[0]) > 25


@pytest.mark.quick
def test_a_gemm_that_adds_one_number(tmp_path, bitpress):
    nodes = [helper.make_node("Gemm", ["x", "w", "c"], ["y"], "gemm")]
    model = save(tmp_path / "m.onnx", nodes, [("x", FLOAT, ["N", 16])], [("y", FLOAT, ["N", 8])],
                 {"w": random(16, 8), "c": np.array([0.3], np.float32)})
    rows = plan_of(bitpress, model, tmp_path, "--config", "INT8")
    assert rows["c"]["format"] == "none" and "1 elements for 8 outputs" in rows["c"]["reason"]
    samples = save_samples(tmp_path / "samples", (1, 16))
    bitpress.ok("quantize", model, "-o", tmp_path / "q.onnx", "--config", "INT8", "--data", samples)
    inputs = {"x": random(1, 16, scale=1, seed=3)}
    assert sqnr_db(run(model, inputs)[0], run(tmp_path / "q.onnx", inputs)[0]) > 30


def outputs_of_other_kinds():
    """Networks whose outputs are not all tensors of numbers; nothing that quantizing does needs these."""
    node, x, y = helper.make_node, ("x", FLOAT, ["N", 32]), ("y", FLOAT, ["N", 8])
    product = node("MatMul", ["x", "w"], ["y"], "m")
    yield "sequence", [product, node("SequenceConstruct", ["y", "y"], ["s"], "pair")], [x], [
        helper.make_tensor_value_info(*y), helper.make_tensor_sequence_value_info("s", FLOAT, None)], ()
    yield "strings", [product, node("ArgMax", ["y"], ["i"], "largest", axis=1, keepdims=0),
                      node("LabelEncoder", ["i"], ["name"], "names", domain="ai.onnx.ml", keys_int64s=[0, 1], values_strings=["a", "b"],
                           default_string="c")], [x], [
        helper.make_tensor_value_info(*y), helper.make_tensor_value_info("name", TensorProto.STRING, ["N"])], [("ai.onnx.ml", 3)]


@pytest.mark.parametrize("kind, nodes, inputs, outputs, domains", list(outputs_of_other_kinds()), ids=["sequence", "strings"])
def test_outputs_that_are_no_numbers_pass_through(kind, nodes, inputs, outputs, domains, tmp_path, bitpress):
    graph = helper.make_graph(nodes, kind, [helper.make_tensor_value_info(*value) for value in inputs], outputs,
                              [numpy_helper.from_array(random(32, 8), "w")])
    model = tmp_path / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 15), *(helper.make_opsetid(*d) for d in domains)],
                                ir_version=8), model)
    samples = save_samples(tmp_path / "samples", (1, 32))
    inputs = {"x": random(1, 32, scale=1, seed=3)}
    for config in ("INT8", "INT8_ADAQUANT", "MX6"):
        text = bitpress.checking.ok("quantize", model, "-o", tmp_path / "q.onnx", "--config", config, "--data", samples)
        assert "closeness" in text
        wanted, found = run(model, inputs), run(tmp_path / "q.onnx", inputs)
        assert sqnr_db(wanted[0], found[0]) > 20
        assert len(found[1]) == len(wanted[1]) and isinstance(found[1][0], type(wanted[1][0]))
    text = bitpress.ok("evaluate", tmp_path / "q.onnx", "--reference", model, "--data", samples)
    assert "SQNR" in text


def test_inputs_that_are_constants_are_said(tmp_path, bitpress):
    model = save(tmp_path / "m.onnx", [helper.make_node("MatMul", ["x", "w"], ["y"], "m")],
                 [("x", FLOAT, ["N", 32]), ("w", FLOAT, [32, 8])], [("y", FLOAT, ["N", 8])], {"w": random(32, 8)})
    text = bitpress.ok("quantize", model, "-o", tmp_path / "q.onnx", "--config", "MX6", "--json", tmp_path / "q.json")
    assert "1 inputs have values in the file and are constants now" in text
    assert json.loads((tmp_path / "q.json").read_text())["rewrites"]["fixed_inputs"] == ["w"]
    assert [value.name for value in onnx.load(tmp_path / "q.onnx").graph.input] == ["x"]


@pytest.mark.parametrize("config, largest", [
    ("FP16_SIMULATED", 65504), ("BF16", 3.3895314e38), ("MXFP4E2M1", 1.5 * 2.0**127), ("MXFP6E2M3", 1.875 * 2.0**127), ("MXFP8E5M2", 1.75 * 2.0**127),
    ("MXINT8", None), ("MX6", None), ("BFP16", None)])
def test_a_weight_beyond_the_largest_value_is_said(config, largest, tmp_path, bitpress):
    weight = random(8, 3, 3, 3)
    weight[0, 0, 0, 0] = 3.4e38
    model = save(tmp_path / "m.onnx", [helper.make_node("Conv", ["x", "w"], ["y"], "c")], [("x", FLOAT, ["N", 3, 8, 8])],
                 [("y", FLOAT, ["N", 8, 6, 6])], {"w": weight})
    text = bitpress.ok("quantize", model, "-o", tmp_path / "q.onnx", "--config", config, "--activations", "none", "--target", "portable",
                       "--json", tmp_path / "q.json")
    (row,) = json.loads((tmp_path / "q.json").read_text())["weights"]
    if largest is None:
        return
    assert row["num_overflowed"] == 1
    assert f"1 of 216 elements of 'w' are beyond the largest value of {row['format']} and became that" in text
    impulse = np.zeros((1, 3, 8, 8), np.float32)
    impulse[0, 0, 0, 0] = 1
    assert run(tmp_path / "q.onnx", {"x": impulse})[0][0, 0, 0, 0] == np.float32(largest)


def test_onnxruntimes_own_format_is_named(tmp_path, bitpress):
    model = save(tmp_path / "m.onnx", [helper.make_node("MatMul", ["x", "w"], ["y"], "m")], [("x", FLOAT, ["N", 32])], [("y", FLOAT, ["N", 8])],
                 {"w": random(32, 8)})
    options = onnxruntime.SessionOptions()
    options.add_session_config_entry("session.save_model_format", "ORT")
    options.optimized_model_filepath = str(tmp_path / "m.ort")
    onnxruntime.InferenceSession(model, options)
    for command in (("quantize", "-o", tmp_path / "q.onnx", "--config", "MX6"), ("inspect",)):
        error = bitpress.error(command[0], tmp_path / "m.ort", *command[1:])
        assert "ONNX Runtime's own format (.ort)" in error and "give the .onnx file" in error


def test_texts_cannot_be_samples(tmp_path, bitpress):
    nodes = [helper.make_node("LabelEncoder", ["s"], ["i"], "ids", domain="ai.onnx.ml", keys_strings=["a", "b"], values_int64s=[0, 1]),
             helper.make_node("Gather", ["table", "i"], ["v"], "look_up"), helper.make_node("MatMul", ["v", "w"], ["y"], "m")]
    graph = helper.make_graph(nodes, "texts", [helper.make_tensor_value_info("s", TensorProto.STRING, ["N"])],
                              [helper.make_tensor_value_info("y", FLOAT, ["N", 8])],
                              [numpy_helper.from_array(random(3, 32), "table"), numpy_helper.from_array(random(32, 8), "w")])
    model = tmp_path / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 15), helper.make_opsetid("ai.onnx.ml", 3)], ir_version=8), model)
    (tmp_path / "samples").mkdir()
    np.save(tmp_path / "samples" / "0.npy", np.array(["a", "b"]))
    error = bitpress.error("quantize", model, "-o", tmp_path / "q.onnx", "--config", "INT8", "--data", tmp_path / "samples")
    assert "0.npy" in error and "the array holds texts ('<U1'), and samples are numbers" in error and "INT8_DYNAMIC" in error
    bitpress.checking.ok("quantize", model, "-o", tmp_path / "q.onnx", "--config", "INT8_DYNAMIC")
    texts = {"s": np.array(["b", "a"])}
    assert sqnr_db(run(model, texts)[0], run(tmp_path / "q.onnx", texts)[0]) > 20


def test_experts_do_not_overwrite_their_input(tmp_path, bitpress):
    """ONNX Runtime's kernel of MoE does where the shapes of input and output have the same names, which inference invents."""
    nodes = [helper.make_node("Reshape", ["x", "shape"], ["rows"], "rows"), helper.make_node("Sigmoid", ["rows"], ["h"], "sigmoid"),
             helper.make_node("MatMul", ["h", "r"], ["routes"], "router"),
             helper.make_node("MoE", ["h", "routes", "up", "", "down"], ["m"], "moe", domain="com.microsoft", activation_type="relu", k=2),
             helper.make_node("MatMul", ["m", "w"], ["y"], "end")]
    constants = {"shape": np.array([-1, 64]), "r": random(64, 4), "up": random(4, 256, 64), "down": random(4, 64, 256), "w": random(64, 64)}
    model = save(tmp_path / "m.onnx", nodes, [("x", FLOAT, ["B", "T", 64])], [("y", FLOAT, None)], constants, domains=["com.microsoft"])
    x = {"x": random(2, 3, 64, scale=1, seed=3)}
    for options in (("--config", "BF16", "--activations", "none"), ("--config", "INT8_WEIGHTS")):
        bitpress.ok("quantize", model, "-o", tmp_path / "q.onnx", *options)
        assert sqnr_db(run(model, x)[0], run(tmp_path / "q.onnx", x)[0]) > 30
