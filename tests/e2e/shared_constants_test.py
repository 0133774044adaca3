"""Fine-tuning where several nodes read one constant, as in exported models whose equal constants became one."""

import re

import models
import numpy as np
import pytest
from models import sqnr_db
from onnx import helper


def images(count, seed):
    """Neighbouring pixels depend on each other, as in photos, and have a mean."""
    noise = np.random.default_rng(seed).standard_normal((count, 3, 16, 16))
    return (sum(np.roll(noise, (dy, dx), (2, 3)) for dy in range(3) for dx in range(3)) / 3 + 0.5).astype(np.float32)


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "samples"
    path.mkdir()
    for i, image in enumerate(images(40, 1)):
        np.save(path / f"{i:02}.npy", image[None])
    return path


def weights(rng, *shape):
    return (rng.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))).astype(np.float32)


def shared_bias():
    rng = np.random.default_rng(4)
    node = helper.make_node
    nodes = [node("Conv", ["x", "w1", "b"], ["a"], "first", pads=[1] * 4), node("Relu", ["a"], ["r"], "relu"),
             node("Conv", ["r", "w2", "b"], ["y"], "second", pads=[1] * 4)]
    constants = {"w1": weights(rng, 24, 3, 3, 3), "w2": weights(rng, 24, 24, 3, 3), "b": 3 * weights(rng, 24, 1)[:, 0]}
    return models.make_model(nodes, [("x", ["N", 3, 16, 16])], [("y", ["N", 24, 16, 16])], constants)


def compare(model, options, folder, tmp_path, bitpress, run_model):
    """The summary of the tuned model, and how much closer it is than the other one."""
    path = models.save(model, tmp_path / "m.onnx")
    recipe = options[options.index("--finetune"):]
    direct = [word for word in options if word not in recipe]
    bitpress.ok("quantize", path, "-o", tmp_path / "direct.onnx", *direct, "--data", folder)
    text = bitpress.ok("quantize", path, "-o", tmp_path / "tuned.onnx", *options, "--data", folder)
    unseen = {"x": images(16, 9)}
    wanted = run_model(path, unseen)
    found = [sum(sqnr_db(w, f) for w, f in zip(wanted, run_model(tmp_path / name, unseen))) / len(wanted)
             for name in ("direct.onnx", "tuned.onnx")]
    return text, found[1] - found[0]


@pytest.mark.parametrize("config,recipe", [("MX4", "least_squares"), ("MX4", "gptq"), ("MX4", "adaquant"), ("INT4_WEIGHTS", "gptq")])
def test_a_bias_that_others_read_stays(config, recipe, folder, tmp_path, bitpress, run_model):
    options = ["--config", config, "--finetune", recipe]
    text, gain = compare(shared_bias(), options, folder, tmp_path, bitpress, run_model)
    assert re.search("fine-tuned: +2 of 2 layers", text)
    assert gain > 1
