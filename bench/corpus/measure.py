#!/usr/bin/env python3
"""Quantizes the corpus and compares it with the float networks on both kinds of x86 processors, in one table. See README.md here.

    python measure.py [--only NAME,...] [--skip NAME,...] [--out table.md] [NAME=ARGUMENTS ...]

NAME=ARGUMENTS is a configuration: the arguments of `bitpress quantize` besides files ("mse=--config INT8 --set activation_range=mse"),
or ort:static, ort:static_rr, ort:dynamic, ort:dynamic_rr for ONNX Runtime's own tool. Without any, there are four usual ones.
"""

import argparse
import json
import os
import re
import shlex
import subprocess
import sys
import time
from pathlib import Path

import processors
from networks import NETWORKS, model_of, samples_of
from packages import CACHE

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
CONFIGURATIONS = ["INT8=--config INT8", "INT8 vnni=--config INT8 --set integer_kernels=vnni", "INT8_DYNAMIC=--config INT8_DYNAMIC",
                  "INT8_DYNAMIC vnni=--config INT8_DYNAMIC --set integer_kernels=vnni"]


def call(command, seconds, environment=None):
    """(what became of it, stdout, stderr); the first is "" where all went well."""
    try:
        done = subprocess.run([str(word) for word in command], capture_output=True, timeout=seconds, check=False,
                              env={**os.environ, **(environment or {})})
        status, texts = f"exit status {done.returncode}" if done.returncode else "", (done.stdout, done.stderr)
    except subprocess.TimeoutExpired as error:
        status, texts = f"time-out after {seconds:g} s", (error.stdout, error.stderr)
    out, err = ((text or b"").decode(errors="replace") for text in texts)
    return status, out, err


def last_line(text):
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1][:300] if lines else "no message"


def quantize(arguments, words, model, samples, output):
    """Seconds and size, or an error, of one configuration. What the tool said lies beside the model."""
    output.unlink(missing_ok=True)
    if words.startswith("ort:"):
        command = [sys.executable, HERE / "quantize_ort.py", model, output, samples, words[len("ort:"):]]
    else:
        command = [arguments.program, "quantize", model, "-o", output, "--data", samples, *shlex.split(words)]
    started = time.monotonic()
    status, out, err = call(command, arguments.timeout)
    seconds = time.monotonic() - started
    shown = shlex.join(str(word) for word in command)
    output.with_suffix(".txt").write_text(f"{shown}\n{out}{err}{status}\n", encoding="utf-8")
    if status or not output.is_file():
        output.unlink(missing_ok=True)  # a part of it
        return {"error": f"quantize: {status or 'no file'}: {last_line(out + err)}"}
    return {"seconds": round(seconds, 1), "size": output.stat().st_size / model.stat().st_size}


def judge(arguments, environment, spec, spec_path):
    """{label: row} of one interpreter. A model that crashes it or takes too long is marked, and the others go on."""
    rows, left = {}, list(spec["quantized"])
    while left:
        spec_path.write_text(json.dumps({**spec, "quantized": left}), encoding="utf-8")
        status, out, err = call([sys.executable, HERE / "judge.py", spec_path], arguments.timeout * (1 + len(left)), environment)
        running = left[0][0]  # it may end before it begins with the first
        for line in out.splitlines():
            said = json.loads(line) if line.startswith("{") else {}
            running = said.get("started", running)
            if "label" in said:
                rows[said["label"]] = said
        if running not in rows:
            rows[running] = {"label": running, "error": f"{status}: {last_line(err)}"}
        left = [pair for pair in left if pair[0] not in rows]
    return rows


def measure(arguments, configurations, kinds, name):
    """The results of a network, one a configuration."""
    results = {label: {"network": name, "configuration": label} for label in configurations}
    try:
        model = model_of(arguments.cache, name)
        samples = {side: samples_of(arguments.cache, name, side) for side in ("calibration", "judge")}
    except Exception as error:  # the makers use many packages; a network without inputs must not end the run of the others
        for result in results.values():
            result["error"] = f"no inputs: {type(error).__name__}: {error}"
        return results
    folder = arguments.cache / "quantized"
    folder.mkdir(parents=True, exist_ok=True)
    library = arguments.program.resolve().with_name("libbitpress_ops.so")
    spec = {"model": str(model), "samples": str(samples["judge"]), "library": str(library) if library.is_file() else "",
            "quantized": []}
    for label, words in configurations.items():
        output = folder / f"{name}.{re.sub(r'[^A-Za-z0-9_]+', '_', label)}.onnx"
        results[label].update(quantize(arguments, words, model, samples["calibration"], output))
        if "error" not in results[label]:
            spec["quantized"].append([label, str(output)])
    for kind, environment in kinds.items():
        for label, row in judge(arguments, environment, spec, folder / f"{name}.{kind.replace(' ', '_')}.json").items():
            results[label][kind] = row
    return results


