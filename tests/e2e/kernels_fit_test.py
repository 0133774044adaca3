"""What ONNX Runtime's integer kernels cannot do is known before a model is written: it gets another form, or stays float with a reason."""

import json
from collections import Counter

import numpy as np
import onnx
import pytest
from models import save_arrays, save_noise, sqnr_db
from onnx import TensorProto, helper, numpy_helper

node = helper.make_node
value = helper.make_tensor_value_info


def save(model, path):
    """Saves a model whose outputs have no shape, as exporters write them, too."""
    onnx.save(model, path)
    return path


def weight(*shape, seed=5, scale=0.2):
    return (np.random.default_rng(seed).standard_normal(shape) * scale).astype(np.float32)


def net(path, nodes, shapes, constants, opset=17, outputs=("y",)):
    """Saves a model whose inputs have these shapes."""
    graph = helper.make_graph(nodes, "net", [value(name, TensorProto.FLOAT, shape) for name, shape in shapes.items()],
                              [value(name, TensorProto.FLOAT, None) for name in outputs],
                              [numpy_helper.from_array(array, name) for name, array in constants.items()])
    return save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8), path)


def operators(path):
    return Counter(one.op_type for one in onnx.load(path).graph.node)


def plan_of(bitpress, model, *options):
    return {row["value"]: row for row in json.loads(bitpress.ok("plan", model, *options))["tensors"]}


def closeness(run_model, model, quantized, shape, seed=1):
    x = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
    return sqnr_db(run_model(model, {"x": x})[0], run_model(quantized, {"x": x})[0])


@pytest.mark.integers
@pytest.mark.quick
@pytest.mark.parametrize("shape, matrix", [((1, 32, 48), (32, 48)), ((4, 32, 48), (4, 32, 48)), ((1, 4, 32, 48), (1, 4, 32, 48))])
def test_products_with_constants_of_more_dimensions(shape, matrix, tmp_path, bitpress, run_model):
    """A leading dimension of 1 goes. Stacked matrices have one scale between Q/DQ pairs, and one a column in MatMulInteger."""
    model = net(tmp_path / "m.onnx", [node("MatMul", ["x", "w"], ["y"], "m")], {"x": ["N", 4, 12, 32]}, {"w": weight(*shape)})
    samples = save_noise(tmp_path / "samples", (1, 4, 12, 32))
    row = plan_of(bitpress, model, "--config", "INT8")["w"]
    assert row["granularity"] == ("per_axis" if len(matrix) == 2 else "per_tensor")
    quantized = tmp_path / "q.onnx"
    # 38.7 to 45.5 dB were measured on 2026-11-26.
    bitpress.checking.ok("quantize", model, "-o", quantized, "--config", "INT8", "--data", samples)
    assert closeness(run_model, model, quantized, (3, 4, 12, 32)) > 34
    for scales in ("dynamic_rows", "dynamic"):
        bitpress.checking.ok("quantize", model, "-o", quantized, "--config", "INT8_DYNAMIC", "--set", f"activation_range={scales}")
        assert operators(quantized)["MatMulInteger"] == 1
        stored = {one.name: list(one.dims) for one in onnx.load(quantized).graph.initializer}
        assert stored["w_scale"] == [*matrix[:-2], *([] if len(matrix) == 2 else [1]), 48]
        assert closeness(run_model, model, quantized, (3, 4, 12, 32)) > 36


@pytest.mark.integers
def test_a_constant_on_the_left_has_one_scale(tmp_path, bitpress, run_model):
    model = net(tmp_path / "m.onnx", [node("MatMul", ["w", "x"], ["y"], "m")], {"x": [32, 20]}, {"w": weight(48, 32)})
    assert plan_of(bitpress, model, "--config", "INT8")["w"]["granularity"] == "per_tensor"
    bitpress.checking.ok("quantize", model, "-o", tmp_path / "q.onnx", "--config", "INT8", "--data", save_noise(tmp_path / "s", (32, 20)))
    assert closeness(run_model, model, tmp_path / "q.onnx", (32, 20)) > 30


