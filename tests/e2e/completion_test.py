"""`bitpress completion` writes what shells read; each shell that is here completes with it."""

import re
import shutil
import subprocess

import pytest


def options_of(bitpress, command):
    return set(re.findall(r"^ +(?:-\w,)?(--[a-z0-9-]+)", bitpress.ok(command, "--help"), re.MULTILINE))


@pytest.fixture
def script(bitpress, tmp_path):
    def write(shell):
        path = tmp_path / f"completion.{shell}"
        path.write_text(bitpress.ok("completion", shell))
        return path
    return write


def run(shell, code, script):
    if not shutil.which(shell):
        pytest.skip(f"there is no {shell}")
    result = subprocess.run([shell, "-c", code, "shell", str(script(shell))], capture_output=True, text=True)
    assert result.returncode == 0 and result.stderr == "", result.stderr
    return result.stdout.split()


@pytest.mark.quick
def test_bash(bitpress, script):
    complete = 'source "$1"; COMP_WORDS=({words}); COMP_CWORD={at}; _bitpress; echo "${{COMPREPLY[@]}}"'
    assert run("bash", complete.format(words="bitpress s", at=1), script) == ["sensitivity", "search"]
    assert set(run("bash", complete.format(words="bitpress quantize --", at=2), script)) == options_of(bitpress, "quantize")
    assert run("bash", complete.format(words="bitpress quantize --conf", at=2), script) == ["--config"]


def test_zsh(bitpress, script):
    if not shutil.which("zsh"):
        pytest.skip("there is no zsh")
    path = script("zsh")
    result = subprocess.run(["zsh", "-f", "-c", f"autoload -U compinit; compinit -u -D; source {path}; echo $_comps[bitpress]"],
                            capture_output=True, text=True)
    assert result.stdout.strip() == "_bitpress" and result.stderr == ""
    text = path.read_text()
    assert all(f"'*{option}[" in text for option in options_of(bitpress, "search"))


def test_fish(bitpress, script):
    assert run("fish", 'source $argv[2]; complete -C "bitpress sea" | string split -f1 \\t', script) == ["search"]
    found = run("fish", 'source $argv[2]; complete -C "bitpress search --" | string split -f1 \\t', script)
    assert options_of(bitpress, "search") <= set(found)
