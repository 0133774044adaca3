"""The guard compares heads of detectors by what they say: boxes and scores each for itself, and sorted rows by what they are sorted from."""

import re

import numpy as np
import pytest
from models import make_model, save, save_arrays
from onnx import helper

node = helper.make_node
NUM_CLASSES = 8


def detector(sorts=False, takes_logarithms=False, pixels=80):
    """Three layers, and a head with boxes in pixels and with scores; `sorts`: the best 20 rows, otherwise all of them in one Concat.
    `takes_logarithms`: of powers, whose small values one scale for all rounds to 0, on the way to the scores."""
    rng = np.random.default_rng(7)
    weights, nodes, last, channels = {}, [], "x", 3

    def convolve(source, inputs, outputs, name, kernel=3, stride=1, gain=1.5):
        weights[f"{name}_w"] = (gain * rng.standard_normal((outputs, inputs, kernel, kernel)) / np.sqrt(inputs * kernel**2)).astype(np.float32)
        nodes.append(node("Conv", [source, f"{name}_w"], [name], f"{name}_conv", pads=[kernel // 2] * 4, strides=[stride] * 2))

    for i, outputs in enumerate((8, 16, 16)):
        convolve(last, channels, outputs, f"c{i}", stride=2)
        nodes.append(node("Relu", [f"c{i}"], [f"r{i}"], f"relu{i}"))
        last, channels = f"r{i}", outputs
    convolve(last, channels, 4, "distances", kernel=1)
    convolve(last, channels, NUM_CLASSES, "logits", kernel=1, gain=3)
    logits = "logits"
    if takes_logarithms:
        weights |= {"least": np.float32(1e-8), "most": np.float32(1e8)}
        nodes.extend([node("Mul", ["logits", "logits"], ["power"], "square"), node("Clip", ["power", "least", "most"], ["bounded"], "bound"),
                      node("Log", ["bounded"], ["logs"], "log")])
        convolve("logs", NUM_CLASSES, NUM_CLASSES, "mixed", kernel=1)
        logits = "mixed"
    weights |= {"flat4": np.array([1, 4, 64]), "flat": np.array([1, NUM_CLASSES, 64]), "pixels": np.float32(pixels)}
    nodes += [node("Reshape", ["distances", "flat4"], ["d"], "flat_d"), node("Mul", ["d", "pixels"], ["boxes"], "pixel"),
              node("Reshape", [logits, "flat"], ["l"], "flat_l"), node("Sigmoid", ["l"], ["scores"], "score")]
    if not sorts:
        nodes.append(node("Concat", ["boxes", "scores"], ["y"], "put", axis=1))
        return make_model(nodes, [("x", [1, 3, 64, 64])], [("y", [1, 4 + NUM_CLASSES, 64])], weights)
    weights |= {"k": np.array([20]), "two": np.array([2]), "wide": np.array([1, 20, 4])}
    nodes += [node("Transpose", ["boxes"], ["b"], "turn", perm=[0, 2, 1]), node("ReduceMax", ["scores"], ["best"], "best", axes=[1], keepdims=0),
              node("TopK", ["best", "k"], ["top", "places"], "sort", axis=1), node("Unsqueeze", ["places", "two"], ["p"], "column"),
              node("Expand", ["p", "wide"], ["p4"], "widen"), node("GatherElements", ["b", "p4"], ["rows"], "look_up", axis=1),
              node("Unsqueeze", ["top", "two"], ["t"], "top_column"), node("Concat", ["rows", "t"], ["y"], "put", axis=2)]
    return make_model(nodes, [("x", [1, 3, 64, 64])], [("y", [1, 20, 5])], weights)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("heads")


@pytest.fixture(scope="module")
def images(folder):
    rng = np.random.default_rng(3)
    patches = [np.kron(rng.uniform(0, 1, (1, 3, 8, 8)), np.ones((1, 1, 8, 8))).astype(np.float32) for _ in range(8)]
    return save_arrays(folder / "images", patches)


def parts_db(run_model, model, path, images):
    """Returns dB of boxes and of scores, the mean over images."""
    noises = []
    for file in sorted(images.iterdir()):
        wanted, found = (run_model(one, {"x": np.load(file)})[0].astype(float) for one in (model, path))
        noises.append([((w - f) ** 2).sum() / (w**2).sum() for w, f in zip(np.split(wanted, [4], axis=1), np.split(found, [4], axis=1), strict=True)])
    return -10 * np.log10(np.mean(noises, axis=0))


def test_sorted_rows_are_compared_in_front_of_the_sort(bitpress, folder, images):
    """Rows change places by any rounding: compared by them, all activations would become float, and not even that would help."""
    model = save(detector(sorts=True), folder / "sorts.onnx")
    text = bitpress.ok("quantize", model, "-o", folder / "q.onnx", "--config", "INT8", "--data", images)
    assert "rounding activations brings the error of output 'y' to" in text and "stay float" not in text
    # What is in front is held to the same bound, which int8 weights do not reach.
    text = bitpress.ok("quantize", model, "-o", folder / "q.onnx", "--config", "INT8", "--data", images, "--set", "guard=60")
    assert "in front of GatherElements and output 'y'" in text or "in front of TopK and output 'y'" in text
    # The closeness of such rows is no alarm.
    text = bitpress.checking.ok("quantize", model, "-o", folder / "q.onnx", "--config", "MX4", "--data", images)
    assert re.search(r"WARNING: output 'y' is [-\d.]+ dB from that of the given model, which says little: TopK or the like chooses its rows", text)


def test_parts_of_a_concat_are_compared_each_for_itself(bitpress, run_model, folder, images):
    """The output as a whole has more than 40 dB, all of them of the boxes, and the scores are what anybody wants."""
    model = save(detector(takes_logarithms=True), folder / "logarithms.onnx")

    def parts(*words):
        text = bitpress.ok("quantize", model, "-o", folder / "q.onnx", "--config", "INT8", "--data", images, *words)
        return text, parts_db(run_model, model, folder / "q.onnx", images)

    _, (boxes, scores) = parts("--set", "guard=off")
    assert boxes > 30 and scores < 12
    text, (boxes, scores) = parts()
    assert boxes > 30 and scores > 18
    assert "brings the error of part 2 of output 'y' to" in text


@pytest.mark.parametrize("pixels", [80, 8])  # of a small network, whose scores keep 11 dB beside the boxes
@pytest.mark.parametrize("config", ["INT8", "A8W8", "MXINT8"])
def test_scores_beside_boxes_are_no_zeros_with_quantizers_everywhere(bitpress, run_model, folder, images, config, pixels):
    model = save(detector(pixels=pixels), folder / "parts.onnx")
    bitpress.ok("quantize", model, "-o", folder / "q.onnx", "--config", config, "--set", "placement=all", "--data", images)
    boxes, scores = parts_db(run_model, model, folder / "q.onnx", images)
    assert boxes > 20 and scores > 20
