"""Models written by AMD Quark load with our operator library and give the logits that Quark's own operators give."""

import numpy as np
import onnxruntime
import pytest


@pytest.mark.parametrize("name", ["efficientnet_lite0_mxfp8e4m3", "efficientnet_lite0_bf16"])
def test_logits(name, shared, operator_library):
    folder = shared / "models" / "quark"
    golden = np.load(folder / f"{name}.npz")
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.register_custom_ops_library(str(operator_library))
    session = onnxruntime.InferenceSession(str(folder / f"{name}.onnx"), options, providers=["CPUExecutionProvider"])
    logits, wanted = session.run(None, {"input": golden["input"]})[0], golden["logits"]
    assert (logits.argmax(axis=1) == wanted.argmax(axis=1)).all()
    for row, wanted_row in zip(logits.astype(np.float64), wanted.astype(np.float64)):
        assert row @ wanted_row / (np.linalg.norm(row) * np.linalg.norm(wanted_row)) > 0.9999
