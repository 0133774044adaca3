"""Ctrl-C stops long work at once, and leaves nothing behind."""

import os
import signal
import subprocess
import sys

import pytest
from conftest import PACKAGE

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
