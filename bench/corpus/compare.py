#!/usr/bin/env python3
"""compare.py SPEC.json: compares a quantized model with the float one in this process. measure.py runs it.

SPEC has: model (the float one), wanted (a file for the float outputs, made if it is not there), samples (a folder), quantized (the model
to compare), libraries (of operators, or "" for none, by names), and whether to time it. A line is printed for each library: its name, a
tab, and a row as JSON; the name stands there before the work begins, so that what crashes the process is known.
"""

import json
import sys
import time
from pathlib import Path

import numpy as np
from samples import load, open_session

MIN_RUNS, MAX_RUNS, SECONDS = 5, 200, 1.5  # of each model, to time it
MOST = 100  # dB; what is closer or farther says nothing


def decibels(signal, error):
    if error <= signal * 10**(-MOST / 10):
        return float(MOST)
    if not error < signal * 10**(MOST / 10):  # an error that is not a number, too
        return float(-MOST)
    return float(10 * np.log10(signal / error))


def padded(wanted, found):
    """Both as float64 vectors of one length: outputs may have other shapes where the network decides about them."""
    wanted, found = wanted.astype(np.float64).ravel(), found.astype(np.float64).ravel()
    length = max(len(wanted), len(found))
    return np.pad(wanted, (0, length - len(wanted))), np.pad(found, (0, length - len(found)))


def wanted_outputs(spec, samples):
    """The names of the float network's float outputs, and these outputs, a list for each sample."""
    path = Path(spec["wanted"])
    if not path.is_file():
        session = open_session(spec["model"])
        names = [output.name for output in session.get_outputs() if "float" in output.type]
        arrays = {f"{i} {k}": array for i, sample in enumerate(samples) for k, array in enumerate(session.run(names, sample))}
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(".part.npz")
        np.savez(part, names=names, **arrays)
        part.rename(path)
    with np.load(path) as arrays:
        names = arrays["names"].tolist()
        return names, [[arrays[f"{i} {k}"] for k in range(len(names))] for i in range(len(samples))]


def closeness(session, names, samples, all_wanted):
    """Decibels by output, over all samples together, and in how many samples an output has another shape."""
    signal, error, other_shapes = np.zeros(len(names)), np.zeros(len(names)), 0
    for sample, wanted in zip(samples, all_wanted):
        found = session.run(names, sample)
        other_shapes += any(w.shape != f.shape for w, f in zip(wanted, found))
        for k, pair in enumerate(zip(wanted, found)):
            w, f = padded(*pair)
            signal[k] += (w**2).sum()
            error[k] += ((w - f)**2).sum()
    return {name: decibels(s, e) for name, s, e in zip(names, signal, error)}, other_shapes


def times(sessions, names, sample):
    """Median milliseconds of the sessions, which take turns, so that a busy machine slows all of them."""
    rows, started = [], time.perf_counter()
    while len(rows) < MIN_RUNS + 1 or (time.perf_counter() - started < SECONDS and len(rows) < MAX_RUNS):
        row = []
        for session in sessions:
            begin = time.perf_counter()
            session.run(names, sample)
            row.append((time.perf_counter() - begin) * 1000)
        rows.append(row)
    return np.median(rows[1:], axis=0).tolist()  # the first run allocates


def compare(spec, library, samples):
    """The row of the model with this library."""
    row = {}
    try:
        session = open_session(spec["quantized"], library)
    except Exception as error:  # whatever ONNX Runtime throws is an entry of the table, as below
        return {"error": f"does not load: {type(error).__name__}: {error}"}
    try:
        names, wanted = wanted_outputs(spec, samples)
        row["db"], row["other_shapes"] = closeness(session, names, samples, wanted)
        if spec["is_timed"]:
            row["float_ms"], row["ms"] = times([open_session(spec["model"]), session], names, samples[len(samples) // 2])
    except Exception as error:
        row["error"] = f"does not run: {type(error).__name__}: {error}"
    return row


def main():
    spec = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    samples = list(load(spec["samples"]))
    for name, library in spec["libraries"].items():
        print(name, end="\t", flush=True)
        print(json.dumps(compare(spec, library, samples)), flush=True)


main()
