#!/usr/bin/env python3
"""Quantizes the corpus in many configurations and compares it with the float networks. See README.md here.

    python measure.py [--only NAME,...] [--skip NAME,...] [--workers N | --ray [ADDRESS]] [CONFIGURATION ...]

CONFIGURATION is a name of CONFIGURATIONS below, or NAME=ARGUMENTS with the arguments of `bitpress quantize` besides files
("mse=--config INT8 --set activation_range=mse") or ort:static, ort:static_rr, ort:dynamic, ort:dynamic_rr for ONNX Runtime's own tool.
Without any, all of CONFIGURATIONS are measured. Each result is a file in CACHE/results, and what is there is not measured again.
"""

import argparse
import dataclasses
import datetime
import functools
import hashlib
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import onnx
import onnxruntime
import processors
from faults import faults_of
from limits import call
from networks import NETWORKS, model_of, samples_of
from packages import CACHE

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
PRESETS = ["INT8", "INT8_DYNAMIC", "INT4_WEIGHTS", "MX6", "INT8_ADAQUANT", "INT8_WEIGHTS", "MX9", "MXINT8", "MXFP8E4M3", "BFP16", "BF16",
           "FP16"]
CONFIGURATIONS = {**{name: f"--config {name}" for name in PRESETS}, "ORT static": "ort:static", "ORT dynamic": "ort:dynamic"}


def size_of(path: Path) -> int:
    """Bytes of a model with those of its external data, or 0 if the file is no model."""
    try:
        model = onnx.load(path, load_external_data=False)
    except Exception:  # a broken file is found by the session that loads it
        return 0
    locations = {entry.value for tensor in model.graph.initializer for entry in tensor.external_data if entry.key == "location"}
    return path.stat().st_size + sum((path.parent / name).stat().st_size for name in locations)


@functools.cache
def kinds_of(no_vnni_dir):
    """The environments of this machine's kinds of processors, which programs are started to find out."""
    return processors.environments(no_vnni_dir)[0]


def quantize(arguments, words, model, samples, output):
    """Runs the tool and returns how it ended. Its output lies beside the model."""
    for file in output.parent.glob(output.stem + ".*"):
        file.unlink()
    if words.startswith("ort:"):
        command = [sys.executable, HERE / "quantize_ort.py", model, output, samples, words[len("ort:"):]]
    else:
        command = [arguments.program, "quantize", model, "-o", output, "--data", samples, "--threads", "1", *shlex.split(words)]
    ended = call(command, arguments.seconds, arguments.memory)
    shown = shlex.join(str(word) for word in command)
    output.with_suffix(".txt").write_text(f"{shown}\n{ended.out}{ended.err}{ended.status}\n", encoding="utf-8")
    status = ended.status or ("" if output.is_file() else "exit status 0, but no file")
    row = {"status": status, "message": ended.message() if status else "", "seconds": ended.seconds, "peak_mib": ended.peak_mib,
           "is_known_as_quantized": "the model is already quantized: " in ended.out + ended.err}
    if not status:
        row["bytes"] = size_of(output)
    return row


def compare(arguments, environment, spec, path):
    """{name of a library: row} of one model in a process of its own, or in another one for the libraries after one that ended it."""
    rows, left = {}, dict(spec["libraries"])
    while left:
        path.write_text(json.dumps({**spec, "libraries": left}), encoding="utf-8")
        ended = call([sys.executable, HERE / "compare.py", path], arguments.seconds, arguments.memory, environment)
        answers = dict(line.split("\t", 1) for line in ended.out.splitlines() if "\t" in line)
        found = {name: json.loads(answers[name]) for name in left if answers.get(name, "").startswith("{")}
        if len(found) < len(left):
            missing = next(name for name in left if name not in found)
            found[missing] = {"error": f"{ended.status or 'no answer'}: {ended.message()}"}
        rows.update(found)
        left = {name: library for name, library in left.items() if name not in rows}
    return rows


