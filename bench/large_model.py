#!/usr/bin/env python3
"""Quantizes the weights of a model that is larger than memory may be, and prints speed and memory beside their bounds.

    .deps/venv/bin/python bench/large_model.py [--gigabytes 6] [--threads 1 2] [--size 4096] [--folder DIR] [--weights FORMAT]

The model is a chain of MatMuls with external data; it and the result need 1.2 times its size of disk, in DIR (a temporary
folder in the current one otherwise), and go at the end. Printed for every number of threads: bytes of float weights read per
second of the clock on the wall, the same per thread, the peak of the process's own memory (RssAnon: mapped files are not
counted, the system takes their pages back at will) beside 3 times the largest tensor + 300 MB, and a plain sequential copy of
the data file with fsync: the disk's speed in the same minutes. Exits with 1 if the memory bound is broken."""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from onnx import TensorProto, helper

ROOT = Path(__file__).resolve().parents[1]
MB = 1e6


def make_model(path, num_bytes, size):
    """Returns the bytes of the weights."""
    rng = np.random.default_rng(1)
    base = (rng.standard_normal((size, size)) / 50).astype(np.float32)
    tensors, nodes = [], []
    count = max(1, int(num_bytes // base.nbytes))
    with open(f"{path}.data", "wb") as file:
        for i in range(count):
            tensor = TensorProto(name=f"w{i}", data_type=TensorProto.FLOAT, dims=base.shape, data_location=TensorProto.EXTERNAL)
            for key, value in (("location", f"{path.name}.data"), ("offset", file.tell()), ("length", base.nbytes)):
                entry = tensor.external_data.add()
                entry.key, entry.value = key, str(value)
            file.write(np.roll(base, i, axis=0).tobytes())
            tensors.append(tensor)
            nodes.append(helper.make_node("MatMul", [f"h{i}", f"w{i}"], [f"h{i + 1}"], name=f"m{i}"))
        os.fsync(file.fileno())
    graph = helper.make_graph(nodes, "chain", [helper.make_tensor_value_info("h0", TensorProto.FLOAT, ["N", size])],
                              [helper.make_tensor_value_info(f"h{count}", TensorProto.FLOAT, ["N", size])], tensors)
    path.write_bytes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString())
    return count * base.nbytes, base.nbytes


def forget(path):
    """Drops a file from the system's cache, so that it is read from the disk."""
    with open(path, "rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def copy_seconds(source, target):
    block = 1 << 24
    start = time.monotonic()
    with open(source, "rb", buffering=0) as read, open(target, "wb", buffering=0) as write:
        while data := read.read(block):
            write.write(data)
        os.fsync(write.fileno())
    seconds = time.monotonic() - start
    target.unlink()
    return seconds


def run(command):
    """Seconds on the clock, seconds of processor time, the peak of RssAnon in bytes."""
    start = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    peak = 0
    while True:
        pid, status, usage = os.wait4(process.pid, os.WNOHANG)
        if pid:
            break
        try:
            for line in Path(f"/proc/{process.pid}/status").read_text().splitlines():
                if line.startswith("RssAnon:"):
                    peak = max(peak, int(line.split()[1]) * 1024)
        except (FileNotFoundError, ProcessLookupError):
            pass
        time.sleep(0.005)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: exit code {process.returncode}")
    return time.monotonic() - start, usage.ru_utime + usage.ru_stime, peak


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--gigabytes", type=float, default=6)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--size", type=int, default=4096, help="a weight has this many rows and columns")
    parser.add_argument("--weights", default="mxfp4_e2m1")
    parser.add_argument("--program", type=Path, default=ROOT / "build" / "bitpress")
    parser.add_argument("--folder", type=Path, default=Path.cwd())
    options = parser.parse_args()
    is_in_bounds = True
    with tempfile.TemporaryDirectory(dir=options.folder, prefix="large_model_") as name:
        folder = Path(name)
        model = folder / "model.onnx"
        num_bytes, largest = make_model(model, options.gigabytes * 1e9, options.size)
        bound = 3 * largest + 300 * MB
        print(f"{num_bytes / 1e9:.2f} GB of weights, {largest / MB:.0f} MB each, to {options.weights}")
        for threads in options.threads:
            forget(f"{model}.data")
            copy = copy_seconds(f"{model}.data", folder / "copy")
            forget(f"{model}.data")
            seconds, processor, peak = run([options.program, "quantize", model, "-o", folder / "out.onnx", "--config", "MXFP4E2M1",
                                            "--weights", options.weights, "--activations", "none", "--threads", str(threads)])
            written = sum(path.stat().st_size for path in folder.glob("out.onnx*"))
            is_in_bounds = is_in_bounds and peak <= bound
            print(f"{threads} threads: {seconds:.1f} s, {processor:.1f} s of processor; {num_bytes / seconds / 1e9:.2f} GB/s, "
                  f"{num_bytes / seconds / 1e9 / threads:.2f} GB/s per thread; wrote {written / 1e9:.2f} GB; "
                  f"RssAnon {peak / MB:.0f} MB of {bound / MB:.0f}; a copy of the data: {copy:.1f} s, {num_bytes / copy / 1e9:.2f} GB/s",
                  flush=True)
    sys.exit(0 if is_in_bounds else "the memory bound is broken")


if __name__ == "__main__":
    main()
