#!/usr/bin/env python3
"""The time that models take to run in ONNX Runtime with the operator library, side by side.

    run_time.py MODEL... --library LIBRARY [--samples FOLDER] [--batch N...] [--threads N...] [--runs N]

The models take turns in one process, and ratios are to the first model. Samples are .npz files; without them inputs are random,
with --batch in place of dimensions that are no numbers.
needs: onnxruntime, numpy
"""
import argparse
import statistics
import time
from pathlib import Path

import numpy as np
import onnxruntime


def session(model, library, threads):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = threads
    # Threads of one session that wait actively would slow down the next.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.register_custom_ops_library(str(library))
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def random_inputs(inputs, batch):
    random = np.random.default_rng(0)
    shapes = {given.name: [size if isinstance(size, int) else batch for size in given.shape] for given in inputs}
    return {name: random.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}


parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("models", nargs="+")
parser.add_argument("--library", type=Path, required=True)
parser.add_argument("--samples", type=Path)
parser.add_argument("--batch", type=int, nargs="+", default=[1])
parser.add_argument("--threads", type=int, nargs="+", default=[1])
parser.add_argument("--runs", type=int, default=12)
arguments = parser.parse_args()
for threads in arguments.threads:
    sessions = {model: session(model, arguments.library, threads) for model in arguments.models}
    for batch in arguments.batch:
        times = {model: [] for model in arguments.models}
        if arguments.samples:
            samples = [dict(np.load(file)) for file in sorted(arguments.samples.glob("*.npz"))[:4]]
        else:
            samples = [random_inputs(next(iter(sessions.values())).get_inputs(), batch)]
        for run in range(arguments.runs):
            for sample in samples:
                for model, ready in sessions.items():
                    inputs = {given.name: sample[given.name] for given in ready.get_inputs()}
                    start = time.perf_counter()
                    ready.run(None, inputs)
                    if run > 0:
                        times[model].append(time.perf_counter() - start)
        medians = {model: statistics.median(seconds) * 1e3 for model, seconds in times.items()}
        for model, milliseconds in medians.items():
            ratio = milliseconds / medians[arguments.models[0]]
            print(f"{threads} threads  batch {batch:3}  {milliseconds:9.2f} ms  x {ratio:5.2f}  {model}")
