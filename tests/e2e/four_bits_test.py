"""FOUR_BITS gives layers that lose most by four bits more of them, within a budget of mean bits, and learns in blocks."""

import json

import models
import numpy as np
import onnx
import pytest
from models import smooth_images as images
from models import sqnr_db
from onnx import helper


def mobile_model():
    """A stem, two inverted residual blocks and a head: layers of which each is a part of the network that counts."""
    rng = np.random.default_rng(7)
    constants, nodes = {}, []

    def conv(source, name, *shape, **attributes):
        constants[f"{name}.weight"] = (rng.standard_normal(shape) * np.sqrt(2 / np.prod(shape[1:]))).astype(np.float32)
        constants[f"{name}.bias"] = (0.1 * rng.standard_normal(shape[0])).astype(np.float32)
        nodes.append(helper.make_node("Conv", [source, f"{name}.weight", f"{name}.bias"], [name], name, **attributes))
        nodes.append(helper.make_node("Relu", [name], [f"{name}_active"], f"{name}_relu"))
        return f"{name}_active"

    value = conv("image", "stem", 16, 3, 3, 3, strides=[2, 2], pads=[1, 1, 1, 1])
    for block in "ab":
        wide = conv(value, f"{block}_expand", 96, 16, 1, 1)
        wide = conv(wide, f"{block}_depthwise", 96, 1, 3, 3, group=96, pads=[1, 1, 1, 1])
        narrow = conv(wide, f"{block}_project", 16, 96, 1, 1)
        nodes.append(helper.make_node("Add", [value, narrow], [f"{block}_sum"], f"{block}_add"))
        value = f"{block}_sum"
    constants["head.weight"] = (rng.standard_normal((10, 16)) / 4).astype(np.float32)
    nodes += [helper.make_node("GlobalAveragePool", [value], ["pooled"], "pool"), helper.make_node("Flatten", ["pooled"], ["flat"], "flatten"),
              helper.make_node("Gemm", ["flat", "head.weight"], ["logits"], "head", transB=1)]
    return models.make_model(nodes, [("image", ["N", *models.CONV_INPUT])], [("logits", ["N", 10])], constants)


@pytest.fixture(scope="module")
def network(tmp_path_factory):
    folder = tmp_path_factory.mktemp("four_bits")
    models.save_arrays(folder / "samples", images(32, 3)[:, None])
    return models.save(mobile_model(), folder / "float.onnx"), folder / "samples"


def quantize(bitpress, path, output, *words):
    report = output.with_suffix(".json")
    text = bitpress.ok("quantize", path, "-o", output, *words, "--json", report)
    return text, json.loads(report.read_text())


def formats(report, role):
    return {row["value"]: row["format"] for row in report["tensors"] if row["role"] == role}


def test_samples_are_learned_from_where_they_are_given(network, tmp_path, bitpress, run_model):
    path, samples = network
    text, rounded = quantize(bitpress, path, tmp_path / "rounded.onnx", "--config", "FOUR_BITS")
    assert "fine-tuned:  no, there are no samples to learn from (finetune=" in text
    assert rounded["why_not_finetuned"] and not rounded["finetuning"]["blocks"]
    text, learned = quantize(bitpress, path, tmp_path / "learned.onnx", "--config", "FOUR_BITS", "--data", samples, "--set", "finetune_steps=60")
    assert learned["why_not_finetuned"] == "" and any(layer["is_tuned"] for layer in learned["finetuning"]["layers"])
    inputs = {"image": images(64, 99)}
    wanted = run_model(path, inputs)[0]
    found = [sqnr_db(wanted, run_model(tmp_path / name, inputs)[0]) for name in ("rounded.onnx", "learned.onnx")]
    assert found[1] > found[0] + 2
    onnx.checker.check_model(tmp_path / "learned.onnx", full_check=True)


def test_asked_for_in_words_learning_needs_samples(network, tmp_path, bitpress):
    for words in (["--config", "FOUR_BITS_BLOCKS"], ["--config", "FOUR_BITS", "--finetune", "gptq"]):
        assert "give samples" in bitpress.error("quantize", network[0], "-o", tmp_path / "q.onnx", *words)


@pytest.mark.parametrize("budget, of_activations", [
    (4.25, {"mxfp4_e2m1"}), (5, {"mxfp4_e2m1", "mxfp6_e2m3", "mxint8"}), (7, {"mxfp6_e2m3", "mxint8"})])
def test_the_summary_tells_the_means_which_stay_within_the_budget(budget, of_activations, network, tmp_path, bitpress):
    text, report = quantize(bitpress, network[0], tmp_path / "q.onnx", "--config", "FOUR_BITS", "--set", f"mean_bits={budget}")
    mean = report["mean_bits"]
    assert mean["activations"] <= budget + 1e-9
    assert f"{mean['weights']:.2f} for weights" in text and f"{mean['activations']:.2f} for activations" in text
    assert set(formats(report, "activation").values()) == of_activations
    assert formats(report, "activation")["image"] == ("mxfp4_e2m1" if budget == 4.25 else "mxint8")
    # Nine weights of a kernel share a scale, so that four bits for all are more than 4.25.
    assert (mean["weights"] > budget) == (budget == 4.25) == ("short blocks" in text)


def test_plans_have_the_formats_and_the_means(network, tmp_path, bitpress):
    _, report = quantize(bitpress, network[0], tmp_path / "q.onnx", "--config", "FOUR_BITS")
    bitpress.ok("plan", network[0], "--config", "FOUR_BITS", "-o", tmp_path / "plan.json")
    _, of_plan = quantize(bitpress, network[0], tmp_path / "of_plan.onnx", "--plan", tmp_path / "plan.json")
    assert (tmp_path / "of_plan.onnx").read_bytes() == (tmp_path / "q.onnx").read_bytes()
    assert of_plan["mean_bits"] == report["mean_bits"]