@pytest.mark.integers
@pytest.mark.parametrize("form", ["qdq", "qoperator"])
def test_pools_with_dilations_stay_float(form, tmp_path, bitpress, run_model):
    """QLinearAveragePool has no such attribute; a pool without it is computed on codes."""
    for dilations in ({"dilations": [1, 1]}, {"dilations": [2, 2]}, {}):
        model = net(tmp_path / "m.onnx", [
            node("Conv", ["x", "w"], ["c"], "conv"), node("AveragePool", ["c"], ["p"], "pool", kernel_shape=[2, 2], **dilations),
            node("Conv", ["p", "w2"], ["y"], "conv2")], {"x": [1, 4, 13, 13]}, {"w": weight(8, 4, 3, 3), "w2": weight(4, 8, 1, 1)}, opset=19)
        samples = tmp_path / "samples"
        if not samples.exists():
            save_noise(samples, (1, 4, 13, 13))
        bitpress.checking.ok("quantize", model, "-o", tmp_path / "q.onnx", "--config", "INT8", "--data", samples, "--form", form)
        assert closeness(run_model, model, tmp_path / "q.onnx", (1, 4, 13, 13)) > 28
        if form == "qoperator":
            assert operators(tmp_path / "q.onnx")["QLinearAveragePool"] == (not dilations)


@pytest.mark.integers
@pytest.mark.parametrize("config", ["INT8", "A8W8"])
def test_a_branch_that_no_sample_takes(config, tmp_path, bitpress, run_model):
    """Its product gets the weight decoded, the other branch multiplies the codes."""
    def branch(s):
        return helper.make_graph([node("Sigmoid", ["x"], ["q" + s], "sigmoid" + s), node("MatMul", ["q" + s, "w"], ["a" + s], "product" + s)],
                                 "branch" + s, [], [value("a" + s, TensorProto.FLOAT, None)])
    graph = helper.make_graph([node("If", ["c"], ["y"], "if", then_branch=branch("_t"), else_branch=branch("_e"))], "net",
                              [value("x", TensorProto.FLOAT, ["N", 64]), value("c", TensorProto.BOOL, [])],
                              [value("y", TensorProto.FLOAT, ["N", 64])], [numpy_helper.from_array(weight(64, 64), "w")])
    model = save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "m.onnx")
    rng = np.random.default_rng(3)
    (tmp_path / "samples").mkdir()
    for i in range(8):
        np.savez(tmp_path / "samples" / f"{i}.npz", x=rng.standard_normal((1, 64)).astype(np.float32), c=np.array(True))
    bitpress.checking.ok("quantize", model, "-o", tmp_path / "q.onnx", "--config", config, "--data", tmp_path / "samples")
    for taken in (True, False):
        inputs = {"x": rng.standard_normal((4, 64)).astype(np.float32), "c": np.array(taken)}
        assert sqnr_db(run_model(model, inputs)[0], run_model(tmp_path / "q.onnx", inputs)[0]) > 30


@pytest.mark.integers
def test_biases_that_fine_tuning_adds_to_grouped_transposed_convolutions(tmp_path, bitpress, run_model):
    model = net(tmp_path / "m.onnx", [
        node("Relu", ["x"], ["r"], "relu"), node("ConvTranspose", ["r", "w"], ["d"], "up", group=12, strides=[2, 2]),
        node("Conv", ["d", "w2"], ["y"], "conv")], {"x": [1, 12, 5, 5]}, {"w": weight(12, 1, 4, 4, scale=0.3), "w2": weight(6, 12, 1, 1)})
    samples = save_noise(tmp_path / "samples", (1, 12, 5, 5))
    for config in ("INT8_ADAROUND", "INT8_ADAQUANT"):
        bitpress.checking.ok("quantize", model, "-o", tmp_path / "q.onnx", "--config", config, "--data", samples)
        assert closeness(run_model, model, tmp_path / "q.onnx", (1, 12, 5, 5)) > 28


