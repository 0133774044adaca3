"""The weights of LSTM, GRU and RNN are quantized, packed, tuned and reported as those of other layers."""

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


@pytest.fixture
def samples(tmp_path):
    folder = tmp_path / "samples"
    folder.mkdir()
    for i, sequence in enumerate(sequences(40, 3)):
        np.save(folder / f"{i:02}.npy", sequence)
    return folder


def run_all(path, unseen, run_model):
    return np.stack([run_model(path, {"x": x})[0] for x in unseen])


def plan_of(path, config, tmp_path, bitpress, *arguments):
    bitpress.ok("plan", path, "-o", tmp_path / "plan.json", "--config", config, *arguments)
    return {(row["value"], row["role"]): row for row in json.loads((tmp_path / "plan.json").read_text())["tensors"]}


# The mean SQNR of LSTM, GRU and RNN. Each is less than 2 dB from it. INT8_DYNAMIC is the mean of GRU and RNN, which stay
# weight-only as INT8_WEIGHTS; the LSTM computes on integers.
@pytest.mark.parametrize("config, measured", [
    ("MXINT8", 36.8), ("MXFP8E4M3", 26.7), ("MX6", 23.4), ("BFP16", 38.8), ("BF16", 49.8), ("FP16", 68.5), ("INT8", 39.4), ("XINT8", 34.0),
    ("A16W8", 35.1), ("INT8_WEIGHTS", 39.4), ("INT4_WEIGHTS", 17.3), ("INT8_DYNAMIC", 40.0)])
@pytest.mark.parametrize("op", GATES)
def test_every_kind_of_format(op, config, measured, samples, tmp_path, bitpress, run_model):
    path = models.save(recurrent_model(op), tmp_path / "m.onnx")
    packed, simulated = tmp_path / "q.onnx", tmp_path / "s.onnx"
    data = ["--data", samples] if config in ("INT8", "XINT8", "A16W8") else []
    bitpress.ok("quantize", path, "-o", packed, "--config", config, *data)
    onnx.checker.check_model(packed, full_check=True)
    stored = onnx.load(packed).graph.initializer
    assert not {"w", "r"} & {tensor.name for tensor in stored}
    num_bytes = sum(len(tensor.raw_data) for tensor in stored if tensor.name[:2] in ("w_", "r_"))
    num_weights = (2 * GATES[op] * HIDDEN) * (INPUTS + HIDDEN)
    assert 8 * num_bytes / num_weights < {"INT4_WEIGHTS": 5.5, "MX6": 6.1, "BF16": 16.1, "FP16": 16.1}.get(config, 9.5)
    unseen = sequences(4, 9)
    wanted, found = run_all(path, unseen, run_model), run_all(packed, unseen, run_model)
    assert is_as_measured(sqnr_db(wanted, found), 33.6 if (op, config) == ("LSTM", "INT8_DYNAMIC") else measured)
    if config != "INT8_DYNAMIC":
        bitpress.ok("quantize", path, "-o", simulated, "--config", config, "--storage", "simulated", *data)
        assert np.array_equal(found, run_all(simulated, unseen, run_model))
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
    (tmp_path / "samples").mkdir()
    for i, image in enumerate(images):
        np.save(tmp_path / "samples" / f"{i}.npy", image)
    text = bitpress.ok("quantize", path, "-o", tmp_path / "q.onnx", "--config", "INT8", "--data", tmp_path / "samples")
    assert "ONNX Runtime has no integer kernel for LSTM" in text
    onnx.checker.check_model(tmp_path / "q.onnx", full_check=True)
    stored = onnx.load(tmp_path / "q.onnx")
    ops = Counter(node.op_type for node in stored.graph.node)
    assert ops["Unpack_int8"] == 2 and ops["DequantizeLinear"] >= 2 and ops["LSTM"] == 1
    types = {tensor.name: tensor.data_type for tensor in stored.graph.initializer}
    assert types["b"] == TensorProto.FLOAT and types["w_codes"] == TensorProto.INT8
    wanted, found = (run_model(p, {"image": images[0]})[0] for p in (path, tmp_path / "q.onnx"))
    assert is_as_measured(sqnr_db(wanted, found), 34.8)


@pytest.mark.parametrize("symmetric", ["true", "false"])
@pytest.mark.parametrize("weights", ["int8", "uint8"])
@pytest.mark.parametrize("granularity", ["per_axis", "per_tensor"])
@pytest.mark.parametrize("op", ["LSTM", "GRU"])
def test_dynamic_weights(op, granularity, weights, symmetric, tmp_path, bitpress, run_model):
    path = models.save(recurrent_model(op), tmp_path / "m.onnx")
    bitpress.ok("quantize", path, "-o", tmp_path / "q.onnx", "--config", "INT8_DYNAMIC", "--weights", weights, "--set",
                f"weight_symmetric={symmetric}", "--set", f"weight_granularity={granularity}")
    onnx.checker.check_model(tmp_path / "q.onnx", full_check=True)
    unseen = sequences(2, 9)
    measured = {"LSTM": 32.9, "GRU": {"per_axis": 39.3, "per_tensor": 35.3}[granularity]}[op]
    assert is_as_measured(sqnr_db(run_all(path, unseen, run_model), run_all(tmp_path / "q.onnx", unseen, run_model)), measured)


@pytest.mark.parametrize("biases", ["int8", "int16", "int32"])
@pytest.mark.parametrize("options, measured", [([], 37.7), (["--set", "placement=all"], 32.7),
                                               (["--set", "weight_granularity=per_tensor", "--set", "placement=all"], 30.8)])