def decibels(result, kind):
    """"31.2", or "31.2 / 15.0" with the worst output where there are more than one."""
    row = result.get(kind, {})
    if "db" not in row:
        return "time-out" if "time-out" in (result.get("error") or row.get("error", "")) else "error"
    values = list(row["db"].values())
    text = f"{values[0]:.1f}" + (f" / {min(values):.1f}" if len(values) > 1 else "")
    return text + (f" ({row['other_shapes']} other shapes)" if row["other_shapes"] else "")


def time_ratio(row):
    return f"{row['ms'] / row['float_ms']:.2f}" if "ms" in row else "-"


def table_row(result, kinds):
    cells = [result["network"], result["configuration"], *(decibels(result, kind) for kind in kinds),
             *(time_ratio(result.get(kind, {})) for kind in kinds), f"{result['size']:.0%}" if "size" in result else "-"]
    return "| " + " | ".join(cells) + " |"


def errors_of(result, kinds):
    where = f"{result['network']}, {result['configuration']}"
    if "error" in result:
        yield f"{where}: {result['error']}"
    for kind in kinds:
        if "error" in result.get(kind, {}):
            yield f"{where}, {kind}: {result[kind]['error'][:300]}"


def names_of(text):
    names = [name for name in text.split(",") if name]
    unknown = [name for name in names if name not in NETWORKS]
    if unknown:
        raise argparse.ArgumentTypeError(f"unknown: {', '.join(unknown)}; there are {', '.join(NETWORKS)}")
    return names


def configuration_of(text):
    name, equals, words = text.partition("=")
    if not (name and equals and words):
        raise argparse.ArgumentTypeError(f"'{text}' is not NAME=ARGUMENTS")
    return name, words


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("configurations", nargs="*", type=configuration_of, metavar="NAME=ARGUMENTS")
    parser.add_argument("--program", type=Path, default=ROOT / "build" / "bitpress", metavar="FILE", help="default: build/bitpress")
    parser.add_argument("--no-vnni-dir", type=Path, default=ROOT / "build" / "tests" / "no_vnni", metavar="DIR",
                        help="an ONNX Runtime that sees no VNNI (default: build/tests/no_vnni)")
    parser.add_argument("--cache", type=Path, default=CACHE, metavar="DIR", help="where everything goes (default: build/corpus)")
    parser.add_argument("--only", type=names_of, default=list(NETWORKS), metavar="NAMES", help="these networks, joined by commas")
    parser.add_argument("--skip", type=names_of, default=[], metavar="NAMES", help="all but these networks")
    parser.add_argument("--timeout", type=float, default=300, metavar="S", help="seconds to quantize a network (default: 300)")
    parser.add_argument("--out", type=Path, metavar="FILE", help="the table (default: table.md in the cache); all numbers go beside it")
    arguments = parser.parse_intermixed_args()
    if not arguments.program.is_file():
        parser.error(f"{arguments.program} is missing: build first (./dev build)")
    # A program without a folder in its name would be looked for in PATH.
    arguments.program, arguments.cache = arguments.program.absolute(), arguments.cache.absolute()
    arguments.out = arguments.out or arguments.cache / "table.md"
    return arguments


def main() -> int:
    arguments = parse()
    configurations = dict(arguments.configurations or map(configuration_of, CONFIGURATIONS))
    arguments.cache.mkdir(parents=True, exist_ok=True)
    try:
        kinds, notes = processors.environments(arguments.no_vnni_dir)
    except processors.ProcessorError as error:
        print(f"measure: {error}", file=sys.stderr)
        return 1
    columns = ["network", "configuration", *(f"dB {kind}" for kind in kinds), *(f"time {kind}" for kind in kinds), "size"]
    lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    print("\n".join(lines), flush=True)
    everything = []
    for name in arguments.only:
        if name in arguments.skip:
            continue
        for result in measure(arguments, configurations, kinds, name).values():
            lines.append(table_row(result, kinds))
            print(lines[-1], flush=True)
            notes += errors_of(result, kinds)
            everything.append(result)
        # The files are whole after every network, since a run takes an hour.
        arguments.out.write_text("\n".join([*lines, "", *(f"- {note}" for note in notes)]) + "\n", encoding="utf-8")
        numbers = json.dumps({"notes": notes, "results": everything}, indent=1)
        arguments.out.with_suffix(".json").write_text(numbers + "\n", encoding="utf-8")
    print("\n" + "\n".join(f"- {note}" for note in notes))
    return 0


if __name__ == "__main__":
    sys.exit(main())
