"""Quantizes ONNX's own backend cases and says which of those that ONNX Runtime runs are refused, come out wrong or lose much.

usage: run.py BITPRESS [--library LIBRARY] [--config NAME ...] [--match TEXT] [--workers N] [--details FILE]
"""

import argparse
import collections
import json
import re
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, numpy_helper
from onnx.backend.test.loader import load_node_model_tests

# The decibels that a format should keep in the worst output of a case.
LEAST_DB = {"INT8": 20, "INT8_DYNAMIC": 20, "INT4_WEIGHTS": 10, "MX6": 15, "FP16": 50}
FLOATS = (TensorProto.FLOAT, TensorProto.FLOAT16)


def session(model, library=None):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    if library:
        options.register_custom_ops_library(str(library))
    return onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])


def with_constants(model, feeds):
    """The model with all float inputs but the first as constants, and the inputs that are left; None if there is no other one."""
    floats = [one.name for one in model.graph.input if one.type.tensor_type.elem_type in FLOATS and one.name in feeds]
    if len(floats) < 2:
        return None
    changed = onnx.ModelProto()
    changed.CopyFrom(model)
    kept = [one for one in changed.graph.input if one.name not in floats[1:]]
    del changed.graph.input[:]
    changed.graph.input.extend(kept)
    changed.graph.initializer.extend(numpy_helper.from_array(feeds[name], name) for name in floats[1:])
    return changed, {name: array for name, array in feeds.items() if name not in floats[1:]}


def cases(match):
    """Gives (name, model, feeds) of the cases whose inputs are tensors of numbers."""
    for case in load_node_model_tests():
        if match not in case.name or not case.data_sets:
            continue
        names = [one.name for one in case.model.graph.input]
        arrays = case.data_sets[0][0]
        feeds = dict(zip(names, arrays))
        if len(arrays) != len(names) or not all(isinstance(one, (np.ndarray, np.generic)) for one in arrays):
            continue
        feeds = {name: np.asarray(array) for name, array in feeds.items()}
        yield case.name, case.model, feeds
        changed = with_constants(case.model, feeds)
        if changed:
            yield case.name + " (constants)", *changed


def worst_db(wanted, found):
    """Decibels of the worst output that is an array of floats; None if there is none. Text if types or shapes differ."""
    worst = None
    for a, b in zip(wanted, found, strict=True):
        if not isinstance(a, np.ndarray):
            continue
        if a.shape != b.shape or a.dtype != b.dtype:
            return f"{b.dtype}{list(b.shape)} instead of {a.dtype}{list(a.shape)}"
        if a.dtype.kind != "f" or not a.size:
            continue
        a, b = a.astype(np.float64), b.astype(np.float64)
        if not (np.isfinite(a) == np.isfinite(b)).all():
            return "NaN or infinity where float has a number"
        a, b = a[np.isfinite(a)], b[np.isfinite(b)]
        noise, power = float(((a - b) ** 2).sum()), float((a ** 2).sum())
        db = 200.0 if noise == 0 else 10 * np.log10(max(power, 1e-30) / noise)
        worst = db if worst is None else min(worst, db)
    return worst


def general(message):
    """A message without names and numbers, to count equal ones."""
    message = re.sub(r"/\S+", "PATH", message.strip().splitlines()[0] if message.strip() else "no message")
    return re.sub(r"\d+", "N", re.sub(r"'[^']*'", "'...'", message))[:160]


def measure(program, library, folder, config, model, feeds):
    """Returns what became of one case: (kind, detail)."""
    given, quantized = folder / "m.onnx", folder / "q.onnx"
    onnx.save(model, given)
    try:
        wanted = session(given).run(None, feeds)
    except Exception:  # noqa: BLE001  ONNX Runtime has errors of many types
        return "not run by ONNX Runtime", ""
    (folder / "samples").mkdir()
    np.savez(folder / "samples" / "0.npz", **feeds)
    command = [program, "quantize", given, "-o", quantized, "--config", config, "--check", "off", "--threads", "1"]
    if config == "INT8":
        command += ["--data", folder / "samples"]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, errors="replace", timeout=120, check=False)
    if done.returncode != 0:
        return "refused", general(done.stderr)
    try:
        found = session(quantized, library).run(None, feeds)
    except Exception as error:  # noqa: BLE001
        return "refused", "does not run: " + general(str(error))
    db = worst_db(wanted, found)
    if isinstance(db, str):
        return "wrong", db
    return ("below", f"{db:.1f}") if db is not None and db < LEAST_DB.get(config, 20) else ("written", "")


def run(arguments):
    results = collections.defaultdict(lambda: collections.defaultdict(list))

    def one(task):
        config, (name, model, feeds) = task
        with tempfile.TemporaryDirectory() as folder:
            return config, name, *measure(arguments.program, arguments.library, Path(folder), config, model, feeds)

    tasks = [(config, case) for config in arguments.config for case in cases(arguments.match)]
    with ThreadPoolExecutor(arguments.workers) as pool:
        for config, name, kind, detail in pool.map(one, tasks):
            results[config][kind].append((name, detail))
    return results


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("--library", help="libbitpress_ops.so; without it the models run in plain ONNX Runtime")
    parser.add_argument("--config", nargs="+", default=list(LEAST_DB))
    parser.add_argument("--match", default="", help="only the cases with this text in their name")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--details", help="a JSON file with every case that was not simply written")
    arguments = parser.parse_args()
    results = run(arguments)
    kinds = ["written", "refused", "wrong", "below"]
    print(f"| configuration | {' | '.join(kinds)} |\n|---|{'---|' * len(kinds)}")
    for config, found in results.items():
        print(f"| {config} | {' | '.join(str(len(found[kind])) for kind in kinds)} |")
    for config, found in results.items():
        for message, count in collections.Counter(detail for kind in ("refused", "wrong") for _, detail in found[kind]).most_common():
            names = [name for kind in ("refused", "wrong") for name, detail in found[kind] if detail == message]
            print(f"{config}: {count} x {message}\n    {', '.join(names[:4])}{', ...' if count > 4 else ''}")
        if found["below"]:
            print(f"{config}: below {LEAST_DB.get(config, 20)} dB: " + ", ".join(f"{name} {db}" for name, db in found["below"]))
    if arguments.details:
        Path(arguments.details).write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