@pytest.mark.parametrize("config", ["INT8", "INT8_DYNAMIC", "MX6", "INT4_WEIGHTS"])
def test_nodes_with_the_names_that_we_would_give(config, tmp_path, bitpress, run_model):
    """A node keeps its name, and those of ours that it has get a number."""
    names = [f"{one}_{word}" for one in ("x", "c", "w", "w2", "y") for word in
             ("dequantize", "quantize", "quantized", "codes_quantize", "unpack", "cast", "integers", "scale", "scales", "bias", "transpose")]
    nodes = [node("Conv", ["x", "w"], ["c"], "c_quantize")]
    nodes += [node("Relu", ["c" if i == 0 else f"t{i}"], [f"t{i + 1}"], name) for i, name in enumerate(name for name in names if name != "c_quantize")]
    nodes += [node("Flatten", [nodes[-1].output[0]], ["f"], "flat"), node("MatMul", ["f", "w2"], ["y"], "product")]
    model = net(tmp_path / "m.onnx", nodes, {"x": [1, 3, 8, 8]}, {"w": weight(16, 3, 3, 3), "w2": weight(576, 16, scale=0.05)})
    options = ["--data", save_noise(tmp_path / "samples", (1, 3, 8, 8))] if config == "INT8" else []
    bitpress.checking.ok("quantize", model, "-o", tmp_path / "q.onnx", "--config", config, "--as-is", *options)
    found = Counter(one.name for one in onnx.load(tmp_path / "q.onnx").graph.node)
    assert max(found.values()) == 1
    assert closeness(run_model, model, tmp_path / "q.onnx", (1, 3, 8, 8)) > 10


# The equation, the shapes of activation and constant, and the shape of the constant as a matrix.
EQUATIONS = [
    ("abc,cd->abd", (2, 9, 64), (64, 48), [64, 48]), ("abc,dc->abd", (2, 9, 64), (48, 64), [64, 48]),
    ("btd,dnh->btnh", (2, 9, 64), (64, 4, 12), [64, 48]), ("btnh,nhd->btd", (2, 9, 4, 16), (4, 16, 48), [64, 48]),
    ("bnth,nhd->btd", (2, 4, 9, 16), (4, 16, 48), [64, 48]), ("btd,ndh->bnth", (2, 9, 64), (4, 64, 12), [64, 48]),
    ("ca,ab -> bc", (9, 64), (64, 48), [64, 48])]


@pytest.mark.parametrize("equation, data, constant, matrix", EQUATIONS, ids=[one[0] for one in EQUATIONS])
def test_an_einsum_that_is_a_matrix_product_is_one(equation, data, constant, matrix, tmp_path, bitpress, run_model):
    for turned in (False, True):  # the constant first
        left, right = equation.replace(" ", "").split("->")[0].split(",")
        output = equation.replace(" ", "").split("->")[1]
        words = f"{right},{left}->{output}" if turned else equation
        model = net(tmp_path / "m.onnx", [node("Einsum", ["w", "x"] if turned else ["x", "w"], ["y"], "dense", equation=words)],
                    {"x": ["N", *data[1:]]}, {"w": weight(*constant)})
        rows = plan_of(bitpress, model, "--config", "INT8_DYNAMIC", "--rule", "op_types=Einsum: weights=int8")
        assert rows["w"]["format"] == "int8" and rows["w"]["uses"][0]["node"] == "dense"
        bitpress.checking.ok("quantize", model, "-o", tmp_path / "q.onnx", "--config", "INT8_DYNAMIC")
        stored = {one.name: list(one.dims) for one in onnx.load(tmp_path / "q.onnx").graph.initializer}
        assert stored["w_codes"] == matrix and "Einsum" not in operators(tmp_path / "q.onnx")
        assert closeness(run_model, model, tmp_path / "q.onnx", data) > 38
        bitpress.ok("quantize", model, "-o", tmp_path / "float.onnx", "--config", "none")
        assert closeness(run_model, model, tmp_path / "float.onnx", data) > 120


def test_an_einsum_that_stays_is_named(tmp_path, bitpress):
    """A label in all three terms is no matrix product. A constant that two nodes read keeps its shape for the other one."""
    model = net(tmp_path / "m.onnx", [node("Einsum", ["x", "w"], ["y"], "heads", equation="bhtd,hde->bhte")],
                {"x": [1, 8, 5, 64]}, {"w": weight(8, 64, 256)})
    text = bitpress.ok("quantize", model, "-o", tmp_path / "q.onnx", "--config", "INT4_WEIGHTS")
    assert "a constant of Einsum, which is not quantized" in text and operators(tmp_path / "q.onnx")["Einsum"] == 1
    shared = net(tmp_path / "shared.onnx", [
        node("Einsum", ["x", "w"], ["a"], "dense", equation="abc,dc->abd"), node("ReduceSum", ["w"], ["s"], "sum", keepdims=0),
        node("Add", ["a", "s"], ["y"], "add")], {"x": ["N", 9, 64]}, {"w": weight(48, 64)})
    bitpress.ok("quantize", shared, "-o", tmp_path / "q.onnx", "--config", "INT8_DYNAMIC", "--as-is")
    assert operators(tmp_path / "q.onnx")["Einsum"] == 1


