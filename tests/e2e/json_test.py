"""--json reports to programs: in a file beside the text, and with `-` on standard output instead of it."""

import json
import re

import models
import numpy as np
import pytest


@pytest.fixture
def samples(tmp_path):
    folder = tmp_path / "samples"
    folder.mkdir()
    for i, image in enumerate(models.smooth_images(6, seed=3)):
        np.save(folder / f"{i}.npy", image[None].astype(np.float32))
    return folder


def both(bitpress, tmp_path, *command):
    """Returns the text and the JSON of a command, whose JSON is the same in a file and on standard output."""
    file = tmp_path / "report.json"
    text = bitpress.ok(*command, "--json", file)
    assert not text.startswith("{")
    report = json.loads(file.read_text())
    printed = json.loads(bitpress.ok(*command, "--json", "-"))
    assert list(printed) == list(report) and next(iter(report.values())) == 1, "a version comes first"
    return text, report


def test_every_report_has_json(conv_path, samples, tmp_path, bitpress):
    quantized = tmp_path / "q.onnx"
    text, report = both(bitpress.checking, tmp_path, "quantize", conv_path, "-o", quantized, "--config", "INT8", "--data", samples)
    assert report["output_bytes"] == quantized.stat().st_size and report["check"]["is_run"]
    num_weights = len([row for row in report["tensors"] if row["role"] == "weight" and row["format"]])
    assert f"weights:     {num_weights} int8" in text and len(report["weights"]) >= num_weights

    _, report = both(bitpress, tmp_path, "quantize", conv_path, "-o", quantized, "--config", "MX6", "--disable-pass", "record-config")
    assert report["disabled_passes"] == ["record-config"] and {row["format"] for row in report["tensors"] if row["role"] == "weight"} >= {"mx6"}
    bitpress.ok("quantize", conv_path, "-o", quantized, "--config", "MX6_ADAQUANT", "--data", samples, "--set", "finetune_rounds=2", "--json",
                tmp_path / "report.json")
    assert json.loads((tmp_path / "report.json").read_text())["finetuning"]["layers"][0]["format"] == "mx6"

    text, report = both(bitpress, tmp_path, "inspect", quantized)
    assert report["file_bytes"] == quantized.stat().st_size and report["quantizers"]
    assert {constant["format"] for constant in report["constants"]} >= {"mx6"} and report["inputs"][0]["shape"][1:] == list(models.CONV_INPUT)

    stats = tmp_path / "stats.bpc"
    text, report = both(bitpress, tmp_path, "calibrate", conv_path, "--data", samples, "-o", stats)
    assert report["num_samples"] == 6 and f"{len(report['tensors'])} tensors" in text
    assert any("channel_magnitudes" in tensor for tensor in report["tensors"])
    assert both(bitpress, tmp_path, "inspect", stats)[1] == report
    doubled = both(bitpress, tmp_path, "merge", stats, stats, "-o", tmp_path / "twice.bpc")[1]
    assert doubled["num_samples"] == 12 and doubled["tensors"][0]["max"] == report["tensors"][0]["max"]

    report = both(bitpress, tmp_path, "unpack", quantized, "-o", tmp_path / "floats.onnx")[1]
    assert report["num_weights"] > 0 and report["output_bytes"] == (tmp_path / "floats.onnx").stat().st_size
    bitpress.ok("quantize", conv_path, "-o", tmp_path / "bf16.onnx", "--config", "BF16")
    report = both(bitpress, tmp_path, "optimize", tmp_path / "bf16.onnx", "-o", tmp_path / "here.onnx")[1]
    assert "ONNX Runtime" in report["machine"]

    compared = ["--reference", conv_path, "--data", samples]
    assert both(bitpress, tmp_path, "evaluate", quantized, *compared)[1]["num_samples"] == 6
    assert both(bitpress, tmp_path, "check", quantized)[1]["is_run"]
    assert both(bitpress, tmp_path, "doctor")[1]["runs_models"]
    assert both(bitpress, tmp_path, "report", quantized, *compared, "-o", tmp_path / "page.html")[1]["layers"]
    one_thread = ["--threads", "1"]  # these small models take longer with more
    space = ["--data", samples, *one_thread, "--candidates", "mx9,mx6", "--budget", "bits<=12", "-o", tmp_path / "plan.json"]
    assert both(bitpress, tmp_path, "search", conv_path, *space)[1]["front"]
    tuned = ["-o", tmp_path / "tuned.onnx", "--data", samples, *one_thread, "--configs", "MX9"]
    assert both(bitpress, tmp_path, "autotune", conv_path, *tuned)[1]["trials"]
    assert both(bitpress, tmp_path, "auto", conv_path, *tuned, "--no-report")[1]["trials"]


@pytest.mark.quick
def test_every_command_that_reports_has_the_option(bitpress):
    """The others print no report: their output is a JSON file or a document already."""
    commands = re.findall(r"^  ([a-z]+) ", bitpress.ok("--help").partition("Subcommands:")[2].partition("Example:")[0], re.M)
    without = {name for name in commands if "--json" not in bitpress.ok(name, "--help")}
    assert len(commands) > 12 and without == {"plan", "sensitivity", "targets", "completion", "manual"}


def test_file_is_opened_before_the_work(conv_path, tmp_path, bitpress):
    assert "report.json" in bitpress.error("quantize", conv_path, "-o", tmp_path / "q.onnx", "--config", "MX6", "--json", tmp_path / "no" / "report.json")
    assert not (tmp_path / "q.onnx").exists()
