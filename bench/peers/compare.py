#!/usr/bin/env python3
"""Bitpress and its peers on one network, in one table. See README.md here.

    python compare.py --model MODEL --calib DIR --val DIR [--labels CSV] [--only bitpress ort nc] [--output table.md]
"""

import argparse
import datetime
import importlib.metadata
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
import urllib.request
import venv
from pathlib import Path

from jobs import TOOLS, TUNABLE, jobs
from samples import parse_spec, write_arrays

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
IMAGE = "resize=256,crop=224,mean=0.498,std=0.502"
COLUMNS = ["tool", "configuration", "top-1", "agree", "SQNR dB", "seconds", "CPU s", "peak MB", "file MB"]


class PeerError(Exception):
    """A tool could not be set up, or failed."""


def environment(tool: str) -> Path:
    """The interpreter of the tool's environment, which is made if need be."""
    folder = ROOT / ".deps" / "peers" / tool
    python, stamp = folder / "bin" / "python", folder / "requirements.stamp"
    wanted = "\n".join(TOOLS[tool].requirements)
    if stamp.is_file() and stamp.read_text(encoding="utf-8") == wanted:
        return python
    print(f"== setting up {TOOLS[tool].title} in {folder}", file=sys.stderr, flush=True)
    venv.create(folder, with_pip=True, clear=True)
    install = [str(python), "-m", "pip", "install", "--quiet", *TOOLS[tool].requirements]
    if TOOLS[tool].extra_index and is_reachable(TOOLS[tool].extra_index):
        install += ["--extra-index-url", TOOLS[tool].extra_index]
    result = subprocess.run(install, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise PeerError(f"{TOOLS[tool].title} cannot be installed: {last_line(result.stderr)}")
    stamp.write_text(wanted, encoding="utf-8")
    return python


def is_reachable(url: str) -> bool:
    """pip itself asks a silent host for minutes, once a package."""
    try:
        with urllib.request.urlopen(url, timeout=10):
            return True
    except OSError:
        return False


def last_line(text: str) -> str:
    lines = [line for line in text.strip().splitlines() if line.strip()]
    return lines[-1][:200] if lines else "no message"


def versions(tool: str, python) -> str:
    """'amd-quark 0.13, onnxruntime 1.31.1'"""
    script = "import importlib.metadata as m, sys; print(', '.join(f'{n} {m.version(n)}' for n in sys.argv[1:]))"
    return subprocess.run([str(python), "-c", script, *TOOLS[tool].shown], capture_output=True, text=True, check=True).stdout.strip()


def measured(command: list, timeout: float, folder: Path) -> tuple:
    """Seconds, seconds of all its CPUs and peak megabytes of a process, which may leave files in `folder`. Raises PeerError with its
    last line."""
    with tempfile.TemporaryFile() as errors:
        started = time.monotonic()
        process = subprocess.Popen([str(word) for word in command], stdout=subprocess.DEVNULL, stderr=errors, cwd=folder)
        while True:
            pid, status, usage = os.wait4(process.pid, os.WNOHANG)
            if pid:
                break
            if time.monotonic() - started > timeout:
                process.kill()
                os.wait4(process.pid, 0)
                raise PeerError(f"stopped after {timeout:.0f} s")
            time.sleep(0.02)
        process.returncode = os.waitstatus_to_exitcode(status)
        seconds = time.monotonic() - started
        if process.returncode != 0:
            errors.seek(0)
            raise PeerError(last_line(errors.read().decode(errors="replace")))
        return seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1000


def evaluate(program: Path, model: Path, arguments) -> dict:
    """The report of `bitpress evaluate`."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        command = [program, "evaluate", model, "--reference", arguments.model, "--data", arguments.val, "--image", arguments.image,
                   "--json", report]
        command += ["--labels", arguments.labels] if arguments.labels else []
        result = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
        if result.returncode != 0:
            raise PeerError(f"its model cannot be evaluated: {last_line(result.stderr)}")
        return json.loads(report.read_text(encoding="utf-8"))


def processor() -> str:
    """"AMD EPYC 9B45", as far as the system says it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        return next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.machine()


def percent(share) -> str:
    return "-" if share is None else f"{100 * share:.1f} %"


def row(tool: str, shown: str, report: dict, cost=None) -> list:
    costs = [f"{cost[0]:.1f}", f"{cost[1]:.1f}", f"{cost[2]:.0f}"] if cost else ["-"] * 3
    sqnr = "-" if report["sqnr_db"] is None else f"{report['sqnr_db']:.1f}"
    return [tool, shown, percent(report["top1"]), percent(report["agreement"]), sqnr, *costs, f"{report['file_bytes'] / 1e6:.1f}"]


def compare(arguments, folder: Path) -> list:
    """The lines of the table and its notes, printed as they come."""
    lines = []

    def say(line):
        lines.append(line)
        print(line, flush=True)

    program = ROOT / "build" / "bitpress"
    if not program.is_file():
        raise PeerError(f"{program} is missing: build first (./dev build)")
    samples = folder / "samples"
    write_arrays(arguments.calib, arguments.calib_labels, parse_spec(arguments.image), arguments.samples, samples)
    say("| " + " | ".join(COLUMNS) + " |")
    say("|" + "---|" * len(COLUMNS))
    say("| " + " | ".join(row("-", "float", evaluate(program, arguments.model, arguments))) + " |")
    notes = []
    pythons = {}
    tuned = [] if arguments.finetune is None else arguments.finetune or TUNABLE
    for tool in arguments.only:
        try:
            pythons[tool] = environment(tool) if TOOLS[tool].script else None
            notes += [f"{TOOLS[tool].title}: {versions(tool, pythons[tool])}"] if pythons[tool] else []
        except PeerError as error:
            notes += [f"{TOOLS[tool].title}: {error}"]
    scratch = folder / "scratch"
    scratch.mkdir()
    for job in jobs([tool for tool in arguments.only if tool in pythons], tuned):
        if arguments.configs and job.config not in arguments.configs:
            continue
        output = folder / "quantized.onnx"
        if job.tool == "bitpress":
            command = [program, "quantize", arguments.model, "-o", output, "--config", job.config, "--data", samples, "--check", "off"]
        else:
            command = [pythons[job.tool], HERE / TOOLS[job.tool].script, arguments.model, output, samples, job.config]
        title = TOOLS[job.tool].title
        try:
            cost = measured(command, arguments.timeout, scratch)
            cells = row(title, job.shown, evaluate(program, output, arguments), cost)
        except PeerError as error:
            cells = [title, job.shown, f"failed: {error}", *[""] * (len(COLUMNS) - 3)]
        say("| " + " | ".join(cells) + " |")
    machine = f"{processor()}, {os.cpu_count()} cores"
    say("")
    say(f"{datetime.date.today()}, {machine}, {arguments.samples} samples of {arguments.model.name}; onnxruntime "
        f"{importlib.metadata.version('onnxruntime')} evaluates. " + "; ".join(notes))
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(description="Bitpress and its peers on one network, in one table.")
    parser.add_argument("--model", type=Path, required=True, metavar="ONNX", help="a network for photos with one input")
    parser.add_argument("--calib", type=Path, required=True, metavar="DIR", help="photos to calibrate with")
    parser.add_argument("--calib-labels", type=Path, metavar="CSV", help="column file: only these, in this order")
    parser.add_argument("--val", type=Path, required=True, metavar="DIR", help="photos to measure on")
    parser.add_argument("--labels", type=Path, metavar="CSV", help="columns file,class: of the photos to measure on")
    parser.add_argument("--image", default=IMAGE, metavar="SPEC", help=f"resize, crop, mean, std (default: {IMAGE})")
    parser.add_argument("--samples", type=int, default=100, metavar="N", help="photos to calibrate with (default: 100)")
    parser.add_argument("--only", nargs="+", choices=list(TOOLS), default=list(TOOLS), metavar="TOOL", help=f"of {', '.join(TOOLS)}")
    parser.add_argument("--configs", nargs="+", metavar="CONFIG", help="only these configurations, in the words of jobs.py (default: all)")
    parser.add_argument("--finetune", nargs="*", choices=TUNABLE, metavar="FORMAT",
                        help="also what the tools learn, in these formats or in all; 40 minutes a format with AMD Quark")
    parser.add_argument("--timeout", type=float, default=7200, metavar="S", help="seconds for one model (default: 7200)")
    parser.add_argument("--output", type=Path, metavar="FILE", help="write the table there too")
    arguments = parser.parse_args()
    arguments.model = arguments.model.absolute()  # the tools run in a folder of their own
    try:
        with tempfile.TemporaryDirectory(prefix="bitpress-peers-") as folder:
            lines = compare(arguments, Path(folder))
        if arguments.output:
            arguments.output.write_text("\n".join(lines) + "\n", encoding="utf-8")
    except (PeerError, OSError, ValueError) as error:
        print(f"compare: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
