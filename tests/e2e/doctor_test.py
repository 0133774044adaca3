"""`bitpress doctor` tells what is on this machine, and what is missing."""

import json
import os
import subprocess

import pytest


@pytest.mark.quick
def test_nothing_is_missing_here(bitpress, tmp_path):
    text = bitpress.ok("doctor", "--json", tmp_path / "doctor.json")
    report = json.loads((tmp_path / "doctor.json").read_text())
    assert report["runs_models"] and report["threads"] == os.cpu_count()
    assert report["onnxruntime"]["version"] in text and report["onnxruntime"]["library"] in text
    assert report["operator_library"].endswith(("libbitpress_ops.so", "bitpress_ops.dll"))
    assert report["kernels"] in report["supported_kernels"]
    assert not [finding for finding in report["findings"] if finding["kind"] == "problem"]
    with open("/proc/cpuinfo") as file:
        words = set(file.read().split())
    assert set(report["instruction_sets"]) <= words
    vnni = {"avx512_vnni", "avx_vnni"} & words
    assert bool(vnni) != ("no VNNI" in text) or report["architecture"] != "x86-64"
    may_have_tiles = {"amx_bf16", "avx512_vnni"} <= words
    assert ("AMX" in report["supported_kernels"] or "does not let this process use" in text) == may_have_tiles


def test_the_version_says_what_it_was_built_with(bitpress):
    lines = bitpress.ok("--version").splitlines()
    assert lines[0].startswith("bitpress ") and lines[1].startswith("built with ") and "protobuf" in lines[1]


def test_portable_kernels_are_named(program):
    run = subprocess.run([program, "doctor"], env={**os.environ, "BITPRESS_KERNELS": "PORTABLE"}, capture_output=True, text=True)
    assert run.returncode == 0 and "warning: BITPRESS_KERNELS makes our kernels use PORTABLE" in run.stdout


def test_a_missing_runtime_is_a_problem(program, tmp_path):
    (tmp_path / "no.so").write_bytes(b"no library")
    run = subprocess.run([program, "doctor", "--json", tmp_path / "doctor.json"],
                         env={**os.environ, "BITPRESS_ONNXRUNTIME": str(tmp_path / "no.so")}, capture_output=True, text=True)
    assert run.returncode == 1 and "problem: " in run.stdout and "no.so" in run.stdout
    assert run.stderr.startswith("bitpress: error: some commands do not work here")
    report = json.loads((tmp_path / "doctor.json").read_text())
    assert report["onnxruntime"]["version"] == "" and not report["runs_models"]
