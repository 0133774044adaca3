"""Preparation changes nothing: what it makes loads, is not larger, and gives the outputs of the given model; what does not is undone and
named."""

import models
import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper


def weights(*shape, seed=1):
    return (np.random.default_rng(seed).standard_normal(shape) / 4).astype(np.float32)


def outputs(path, feeds):
    return onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"]).run(None, feeds)


def decibels(exact, approximate):
    error = np.sum((exact.astype(np.float64) - approximate) ** 2)
    return 10 * np.log10(np.sum(exact.astype(np.float64) ** 2) / max(error, 1e-30))


def make(nodes, constants, shape, opset=18, dtype=TensorProto.FLOAT):
    graph = helper.make_graph(nodes, "test", [helper.make_tensor_value_info("x", dtype, shape)],
                              [helper.make_tensor_value_info("y", dtype, None)],
                              [numpy_helper.from_array(array, name) for name, array in constants.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def write(model, path):
    path.write_bytes(model.SerializeToString())
    return path


def test_a_float16_network_with_prelu(bitpress, run_model, tmp_path):
    """ONNX Runtime writes PRelu's function with a FLOAT zero, which does not load."""
    half = np.float16
    nodes = [helper.make_node("Conv", ["x", "w"], ["c"], "conv"),
             helper.make_node("BatchNormalization", ["c", "g", "b", "m", "v"], ["n"], "norm"),
             helper.make_node("PRelu", ["n", "slope"], ["p"], "prelu"), helper.make_node("Conv", ["p", "w2"], ["y"], "conv2")]
    constants = {"w": weights(8, 3, 3, 3).astype(half), "w2": weights(8, 8, 1, 1).astype(half), "slope": weights(8, 1, 1).astype(half),
                 **{name: (np.abs(weights(8)) + 1).astype(half) for name in ("g", "b", "m", "v")}}
    given = write(make(nodes, constants, ["N", 3, 8, 8], 17, TensorProto.FLOAT16), tmp_path / "given.onnx")
    text = bitpress.ok("quantize", given, "-o", tmp_path / "q.onnx", "--config", "MX9")
    assert "undone" not in text
    written = onnx.load(tmp_path / "q.onnx")
    kinds = [node.op_type for node in written.graph.node]
    assert "PRelu" in kinds and "BatchNormalization" not in kinds and "Less" not in kinds
    x = weights(2, 3, 8, 8, seed=3).astype(half)
    assert decibels(outputs(given, {"x": x})[0], run_model(tmp_path / "q.onnx", {"x": x})[0]) > 35


@pytest.mark.parametrize("op_type", ["Tile", "Expand", "ConstantOfShape", "ScatterND"])
def test_no_constant_grows(bitpress, run_model, tmp_path, op_type):
    small, big = [1, 16, 1, 1], [1, 16, 64, 64]
    made = {"Tile": ([helper.make_node("Tile", ["small", "reps"], ["t"], "grow")], {"small": weights(*small), "reps": np.array([1, 1, 64, 64])}),
            "Expand": ([helper.make_node("Expand", ["small", "shape"], ["t"], "grow")], {"small": weights(*small), "shape": np.array(big)}),
            "ConstantOfShape": ([helper.make_node("ConstantOfShape", ["shape"], ["t"], "grow",
                                                  value=numpy_helper.from_array(np.array([0.5], np.float32)))], {"shape": np.array(big)}),
            "ScatterND": ([helper.make_node("ConstantOfShape", ["shape"], ["zeros"], "zeros"),
                           helper.make_node("ScatterND", ["zeros", "places", "values"], ["t"], "grow")],
                          {"shape": np.array(big), "places": np.array([[0, 1, 2, 3], [0, 5, 6, 7]]), "values": weights(2)})}[op_type]
    nodes = [*made[0], helper.make_node("Conv", ["x", "w"], ["c"], "conv", pads=[1, 1, 1, 1]), helper.make_node("Add", ["c", "t"], ["y"], "add")]
    given = write(make(nodes, {"w": weights(16, 3, 3, 3), **made[1]}, [1, 3, 64, 64], 17), tmp_path / "given.onnx")
    text = bitpress.ok("quantize", given, "-o", tmp_path / "q.onnx", "--config", "MX9")
    assert "computed at load as before" in text and "'t'" in text
    assert (tmp_path / "q.onnx").stat().st_size < 60_000
    x = weights(1, 3, 64, 64, seed=3)
    assert decibels(outputs(given, {"x": x})[0], run_model(tmp_path / "q.onnx", {"x": x})[0]) > 35


def test_weights_that_are_decoded_are_folded(bitpress, tmp_path):
    """As many elements as before: INT8 behind Cast and Mul is a weight, although its floats take more bytes."""
    nodes = [helper.make_node("Cast", ["codes"], ["floats"], "cast", to=1), helper.make_node("Mul", ["floats", "scale"], ["w"], "mul"),
             helper.make_node("MatMul", ["x", "w"], ["y"], "product")]
    constants = {"codes": np.random.default_rng(2).integers(-127, 128, (512, 512), np.int8), "scale": np.abs(weights(512))}
    given = write(make(nodes, constants, ["N", 512], 17), tmp_path / "given.onnx")
    bitpress.ok("quantize", given, "-o", tmp_path / "q.onnx", "--config", "INT4_WEIGHTS")
    assert "Cast" not in [node.op_type for node in onnx.load(tmp_path / "q.onnx").graph.node]
    assert (tmp_path / "q.onnx").stat().st_size < 200_000


def decoded_layers(op_type):
    """Three layers whose weights are stored as INT8 behind Cast and Mul, as exports of PyTorch and Paddle have them."""
    shape, product = {"MatMul": ([96, 96], "MatMul"), "Conv": ([32, 32, 3, 3], "Conv")}[op_type]
    rng = np.random.default_rng(2)
    nodes, constants, last = [], {}, "x"
    for i in range(3):
        constants |= {f"codes{i}": rng.integers(-127, 128, shape).astype(np.int8),
                      f"scale{i}": (rng.uniform(0.5, 1, shape[1] if op_type == "MatMul" else [shape[0], 1, 1, 1]) / 700).astype(np.float32)}
        nodes += [helper.make_node("Cast", [f"codes{i}"], [f"floats{i}"], f"cast{i}", to=1),
                  helper.make_node("Mul", [f"floats{i}", f"scale{i}"], [f"w{i}"], f"mul{i}"),
                  helper.make_node(product, [last, f"w{i}"], [f"p{i}"], f"layer{i}"),
                  helper.make_node("Relu", [f"p{i}"], [f"r{i}" if i < 2 else "y"], f"relu{i}")]
        last = f"r{i}"
    return make(nodes, constants, [1, *([7, 96] if op_type == "MatMul" else [32, 16, 16])], 17)


@pytest.mark.parametrize("op_type", ["MatMul", "Conv"])
@pytest.mark.parametrize("config", ["INT8", "INT8_DYNAMIC", "INT8_WEIGHTS"])
def test_decoded_weights_become_codes_again(bitpress, run_model, tmp_path, op_type, config):
    """The file does not grow to the floats that the codes mean, and its size makes no activations float."""
    given = write(decoded_layers(op_type), tmp_path / "given.onnx")
    samples = models.save_noise(tmp_path / "samples", [1, 7, 96] if op_type == "MatMul" else [1, 32, 16, 16], 8)
    text = bitpress.ok("quantize", given, "-o", tmp_path / "q.onnx", "--config", config, "--data", samples, "--verbose")
    assert (tmp_path / "q.onnx").stat().st_size < 1.25 * given.stat().st_size + 5000
    assert "file size" not in text
    kinds = [node.op_type for node in onnx.load(tmp_path / "q.onnx").graph.node]
    if config == "INT8":
        assert kinds.count("QuantizeLinear") >= 3
    if config == "INT8_DYNAMIC" and op_type == "MatMul":
        assert kinds.count("MatMulInteger") == 3
    x = np.load(next(iter(sorted(samples.iterdir()))))
    assert decibels(outputs(given, {"x": x})[0], run_model(tmp_path / "q.onnx", {"x": x})[0]) > 28


@pytest.mark.parametrize("op_type", ["Pad", "Resize"])
def test_axes_survive_a_change_of_layout(bitpress, run_model, tmp_path, op_type):
    middle = {"Pad": (helper.make_node("Pad", ["c", "p", "", "axes"], ["q"], "middle"), {"p": np.array([1, 2, 1, 2]), "axes": np.array([2, -1])}),
              "Resize": (helper.make_node("Resize", ["c", "", "s"], ["q"], "middle", axes=[2, 3], mode="nearest",
                                          coordinate_transformation_mode="asymmetric", nearest_mode="floor"),
                         {"s": np.array([2, 3], np.float32)})}[op_type]
    nodes = [helper.make_node("Conv", ["x", "w"], ["c"], "conv"), middle[0], helper.make_node("Conv", ["q", "w2"], ["y"], "conv2")]
    given = write(make(nodes, {"w": weights(8, 8, 3, 3), "w2": weights(8, 8, 3, 3, seed=2), **middle[1]}, [1, 8, 12, 12]), tmp_path / "given.onnx")
    samples = models.save_noise(tmp_path / "samples", [1, 8, 12, 12], 4)
    bitpress.ok("quantize", given, "-o", tmp_path / "q.onnx", "--config", "INT8", "--data", samples)
    x = np.load(samples / "00.npy")
    exact, result = outputs(given, {"x": x})[0], run_model(tmp_path / "q.onnx", {"x": x})[0]
    assert exact.shape == result.shape and decibels(exact, result) > 20


def test_computed_sizes_get_all_axes_too(bitpress, run_model, tmp_path):
    nodes = [helper.make_node("Shape", ["x"], ["all"], "shape"), helper.make_node("Slice", ["all", "two", "four"], ["own"], "slice"),
             helper.make_node("Mul", ["own", "twice"], ["sizes"], "mul"), helper.make_node("Conv", ["x", "w"], ["c"], "conv"),
             helper.make_node("Resize", ["c", "", "", "sizes"], ["y"], "up", axes=[3, 2][::-1], mode="linear")]
    constants = {"w": weights(8, 3, 1, 1), "two": np.array([2]), "four": np.array([4]), "twice": np.array([2])}
    given = write(make(nodes, constants, ["N", 3, "H", "W"]), tmp_path / "given.onnx")
    bitpress.ok("quantize", given, "-o", tmp_path / "q.onnx", "--config", "MX9")
    x = weights(2, 3, 5, 6, seed=3)
    exact, result = outputs(given, {"x": x})[0], run_model(tmp_path / "q.onnx", {"x": x})[0]
    assert exact.shape == result.shape and decibels(exact, result) > 35


def test_a_deprecated_operator_is_the_models_right(bitpress, run_model, tmp_path):
    nodes = [helper.make_node("Conv", ["x", "w"], ["c"], "conv"), helper.make_node("GroupNormalization", ["c", "g", "b"], ["y"], "norm", num_groups=4)]
    given = write(make(nodes, {"w": weights(8, 3, 3, 3), "g": weights(4), "b": weights(4, seed=2)}, [1, 3, 8, 8]), tmp_path / "given.onnx")
    x = weights(1, 3, 8, 8, seed=3)
    for extra in ([], ["--as-is"]):
        bitpress.ok("quantize", given, "-o", tmp_path / "q.onnx", "--config", "MX9", *extra)
        assert decibels(outputs(given, {"x": x})[0], run_model(tmp_path / "q.onnx", {"x": x})[0]) > 35


def test_nothing_but_constants(bitpress, tmp_path):
    nodes = [helper.make_node("Shape", ["x"], ["s"], "shape"), helper.make_node("Cast", ["s"], ["y"], "cast", to=1)]
    given = write(make(nodes, {}, [2, 3]), tmp_path / "given.onnx")
    text = bitpress.ok("quantize", given, "-o", tmp_path / "q.onnx", "--config", "MX6")
    assert "pass optimize was undone: all nodes compute constants" in text
    assert outputs(tmp_path / "q.onnx", {"x": weights(2, 3)})[0].tolist() == [2, 3]


def test_graphs_without_names(bitpress, tmp_path):
    model = make([helper.make_node("MatMul", ["x", "w"], ["y"], "product")], {"w": weights(64, 64)}, ["N", 64], 17)
    model.graph.name = ""
    bitpress.ok("quantize", write(model, tmp_path / "given.onnx"), "-o", tmp_path / "q.onnx", "--config", "MX6")


def test_a_missing_operator_leads_to_as_is(bitpress, tmp_path):
    nodes = [helper.make_node("MatMul", ["x", "w"], ["a"], "product"), helper.make_node("Mystery", ["a"], ["y"], "odd", domain="somewhere")]
    model = make(nodes, {"w": weights(64, 64)}, ["N", 64], 17)
    model.opset_import.append(helper.make_opsetid("somewhere", 1))
    given = write(model, tmp_path / "given.onnx")
    error = bitpress.error("quantize", given, "-o", tmp_path / "q.onnx", "--config", "MX6")
    assert "Mystery 'odd'" in error and "--as-is" in error
    bitpress.ok("quantize", given, "-o", tmp_path / "q.onnx", "--config", "MX6", "--as-is")


@pytest.mark.parametrize("place", ["initializer", "constant"])
def test_sparse_tensors(bitpress, run_model, tmp_path, place):
    """ONNX Runtime writes their indices in types that ONNX's checker refuses."""
    places = np.arange(0, 64 * 64, 37)
    sparse = helper.make_sparse_tensor(numpy_helper.from_array(weights(len(places)), "w"), numpy_helper.from_array(places, "places"), [64, 64])
    nodes = [helper.make_node("MatMul", ["x", "w"], ["a"], "first"), helper.make_node("MatMul", ["a", "w2"], ["y"], "second")]
    if place == "constant":
        nodes.insert(0, helper.make_node("Constant", [], ["w"], "table", sparse_value=sparse))
    model = make(nodes, {"w2": weights(64, 64)}, ["N", 64], 17)
    if place == "initializer":
        model.graph.sparse_initializer.append(sparse)
    given = write(model, tmp_path / "given.onnx")
    x = weights(3, 64, seed=3)
    for extra in ([], ["--as-is"]):
        bitpress.ok("quantize", given, "-o", tmp_path / "q.onnx", "--config", "MX9", *extra)
        assert decibels(outputs(given, {"x": x})[0], run_model(tmp_path / "q.onnx", {"x": x})[0]) > 35


def test_documentation_stays(bitpress, tmp_path):
    model = make([helper.make_node("MatMul", ["x", "w"], ["y"], "product", doc_string="of the node")], {"w": weights(64, 64)}, ["N", 64], 11)
    model.ir_version, model.doc_string, model.graph.doc_string, model.graph.input[0].doc_string = 6, "of the model", "of the graph", "of the input"
    written_model = write(model, tmp_path / "given.onnx")
    bitpress.ok("quantize", written_model, "-o", tmp_path / "q.onnx", "--config", "MX6", "--target", "portable")
    written = onnx.load(tmp_path / "q.onnx")
    assert written.opset_import[0].version == 13
    assert (written.doc_string, written.graph.doc_string, written.graph.input[0].doc_string) == ("of the model", "of the graph", "of the input")


@pytest.fixture
def ill_conditioned(tmp_path):
    """A product that ignores a channel of 1e10. Rotated, that channel is in all others, whose small values are lost."""
    w = weights(64, 8)
    w[3] = 0
    samples = weights(8, 64, seed=3)
    samples[:, 3] = 1e10
    (tmp_path / "samples").mkdir()
    for i, sample in enumerate(samples):
        np.save(tmp_path / "samples" / f"{i}.npy", sample[None])
    given = write(make([helper.make_node("MatMul", ["x", "w"], ["y"], "product")], {"w": w}, ["N", 64], 17), tmp_path / "given.onnx")
    return given, tmp_path / "samples"


ROTATED = ["--config", "MX9", "--activations", "none", "--set", "rotate=16"]


def test_a_pass_that_changes_outputs_is_undone(bitpress, tmp_path, ill_conditioned):
    given, samples = ill_conditioned
    text = bitpress.checking.ok("quantize", given, "-o", tmp_path / "q.onnx", *ROTATED, "--data", samples)
    assert "WARNING: pass rotate was undone, because it changes output 'y' by more than the rounding of floats" in text
    assert "far from that of the given model" not in text
    assert "Rotate_16" not in [node.op_type for node in onnx.load(tmp_path / "q.onnx").graph.node]


def test_a_plan_keeps_a_pass_that_changes_outputs(bitpress, tmp_path, ill_conditioned):
    """Its values are those that the pass made, so that the user is told what to do."""
    given, samples = ill_conditioned
    bitpress.ok("plan", given, "-o", tmp_path / "plan.json", *ROTATED)
    text = bitpress.checking.ok("quantize", given, "-o", tmp_path / "q.onnx", "--plan", tmp_path / "plan.json", "--data", samples)
    assert "WARNING: pass rotate of the preparation changes output 'y'" in text
    assert "Rotate_16" in [node.op_type for node in onnx.load(tmp_path / "q.onnx").graph.node]