def measure(arguments, kinds, name, label, words):
    """The result of a network in a configuration."""
    result = {"network": name, "configuration": label, "words": words, "date": datetime.date.today().isoformat(),
              "program": arguments.version, "onnxruntime": onnxruntime.__version__, "compared": {}}
    try:
        model = model_of(arguments.cache, name)
        samples = {side: samples_of(arguments.cache, name, side) for side in ("calibration", "validation")}
    except Exception as error:  # the makers use many packages; a network without inputs must not end the run of the others
        return {**result, "error": f"no inputs: {type(error).__name__}: {error}"}
    folder = arguments.cache / "quantized"
    folder.mkdir(parents=True, exist_ok=True)
    output = folder / f"{name}.{re.sub(r'[^A-Za-z0-9_]+', '_', label)}.onnx"
    result["float_bytes"] = size_of(model)
    result["quantize"] = quantize(arguments, words, model, samples["calibration"], output)
    if result["quantize"]["status"]:
        return result
    library = arguments.program.resolve().with_name("libbitpress_ops.so")
    spec = {"model": str(model), "samples": str(samples["validation"]), "quantized": str(output), "is_timed": arguments.time,
            "libraries": {"alone": ""} if words.startswith("ort:") else {"library": str(library), "alone": ""}}
    for kind, environment in kinds.items():
        wanted = arguments.cache / "wanted" / f"{name}.{kind.replace(' ', '_')}.npz"
        result["compared"][kind] = compare(arguments, environment, {**spec, "wanted": str(wanted)}, output.with_suffix(".json"))
    if not arguments.keep:
        for file in folder.glob(output.stem + ".*"):
            if file.suffix != ".txt":
                file.unlink()
    return result


def result_path(arguments, name, label):
    return arguments.cache / "results" / name / f"{re.sub(r'[^A-Za-z0-9_]+', '_', label)}.json"


def is_wanted(arguments, path, words):
    """Returns whether a result has to be measured: it is not there, is of other arguments, or --again asks for it."""
    if not path.is_file():
        return True
    result = json.loads(path.read_text(encoding="utf-8"))
    return result["words"] != words or arguments.again == "all" or (arguments.again == "faults" and bool(faults_of(result)))


def summary(result):
    """A line about a result, for who watches the run."""
    text = f"{result['network']:16} {result['configuration']:14}"
    if "quantize" in result:
        text += f" {result['quantize']['seconds']:7.1f} s {result['quantize']['peak_mib']:6} MiB"
    for kind, forms in result["compared"].items():
        row = forms.get("library", forms["alone"])
        text += f"  {kind}: " + ", ".join(f"{value:.1f}" for value in row.get("db", {}).values()) + " dB"
        text += f", {row['ms'] / row['float_ms']:.2f} of the float network's time" if "ms" in row else ""
    return "\n".join([text, *(f"    {fault}" for fault in faults_of(result))])


def names_of(text):
    names = [name for name in text.split(",") if name]
    unknown = [name for name in names if name not in NETWORKS]
    if unknown:
        raise argparse.ArgumentTypeError(f"unknown: {', '.join(unknown)}; there are {', '.join(NETWORKS)}")
    return names


def configuration_of(text):
    if text in CONFIGURATIONS:
        return text, CONFIGURATIONS[text]
    name, equals, words = text.partition("=")
    if not (name and equals and words):
        raise argparse.ArgumentTypeError(f"'{text}' is neither NAME=ARGUMENTS nor one of {', '.join(CONFIGURATIONS)}")
    return name, words


def version_of(program):
    """Returns the program's name and version, with the commit of this checkout if it was built here, and else with a hash."""
    said = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout.strip()
    commit = subprocess.run(["git", "-C", ROOT, "rev-parse", "--short=8", "HEAD"], capture_output=True, text=True, check=False).stdout
    if commit and program.resolve().is_relative_to(ROOT):
        return f"{said} at {commit.strip()}"
    return f"{said} ({hashlib.sha256(program.read_bytes()).hexdigest()[:8]})"


def add_common_options(parser):
    """Options of all programs that measure."""
    parser.add_argument("--program", type=Path, default=ROOT / "build" / "bitpress", metavar="FILE", help="default: build/bitpress")
    parser.add_argument("--cache", type=Path, default=CACHE, metavar="DIR", help="where everything goes (default: build/corpus)")
    parser.add_argument("--only", type=names_of, default=list(NETWORKS), metavar="NAMES", help="these networks, joined by commas")
    parser.add_argument("--skip", type=names_of, default=[], metavar="NAMES", help="all but these networks")
    parser.add_argument("--seconds", type=int, default=300, metavar="N", help="of the processor, for each process (default: 300)")
    parser.add_argument("--memory", type=int, default=8192, metavar="MIB", help="address space of each process (default: 8192)")


