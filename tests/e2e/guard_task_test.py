"""The guard leaves no more activations float than the network's task asks for, where the samples hold enough to know."""

import json

import numpy as np
import pytest
from models import make_model, save, save_arrays
from onnx import helper

node = helper.make_node
NUM_CELLS = 16
TASK = "detection:layout=end2end,score=0.5"


def detector():
    """Boxes of 16 cells. Where a cell holds nothing, its box is moved by logarithms of powers, which one scale for all of them spoils."""
    rng = np.random.default_rng(7)
    size = NUM_CELLS + 8
    find = np.zeros((size, NUM_CELLS), np.float32)
    find[:NUM_CELLS] = 16 * np.eye(NUM_CELLS)
    mix = np.zeros((size, 32), np.float32)
    mix[NUM_CELLS:] = rng.standard_normal((8, 32))
    corners = np.stack([16.0 * np.arange(NUM_CELLS), np.zeros(NUM_CELLS), 16.0 * np.arange(NUM_CELLS) + 12, np.full(NUM_CELLS, 12)], axis=1)
    constants = {"find": find, "half": np.float32(8), "mix": mix, "least": np.float32(1e-8), "most": np.float32(1e8), "one": np.float32(1),
                 "spread": (8 * rng.standard_normal((32, 4 * NUM_CELLS))).astype(np.float32), "rows": np.array([-1, NUM_CELLS, 4]),
                 "column": np.array([-1, NUM_CELLS, 1]), "corners": corners[None].astype(np.float32), "zero": np.float32(0)}
    nodes = [node("MatMul", ["x", "find"], ["found"], "find_cells"), node("Sub", ["found", "half"], ["logits"], "shift"),
             node("Sigmoid", ["logits"], ["flat_scores"], "score"), node("Reshape", ["flat_scores", "column"], ["scores"], "score_column"),
             node("MatMul", ["x", "mix"], ["bands"], "mix_bands"), node("Mul", ["bands", "bands"], ["power"], "square"),
             node("Clip", ["power", "least", "most"], ["bounded"], "bound"), node("Log", ["bounded"], ["logs"], "log"),
             node("MatMul", ["logs", "spread"], ["flat_moves"], "spread_moves"), node("Reshape", ["flat_moves", "rows"], ["all_moves"], "move_rows"),
             node("Sub", ["one", "scores"], ["empty"], "be_empty"), node("Mul", ["all_moves", "empty"], ["moves"], "move_empty"),
             node("Add", ["corners", "moves"], ["boxes"], "place"), node("Mul", ["scores", "zero"], ["classes"], "class"),
             node("Concat", ["boxes", "scores", "classes"], ["y"], "put", axis=2)]
    return make_model(nodes, [("x", ["N", size])], [("y", ["N", NUM_CELLS, 6])], constants)


def scenes(folder, count):
    if (folder / f"scenes{count}").is_dir():
        return folder / f"scenes{count}"
    rng = np.random.default_rng(count)
    cells = rng.uniform(size=(count, NUM_CELLS)) < 0.25
    others = 10 ** rng.uniform(-3, 0, (count, 8)) * rng.choice([-1, 1], (count, 8))
    return save_arrays(folder / f"scenes{count}", [np.concatenate([cells, others], axis=1).astype(np.float32)])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("guard_task")


@pytest.fixture(scope="module")
def model(folder):
    return save(detector(), folder / "detector.onnx")


def guarded(bitpress, model, folder, *options):
    """The text, and what the report says of the guard."""
    text = bitpress.ok("quantize", model, "-o", folder / "q.onnx", "--json", folder / "q.json", "--config", "INT8", "--set", "guard=30", *options)
    return text, json.loads((folder / "q.json").read_text())["guard"]


