#!/usr/bin/env python3
"""Times commands and sessions of the build for Windows, under Wine, beside those of Linux.

    ./dev windows build && tools/measure/windows_times.py MODEL PHOTOS | tools/measure/put_table.py docs/benchmarks/speed.md windows

MODEL is a network of images of 224 x 224 such as EfficientNet-Lite0, PHOTOS a folder of samples. Both systems take turns, and the shortest
of some runs counts. A command's time is that of its process from start to end: Wine alone takes the time of `--version`.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "windows")]
import rig  # noqa: E402

IMAGE = ["--image", "resize=256,crop=224,mean=0.498,std=0.502"]
FORMATS = ["MXINT8", "MX6", "MXFP8E4M3", "BFP16", "INT8"]


def seconds(command):
    start = time.monotonic()
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done.stderr
    return time.monotonic() - start, done.stdout


def shortest(commands, runs, measure):
    """The least of what `measure` finds in runs of each command, which take turns."""
    found = [[measure(*seconds(command)) for command in commands] for _ in range(runs)]
    return [min(times) for times in zip(*found)]


def row(name, linux, windows, unit, digits):
    print(f"| {name} | {linux:.{digits}f} {unit} | {windows:.{digits}f} {unit} | {windows / linux:.2f} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("photos", type=Path)
    parser.add_argument("--runs", type=int, default=3)
    arguments = parser.parse_args()
    threads = str(len(os.sched_getaffinity(0)))
    programs = [[ROOT / "build" / "bitpress"], [rig.WINE, rig.BUILD / "bitpress.exe"]]
    data = ["--data", arguments.photos, *IMAGE, "--samples", "32"]
    print("| what | Linux | Windows under Wine | ratio |", "|---|---|---|---|", sep="\n")
    # A program that waits keeps Wine's services, which would start anew for each command.
    waiting = subprocess.Popen([rig.WINE, "cmd"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    with waiting, tempfile.TemporaryDirectory() as scratch:
        scratch = Path(scratch)
        output = scratch / "out.onnx"
        for words in (["--version"], ["inspect", arguments.model], ["quantize", arguments.model, "-o", output, "--config", "MX6", "--check", "off"],
                      ["calibrate", arguments.model, "-o", scratch / "c.json", "--config", "INT8", *data],
                      ["quantize", arguments.model, "-o", output, "--config", "INT8", *data]):
            shown = " ".join(str(word) for word in words if word in ("--version", "inspect", "quantize", "calibrate", "MX6", "INT8", "--check", "off"))
            row(f"`{shown}`", *shortest([[*program, *words] for program in programs], arguments.runs, lambda time, _: time), "s", 2)
        x = np.random.default_rng(0).standard_normal((1, 3, 224, 224)).astype(np.float32)
        (scratch / "inputs.txt").write_text(f"{input_name(arguments.model)} 1 {x.nbytes} 1 3 224 224\n", encoding="utf-8")
        (scratch / "inputs.bin").write_bytes(x.tobytes())
        library = ROOT / ".deps" / "onnxruntime" / "lib" / "libonnxruntime.so.1"
        for name in ["float", *FORMATS]:
            model = arguments.model
            if name != "float":
                model = output
                seconds([*programs[0], "quantize", arguments.model, "-o", model, "--config", name, "--check", "off", *(data if name == "INT8" else [])])
            rest = [model, scratch, threads, "1", "20"]
            row(f"session: {name}", *shortest([[ROOT / "build" / "sessions", library, ROOT / "build" / "libbitpress_ops.so", *rest],
                                                [rig.WINE, rig.BUILD / "sessions.exe", "onnxruntime.dll", rig.BUILD / "bitpress_ops.dll", *rest]],
                                               arguments.runs, lambda _, text: float(text.split()[-2])), "ms", 1)


def input_name(model):
    import onnx
    return onnx.load(model, load_external_data=False).graph.input[0].name


if __name__ == "__main__":
    main()
