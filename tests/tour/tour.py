"""Runs the commands and scripts of "A short tour" in docs/tour.md word for word, in a folder that tour_inputs.py filled.

usage: tour.py tour.md FOLDER        with the command `bitpress` and the package `bitpress` installed

It needs no package of its own, so that it runs where nothing but Bitpress is installed. The commands are not started in an order of
ours, or with options of ours: what the tour makes in one step is what a later step of it reads. Every command must end well and
leave the file that it names with -o or --json. The first that does not ends the run with its output and exit code 1.
"""

import re
import shlex
import subprocess
import sys
import time
from pathlib import Path

SECTION = re.compile(r"^## A short tour\n(.*?)^## ", re.MULTILINE | re.DOTALL)
FENCE = re.compile(r"^```(sh|python)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# The tour reads two files that it does not make, and its scripts name what the text around them brings along.
BEFORE = ("bitpress calibrate model.onnx --data samples -o more.bpc", "bitpress quantize model.onnx -o model_bf16.onnx --config BF16")
SCRIPT_BEFORE = """
import numpy, onnxruntime, bitpress
reader = [{"image": numpy.load(path)} for path in sorted(__import__("pathlib").Path("samples").iterdir())]
"""
SCRIPT_AFTER = """
assert session.run(None, {"image": reader[0]["image"]})
"""


def steps(readme):
    """Returns (language, text) for each command and each script, in their order."""
    section = SECTION.search(readme.read_text(encoding="utf-8"))
    if not section:
        sys.exit(f"{readme}: there is no section \"A short tour\"")
    found, script = [("sh", command) for command in BEFORE], SCRIPT_BEFORE
    for language, text in FENCE.findall(section[1]):
        if language == "sh":
            found += [("sh", line) for line in text.replace("\\\n", " ").splitlines()]
        else:
            script += text
    return [*found, ("python", script + SCRIPT_AFTER)]


def outputs(command):
    """The files that a command says it writes."""
    words = shlex.split(command, comments=True) if "<(" not in command else []
    return [words[i + 1] for i, word in enumerate(words) if word in ("-o", "--json")]


def main():
    readme, folder = map(Path, sys.argv[1:3])
    count = 0
    for language, text in steps(readme):
        begin = time.monotonic()
        result = subprocess.run(["bash", "-c", text] if language == "sh" else [sys.executable, "-c", text], cwd=folder, check=False,
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        title = " ".join(text.split()) if language == "sh" else "the scripts"
        missing = [name for name in outputs(text) if not (folder / name).is_file()] if language == "sh" else []
        if result.returncode or missing:
            sys.exit(f"{result.stdout}\nfailed with exit code {result.returncode}, without {missing or 'a missing file'}: {title}")
        count += 1
        print(f"{time.monotonic() - begin:6.1f} s  {title}", flush=True)
    print(f"the tour of {readme.name}: {count} passed, 0 failed")


if __name__ == "__main__":
    main()