def parse_common(parser):
    """The arguments, with the version of the program."""
    arguments = parser.parse_intermixed_args()
    if not arguments.program.is_file():
        parser.error(f"{arguments.program} is missing: build first (./dev build)")
    # A program without a folder in its name would be looked for in PATH.
    arguments.program, arguments.cache = arguments.program.absolute(), arguments.cache.absolute()
    arguments.version = version_of(arguments.program)
    return arguments


def write_result(path, result):
    """Writes a result in one step, so that a run that is stopped leaves no half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    part.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    part.rename(path)


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("configurations", nargs="*", type=configuration_of, metavar="CONFIGURATION")
    add_common_options(parser)
    parser.add_argument("--no-vnni-dir", type=Path, default=ROOT / "build" / "tests" / "no_vnni", metavar="DIR",
                        help="an ONNX Runtime that sees no VNNI (default: build/tests/no_vnni)")
    parser.add_argument("--again", choices=["faults", "all"], help="measure again what is there: results with faults, or all")
    parser.add_argument("--time", action="store_true", help="also compare the speed with that of the float network")
    parser.add_argument("--keep", action="store_true", help="keep the quantized models in CACHE/quantized")
    workers = parser.add_mutually_exclusive_group()
    workers.add_argument("--workers", type=int, default=1, metavar="N", help="processes that share the networks (default: 1)")
    workers.add_argument("--ray", nargs="?", const="", metavar="ADDRESS",
                         help="share the networks among all CPUs of this Ray cluster (default: of this machine)")
    arguments = parse_common(parser)
    if arguments.workers < 1:
        parser.error(f"--workers {arguments.workers}: expected 1 or more")
    return arguments


@dataclasses.dataclass(frozen=True)
class NetworkJob:
    """A network in all configurations that are wanted, which any worker of bitpress.distributed can do: the cache is all that it needs.
    A network has one worker, because samples and float outputs are made once and serve all its configurations."""

    network: str
    configurations: dict  # of arguments of `bitpress quantize` by names
    arguments: argparse.Namespace

    @property
    def name(self):
        return f"network {self.network}"

    @property
    def key(self):
        return self.network

    def run(self, report):
        """Writes each result as soon as it is there, and returns the lines about all."""
        return "\n".join(self.lines(report)).encode()

    def lines(self, report):
        kinds = kinds_of(self.arguments.no_vnni_dir)
        for done, (label, words) in enumerate(self.configurations.items()):
            report(done)
            path = result_path(self.arguments, self.network, label)
            # A worker that was killed may have measured some already.
            if is_wanted(self.arguments, path, words):
                result = measure(self.arguments, kinds, self.network, label, words)
                write_result(path, result)
                yield summary(result)


def workers_of(arguments):
    """The workers of bitpress.distributed, which have this folder and the package that was built on their path."""
    package = ROOT / "build" / "python"
    sys.path.insert(0, str(package))
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(HERE), str(package), os.environ.get("PYTHONPATH")]))
    from bitpress import distributed  # only workers need it, and a run in one process shall go without

    if arguments.ray is None:
        return distributed.Processes(arguments.workers)
    return distributed.Ray(address=arguments.ray or None)


def main() -> int:
    arguments = parse()
    configurations = dict(arguments.configurations) or CONFIGURATIONS
    try:
        kinds_of(arguments.no_vnni_dir)
    except processors.ProcessorError as error:
        print(f"measure: {error}", file=sys.stderr)
        return 1
    jobs = []
    for name in arguments.only:
        wanted = {label: words for label, words in configurations.items() if is_wanted(arguments, result_path(arguments, name, label), words)}
        if wanted and name not in arguments.skip:
            jobs.append(NetworkJob(name, wanted, arguments))
    if arguments.workers == 1 and arguments.ray is None:
        for job in jobs:
            for line in job.lines(lambda done: None):
                print(line, flush=True)
        return 0
    for number, (_, lines) in enumerate(workers_of(arguments).run(jobs, lambda job, done: None), 1):
        print(lines.decode(), f"== {number} of {len(jobs)} networks", sep="\n", flush=True)
    return 0


if __name__ == "__main__":
    import measure  # the jobs must be of a module that workers can import, which this program is not under its name

    sys.exit(measure.main())
