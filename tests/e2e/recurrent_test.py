"""The weights of LSTM, GRU and RNN are quantized, packed, tuned and reported as those of other layers."""

import functools
import json
import re
from collections import Counter

import models
import numpy as np
import onnx
import onnxruntime
import pytest
from models import is_as_measured, sqnr_db
from onnx import TensorProto, helper, numpy_helper

STEPS, INPUTS, HIDDEN = 12, 48, 32
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


def recurrent_model(op="LSTM", direction="bidirectional", bias=True, steps="T", outputs=("all", "last"), **attributes):
    rng = np.random.default_rng(21)
    directions = 2 if direction == "bidirectional" else 1
    rows = GATES[op] * HIDDEN

    def weights(*shape):
        return (rng.standard_normal(shape) * np.sqrt(2 / shape[-1])).astype(np.float32)

    constants = {"w": weights(directions, rows, INPUTS), "r": weights(directions, rows, HIDDEN)}
    if bias:
        constants["b"] = weights(directions, 2 * rows) / 2
    nodes = [helper.make_node(op, ["x", "w", "r", "b" if bias else ""], list(outputs), "cell", hidden_size=HIDDEN,
                              direction=direction, **attributes)]
    shapes = {"all": [steps, directions, "N", HIDDEN], "last": [directions, "N", HIDDEN]}
    return models.make_model(nodes, [("x", [steps, "N", INPUTS])], [(name, shapes[name]) for name in outputs if name], constants)


def sequences(count, seed, steps=STEPS):
    """Returns sequences whose features and steps depend on those beside them, as in speech."""
    rng = np.random.default_rng(seed)
    mix = np.random.default_rng(1).standard_normal((6, INPUTS))
    drift = np.cumsum(rng.standard_normal((count, steps, 1, 6)), axis=1) / 2
    return (drift @ mix + 0.1 * rng.standard_normal((count, steps, 1, INPUTS)) + 0.3).astype(np.float32)


@pytest.fixture(scope="module")
def samples(tmp_path_factory):
    return models.save_arrays(tmp_path_factory.mktemp("sequences") / "samples", sequences(40, 3))


CELLS = {"LSTM": ("LSTM", {}), "GRU": ("GRU", {}), "RNN": ("RNN", {}), "GRU, reset after": ("GRU", {"linear_before_reset": 1}),
         "reverse": ("LSTM", {"direction": "reverse", "bias": False, "outputs": ["", "last"]})}


class Cell:
    """A model of one recurrent node, its outputs, and its quantized models."""

    def __init__(self, folder, name, bitpress, operator_library):
        op, attributes = CELLS[name]
        self.path = models.save(recurrent_model(op, **attributes), folder / "m.onnx")
        self.quantized = models.QuantizedModels(bitpress, self.path, folder)
        self._options = onnxruntime.SessionOptions()
        self._options.log_severity_level = 3
        self._options.register_custom_ops_library(str(operator_library))
        self._wanted = functools.cache(lambda count: self.run(self.path, count))

    def run(self, path, count):
        session = onnxruntime.InferenceSession(str(path), self._options, providers=["CPUExecutionProvider"])
        return np.stack([session.run(None, {"x": x})[0] for x in sequences(count, 9)])

    def sqnr(self, path, count=4):
        """Returns how close a model is to the float one on sequences that nothing was learned from, in dB."""
        return sqnr_db(self._wanted(count), self.run(path, count))


@pytest.fixture(scope="module")
def cell(tmp_path_factory, bitpress, operator_library):
    """cell(name) returns one of CELLS."""
    return functools.cache(lambda name: Cell(tmp_path_factory.mktemp("cell"), name, bitpress, operator_library))


def plan_of(path, config, tmp_path, bitpress, *arguments):
    bitpress.ok("plan", path, "-o", tmp_path / "plan.json", "--config", config, *arguments)
    return {(row["value"], row["role"]): row for row in json.loads((tmp_path / "plan.json").read_text())["tensors"]}


