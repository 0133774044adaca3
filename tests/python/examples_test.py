"""Runs examples/imagenet with its documented flags, on a small network and photos made on the spot."""

import contextlib
import io
import runpy
import sys
import types

import models
import numpy as np
import onnx
import onnxruntime
import pytest
from locations import ROOT
from PIL import Image

pytestmark = pytest.mark.usefixtures("one_thread")
FOLDER = ROOT / "examples" / "imagenet"
IMAGE = "crop=20,mean=0.5,std=0.25"


@pytest.fixture
def run(monkeypatch):
    """run(name, *arguments) does what `python NAME` does, in this process, which has the packages loaded already. It returns what is on
    standard output, or on standard error with `code` or `errors`."""
    def run_script(name, *arguments, code=0, errors=False):
        monkeypatch.setattr(sys, "argv", [name, *map(str, arguments)])
        said = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(said[0]), contextlib.redirect_stderr(said[1]), pytest.raises(SystemExit) as end:
            runpy.run_path(str(FOLDER / name), run_name="__main__")
        assert end.value.code == code, said[1].getvalue()
        return said[1 if code or errors else 0].getvalue()

    monkeypatch.syspath_prepend(str(FOLDER))
    yield run_script
    sys.modules.pop("quantize_model", None)  # a script imports it


@pytest.fixture
def photos(tmp_path):
    """30 photos of ten classes in one flat folder, as in ImageNet's validation set."""
    folder = tmp_path / "val"
    folder.mkdir()
    random = np.random.default_rng(3)
    for i in range(30):
        pixels = random.integers(0, 256, (24, 30, 3), np.uint8)
        Image.fromarray(pixels).save(folder / f"ILSVRC2012_val_{i:08}_n{i % models.NUM_CLASSES:08}.JPEG")
    return folder


def test_the_three_scripts(run, tmp_path, conv_path, photos):
    calibration, output = tmp_path / "calib", tmp_path / "out.onnx"
    assert "30 photos moved, 10 classes" in run("prepare_data.py", photos, calibration)
    # As the document shows them, the names of photos in folders of synsets have none.
    assert (photos / "n00000003" / "ILSVRC2012_val_00000003.JPEG").is_file()
    assert len(list(photos.glob("n*/*.JPEG"))) == 30 and len(list(calibration.glob("n*/*.JPEG"))) == models.NUM_CLASSES
    assert "0 photos moved, 10 classes" in run("prepare_data.py", photos, calibration)
    said = run("quantize_model.py", "--input_model_path", conv_path, "--output_model_path", output, "--calibration_dataset_path",
               calibration, "--config", "A8W8", "--image", IMAGE)
    assert "% of the float model" in said
    for model in (conv_path, output):
        said = run("onnx_validate.py", photos, "--batch-size", 7, "--onnx-input", model, "--image", IMAGE, "--gpu")
        assert said.startswith("30 photos: top-1 ")


def test_a_session_of_ones_own_gives_the_same_accuracy(run, tmp_path, conv_path, photos, monkeypatch):
    """--gpu says that there is no CUDA, and what it would do in a session there gives the figures of the CPU."""
    run("prepare_data.py", photos, tmp_path / "calib")
    arguments = ("onnx_validate.py", photos, "--onnx-input", conv_path, "--image", IMAGE)
    said = run(*arguments, "--gpu", errors=True)
    assert "has no CUDAExecutionProvider" in said and "evaluated on the CPU" in said
    figures = run(*arguments)
    script = runpy.run_path(str(FOLDER / "onnx_validate.py"))
    given = types.SimpleNamespace(data=photos, image=IMAGE, labels=None, batch_size=7, samples=0)
    count, top1, top5 = script["accuracy"](onnxruntime.InferenceSession(conv_path), given)
    assert figures.startswith(f"{count} photos: top-1 {top1:.2%}, top-5 {top5:.2%}")


def test_fine_tuning_learns_from_all_photos(run, tmp_path, conv_path):
    """130 photos: Bitpress itself would learn from 100."""
    calibration = tmp_path / "calib"
    models.save_photos(calibration, 130, subfolders=2)

    def quantize(*arguments):
        output = tmp_path / "out.onnx"
        run("quantize_model.py", "--input_model_path", conv_path, "--output_model_path", output, "--calibration_dataset_path", calibration,
            "--config", "MX4_ADAQUANT", "--image", IMAGE, *arguments)
        return [constant.SerializeToString() for constant in onnx.load(output).graph.initializer]

    assert quantize() == quantize("--samples", 130) != quantize("--samples", 100)


def test_missing_classes_are_said(run, tmp_path, conv_path):
    models.save_photos(tmp_path / "val", 6, subfolders=3)
    said = run("onnx_validate.py", tmp_path / "val", "--onnx-input", conv_path, "--image", IMAGE, errors=True)
    assert f"has 3 subfolders, but the model has {models.NUM_CLASSES} classes" in said and "--labels" in said


def test_the_table(run, tmp_path, conv_path, photos):
    run("prepare_data.py", photos, tmp_path / "calib")
    table = run("print_table.py", "--model", conv_path, "--val", photos, "--calib", tmp_path / "calib", "--image", IMAGE,
                "--formats", "MX9", "INT8").splitlines()
    assert [row.split(" | ")[0] for row in table[2:]] == ["| float", "| MX9", "| INT8"]
    assert all(row.count("|") == 10 for row in table) and all("- |" not in row for row in table[3:])


def test_errors_are_one_line(run, tmp_path, conv_path):
    (tmp_path / "empty").mkdir()
    assert "no photo" in run("prepare_data.py", tmp_path / "empty", tmp_path / "calib", code=1)
    assert run("onnx_validate.py", tmp_path / "nowhere", "--onnx-input", conv_path, code=1).count("\n") == 1
    assert "did you mean" in run("quantize_model.py", "--input_model_path", conv_path, "--output_model_path", tmp_path / "o.onnx",
                                 "--config", "MX66", code=1)
