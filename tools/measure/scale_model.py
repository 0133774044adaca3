#!/usr/bin/env python3
"""How long bitpress.distributed.calibrate takes on many workers: a model of measured parts, and simulated workers that check it.

    python tools/measure/scale_model.py model.onnx --data photos --image resize=256,crop=224 --samples 1000000
    python tools/measure/scale_model.py model.onnx --data photos --image resize=256,crop=224 --samples 4000 --simulate 20,50,100

The parts are measured on this machine with one thread: starting a worker, loading the model, a sample (with its spread), the bytes of a
shard's file, what the calling process does with one, and adding one up. The model gives shards to workers as they become free, as
the calling process does, which serves one at a time; then it adds up the files, in groups on the workers if there are many.

Simulated workers are threads whose jobs wait as long as measured ones take, and give a measured file. Everything else is real: the
shards, how they are given out, the folder, and the merge.
"""

import argparse
import heapq
import os
import pickle
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

import bitpress
from bitpress import distributed
from bitpress.distributed import _jobs, _processes, _shards


@dataclass
class Parts:
    """Seconds and bytes of what a call consists of."""

    start: float  # of a worker's process, until it can work
    load: float  # of the model
    sample: float  # mean
    spread: float  # standard deviation of the samples' times, over the mean
    num_bytes: int  # of a shard's file
    send: float  # for the calling process to take a file and keep it
    merge: float  # for one process to add one file up
    content: bytes = field(repr=False, default=b"")


def timed(work):
    begin = time.perf_counter()
    result = work()
    return time.perf_counter() - begin, result


def measure(model, data, image, count, config):
    start = min(timed(lambda: subprocess.run([sys.executable, "-c", "import bitpress.distributed"], check=True))[0] for _ in range(3))
    engine = {"model": Path(model).absolute(), "config": None if config is None else bitpress.Config(config), "per_channel": False, "as_is": False,
              "most_failures": 0, "num_threads": 1}

    def job(shard, samples=count):
        return _jobs.EngineJob("measured", "1", "calibrate", engine, {"data": data, "image": image, "samples": samples, "shard": shard})

    first, content = timed(lambda: job(f"1/{count}").run(lambda done: None))
    times = [timed(lambda i=i: job(f"{i + 1}/{count}").run(lambda done: None))[0] for i in range(count)]
    whole = timed(lambda: job("1/1").run(lambda done: None))[0]  # without what a shard costs beside its samples
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder) / str(i) for i in range(33)]
        send = statistics.median(timed(lambda path=path: _shards._write(path, pickle.loads(pickle.dumps(content))))[0] for path in files)
        few, many = (timed(lambda n=n: bitpress.merge(files[:n], Path(folder) / "sum"))[0] for n in (1, 33))
    mean = statistics.mean(times)
    return Parts(start, first - mean, whole / count, statistics.pstdev(times) / mean, len(content), send, (many - few) / 32, content)


