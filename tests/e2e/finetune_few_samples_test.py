"""Fine-tuning never hurts: with any number of samples a tuned model is as close to the float one, on unseen data, as an untuned model."""

import models
import numpy as np
import pytest
from models import sqnr_db
from onnx import helper


def embeddings(count, seed):
    """Windows of 8 steps with 24 channels, as speech networks give them: a large mean, and channels and steps that depend on others."""
    fixed = np.random.default_rng(1)
    mean, mix = fixed.standard_normal((8, 24)) * 2, fixed.standard_normal((6, 24))
    rng = np.random.default_rng(seed)
    steps = np.cumsum(rng.standard_normal((count, 8, 6)), axis=1) / 2
    return (mean + steps @ mix + 0.1 * rng.standard_normal((count, 8, 24))).astype(np.float32)


def mlp(folder):
    """A wake word: one position a sample, and one output."""
    rng = np.random.default_rng(7)

    def weights(*shape):
        return (rng.standard_normal(shape) * np.sqrt(2 / shape[1])).astype(np.float32)

    constants = {"w0": weights(48, 192), "b0": weights(48, 1)[:, 0], "w1": weights(48, 48), "b1": weights(48, 1)[:, 0],
                 "w2": weights(1, 48), "b2": weights(1, 1)[:, 0]}
    nodes = [helper.make_node("Flatten", ["x"], ["h0"], "flatten")]
    for i in range(3):
        nodes.append(helper.make_node("Gemm", [f"h{i}", f"w{i}", f"b{i}"], [f"g{i}"], f"gemm{i}", transB=1))
        nodes.append(helper.make_node("Relu", [f"g{i}"], [f"h{i + 1}"], f"relu{i}"))
    del nodes[-1]
    return models.save(models.make_model(nodes, [("x", ["N", 8, 24])], [("g2", ["N", 1])], constants), folder / "mlp.onnx")


def gru(folder):
    """Two GRU behind each other, of 8 steps."""
    rng = np.random.default_rng(8)
    constants, nodes = {}, [helper.make_node("Transpose", ["x"], ["s0"], "steps_first", perm=[1, 0, 2])]
    for i, width in enumerate((24, 32)):
        constants |= {f"w{i}": (rng.standard_normal((1, 96, width)) / np.sqrt(width)).astype(np.float32),
                      f"r{i}": (rng.standard_normal((1, 96, 32)) / np.sqrt(32)).astype(np.float32),
                      f"b{i}": (rng.standard_normal((1, 192)) / 4).astype(np.float32), f"axes{i}": np.array([1], np.int64)}
        nodes.append(helper.make_node("GRU", [f"s{i}", f"w{i}", f"r{i}", f"b{i}"], [f"y{i}"], f"gru{i}", hidden_size=32,
                                      linear_before_reset=1))
        nodes.append(helper.make_node("Squeeze", [f"y{i}", f"axes{i}"], [f"s{i + 1}"], f"squeeze{i}"))
    constants["w"] = rng.standard_normal((32, 4)).astype(np.float32)
    nodes.append(helper.make_node("MatMul", ["s2", "w"], ["scores"], "head"))
    return models.save(models.make_model(nodes, [("x", ["N", 8, 24])], [("scores", [8, "N", 4])], constants), folder / "gru.onnx")


@pytest.fixture(scope="module", params=[mlp, gru])
def network(request, tmp_path_factory, bitpress):
    """A float model, samples to learn from, and its quantized models."""
    folder = tmp_path_factory.mktemp(request.param.__name__)
    path = request.param(folder)
    samples = models.save_arrays(folder / "samples", embeddings(32, 3)[:, None])
    return path, samples, models.QuantizedModels(bitpress, path, folder)


# One sample is divided into the halves of its positions, a few into halves, and of 32 and more some are held back for validation.
@pytest.mark.parametrize("config, recipe", [("MX6", "adaquant"), ("MX4", "adaquant"), ("INT8", "adaquant"), ("INT8", "adaround"),
                                            ("INT4_WEIGHTS", "gptq"), ("INT4_WEIGHTS", "awq+gptq+bias_correction")])
def test_tuned_models_are_not_farther_away(network, config, recipe, run_model):
    path, samples, quantized = network
    unseen = {"x": embeddings(300, 4)}
    wanted = run_model(path, unseen)[0]

    def sqnr(*options):
        return sqnr_db(wanted, run_model(quantized.path("--config", config, *options), unseen)[0])

    lost = {}
    for count in (1, 2, 8, 32):
        some = ("--data", samples, "--samples", count)
        direct = sqnr(*some) if config == "INT8" else sqnr()  # only ranges of integers depend on samples
        lost[count] = round(direct - sqnr(*some, "--finetune", recipe), 2)
    # AWQ scales by the mean magnitudes of a handful of samples, beside ranges of the least error that need none.
    assert max(lost.values()) <= (1 if "awq" in recipe else 0.5) and lost[32] <= 0, lost


def test_an_older_opset_with_integers(tmp_path, bitpress, run_model):
    """The quantized model has a newer opset, in which the axes of Squeeze are an input."""
    rng = np.random.default_rng(2)
    nodes = [helper.make_node("Squeeze", ["x"], ["rows"], "squeeze", axes=[1]),
             helper.make_node("MatMul", ["rows", "w"], ["y"], "product")]
    model = models.make_model(nodes, [("x", ["N", 1, 24])], [("y", ["N", 8])], {"w": rng.standard_normal((24, 8)).astype(np.float32)})
    del model.opset_import[:]
    model.opset_import.append(helper.make_opsetid("", 11))
    path = models.save(model, tmp_path / "old.onnx")
    inputs = rng.standard_normal((16, 1, 24)).astype(np.float32)
    samples = models.save_arrays(tmp_path / "samples", inputs[:, None])
    bitpress.ok("quantize", path, "-o", tmp_path / "q.onnx", "--config", "INT8_ADAQUANT", "--data", samples)
    assert sqnr_db(run_model(path, {"x": inputs})[0], run_model(tmp_path / "q.onnx", {"x": inputs})[0]) > 25


def test_large_weights_are_learned_in_temporary_files(bitpress, run_model, tmp_path):
    """From a megabyte on what a weight learned lies outside memory until it is written."""
    rng = np.random.default_rng(9)
    w = (rng.standard_normal((64, 4100)) / 8).astype(np.float32)
    given = models.save(models.make_model([helper.make_node("MatMul", ["x", "w"], ["y"], "product")], [("x", ["N", 64])],
                                          [("y", ["N", 4100])], {"w": w}), tmp_path / "given.onnx")
    mix = rng.standard_normal((8, 64))
    x = (rng.standard_normal((72, 8)) @ mix + 0.05 * rng.standard_normal((72, 64))).astype(np.float32)
    (tmp_path / "samples").mkdir()
    np.save(tmp_path / "samples" / "x.npy", x[:64])
    errors = []
    for extra in ([], ["--finetune", "gptq", "--data", tmp_path / "samples"]):
        bitpress.ok("quantize", given, "-o", tmp_path / "q.onnx", "--config", "MX4", "--activations", "none", *extra)
        errors.append(sqnr_db(x[64:] @ w, run_model(tmp_path / "q.onnx", {"x": x[64:]})[0]))
    assert errors[1] > errors[0] + 1
