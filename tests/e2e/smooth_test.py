"""SmoothQuant keeps the outputs of the float model, folds factors where it can, and makes per-tensor activations more
accurate."""

import json
import re

import decoder
import numpy as np
import onnx
import pytest
from models import save_arrays, sqnr_db
from onnx import TensorProto, helper, numpy_helper

FLOAT = ["--config", "MX6", "--activations", "none", "--weights", "none"]
WIDTH = 24


def transformer(seed=0, residual=False):
    """LayerNormalization with a few large channels, two products of it, and one behind a Relu and one behind a Gelu-like Sigmoid."""
    rng = np.random.default_rng(seed)
    constants = {}

    def constant(array):
        name = f"k{len(constants)}"
        constants[name] = np.asarray(array, np.float32)
        return name

    def matrix(rows, columns):
        return constant(rng.normal(0, 1 / np.sqrt(rows), (rows, columns)))

    scale = rng.uniform(0.5, 1.5, WIDTH)
    scale[[3, 11]] = 60
    node = helper.make_node
    nodes = [
        node("LayerNormalization", ["x", constant(scale), constant(rng.normal(0, 1, WIDTH))], ["n"], "norm", axis=-1),
        node("MatMul", ["n", matrix(WIDTH, 40)], ["a"], "up"),
        node("Add", ["a", constant(rng.normal(0, 1, 40))], ["b"], "bias"),
        node("Relu", ["b"], ["c"], "relu"),
        node("MatMul", ["c", matrix(40, WIDTH)], ["d"], "down"),
        node("MatMul", ["n", matrix(WIDTH, WIDTH)], ["e"], "gate"),
        node("Sigmoid", ["e"], ["f"], "sigmoid"),
        node("MatMul", ["f", matrix(WIDTH, WIDTH)], ["g"], "mix"),
        node("Add", ["d", "g"], ["h"], "sum"),
        node("Add", ["h", "n"], ["y"], "residual") if residual else node("Identity", ["h"], ["y"], "end"),
    ]
    info = helper.make_tensor_value_info
    graph = helper.make_graph(nodes, "net", [info("x", TensorProto.FLOAT, ["N", 6, WIDTH])],
                              [info("y", TensorProto.FLOAT, ["N", 6, WIDTH])],
                              [numpy_helper.from_array(array, name) for name, array in constants.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.fixture(scope="module")
def samples(tmp_path_factory):
    arrays = [np.random.default_rng(i).standard_normal((1, 6, WIDTH)).astype(np.float32) for i in range(12)]
    return save_arrays(tmp_path_factory.mktemp("noise") / "samples", arrays)


def save(tmp_path, **options):
    path = tmp_path / "net.onnx"
    onnx.save(transformer(**options), path)
    return path


def inputs():
    return {"x": np.random.default_rng(99).standard_normal((3, 6, WIDTH)).astype(np.float32)}


@pytest.mark.parametrize("residual, alpha", [pytest.param(False, "0.5", marks=pytest.mark.quick), (True, "0.8"), (False, "auto"),
                                            (True, "auto")])
def test_the_float_model_stays_what_it_is(alpha, residual, tmp_path, samples, bitpress, run_model):
    path, output = save(tmp_path, residual=residual), tmp_path / "out.onnx"
    report = bitpress.ok("quantize", path, "-o", output, *FLOAT, "--smooth-quant", alpha, "--data", samples)
    # The Sigmoid's output always needs a Mul. The normalization's output needs one if the residual reads it too.
    folded, by_mul = (1, 2) if residual else (2, 1)
    if alpha == "auto":  # the Relu's output is better as it is
        folded -= 1
        assert "not 'c': no factors make it better" in report
    assert f"{folded + by_mul} activations, {folded} folded into what comes before, {by_mul} by a Mul" in report
    onnx.checker.check_model(output, full_check=True)
    assert sum(node.op_type == "Mul" for node in onnx.load(output).graph.node) == by_mul
    assert sqnr_db(run_model(path, inputs())[0], run_model(output, inputs())[0]) > 100
    again = tmp_path / "again.onnx"
    bitpress.ok("quantize", path, "-o", again, *FLOAT, "--smooth-quant", alpha, "--data", samples, "--threads", "1")
    assert again.read_bytes() == output.read_bytes()


def test_factors_are_those_of_the_paper(tmp_path, samples, bitpress):
    path, output = save(tmp_path), tmp_path / "out.onnx"
    bitpress.ok("quantize", path, "-o", output, *FLOAT, "--smooth-quant", "0.7", "--data", samples)
    before, after = ({tensor.name: numpy_helper.to_array(tensor) for tensor in onnx.load(name).graph.initializer}
                     for name in (path, output))
    x = np.concatenate([np.load(file) for file in sorted(samples.iterdir())])
    normal = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5) * before["k0"] + before["k1"]
    largest = np.abs(normal).max(axis=(0, 1))
    weight = np.maximum(np.abs(before["k2"]).max(axis=1), np.abs(before["k5"]).max(axis=1))
    np.testing.assert_allclose(after["k0"], before["k0"] / (largest**0.7 / weight**0.3), rtol=1e-4)
    np.testing.assert_allclose(after["k5"], before["k5"] * (largest**0.7 / weight**0.3)[:, None], rtol=1e-4)


def test_large_channels_cost_less(tmp_path, samples, bitpress, run_model):
    path = save(tmp_path)
    wanted = run_model(path, inputs())[0]

    def quality(*options):
        output = tmp_path / "out.onnx"
        bitpress.ok("quantize", path, "-o", output, "--config", "INT8", "--set", "activation_range=min_max", "--data", samples, *options)
        onnx.checker.check_model(output, full_check=True)
        return sqnr_db(wanted, run_model(output, inputs())[0])

    plain, smoothed, searched = quality(), quality("--smooth-quant", "0.5"), quality("--smooth-quant", "auto")
    assert smoothed > plain + 2
    assert searched > plain + 2


def test_plans_fit_what_is_folded(tmp_path, samples, bitpress):
    path, plan, output = save(tmp_path), tmp_path / "plan.json", tmp_path / "out.onnx"
    bitpress.ok("plan", path, "-o", plan, "--config", "INT8", "--smooth-quant", "0.5")
    report = bitpress.ok("quantize", path, "-o", output, "--plan", plan, "--data", samples)
    assert re.search(r"2 activations, 2 folded .* left alone 1\n.*\n +not 'f': it can be folded into nothing", report)
    assert json.loads(plan.read_text())["config"]["smooth_quant"] == "0.5"


@pytest.mark.parametrize("residual", [False, True])
def test_a_calibration_file_with_channels_is_enough(residual, tmp_path, samples, bitpress, run_model):
    path, stats = save(tmp_path, residual=residual), tmp_path / "s.bpc"
    bitpress.ok("calibrate", path, "-o", stats, "--data", samples, "--per-channel")
    table = bitpress.ok("inspect", stats)
    assert re.search(r"^n .* 24 of axis -1, magnitudes up to ", table, re.M) and re.search(r"^c .* 40 of axis -1", table, re.M)
    assert len(re.findall(r"^  \[\d+\] 72 elements, ", bitpress.ok("inspect", stats, "--tensors"), re.M)) == 24 + 40 + 24

    # The factors follow from the samples, and so does the smoothed float model.
    once, file = tmp_path / "once.onnx", tmp_path / "file.onnx"
    bitpress.ok("quantize", path, "-o", once, *FLOAT, "--smooth-quant", "0.5", "--data", samples)
    bitpress.ok("quantize", path, "-o", file, *FLOAT, "--smooth-quant", "0.5", "--calibration", stats)
    assert once.read_bytes() == file.read_bytes()

    # Smoothed activations get the min_max range of their channels, which needs no second pass.
    options = ["--config", "INT8", "--smooth-quant", "0.5"]
    bitpress.ok("quantize", path, "-o", once, *options, "--set", "activation_range=min_max", "--data", samples)
    bitpress.ok("quantize", path, "-o", file, *options, "--calibration", stats)
    onnx.checker.check_model(file, full_check=True)
    scales = [{t.name: numpy_helper.to_array(t) for t in onnx.load(p).graph.initializer if t.name.endswith("_scale")} for p in (once, file)]
    smoothed = "n_smoothed_scale" if residual else "n_scale"
    np.testing.assert_allclose(scales[1][smoothed], scales[0][smoothed], rtol=1e-5)
    wanted = run_model(path, inputs())[0]
    assert sqnr_db(wanted, run_model(file, inputs())[0]) > sqnr_db(wanted, run_model(once, inputs())[0]) - 1


def test_shards_with_channels_merge_exactly(tmp_path, samples, bitpress):
    path = save(tmp_path)
    files = sorted(samples.iterdir())
    for name, part in [("a", files[:5]), ("b", files[5:])]:
        (tmp_path / name).mkdir()
        for file in part:
            (tmp_path / name / file.name).write_bytes(file.read_bytes())
        bitpress.ok("calibrate", path, "-o", tmp_path / f"{name}.bpc", "--data", tmp_path / name, "--per-channel")
    bitpress.ok("calibrate", path, "-o", tmp_path / "all.bpc", "--data", samples, "--per-channel", "--threads", "1")
    bitpress.ok("merge", tmp_path / "b.bpc", tmp_path / "a.bpc", "-o", tmp_path / "sum.bpc")
    assert (tmp_path / "sum.bpc").read_bytes() == (tmp_path / "all.bpc").read_bytes()


def test_a_calibration_file_without_channels_says_so(tmp_path, samples, bitpress):
    path, stats = save(tmp_path), tmp_path / "s.bpc"
    bitpress.ok("calibrate", path, "-o", stats, "--data", samples, "--config", "BF16", "--set", "activation_scaled=true")
    message = bitpress.error("quantize", path, "-o", tmp_path / "q.onnx", *FLOAT, "--smooth-quant", "0.5", "--calibration", stats)
    assert "knows no channels" in message and "gather it anew" in message


def test_it_needs_samples_and_a_number(tmp_path, samples, bitpress):
    path, output = save(tmp_path), tmp_path / "out.onnx"
    assert "(--data;" in bitpress.error("quantize", path, "-o", output, *FLOAT, "--smooth-quant", "0.5")
    for word in ("1.5", "-1", "half"):
        assert "neither none, auto nor a number from 0 to 1" in bitpress.error(
            "quantize", path, "-o", output, *FLOAT, f"--smooth-quant={word}", "--data", samples)


@pytest.mark.parametrize("seed", [5, 6, 7])
def test_auto_leaves_room_for_new_samples(seed, tmp_path, bitpress, run_model):
    """Channels that are all equally large leave none for values beyond those of a few samples, which alpha 1 pays 8 dB for."""
    model = tmp_path / "decoder.onnx"
    onnx.save(decoder.make(seed), model)
    runs = [decoder.feeds(np.reshape(decoder.token_ids(400)[16 * i:16 * i + 16], (1, 16))) for i in range(20)]
    (tmp_path / "samples").mkdir()
    for i, run in enumerate(runs[:12]):
        np.savez(tmp_path / "samples" / f"{i}.npz", **run)

    def closeness(*options):
        bitpress.ok("quantize", model, "-o", tmp_path / "q.onnx", "--config", "INT8", "--data", tmp_path / "samples", "--set", "guard=off", *options)
        return np.mean([sqnr_db(run_model(model, run)[0], run_model(tmp_path / "q.onnx", run)[0]) for run in runs[12:]])

    auto = closeness("--smooth-quant", "auto")
    assert auto > closeness() and auto > closeness("--smooth-quant", "1") + 3