def of_integers(*values):
    return pytest.param(*values, marks=pytest.mark.integers)


# The mean SQNR of LSTM, GRU and RNN. Each is less than 2 dB from it. With INT8_DYNAMIC only the LSTM computes on integers; the others
# stay weight-only as INT8_WEIGHTS. The operators differ in their numbers of gates, which one format of each kind meets.
@pytest.mark.parametrize("op, config, measured", [
    pytest.param("LSTM", "MXINT8", 36.8, marks=pytest.mark.quick), ("LSTM", "MXFP8E4M3", 26.7), ("LSTM", "MX6", 23.4),
    ("LSTM", "BFP16", 38.8), ("LSTM", "BF16", 49.8), ("LSTM", "FP16_SIMULATED", 68.5), ("LSTM", "INT8", 39.4), ("LSTM", "XINT8", 34.0),
    ("LSTM", "A16W8", 35.1), ("LSTM", "INT8_WEIGHTS", 39.4), ("LSTM", "INT4_WEIGHTS", 17.3), of_integers("LSTM", "INT8_DYNAMIC", 33.6),
    ("GRU", "MXINT8", 36.8), ("GRU", "INT8", 39.4), ("GRU", "INT8_DYNAMIC", 40.0), ("GRU", "INT4_WEIGHTS", 17.3), ("RNN", "MXINT8", 36.8),
    ("RNN", "INT8", 39.4), ("RNN", "INT8_DYNAMIC", 40.0)])
def test_every_kind_of_format(op, config, measured, cell, samples, tmp_path):
    cell = cell(op)
    options = ["--config", config, *(["--data", samples] if config in ("INT8", "XINT8", "A16W8") else [])]
    packed = cell.quantized.path(*options)
    onnx.checker.check_model(packed, full_check=True)
    stored = onnx.load(packed).graph.initializer
    assert not {"w", "r"} & {tensor.name for tensor in stored}
    num_bytes = sum(len(tensor.raw_data) for tensor in stored if tensor.name[:2] in ("w_", "r_"))
    num_weights = (2 * GATES[op] * HIDDEN) * (INPUTS + HIDDEN)
    assert 8 * num_bytes / num_weights < {"INT4_WEIGHTS": 5.5, "MX6": 6.1, "BF16": 16.1, "FP16_SIMULATED": 16.1}.get(config, 9.5)
    assert is_as_measured(cell.sqnr(packed), measured)
    if config != "INT8_DYNAMIC":
        simulated = cell.quantized.path(*options, "--storage", "simulated")
        assert np.array_equal(cell.run(packed, 1), cell.run(simulated, 1))
        # No weight is decoded at inference.
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        options.optimized_model_filepath = str(tmp_path / "optimized.onnx")
        onnxruntime.InferenceSession(str(packed), options, providers=["CPUExecutionProvider"])
        ops = Counter(node.op_type for node in onnx.load(tmp_path / "optimized.onnx").graph.node)
        assert ops[op] == 1 and "DequantizeLinear" not in ops


def test_the_plan(tmp_path, bitpress):
    path = models.save(recurrent_model(), tmp_path / "m.onnx")
    rows = plan_of(path, "MXINT8", tmp_path, bitpress)
    assert [(rows[name, "weight"]["format"], rows[name, "weight"]["axis"]) for name in "wr"] == [("mxint8", 2)] * 2
    assert ("x", "activation") not in rows  # its states cannot be quantized, so what meets them is not either
    assert "stay float unless asked" in rows["b", "bias"]["reason"]
    for config in ("INT8", "INT8_DYNAMIC"):
        rows = plan_of(path, config, tmp_path, bitpress)
        assert [rows[name, "weight"]["block_size"] for name in "wr"] == [INPUTS, HIDDEN]
    rows = plan_of(path, "BF16", tmp_path, bitpress, "--set", "biases=bf16", "--set", "placement=all")
    assert rows["b", "bias"]["format"] == rows["x", "activation"]["format"] == "bf16"
    rows = plan_of(path, "MXINT8", tmp_path, bitpress, "--rule", "tensors=r: weights=mxfp4_e2m1")
    assert (rows["w", "weight"]["format"], rows["r", "weight"]["format"]) == ("mxint8", "mxfp4_e2m1")
    rows = plan_of(path, "MXINT8", tmp_path, bitpress, "--rule", "op_types=LSTM: exclude")
    assert rows["w", "weight"]["format"] == "none"


