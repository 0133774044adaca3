#!/usr/bin/env python3
"""judge.py SPEC.json: compares quantized models with the float one in this interpreter. measure.py runs it, once a kind of processor.

SPEC has: model (the float one), samples (a folder), library (of operators, or empty), quantized ([label, path], ...). JSON lines are
printed: {"started": label} before each model, so that what crashes the interpreter is known, and its row after it.
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


def main():
    spec = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    base = open_session(spec["model"])
    names = [output.name for output in base.get_outputs() if "float" in output.type]
    samples = list(load(spec["samples"]))
    wanted = [base.run(names, sample) for sample in samples]
    for label, path in spec["quantized"]:
        print(json.dumps({"started": label}), flush=True)
        row = {"label": label}
        try:
            session = open_session(path, spec["library"])
            row["db"], row["other_shapes"] = closeness(session, names, samples, wanted)
            row["float_ms"], row["ms"] = times([base, session], names, samples[len(samples) // 2])
        except Exception as error:  # whatever ONNX Runtime or a shape throws is an entry of the table
            row["error"] = f"{type(error).__name__}: {error}"
        print(json.dumps(row), flush=True)


main()
