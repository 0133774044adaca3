"""`-` in the place of a file is standard input, and behind -o standard output."""

import subprocess

import onnx
import pytest


def run(program, *arguments, content=b""):
    return subprocess.run([str(program), *map(str, arguments)], input=content, capture_output=True, check=False, timeout=300)


def test_a_model_goes_through(program, matmul_path, tmp_path):
    whole = tmp_path / "file.onnx"
    wanted = run(program, "quantize", matmul_path, "-o", whole, "--config", "MX6", "--check", "off")
    result = run(program, "quantize", "-", "-o", "-", "--config", "MX6", "--check", "off", content=matmul_path.read_bytes())
    assert result.returncode == 0 and result.stdout == whole.read_bytes()
    assert result.stderr.startswith(b"-: ") and wanted.stdout.count(b"\n") == result.stderr.count(b"\n")
    onnx.checker.check_model(onnx.load_from_string(result.stdout))
    piped = run(program, "inspect", "-", "--json", "-", content=result.stdout)
    assert piped.returncode == 0 and piped.stdout == run(program, "inspect", whole, "--json", "-").stdout


def test_auto_names_the_streams_as_they_were_typed(program, matmul_path):
    result = run(program, "auto", "-", "-o", "-", "--configs", "INT8_WEIGHTS,FP16", content=matmul_path.read_bytes())
    assert result.returncode == 0 and onnx.load_from_string(result.stdout).graph.node
    text = result.stderr.decode()
    assert "\n-: " in text and "again: bitpress quantize - -o - --config " in text and "page:" not in text and "/bitpress-" not in text


def test_a_plan_is_written_to_standard_output(program, matmul_path, tmp_path):
    run(program, "plan", matmul_path, "--config", "MX6", "-o", tmp_path / "plan.json")
    assert run(program, "plan", matmul_path, "--config", "MX6", "-o", "-").stdout == (tmp_path / "plan.json").read_bytes()


@pytest.mark.parametrize("arguments, text", [
    (["evaluate", "-", "--reference", "-", "--data", "."], b"standard input (-) is read once"),
    (["quantize", "-", "-o", "-", "--config", "MX6", "--json", "-"], b"--json - and -o - both write to standard output"),
    (["inspect", "-"], b"model '-': the model has no graph"),
])
def test_wrong_use(program, arguments, text):
    result = run(program, *arguments)
    assert result.returncode == 1 and text in result.stderr and result.stdout == b""
