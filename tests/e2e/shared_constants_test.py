"""Fine-tuning works if several nodes read one constant, as in exported models whose equal constants became one."""

import re

import models
import numpy as np
import onnx
import pytest
from models import sqnr_db
from onnx import helper


def images(count, seed):
    return models.smooth_images(count, seed, (3, 16, 16)) + np.float32(0.5)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("samples")
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
    """Returns the summary of the tuned model, and its gain over the other model in dB."""
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


def heads(own_biases=False):
    """One kernel is used for three sizes of an image, as in the heads of detectors. The last layers have kernels of their own."""
    rng = np.random.default_rng(4)
    node = helper.make_node
    nodes, value = [], "x"
    for level in range(3):
        bias = f"b{level}" if own_biases else "b0"
        nodes += [node("Conv", [value, "stem"], [f"s{level}"], f"stem{level}", pads=[1] * 4),
                  node("Relu", [f"s{level}"], [f"r{level}"], f"relu{level}"),
                  node("Conv", [f"r{level}", "head", bias], [f"y{level}"], f"head{level}", pads=[1] * 4),
                  node("AveragePool", [value], [f"p{level}"], f"pool{level}", kernel_shape=[2, 2], strides=[2, 2])]
        value = f"p{level}"
    constants = {"stem": weights(rng, 24, 3, 3, 3), "head": weights(rng, 12, 24, 3, 3)}
    constants |= {f"b{level}": 2 * weights(rng, 12, 1)[:, 0] for level in range(3 if own_biases else 1)}
    sizes = [16, 8, 4]
    return models.make_model(nodes, [("x", ["N", 3, 16, 16])], [(f"y{i}", ["N", 12, sizes[i], sizes[i]]) for i in range(3)], constants)


MX4, INT4 = ["--config", "MX4"], ["--config", "INT8", "--weights", "int4"]


@pytest.mark.parametrize("recipe, options", [
    ("gptq", MX4), ("gptq", INT4), ("gptq", ["--config", "INT4_WEIGHTS"]), ("adaquant", MX4), ("adaquant", INT4)],
    ids=lambda value: value if isinstance(value, str) else " ".join(value))
def test_a_weight_learns_from_all_who_read_it(recipe, options, folder, tmp_path, bitpress, run_model):
    text, gain = compare(heads(), [*options, "--finetune", recipe], folder, tmp_path, bitpress, run_model)
    assert re.search("fine-tuned: +2 of 2 layers", text)
    assert gain > 1


def test_nodes_that_add_other_biases_share_no_layer(folder, tmp_path, bitpress, run_model):
    text, gain = compare(heads(own_biases=True), ["--config", "MX4", "--finetune", "gptq"], folder, tmp_path, bitpress, run_model)
    assert re.search("fine-tuned: +1 of 2 layers", text) and "'head': several nodes read it" in text
    assert gain > 0.3


@pytest.mark.quick
def test_a_layer_twice_is_as_its_samples_twice(tmp_path, bitpress):
    """Two nodes that read the same value learn the same weights as one."""
    rng = np.random.default_rng(6)
    (tmp_path / "s").mkdir()
    mix = rng.standard_normal((32, 32))
    for i in range(24):
        np.save(tmp_path / "s" / f"{i:02}.npy", (rng.standard_normal((1, 5, 32)) @ mix + 0.2).astype(np.float32))
    codes = []
    for names in (["y"], ["y", "z"]):
        nodes = [helper.make_node("MatMul", ["x", "w"], [name], f"make_{name}") for name in names]
        model = models.make_model(nodes, [("x", ["N", 5, 32])], [(name, ["N", 5, 16]) for name in names],
                                  {"w": weights(np.random.default_rng(7), 32, 16)})
        bitpress.ok("quantize", models.save(model, tmp_path / "m.onnx"), "-o", tmp_path / "q.onnx", "--config", "INT4_WEIGHTS",
                    "--data", tmp_path / "s", "--finetune", "gptq")
        stored = {t.name: t.raw_data for t in onnx.load(tmp_path / "q.onnx").graph.initializer}
        codes.append([stored[name] for name in sorted(stored) if name.startswith("w_")])
    assert len(codes[0]) >= 2 and codes[0] == codes[1]


def test_a_weight_that_is_also_added_stays(tmp_path, bitpress):
    rng = np.random.default_rng(3)
    weight = (rng.standard_normal((8, 8)) / 3).astype(np.float32)
    nodes = [helper.make_node("MatMul", ["x", "w"], ["h"], "first"), helper.make_node("Add", ["h", "w"], ["y"], "second")]
    path = models.save(models.make_model(nodes, [("x", [8, 8])], [("y", [8, 8])], {"w": weight}), tmp_path / "shared.onnx")
    samples = tmp_path / "samples"
    samples.mkdir()
    np.save(samples / "0.npy", rng.standard_normal((8, 8)).astype(np.float32))
    text = bitpress.ok("quantize", path, "-o", tmp_path / "q.onnx", "--config", "MX6_ADAQUANT", "--data", samples)
    assert "fine-tuned:  0 of 1 layers" in text and "not tuned: 'w': it is also read as it is" in text
