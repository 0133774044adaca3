"""Measures of tasks in parts of the samples: the parts add up to the file, and the figures, of all samples."""

import itertools
import json

import numpy as np
import pytest
from instance_masks_test import detector, scenes  # noqa: F401 (a fixture)
from models import make_model, save, save_arrays
from onnx import helper

node = helper.make_node


def parts_of(bitpress, folder, count, *words):
    """Files of all samples, and of the sum of its parts in another order."""
    bitpress.ok("evaluate", *words, "-o", folder / "whole.bpe")
    parts = [folder / f"part{i}.bpe" for i in range(count)]
    for i, part in enumerate(parts):
        bitpress.ok("evaluate", *words, "--shard", f"{i + 1}/{count}", "-o", part)
    bitpress.ok("merge", *parts[::-1], "-o", folder / "sum.bpe")
    return folder / "whole.bpe", folder / "sum.bpe"


def test_parts_of_boxes_and_masks_add_up(bitpress, detector, tmp_path):  # noqa: F811
    path, _, _ = scenes(tmp_path / "data")
    words = (detector, "--reference", detector, "--data", tmp_path / "data", "--task", f"detection:layout=end2end,fit=letterbox,labels={path}")
    whole, total = parts_of(bitpress, tmp_path, 3, *words)
    assert whole.read_bytes() == total.read_bytes()
    task = json.loads(bitpress.ok("evaluate", *words, "--json", "-"))["task"]
    path.unlink()  # the file has what it needs
    bitpress.ok("inspect", total, "--json", tmp_path / "sum.json")
    assert json.loads((tmp_path / "sum.json").read_text())["task"] == task and "mAP 50 of masks" in bitpress.ok("inspect", total)


@pytest.mark.parametrize("task", ["embedding:k=4", "regression", "classes", "none"])
def test_parts_of_numbers_add_up(bitpress, tmp_path, task):
    rng = np.random.default_rng(5)
    weights = {"w": rng.standard_normal((64, 32)).astype(np.float32)}
    model = save(make_model([node("MatMul", ["x", "w"], ["y"], name="project")], [("x", ["N", 64])], [("y", ["N", 32])], weights), tmp_path / "model.onnx")
    data = save_arrays(tmp_path / "data", [rng.standard_normal((24, 64)).astype(np.float32)])
    bitpress.ok("quantize", model, "-o", tmp_path / "q.onnx", "--config", "INT4_WEIGHTS")
    words = (tmp_path / "q.onnx", "--reference", model, "--data", data, "--task", task)
    whole, total = parts_of(bitpress, tmp_path, 4, *words)
    assert whole.read_bytes() == total.read_bytes()
    bitpress.ok("inspect", total, "--json", tmp_path / "sum.json")
    found = json.loads((tmp_path / "sum.json").read_text())["task"]
    wanted = json.loads(bitpress.ok("evaluate", *words, "--batch", 1, "--json", "-"))["task"]
    assert found == wanted and (found is None) == (task == "none")


def test_parts_of_different_tasks_are_refused(bitpress, detector, tmp_path):  # noqa: F811
    scenes(tmp_path / "data")
    files = []
    for i, task in enumerate(["detection:layout=end2end", "detection:layout=end2end,score=0.3", "regression", "auto"]):
        files.append(tmp_path / f"part{i}.bpe")
        bitpress.ok("evaluate", detector, "--data", tmp_path / "data", "--task", task, "--shard", f"{i + 1}/4", "-o", files[-1])
    assert [b"detection" in file.read_bytes() or b"end2end" in file.read_bytes() for file in files] == [True, True, False, False]
    for one, other in itertools.combinations(files, 2):
        message = bitpress.error("merge", one, other, "-o", tmp_path / "sum.bpe")
        assert "they measure different tasks" in message or "not measured with the same options" in message


def test_parts_with_other_labels_are_refused(bitpress, detector, tmp_path):  # noqa: F811
    path, labels, _ = scenes(tmp_path / "data")
    copy, other = tmp_path / "copy.json", tmp_path / "other.json"
    copy.write_bytes(path.read_bytes())
    other.write_text(json.dumps({**labels, "annotations": labels["annotations"][1:]}))
    parts = []
    for shard, file in [(1, path), (2, copy), (2, other)]:
        parts.append(tmp_path / f"part{len(parts)}.bpe")
        bitpress.ok("evaluate", detector, "--data", tmp_path / "data", "--task", f"detection:layout=end2end,fit=letterbox,labels={file}",
                    "--shard", f"{shard}/2", "-o", parts[-1])
    message = bitpress.error("merge", parts[0], parts[2], "-o", tmp_path / "sum.bpe")
    assert "by files with different contents" in message and not (tmp_path / "sum.bpe").exists()
    bitpress.ok("merge", *parts[:2], "-o", tmp_path / "sum.bpe")