@pytest.mark.integers
def test_behind_an_integer_convolution(tmp_path, bitpress, run_model):
    """The node reads a value that integers give, but its weights are not multiplied by integers."""
    model = recurrent_model(outputs=("all",))
    rng = np.random.default_rng(2)
    kernel = (rng.standard_normal((INPUTS, 8, 3)) / 5).astype(np.float32)
    nodes = [helper.make_node("Conv", ["image", "kernel"], ["features"], "conv", pads=[1, 1]),
             helper.make_node("Transpose", ["features"], ["x"], "move", perm=[2, 0, 1]), *model.graph.node]
    constants = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    path = models.save(models.make_model(nodes, [("image", [1, 8, STEPS])], [("all", [STEPS, 2, 1, HIDDEN]), ("features", [1, INPUTS, STEPS])],
                                         {**constants, "kernel": kernel}), tmp_path / "m.onnx")
    images = rng.standard_normal((8, 1, 8, STEPS)).astype(np.float32)
    samples = models.save_arrays(tmp_path / "samples", images)
    text = bitpress.checking.ok("quantize", path, "-o", tmp_path / "q.onnx", "--config", "INT8", "--data", samples)
    assert "ONNX Runtime has no integer kernel for LSTM" in text
    onnx.checker.check_model(tmp_path / "q.onnx", full_check=True)
    stored = onnx.load(tmp_path / "q.onnx")
    ops = Counter(node.op_type for node in stored.graph.node)
    assert ops["Unpack_int8"] == 2 and ops["DequantizeLinear"] >= 2 and ops["LSTM"] == 1
    types = {tensor.name: tensor.data_type for tensor in stored.graph.initializer}
    assert types["b"] == TensorProto.FLOAT and types["w_codes"] == TensorProto.INT8
    wanted, found = (run_model(p, {"image": images[0]})[0] for p in (path, tmp_path / "q.onnx"))
    assert is_as_measured(sqnr_db(wanted, found), 34.8)


# Signed codes with a zero point and unsigned ones without are of the LSTM, whose kernel takes both.
@pytest.mark.parametrize("op, weights, symmetric", [
    of_integers("LSTM", "int8", "true"), of_integers("LSTM", "int8", "false"), of_integers("LSTM", "uint8", "true"),
    of_integers("LSTM", "uint8", "false"), ("GRU", "int8", "true"), ("GRU", "uint8", "false")])
@pytest.mark.parametrize("granularity", ["per_axis", "per_tensor"])
def test_dynamic_weights(op, granularity, weights, symmetric, cell):
    output = cell(op).quantized.path("--config", "INT8_DYNAMIC", "--weights", weights, "--set", f"weight_symmetric={symmetric}", "--set",
                                     f"weight_granularity={granularity}")
    onnx.checker.check_model(output, full_check=True)
    measured = {"LSTM": 32.9, "GRU": {"per_axis": 39.3, "per_tensor": 35.3}[granularity]}[op]
    assert is_as_measured(cell(op).sqnr(output), measured)


PLACED = ["--set", "placement=all"]


@pytest.mark.parametrize("biases, options, measured", [
    ("int8", [], 37.7), ("int16", [], 37.7), ("int32", [], 37.7), ("int8", PLACED, 32.7), ("int32", PLACED, 32.7),
    ("int16", ["--set", "weight_granularity=per_tensor", *PLACED], 30.8)])
