#!/usr/bin/env python3
"""The time and the peak memory that ONNX Runtime takes to load models, without the operator library.

    load_time.py MODEL... [--runs N] [--threads N...]

Each load is a process of its own, and the models take turns. The ratio is to the first model.
needs: onnxruntime
"""
import argparse
import statistics
import subprocess
import sys

LOAD = """
import sys, time, onnxruntime
options = onnxruntime.SessionOptions()
options.log_severity_level = 3
options.intra_op_num_threads = int(sys.argv[2])
start = time.perf_counter()
session = onnxruntime.InferenceSession(sys.argv[1], options, providers=["CPUExecutionProvider"])
seconds = time.perf_counter() - start
peak = next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(seconds * 1e3, peak / 1024)
"""


def load(model, threads):
    """Returns milliseconds and MB."""
    run = subprocess.run([sys.executable, "-c", LOAD, model, str(threads)], capture_output=True, text=True, check=True)
    return tuple(float(number) for number in run.stdout.split())


parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("models", nargs="+")
parser.add_argument("--runs", type=int, default=7)
parser.add_argument("--threads", type=int, nargs="+", default=[1])
arguments = parser.parse_args()
for threads in arguments.threads:
    loads = {model: [] for model in arguments.models}
    for _ in range(arguments.runs):
        for model in arguments.models:
            loads[model].append(load(model, threads))
    medians = {model: [statistics.median(column) for column in zip(*rows)] for model, rows in loads.items()}
    for model, (milliseconds, megabytes) in medians.items():
        ratio = milliseconds / medians[arguments.models[0]][0]
        print(f"{threads} threads  {milliseconds:9.1f} ms  x {ratio:6.2f}  {megabytes:7.0f} MB  {model}")