def shards_of(parts, samples, shards, seed=1):
    """Seconds of each shard. The sum of many samples' times varies less than one of them."""
    rng = random.Random(seed)
    sizes = [samples * (i + 1) // shards - samples * i // shards for i in range(shards)]
    return [max(0.0, rng.gauss(size * parts.sample, parts.spread * parts.sample * size**0.5)) for size in sizes]


def run_jobs(durations, workers, first, send):
    """Seconds until all jobs are done by workers that begin `first` seconds late, with a calling process that takes one result at a time."""
    free = [first] * min(workers, len(durations))
    heapq.heapify(free)
    caller = 0.0
    for duration in durations:
        done = heapq.heappop(free) + duration
        heapq.heappush(free, done)
        caller = max(caller, done) + send
    return max(caller, max(free))


def predict(parts, samples, workers, shards, has_start=True, mergers=None):
    """Seconds of the work, and of the merge. `mergers`: workers that really add up at the same time (default: all)."""
    first = parts.load + (parts.start if has_start else 0)
    work = run_jobs(shards_of(parts, samples, shards), workers, first, parts.send)
    merge, files = 0.0, shards
    while files > _shards._MOST_FILES_OF_A_MERGE:
        groups = -(-files // _shards._FILES_OF_A_GROUP)
        merge += run_jobs([_shards._FILES_OF_A_GROUP * parts.merge] * groups, mergers or workers, parts.start if has_start else 0, parts.send)
        files = groups
    return work, merge + files * parts.merge


@dataclass(frozen=True)
class Waiting:
    """A job that takes as long as a measured one."""

    name: str
    key: str
    seconds: float
    load: float
    content: bytes

    def run(self, report):
        if not getattr(_LOADED, "is_loaded", False):
            _LOADED.is_loaded = True
            time.sleep(self.load)
        time.sleep(self.seconds)
        return self.content


_LOADED = threading.local()  # a thread is a worker


class _Threads(_processes._Team):
    """The team of Processes with threads for processes: what they are asked and answer is pickled all the same."""

    def _start(self):
        return threading.current_thread()

    def _ask(self, process, job):
        return pickle.loads(pickle.dumps(("done", pickle.loads(pickle.dumps(job)).run(lambda done: None))))

    def _end(self, process):
        pass


class Simulated(distributed.Processes):
    def run(self, jobs, report):
        yield from _Threads(jobs, self.num_workers, report).results()


def simulate(parts, samples, workers, shards):
    """Seconds of the work and of the merge with simulated workers."""
    where = Simulated(workers)
    durations = shards_of(parts, samples, shards)
    with tempfile.TemporaryDirectory() as scratch:
        folder = _shards.Folder(Path(scratch) / "shards", ".bpc", {"shards": shards})
        jobs = (_shards.Shard(Waiting(f"shard {i}", str(i), seconds, parts.load, parts.content), 1) for i, seconds in enumerate(durations))
        work, files = timed(lambda: _shards.finish(jobs, folder, where, shards, "simulated", False))
        merge, _ = timed(lambda: bitpress.merge(_shards.add_up(files, folder, where, False), Path(scratch) / "sum.bpc"))
    return work, merge


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--data", required=True)
    parser.add_argument("--image", default="")
    parser.add_argument("--config")
    parser.add_argument("--measured", type=int, default=32, help="samples to measure (default: 32)")
    parser.add_argument("--samples", type=int, default=1_000_000, help="samples of the call (default: a million)")
    parser.add_argument("--workers", default="1,10,100,1000")
    parser.add_argument("--shards", type=int, default=_shards.SHARDS_OF_A_WORKER, help="for each worker")
    parser.add_argument("--simulate", default="", help="numbers of simulated workers")
    arguments = parser.parse_args()
    parts = measure(arguments.model, arguments.data, arguments.image, arguments.measured, arguments.config)
    print(parts)
    print("| workers | shards | work | merge | all | times faster | of the workers' time |\n|---|---|---|---|---|---|---|")
    alone = sum(predict(parts, arguments.samples, 1, 1))
    for workers in map(int, arguments.workers.split(",")):
        shards = min(arguments.samples, arguments.shards * workers)
        work, merge = predict(parts, arguments.samples, workers, shards)
        faster = alone / (work + merge)
        print(f"| {workers} | {shards} | {work:.1f} s | {merge:.1f} s | {work + merge:.1f} s | {faster:.1f} | {100 * faster / workers:.0f} % |")
    for workers in map(int, filter(None, arguments.simulate.split(","))):
        shards = min(arguments.samples, arguments.shards * workers)
        predicted = predict(parts, arguments.samples, workers, shards, has_start=False, mergers=os.cpu_count())
        found = simulate(parts, arguments.samples, workers, shards)
        print(f"{workers} simulated workers, {shards} shards: predicted {predicted[0]:.2f} + {predicted[1]:.2f} s, "
              f"found {found[0]:.2f} + {found[1]:.2f} s: {sum(found) / sum(predicted):.2f} times")


if __name__ == "__main__":
    main()