def test_biases_of_integers(biases, options, measured, cell, samples):
    options = ["--config", "INT8", "--set", f"biases={biases}", "--data", samples, *options]
    assert "SQNR 0.0 dB" not in cell("LSTM").quantized.text(*options)
    output = cell("LSTM").quantized.path(*options)
    onnx.checker.check_model(output, full_check=True)
    floats = {tensor.name for tensor in onnx.load(output).graph.initializer if tensor.data_type == TensorProto.FLOAT}
    assert ("b" in floats) == (biases == "int32")  # which has the scale of products of integers
    assert is_as_measured(cell("LSTM").sqnr(output), measured)


# INT8_DYNAMIC is of LSTM, the only one with a dynamic form.
@pytest.mark.parametrize("name, config", [
    ("LSTM", "MX6"), ("LSTM", "MXFP4E2M1"), ("LSTM", "INT4_WEIGHTS"), of_integers("LSTM", "INT8_DYNAMIC"),
    ("GRU, reset after", "MXFP4E2M1"), ("GRU, reset after", "INT4_WEIGHTS"), ("RNN", "MX6"), ("reverse", "INT4_WEIGHTS"), of_integers("reverse", "INT8_DYNAMIC")])
def test_tuned_is_closer(name, config, cell, samples):
    cell = cell(name)
    direct = cell.sqnr(cell.quantized.path("--config", config), 16)
    for recipe in ("gptq", "adaquant"):
        options = ["--config", config, "--data", samples, "--finetune", recipe]
        assert re.search(r"fine-tuned: +2 of 2 layers", cell.quantized.text(*options))
        onnx.checker.check_model(cell.quantized.path(*options), full_check=True)
        assert cell.sqnr(cell.quantized.path(*options), 16) > direct + 0.3


def test_threads(cell, samples):
    cell = cell("LSTM")
    learned = ["--config", "MX6_ADAQUANT", "--data", samples]
    one, three = (cell.quantized.path(*learned, "--threads", count) for count in (1, 3))
    assert one.read_bytes() == three.read_bytes()


def test_samples_to_learn_nothing_from(cell, tmp_path, run_model):
    odd = sequences(9, 3)
    odd[..., 5:] = 0  # features that never come in
    odd[4, 0, 0, 0] = np.nan
    output = cell("LSTM").quantized.path("--config", "MX6_ADAQUANT", "--data", models.save_arrays(tmp_path / "odd", odd))
    for output in run_model(output, {"x": sequences(1, 9)[0]}):
        assert np.isfinite(output).all()


def test_states_behind_a_gate_are_only_rounded(cell, samples):
    text = cell("GRU").quantized.text("--config", "MX6", "--finetune", "gptq", "--data", samples)
    assert re.search(r"fine-tuned: +1 of 2 layers", text) and "linear_before_reset 0" in text


@pytest.mark.parametrize("config,granularity", [("MXINT8", "per_axis"), ("INT8_WEIGHTS", "per_block"), ("INT8_DYNAMIC", "per_axis"),
                                                ("INT8_DYNAMIC", "per_tensor")])
def test_report_and_unpack(config, granularity, cell, tmp_path, bitpress, run_model):
    packed = cell("LSTM").quantized.path("--config", config, "--set", f"weight_granularity={granularity}")
    bitpress.ok("report", packed, "--reference", cell("LSTM").path, "-o", tmp_path / "r.html", "--json", tmp_path / "r.json")
    [layer] = json.loads((tmp_path / "r.json").read_text())["layers"]
    assert [weight["tensor"] for weight in layer["weights"]] == ["w", "r"]
    assert all(30 < weight["sqnr_db"] < 50 for weight in layer["weights"])
    if config == "INT8_DYNAMIC":
        return
    bitpress.ok("unpack", packed, "-o", tmp_path / "floats.onnx")
    x = {"x": sequences(1, 9)[0]}
    for wanted, found in zip(run_model(packed, x), run_model(tmp_path / "floats.onnx", x)):
        assert np.array_equal(wanted, found)