@pytest.mark.integers
def test_biases_of_integers_stay_float_if_asked(tmp_path, bitpress, conv_path, photos, run_model):
    for options in (["--set", "biases=none"], ["--rule", "op_types=Conv;Gemm: biases=none"]):
        rows = plan_of(bitpress, conv_path, "--config", "INT8", *options)
        biases = [row for row in rows.values() if row["role"] == "bias"]
        assert biases and all(row["format"] == "none" and row["reason"] == "biases=none" for row in biases)
    assert {row["format"] for row in plan_of(bitpress, conv_path, "--config", "INT8").values() if row["role"] == "bias"} == {"int32"}
    bitpress.checking.ok("quantize", conv_path, "-o", tmp_path / "q.onnx", "--config", "INT8", "--set", "biases=none", "--data", photos)
    assert TensorProto.INT32 not in {one.data_type for one in onnx.load(tmp_path / "q.onnx").graph.initializer}


@pytest.mark.parametrize("rank", [2, 3])
@pytest.mark.parametrize("target", ["onnxruntime", "auto"])
def test_a_bias_of_one_row_is_a_vector(rank, target, tmp_path, bitpress, run_model):
    shape = [4, 64] if rank == 2 else [2, 4, 64]
    model = net(tmp_path / "m.onnx", [node("MatMul", ["x", "w"], ["a"], "product"), node("Add", ["a", "b"], ["y"], "add")],
                {"x": ["N", *shape[1:]]}, {"w": weight(64, 48), "b": weight(*[1] * (rank - 1), 48)})
    config = ["--config", "INT4_WEIGHTS"] if target == "onnxruntime" else ["--config", "MX6"]
    bitpress.checking.ok("quantize", model, "-o", tmp_path / "q.onnx", *config, "--target", target)
    wanted = "MatMulNBits" if target == "onnxruntime" else "MatMul_mx6"
    assert operators(tmp_path / "q.onnx")[wanted] == 1, operators(tmp_path / "q.onnx")
    assert closeness(run_model, model, tmp_path / "q.onnx", shape) > 15


def test_symmetric_codes_of_four_bits_go_to_minus_eight(tmp_path, bitpress, run_model):
    """Weights of whole numbers from -8 to 7 are exact in blocks of each sign, packed, simulated and in MatMulNBits."""
    codes = np.random.default_rng(2).integers(-8, 8, (64, 48))
    codes[0::32] = -8
    for sign in (1, -1):
        model = net(tmp_path / "m.onnx", [node("MatMul", ["x", "w"], ["y"], "m")], {"x": ["N", 64]}, {"w": (codes * sign / 16).astype(np.float32)})
        for options in (["--target", "portable"], ["--target", "onnxruntime", "--accuracy-level", "1"], ["--storage", "simulated"]):
            bitpress.checking.ok("quantize", model, "-o", tmp_path / "q.onnx", "--config", "MATMUL_NBITS", "--set", "weight_block_size=32", *options)
            assert closeness(run_model, model, tmp_path / "q.onnx", (5, 64)) > 100
    random = net(tmp_path / "random.onnx", [node("MatMul", ["x", "w"], ["y"], "m")], {"x": ["N", 256]}, {"w": weight(256, 64)})
    found = {}
    for name, options in {"nearest": [], "mse": ["--set", "weight_range=mse"], "gptq": ["--finetune", "gptq", "--data", save_arrays(
            tmp_path / "samples", np.random.default_rng(1).standard_normal((16, 64, 256)).astype(np.float32))]}.items():
        bitpress.ok("quantize", random, "-o", tmp_path / "q.onnx", "--config", "MATMUL_NBITS", "--set", "weight_block_size=32", *options)
        found[name] = closeness(run_model, random, tmp_path / "q.onnx", (64, 256))
    assert found["nearest"] > 20 and found["mse"] > found["nearest"] and found["gptq"] > found["nearest"] - 0.2, found
