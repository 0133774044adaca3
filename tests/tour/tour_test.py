"""The tour of the documentation, word for word, with what the build made. packaging/wheel/try.sh runs it with an installed wheel."""

import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
import tour_inputs
from locations import PACKAGE, ROOT

# A script by its path: pytest names this folder `tour` too.
TOUR = Path(__file__).with_name("tour.py")


@pytest.fixture(scope="module")
def commands(tmp_path_factory):
    """A folder with the command `bitpress`, as pip would install it."""
    folder = tmp_path_factory.mktemp("bin")
    launcher = folder / "bitpress"
    launcher.write_text(f'#!/bin/sh\nexec "{sys.executable}" -B -m bitpress "$@"\n')
    launcher.chmod(0o755)
    return folder


def run(readme, folder, commands):
    environment = {**os.environ, "PATH": f"{commands}:{os.environ['PATH']}", "PYTHONPATH": str(PACKAGE)}
    return subprocess.run([sys.executable, "-B", TOUR, readme, folder], env=environment, capture_output=True, text=True,
                          timeout=1200, check=False)


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("inputs")
    tour_inputs.make(folder)
    return folder


@pytest.mark.scripts
def test_the_tour_can_be_taken(tmp_path, commands):
    tour_inputs.make(tmp_path)
    result = run(ROOT / "docs" / "tour.md", tmp_path, commands)
    assert result.returncode == 0, result.stdout + result.stderr
    assert len(runpy.run_path(str(TOUR))["steps"](ROOT / "docs" / "tour.md")) > 25 and result.stdout.endswith(" passed, 0 failed\n"), result.stdout


@pytest.mark.parametrize("command, said", [
    ("bitpress inspect missing.onnx", "missing.onnx"),
    ("bitpress doctor > /dev/null -o report.json || true", "report.json"),
])
def test_a_wrong_command_ends_the_tour(inputs, tmp_path, commands, command, said):
    readme = tmp_path / "README.md"
    readme.write_text(f"## A short tour\n\n```sh\n{command}\n```\n\n## Formats\n")
    result = run(readme, inputs, commands)
    assert result.returncode == 1 and said in result.stderr and f": {command}\n" in result.stderr, result.stdout + result.stderr