def test_search_decides_it_as_a_layer(samples, tmp_path, bitpress):
    path = models.save(recurrent_model(), tmp_path / "m.onnx")
    bitpress.ok("search", path, "-o", tmp_path / "plan.json", "--candidates", "mx4,mxint8", "--cost", "mac_bits", "--data", samples,
                "--target", "sqnr>=30", "--json", tmp_path / "s.json")
    found = json.loads((tmp_path / "s.json").read_text())
    assert found["front"][found["chosen"]]["layers"] == {"cell": "mxint8"}
    rows = {row["value"]: row for row in json.loads((tmp_path / "plan.json").read_text())["tensors"]}
    assert rows["w"]["format"] == rows["r"]["format"] == "mxint8"
    bitpress.ok("sensitivity", path, "--candidates", "mx4", "--data", samples, "-o", tmp_path / "layers.json")
    [layer] = json.loads((tmp_path / "layers.json").read_text())["layers"]
    assert layer["macs"] == STEPS * 2 * GATES["LSTM"] * HIDDEN * (INPUTS + HIDDEN)


def time_models():
    """Maps names to a model, one of its inputs, and the number of samples in that input."""
    rng = np.random.default_rng(8)
    sequence = sequences(1, 9)[0]
    cell = helper.make_node("LSTM", ["e", "w", "r"], ["all"], "cell", hidden_size=HIDDEN, direction="bidirectional")
    constants = {tensor.name: numpy_helper.to_array(tensor) for tensor in recurrent_model(bias=False).graph.initializer}
    table = {**constants, "table": rng.standard_normal((20, INPUTS)).astype(np.float32)}
    outputs = [("all", ["T", 2, "N", HIDDEN])]

    words = models.make_model([helper.make_node("Gather", ["table", "x"], ["e"], "embed"), cell], [("x", ["T", "N"])], outputs, table)
    words.graph.input[0].type.tensor_type.elem_type = TensorProto.INT64
    swapped = [helper.make_node("Transpose", ["x"], ["e"], "swap", perm=[1, 0, 2]), cell]
    return {"features": (recurrent_model(steps="T", outputs=("all",)), sequence, 1),
            "fixed": (recurrent_model(steps=STEPS, outputs=("all",)), np.concatenate([sequence, sequence]), 2 * STEPS),
            "words": (words, rng.integers(0, 20, (STEPS, 1)), 1),
            "batch first": (models.make_model(swapped, [("x", ["N", "T", INPUTS])], outputs, constants), sequence.repeat(3, 1), STEPS)}


@pytest.mark.parametrize("name", time_models())
def test_time_is_no_batch(name, tmp_path, bitpress, run_model):
    """If the first dimension is time, a file is one sample, so that states of later steps are seen too."""
    model, x, num_samples = time_models()[name]
    path = models.save(model, tmp_path / "m.onnx")
    (tmp_path / "samples").mkdir()
    np.save(tmp_path / "samples" / "0.npy", x)
    bitpress.ok("evaluate", path, "--data", tmp_path / "samples", "--json", tmp_path / "e.json")
    assert json.loads((tmp_path / "e.json").read_text())["num_samples"] == num_samples
    if num_samples > 1:
        return
    bitpress.ok("calibrate", path, "-o", tmp_path / "s.bpc", "--data", tmp_path / "samples")
    rows = {line.split()[0]: line.split() for line in bitpress.ok("inspect", tmp_path / "s.bpc").splitlines()[2:]}
    found = run_model(path, {"x": x})[0]
    assert float(rows["all"][2]) == pytest.approx(found.min(), rel=1e-3) and float(rows["all"][3]) == pytest.approx(found.max(), rel=1e-3)
