"""`bitpress manual` writes manual pages from the same descriptions as --help."""

import re
import shutil
import subprocess

import pytest


def commands_of(bitpress):
    return re.findall(r"^  ([a-z]+)  +\S", bitpress.ok("--help").split("Subcommands:")[1], re.MULTILINE)


@pytest.mark.quick
def test_a_page_has_every_option_of_the_help(bitpress):
    for command in commands_of(bitpress):
        page = bitpress.ok("manual", command).replace("\\-", "-")
        options = re.findall(r"(--[a-z][a-z-]*)", bitpress.ok(command, "--help").split("\n\n")[1])
        assert f".SH NAME\nbitpress-{command} - " in page
        for option in options:
            assert option in page, (command, option)


def test_pages_are_well_formed(bitpress, tmp_path):
    """No line of text begins with a request by accident, and man prints the page without a warning."""
    bitpress.ok("manual", "--pages", tmp_path)
    pages = sorted(tmp_path.iterdir())
    assert {page.name for page in pages} == {"bitpress.1", *(f"bitpress-{command}.1" for command in commands_of(bitpress))}
    known = {".TH", ".SH", ".SS", ".TP", ".PP", ".nf", ".fi"}
    for page in pages:
        for line in page.read_text(encoding="utf-8").splitlines():
            assert not line.startswith("'") and (not line.startswith(".") or line.split()[0] in known), (page, line)
    if shutil.which("groff"):
        run = subprocess.run(["groff", "-man", "-Tutf8", "-ww", *pages], capture_output=True, text=True, check=False)
        # A word that is wider than the line stays whole.
        warnings = [line for line in run.stderr.splitlines() if not line.endswith(("break line", "adjust line"))]
        assert run.returncode == 0 and not warnings


@pytest.mark.parametrize("arguments, words", [
    (["quantise"], "did you mean 'quantize'"),
    (["quantize", "--pages", "."], "--pages"),
])
def test_wrong_words_are_refused(bitpress, arguments, words):
    run = bitpress.run("manual", *arguments)
    assert run.returncode == 2 and words in run.stderr
