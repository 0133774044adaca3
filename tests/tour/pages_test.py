"""The pages of docs/guides/tasks/, word for word: each goes from a package to a measured file."""

import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
from locations import BUILD, PACKAGE, ROOT

PAGES = sorted((ROOT / "docs" / "guides" / "tasks").glob("*.md"))
TASKS = [page for page in PAGES if page.stem != "index"]
RUNNER = Path(__file__).with_name("pages.py")
compare = runpy.run_path(str(RUNNER))["compare"]


def run(page, folder, commands, environment=None):
    variables = {**os.environ, "PATH": f"{commands}:{os.environ['PATH']}", "PYTHONPATH": str(PACKAGE), **(environment or {})}
    return subprocess.run([sys.executable, "-B", RUNNER, page], cwd=folder, env=variables, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def packages():
    """The folder of the programs of an environment with what the examples import; it is kept for the next time."""
    folder, requirements = BUILD / "tasks" / "venv", ROOT / "examples" / "tasks" / "requirements.txt"
    stamp = folder / "stamp"
    if not stamp.is_file() or stamp.read_bytes() != requirements.read_bytes():
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
        subprocess.run([folder / "bin" / "pip", "install", "--quiet", "--requirement", str(requirements)], check=True)
        launcher = folder / "bin" / "bitpress"
        launcher.write_text(f'#!/bin/sh\nexec "{folder}/bin/python" -B -m bitpress "$@"\n')
        launcher.chmod(0o755)
        stamp.write_bytes(requirements.read_bytes())
    return folder / "bin"


@pytest.mark.tasks
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("page", TASKS, ids=lambda page: page.stem)
def test_a_page_does_what_it_shows(page, tmp_path, packages):
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    result = run(page, tmp_path, packages)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.quick
def test_there_are_ten_tasks_on_short_pages():
    index = (ROOT / "docs" / "guides" / "tasks" / "index.md").read_text(encoding="utf-8")
    assert sorted(re.findall(r"^\| \[[^\]]*\]\((\w+\.md)\)", index, re.MULTILINE)) == [page.name for page in TASKS] and len(TASKS) == 10
    assert {page.name for page in PAGES if len(page.read_text(encoding="utf-8").splitlines()) > 75} == set()


def test_what_differs_from_machine_to_machine_may_differ():
    shown = "+ INT8     1.00 %   5.1 MB\n...\nbest.onnx: INT8, loss 1 %\n"
    printed = "first\n  INT8_DYNAMIC     -0.25 %   500.25 kB   misses: bytes, time\nmore\nbest.onnx: MX6, loss 2.5 %\n"
    assert compare(shown, printed) == "  INT8_DYNAMIC     -0.25 %   500.25 kB   misses: bytes, time\n...\nbest.onnx: MX6, loss 2.5 %\n"
    for other in ("first\n", "best.onnx: MX6, loss 2 %\n  INT8 1 % 5 MB\n"):
        with pytest.raises(ValueError):
            compare(shown, other)


@pytest.mark.parametrize("block, said", [
    ("```sh\nfalse\n```\n", "exit code 1: false"),
    ("```sh\necho one\n```\n\n```text\ntwo\n```\n", "not printed: two"),
])
def test_a_wrong_page_is_found(tmp_path, block, said):
    page = tmp_path / "page.md"
    page.write_text(f"# T\n\n```sh\nmkdir -p sub\ncd sub\n```\n\n```sh\nbasename $PWD\n```\n\n```text\nsub\n```\n\n{block}")
    result = run(page, tmp_path, tmp_path)
    assert result.returncode == 1 and said in result.stderr, result.stdout + result.stderr
