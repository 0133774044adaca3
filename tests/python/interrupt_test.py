"""Ctrl-C stops long work at once and leaves nothing behind."""

import shutil
import os
import signal
import subprocess
import sys

import numpy as np
import pytest
from locations import PACKAGE

import bitpress

SCRIPT = """
import sys
import numpy as np
import bitpress

def samples():
    while True:
        print("a sample", flush=True)
        yield {"image": np.zeros((1, 3, 20, 20), np.float32)}

def said(stage, done, total):
    if stage == "calibrate":
        print("a sample", flush=True)

data = samples() if sys.argv[3] == "reader" else np.zeros((200_000, 3, 20, 20), np.float32)
try:
    bitpress.quantize(sys.argv[1], sys.argv[2], "A8W8", data, progress=said if sys.argv[3] == "array" else False)
except KeyboardInterrupt:
    print("stopped", flush=True)
"""


@pytest.fixture(autouse=True)
def interrupts():
    """Lets Ctrl-C raise KeyboardInterrupt: a process in the background of a script inherits that it is ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("kind", ["reader", "array"])
def test_an_interrupt_stops_the_work(tmp_path, conv_path, kind):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    output = tmp_path / "out.onnx"
    process = subprocess.Popen([sys.executable, "-B", str(script), str(conv_path), str(output), kind], text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(PACKAGE)})
    try:
        assert process.stdout.readline() == "a sample\n", process.stderr.read()
        process.send_signal(signal.SIGINT)
        said, errors = process.communicate(timeout=60)
    finally:
        process.kill()
    assert said.splitlines()[-1] == "stopped" and process.returncode == 0, errors
    assert sorted(path.name for path in tmp_path.iterdir()) == ["conv.onnx", "script.py"]


class OneInterrupt:
    """Sends Ctrl-C at the first report of a stage, and never again. Code that ignores it runs to the end."""

    def __init__(self, stage):
        self.stage, self.num_interrupts = stage, 0

    def __call__(self, stage, done, total):
        if stage == self.stage and self.num_interrupts == 0:
            self.num_interrupts = 1
            signal.raise_signal(signal.SIGINT)


# Weights are quantized while the model is written: the deepest place from which an interrupt must come back.
@pytest.mark.parametrize("stage", ["calibrate", "quantize weights", "check", "evaluate"])
def test_autotune_does_not_go_on_to_the_next_configuration(tmp_path, conv_path, images, stage):
    progress = OneInterrupt(stage)
    with pytest.raises(KeyboardInterrupt):
        bitpress.autotune(conv_path, tmp_path / "out.onnx", images, configs=["A8W8", "MX6", "MX9"], tolerable_loss=0, progress=progress, check=True)
    assert progress.num_interrupts == 1
    assert [path.name for path in tmp_path.iterdir()] == ["conv.onnx"]


@pytest.mark.parametrize("call, stage", [
    pytest.param(lambda model, folder, data, **progress: bitpress.quantize(model, folder / "out.onnx", "MX6", **progress),
                 "quantize weights", marks=pytest.mark.quick),
    (lambda model, folder, data, **progress: bitpress.quantize(model, folder / "out.onnx", "MX6", check=True, **progress), "check"),
    (lambda model, folder, data, **progress: bitpress.sensitivity(model, data, ["mx9", "mx6"], **progress), "sensitivity"),
    (lambda model, folder, data, **progress: bitpress.search(model, data, ["mx9", "mx6"], target="sqnr>=20", **progress), "sensitivity"),
    (lambda model, folder, data, **progress: bitpress.search(model, data, ["mx9", "mx6"], target="sqnr>=20", **progress),
     "measure models"),
    (lambda model, folder, data, **progress: bitpress.search(model, data, ["mx9", "mx6"], target="sqnr>=20", **progress),
     "quantize weights"),
], ids=["quantize", "quantize, check", "sensitivity", "search, sensitivity", "search, trials", "search, final model"])
def test_an_interrupt_leaves_every_function(tmp_path, conv_path, images, call, stage):
    progress = OneInterrupt(stage)
    with pytest.raises(KeyboardInterrupt):
        call(conv_path, tmp_path, images, progress=progress)
    assert progress.num_interrupts == 1
    assert [path.name for path in tmp_path.iterdir()] == ["conv.onnx"]


def test_a_file_that_cannot_be_written_stops_autotune(tmp_path, conv_path, images):
    """The error is no fault of the configuration, so the next one is not tried."""
    configs = set()

    def remove_the_folder_of_trials(stage, *_):
        configs.add(stage)
        for folder in tmp_path.glob("out.onnx.*"):
            shutil.rmtree(folder)

    with pytest.raises(bitpress.FileError, match="out.onnx"):
        bitpress.autotune(conv_path, tmp_path / "out.onnx", images, configs=["MX4", "MX6"], progress=remove_the_folder_of_trials)
    assert configs == {"quantize weights"} and not (tmp_path / "out.onnx").exists()
