"""A model's operator set is raised where what is written needs that. Each operator then computes what it did in the given model, nodes keep
their names, and what people wrote about the model stays."""

import models
import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

SHAPE = [1, 3, 9, 8]


def constant(values, dtype=np.float32):
    return np.array(values, dtype)


def resize(opset, scales, mode, op_type="Resize"):
    attributes = {"scales": scales} if opset < 9 else {}
    inputs = ["c"] if opset < 9 else ["c", "s"]
    return opset, [helper.make_node(op_type, inputs, ["y"], "up", mode=mode, **attributes)], {"s": constant(scales)} if opset >= 9 else {}


def one(opset, op_type, constants=None, **attributes):
    constants = constants or {}
    return opset, [helper.make_node(op_type, ["c", *constants], ["y"], "op", **attributes)], constants


RANK4 = constant([1, 1, 1, 1])
# operator set, nodes from c (1, 4, 9, 8) to y, constants
CASES = {
    "linear": resize(10, [1, 1, 2, 2], "linear"),
    "linear_half": resize(10, [1, 1, 0.5, 0.5], "linear"),
    "linear_odd": resize(10, [1, 1, 1.25, 0.75], "linear"),
    "nearest": resize(10, [1, 1, 2, 2], "nearest"),
    "nearest_3.3": resize(10, [1, 1, 3.3, 1.25], "nearest"),
    "nearest_0.75": resize(10, [1, 1, 0.75, 0.75], "nearest"),
    "nearest_both": resize(10, [1, 1, 0.75, 1.25], "nearest"),
    "upsample_7": resize(7, [1.0, 1.0, 2.0, 2.0], "nearest", "Upsample"),
    "upsample_7_linear": resize(7, [1.0, 1.0, 2.0, 3.0], "linear", "Upsample"),
    "upsample_9": resize(9, [1, 1, 1.5, 2.5], "nearest", "Upsample"),
    "upsample_9_linear": resize(9, [1, 1, 1.5, 2.5], "linear", "Upsample"),
    "pad": one(9, "Pad", pads=[0, 0, 1, 2, 0, 0, 3, 1], value=0.5),
    "pad_reflect": one(7, "Pad", pads=[0, 0, 1, 2, 0, 0, 3, 1], mode="reflect"),
    "softmax": one(11, "Softmax"),
    "softmax_1": one(9, "Softmax", axis=1),
    "softmax_2": one(12, "Softmax", axis=2),
    "softmax_3": one(12, "Softmax", axis=3),
    "logsoftmax_0": one(11, "LogSoftmax", axis=0),
    "hardmax": one(11, "Hardmax"),
    "clip": one(9, "Clip", min=-0.25, max=0.5),
    "clip_max": one(7, "Clip", max=0.25),
    "slice": one(9, "Slice", starts=[1, 2], ends=[3, -1], axes=[1, 3]),
    "squeeze": one(11, "Squeeze", axes=[0]),
    "unsqueeze": one(11, "Unsqueeze", axes=[0, 3]),
    "reduce_sum": one(11, "ReduceSum", axes=[1, -1], keepdims=0),
    "reduce_mean": one(13, "ReduceMean", axes=[2, 3]),
    "reduce_max": one(11, "ReduceMax"),
    "split": (11, [helper.make_node("Split", ["c"], ["a", "b"], "op", axis=1, split=[1, 3]), helper.make_node("Identity", ["b"], ["y"])], {}),
    "split_even": (11, [helper.make_node("Split", ["c"], ["a", "b"], "op", axis=1), helper.make_node("Sub", ["b", "a"], ["y"])], {}),
    "topk": (9, [helper.make_node("TopK", ["c"], ["y", "i"], "op", axis=1, k=2)], {}),
    "batch_norm": one(8, "BatchNormalization", {n: constant([1, 2, 3, 4]) / 2 for n in ("g", "b", "m", "v")}, spatial=1),
    "dropout": one(7, "Dropout", ratio=0.25),
    "roi_align": one(10, "RoiAlign", {"rois": constant([[0, 0, 6, 6]]), "batch": constant([0], np.int64)}, output_height=3, output_width=3, sampling_ratio=2),
    "grid_sample": one(16, "GridSample", {"g": np.linspace(-1, 1, 40, dtype=np.float32).reshape(1, 4, 5, 2)}, mode="bicubic"),
    "group_norm": one(18, "GroupNormalization", {"g": constant([1, 2]), "b": constant([0.5, -0.5])}, num_groups=2),
    "scatter": one(9, "Scatter", {"i": np.zeros((1, 4, 1, 8), np.int64), "u": np.ones((1, 4, 1, 8), np.float32)}, axis=2),
    "average_pool": one(11, "AveragePool", kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1], ceil_mode=1, count_include_pad=1),
}


def save(case, path):
    opset, nodes, constants = case
    rng = np.random.default_rng(4)
    constants = {"w": rng.standard_normal((4, 3, 1, 1)).astype(np.float32), **constants}
    conv = helper.make_node("Conv", ["x", "w"], ["c"], "conv")
    model = models.make_model([conv, *nodes], [("x", SHAPE)], [("y", None)], constants, opset)
    model.ir_version = 4 if opset < 15 else 8
    del model.opset_import[1:]
    path.write_bytes(model.SerializeToString())
    return path


@pytest.fixture(scope="module")
def samples(tmp_path_factory):
    return models.save_noise(tmp_path_factory.mktemp("raised") / "samples", SHAPE, 4)


def decibels(exact, approximate):
    error = np.sum((exact.astype(np.float64) - approximate) ** 2)
    return 10 * np.log10(np.sum(exact.astype(np.float64) ** 2) / max(error, 1e-30))


# int16 needs operator set 21, the default packed weights of FP16_SIMULATED need 13.
@pytest.mark.parametrize("config", [["--config", "FP16_SIMULATED"], ["--config", "A16W8", "--set", "weights=int16", "--set", "guard=off"]],
                         ids=["to_13", "to_21"])
@pytest.mark.parametrize("preparation", [[], ["--as-is"]], ids=["prepared", "as_is"])
@pytest.mark.parametrize("name", CASES)
def test_each_operator_computes_what_it_did(bitpress, run_model, tmp_path, samples, name, preparation, config):
    given = save(CASES[name], tmp_path / "given.onnx")
    bitpress.ok("quantize", given, "-o", tmp_path / "q.onnx", "--data", samples, *config, *preparation)
    written = onnx.load(tmp_path / "q.onnx")
    assert written.opset_import[0].version >= 13
    x = np.load(next(iter(sorted(samples.iterdir()))))
    exact = onnxruntime.InferenceSession(str(given), providers=["CPUExecutionProvider"]).run(None, {"x": x})[0]
    result = run_model(tmp_path / "q.onnx", {"x": x})[0]
    assert result.shape == exact.shape
    if name != "hardmax":
        assert decibels(exact, result) > 45