def test_biases_of_integers(options, measured, biases, samples, tmp_path, bitpress, run_model):
    path = models.save(recurrent_model(), tmp_path / "m.onnx")
    text = bitpress.ok("quantize", path, "-o", tmp_path / "q.onnx", "--config", "INT8", "--set", f"biases={biases}", "--data", samples,
                       *options)
    assert "SQNR 0.0 dB" not in text
    onnx.checker.check_model(tmp_path / "q.onnx", full_check=True)
    floats = {tensor.name for tensor in onnx.load(tmp_path / "q.onnx").graph.initializer if tensor.data_type == TensorProto.FLOAT}
    assert ("b" in floats) == (biases == "int32")  # which has the scale of products of integers
    unseen = sequences(2, 9)
    assert is_as_measured(sqnr_db(run_all(path, unseen, run_model), run_all(tmp_path / "q.onnx", unseen, run_model)), measured)


@pytest.mark.parametrize("config", ["MX6", "MXFP4E2M1", "INT4_WEIGHTS", "INT8_DYNAMIC"])
@pytest.mark.parametrize("op,attributes", [("LSTM", {}), ("GRU", {"linear_before_reset": 1}), ("RNN", {}),
                                           ("LSTM", {"direction": "reverse", "bias": False, "outputs": ["", "last"]})],
                         ids=["LSTM", "GRU", "RNN", "reverse"])
def test_tuned_is_closer(op, attributes, config, samples, tmp_path, bitpress, run_model):
    if config == "INT8_DYNAMIC" and op != "LSTM":
        pytest.skip("only LSTM has a dynamic form")
    path = models.save(recurrent_model(op, **attributes), tmp_path / "m.onnx")
    bitpress.ok("quantize", path, "-o", tmp_path / "direct.onnx", "--config", config)
    unseen = sequences(16, 9)
    wanted = run_all(path, unseen, run_model)
    direct = sqnr_db(wanted, run_all(tmp_path / "direct.onnx", unseen, run_model))
    for recipe in ("gptq", "adaquant"):
        text = bitpress.ok("quantize", path, "-o", tmp_path / "tuned.onnx", "--config", config, "--data", samples, "--finetune",
                           recipe)
        assert re.search(r"fine-tuned: +2 of 2 layers", text)
        onnx.checker.check_model(tmp_path / "tuned.onnx", full_check=True)
        tuned = sqnr_db(wanted, run_all(tmp_path / "tuned.onnx", unseen, run_model))
        assert tuned > direct + 0.3


def test_threads_and_groups(samples, tmp_path, bitpress, run_model):
    path = models.save(recurrent_model(), tmp_path / "m.onnx")

    def quantize(name, *arguments):
        bitpress.ok("quantize", path, "-o", tmp_path / name, "--config", "MX6_ADAQUANT", "--data", samples, *arguments)
        return (tmp_path / name).read_bytes()

    assert quantize("one.onnx", "--threads", "1") == quantize("three.onnx", "--threads", "3")
    # R is in a later group than W. It learns while its node reads quantized inputs through the learned W.
    quantize("groups.onnx", "--set", "finetune_groups=2")
    unseen = sequences(8, 9)
    wanted = run_all(path, unseen, run_model)
    assert abs(sqnr_db(wanted, run_all(tmp_path / "groups.onnx", unseen, run_model)) -
               sqnr_db(wanted, run_all(tmp_path / "one.onnx", unseen, run_model))) < 3


def test_samples_that_teach_nothing(samples, tmp_path, bitpress, run_model):
    path = models.save(recurrent_model(), tmp_path / "m.onnx")
    odd = tmp_path / "odd"
    odd.mkdir()
    for i, sequence in enumerate(sequences(9, 3)):
        sequence[..., 5:] = 0  # features that never come in
        if i == 4:
            sequence[0, 0, 0] = np.nan
        np.save(odd / f"{i}.npy", sequence)
    bitpress.ok("quantize", path, "-o", tmp_path / "q.onnx", "--config", "MX6_ADAQUANT", "--data", odd)
    for output in run_model(tmp_path / "q.onnx", {"x": sequences(1, 9)[0]}):
        assert np.isfinite(output).all()


def test_states_behind_a_gate_are_only_rounded(samples, tmp_path, bitpress):
    path = models.save(recurrent_model("GRU"), tmp_path / "m.onnx")
    text = bitpress.ok("quantize", path, "-o", tmp_path / "q.onnx", "--config", "MX6_ADAQUANT", "--data", samples)
    assert re.search(r"fine-tuned: +1 of 2 layers", text) and "linear_before_reset 0" in text


@pytest.mark.parametrize("config,granularity", [("MXINT8", "per_axis"), ("INT8_WEIGHTS", "per_block"), ("INT8_DYNAMIC", "per_axis"),
                                                ("INT8_DYNAMIC", "per_tensor")])
def test_report_and_unpack(config, granularity, tmp_path, bitpress, run_model):
    path, packed = models.save(recurrent_model(), tmp_path / "m.onnx"), tmp_path / "q.onnx"
    bitpress.ok("quantize", path, "-o", packed, "--config", config, "--set", f"weight_granularity={granularity}")
    bitpress.ok("report", packed, "--reference", path, "-o", tmp_path / "r.html", "--json", tmp_path / "r.json")
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