@pytest.mark.quick
def test_boxes_decide_where_there_are_enough(bitpress, model, folder):
    data = scenes(folder, 120)
    text, by_decibels = guarded(bitpress, model, folder, "--data", data, "--task", "none")
    assert by_decibels["num_left"] > 0 and by_decibels["before_db"] < 30 and by_decibels["task_measure"] == ""
    assert "activations stay float" in text and "loss of the task" not in text
    text, guard = guarded(bitpress, model, folder, "--data", data, "--task", TASK)
    assert guard["num_left"] == 0 and guard["task_measure"] == "1 - F1 of boxes" and guard["task_loss"] == guard["task_loss_before"] == 0
    assert guard["task_items"] == "boxes" and guard["num_task_items"] > 200 and guard["before_db"] == pytest.approx(by_decibels["before_db"])
    assert "the task does not need floats" in text and "loss of the task: 0.00 % (1 - F1 of boxes, " in text
    report = json.loads(bitpress.ok("evaluate", folder / "q.onnx", "--reference", model, "--data", scenes(folder, 60), "--task", TASK, "--json", "-"))
    assert report["task"]["loss"] == 0 and report["task"]["items"] == "boxes" and report["task"]["num_items"] > 100
    _, guard = guarded(bitpress, model, folder, "--data", data, "--task", TASK, "--set", "guard_loss=0")
    assert guard == by_decibels


def test_few_boxes_decide_by_how_far_they_move(bitpress, model, folder):
    text, guard = guarded(bitpress, model, folder, "--data", scenes(folder, 12), "--task", TASK)
    assert guard["num_left"] == 0 and guard["task_measure"] == "drop of expected F1, at most" and guard["task_loss"] <= 0.01
    assert guard["task_items"] == "" and "(drop of expected F1, at most, 12 samples)" in text


def test_decibels_decide_where_boxes_are_very_few(bitpress, model, folder):
    data = scenes(folder, 3)
    text, guard = guarded(bitpress, model, folder, "--data", data, "--task", TASK)
    assert guard["num_left"] > 0 and guard["task_measure"] == "" and "boxes in 3 samples are too few to know a loss of 1 %" in guard["why_no_task"]
    assert f"decibels decide: {guard['why_no_task']}" in text
    _, guard = guarded(bitpress, model, folder, "--data", data, "--task", TASK, "--set", "guard_loss=10")
    assert guard["num_left"] == 0, "10 boxes are enough for 10 %"


def test_a_task_that_does_not_fit_is_said(bitpress, model, folder):
    data = scenes(folder, 120)
    text, guard = guarded(bitpress, model, folder, "--data", data, "--task", "detection:layout=centermap")
    assert guard["num_left"] > 0 and guard["why_no_task"] and f"decibels decide: {guard['why_no_task']}" in text
    assert "no setting 'q'" in bitpress.error("quantize", model, "-o", folder / "q.onnx", "--config", "INT8", "--data", data, "--task", "text:q=1")


def test_auto_names_the_task_in_its_command(bitpress, model, folder):
    data = scenes(folder, 120)
    bitpress.ok("auto", model, "-o", folder / "best.onnx", "--data", data, "--task", TASK, "--json", folder / "auto.json", "--no-report")
    report = json.loads((folder / "auto.json").read_text())
    assert report["measure"] == "1 - F1 of boxes"
    assert all(f"--task {TASK}" in trial["command"].replace("'", "") for trial in report["trials"] if trial["command"])


def test_states_do_not_hide_the_task(bitpress, tmp_path):
    """The first dimension of a state counts layers, not samples."""
    rng = np.random.default_rng(3)
    constants = {"a": rng.standard_normal((16, 8)).astype(np.float32), "b": rng.standard_normal((8, 1)).astype(np.float32), "half": np.float32(0.5)}
    nodes = [node("MatMul", ["x", "a"], ["m"], "mix"), node("Tanh", ["m"], ["t"], "bend"), node("MatMul", ["t", "b"], ["y"], "sum"),
             node("Mul", ["h", "half"], ["n"], "fade")]
    model = save(make_model(nodes, [("x", ["N", 16]), ("h", [2, "N", 4])], [("y", ["N", 1]), ("n", [2, "N", 4])], constants), tmp_path / "m.onnx")
    data = tmp_path / "data"
    data.mkdir()
    for i in range(24):
        np.savez(data / f"{i}.npz", x=rng.standard_normal((1, 16)).astype(np.float32), h=rng.standard_normal((2, 1, 4)).astype(np.float32))
    text, guard = guarded(bitpress, model, tmp_path, "--data", data, "--set", "guard=80", "--set", "finetune=gptq")
    assert guard["task_measure"] == "1 - R2" and guard["why_no_task"] == "" and guard["num_task_samples"] == 24 and "loss of the task" in text
