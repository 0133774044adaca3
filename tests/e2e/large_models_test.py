"""A decoder of several pieces: rounding, calibration and gptq take less memory than the model has, and a killed gptq run goes on
where it stopped, with the same result."""

import subprocess
import sys
import time

import onnxruntime
import pytest
from locations import ROOT

pytestmark = pytest.mark.large
MEGABYTES = 420
GPTQ = ("--config", "MX6", "--activations", "none", "--finetune", "gptq", "--set", "finetune_hold_back=0")


@pytest.fixture(scope="module")
def decoder(tmp_path_factory):
    path = tmp_path_factory.mktemp("decoder") / "decoder.onnx"
    subprocess.run([sys.executable, ROOT / "tools" / "measure" / "make_decoder.py", path, "--gigabytes", str(MEGABYTES / 1000),
                    "--hidden", "768", "--inner", "2048", "--vocabulary", "8000", "--samples", "4", "--sequence", "16"], check=True)
    yield path
    for file in path.parent.glob("*.data"):
        file.unlink()


def peak_megabytes(command):
    """Runs a command and returns the most memory that it held, mapped files included."""
    code = ("import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL); "
            "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1e3)")
    done = subprocess.run([sys.executable, "-c", code, *map(str, command)], check=True, capture_output=True, text=True)
    return float(done.stdout)


def test_rounding_takes_the_memory_of_a_few_weights(decoder, tmp_path, program):
    command = [program, "quantize", decoder, "-o", tmp_path / "q.onnx", "--config", "MX6", "--activations", "none", "--check", "off"]
    assert peak_megabytes(command) < MEGABYTES / 2


def test_calibration_takes_the_memory_of_pieces(decoder, tmp_path, program):
    command = [program, "calibrate", decoder, "-o", tmp_path / "c.cal", "--config", "INT8", "--data", decoder.parent / "samples"]
    assert peak_megabytes(command) < 2 * MEGABYTES


def test_a_killed_run_goes_on_in_the_piece_where_it_was(decoder, tmp_path, program, bitpress_process):
    def command(output):
        return ["quantize", decoder, "-o", tmp_path / output, *GPTQ, "--data", decoder.parent / "samples", "--check", "off"]

    assert peak_megabytes([program, *command("whole.onnx")]) < 3 * MEGABYTES
    journal = tmp_path / "stopped.onnx.journal"
    process = subprocess.Popen([str(program), *map(str, command("stopped.onnx"))], stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL)
    # Half of the weights: several pieces are done.
    while process.poll() is None and not (journal.exists() and journal.stat().st_size > MEGABYTES / 2 * 1e6):
        time.sleep(0.01)
    process.kill()
    process.wait()
    assert journal.exists() and not (tmp_path / "stopped.onnx").exists()
    assert "in the journal of a stopped run" in bitpress_process.ok(*command("stopped.onnx"))
    assert (tmp_path / "stopped.onnx").read_bytes() == (tmp_path / "whole.onnx").read_bytes()
    onnxruntime.InferenceSession(tmp_path / "stopped.onnx", providers=["CPUExecutionProvider"])
