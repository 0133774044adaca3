"""Small real networks of other exporters, opsets and kinds are written, load in a process of their own, do not grow, and stay close to
the float networks. bench/corpus/ does the same with many networks, which take hours.

The table holds measurements of 2026-11-22 with ONNX Runtime 1.31.1 on x86 with AVX-512 VNNI. A bar is a measurement less a margin.
"""

import functools
import subprocess
import sys

import numpy as np
import onnx
import pytest
import real_networks
from models import sqnr_db

# Without the networks nothing has been tested.
pytestmark = [pytest.mark.usefixtures("source"), pytest.mark.corpus]

MARGIN_DB = 1.0  # as in real_network_test.py
OPSETS = {"denoiser": 11, "branches": 16, "settings_table": 21}
# The first output's SQNR. The keys are the words that follow `--config`.
MEASURED = {
    "denoiser": {"INT8_DYNAMIC": 36.4, "INT8_WEIGHTS": 42.3, "INT4_WEIGHTS": 22.9, "MX9": 45.1, "MX6": 28.2, "BF16": 56.2},
    "branches": {"INT8": 18.6, "INT8_DYNAMIC": 47.9, "INT8_WEIGHTS": 52.6, "MX9": 54.2, "MX6": 34.1, "BF16": 65.8},
    "settings_table": {"INT8_DYNAMIC": 50.7, "INT8_WEIGHTS": 52.0, "INT4_WEIGHTS": 27.9},
}
NEED_SAMPLES = ["INT8"]
# Runs the model with the operator library and without it. A crash in ONNX Runtime ends this process and not that of the tests.
RUN = """
import sys
import numpy as np
import onnxruntime
model, library, samples, answers = sys.argv[1:]
with np.load(samples) as arrays:
    names = [name for name in arrays if name.startswith("0 ")]
    runs = [{name[2:]: arrays[f"{i} {name[2:]}"] for name in names} for i in range(len(arrays) // len(names))]
found = {}
for form in ("library", "alone"):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    if form == "library":
        options.register_custom_ops_library(library)
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    found[form] = np.concatenate([session.run(None, inputs)[0] for inputs in runs])
np.savez(answers, **found)
"""


@pytest.fixture(scope="module")
def networks(source, operator_library, tmp_path_factory):
    """networks(name) returns a network with the file of its validation samples, and with the float outputs as `wanted`."""

    @functools.cache
    def make(name):
        folder = tmp_path_factory.mktemp(name)
        made = getattr(real_networks, name)(source, folder / "samples")
        made.samples = folder / "validation.npz"
        np.savez(made.samples, **{f"{i} {key}": array for i, inputs in enumerate(made.validation) for key, array in inputs.items()})
        made.wanted = made.outputs(made.path, operator_library)
        return made

    return make


def outputs(network, path, library, folder):
    """The first output of all runs, with the operator library and alone, from another process."""
    command = [sys.executable, "-c", RUN, path, library, network.samples, folder / "answers.npz"]
    result = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    assert result.returncode == 0, f"exit status {result.returncode}: {result.stderr[-500:]}"
    with np.load(folder / "answers.npz") as arrays:
        return dict(arrays)


@pytest.mark.parametrize("name", MEASURED)
def test_the_networks_are_those_of_the_table(name, networks):
    network = networks(name)
    opsets = {entry.domain: entry.version for entry in onnx.load(network.path).opset_import}
    assert opsets[""] == OPSETS[name]
    assert len(network.validation) >= 16 and np.abs(network.wanted).max() > 0.1


@pytest.mark.parametrize("name, config", [(name, config) for name, table in MEASURED.items() for config in table])
def test_each_configuration(name, config, networks, bitpress, operator_library, tmp_path):
    network = networks(name)
    samples = ["--data", network.learning] if config in NEED_SAMPLES else []
    bitpress.ok("quantize", network.path, "-o", tmp_path / "q.onnx", "--config", *config.split(), *samples)
    assert (tmp_path / "q.onnx").stat().st_size <= network.path.stat().st_size
    found = {form: sqnr_db(network.wanted, answers)
             for form, answers in outputs(network, tmp_path / "q.onnx", operator_library, tmp_path).items()}
    assert min(found.values()) >= MEASURED[name][config] - MARGIN_DB, f"{found}, measured before: {MEASURED[name][config]} dB"
