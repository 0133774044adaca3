#!/usr/bin/env python3
"""Compares the bytes of bitpress.distributed with those of one process, and how long both take.

    python tools/measure/same_bytes.py model.onnx --data photos --image resize=256,crop=224 --shards 50,7,1
    python tools/measure/same_bytes.py model.onnx --data photos --image resize=256,crop=224 --kill workers=20,callers=10

The first form prints a row for each work: the seconds of one process with two threads, those of workers with one thread each, and the
first digits of the SHA-256 of what was written, or DIFFERS. Tokens are given as --data tokens.npy --sequence 64.

The second form kills a worker, or the calling process, with SIGKILL at a random moment of each run; a caller is started again. It
prints how many runs there were, and exits with 1 if any of them gave other bytes.
"""

import argparse
import hashlib
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import bitpress
from bitpress import distributed


class Work:
    """One function of the package with its arguments; `run` writes `output` and returns its SHA-256."""

    def __init__(self, verb, arguments):
        self.verb, self.arguments = verb, arguments

    def run(self, output, **options):
        module = distributed if "where" in options else bitpress
        getattr(module, self.verb)(output=output, progress=False, **self.arguments, **options)
        return hashlib.sha256(Path(output).read_bytes()).hexdigest()


def data_of(arguments):
    if arguments.sequence:
        return {"data": bitpress.Tokens(arguments.data, arguments.sequence), "samples": arguments.samples}
    return {"data": arguments.data, "image": arguments.image, "samples": arguments.samples}


def works_of(arguments, folder):
    data = data_of(arguments)
    mx6 = folder / "mx6.onnx"
    if "evaluate" in arguments.works and not mx6.exists():
        bitpress.quantize(arguments.model, mx6, config="MX6", progress=False)
    learned = {"model": arguments.model, "config": arguments.tuned, "finetune": arguments.recipe, **data}
    few = {**data, "samples": min(arguments.samples, arguments.few)} if arguments.samples else data
    works = {
        "calibrate": Work("calibrate", {"model": arguments.model, "config": arguments.calibrated, **data}),
        "evaluate": Work("evaluate", {"model": mx6, "reference": arguments.model, **data}),
        "moments": Work("moments", learned),
        "quantize": Work("quantize", learned),
        "sensitivity": Work("sensitivity", {"model": arguments.model, "candidates": ["mx9", "mx6"], **few}),
        "search": Work("search", {"model": arguments.model, "candidates": ["mx9", "mx6"], "target": "sqnr>=20", **few}),
    }
    return {verb: works[verb] for verb in arguments.works}


def places_of(arguments):
    """{name: workers}"""
    places = {f"Processes({n})": distributed.Processes(n) for n in arguments.processes}
    return places | {f"Ray({n})": distributed.Ray(n, address=arguments.address) for n in arguments.ray}


def compare(arguments, works, folder):
    is_same = True
    for verb, work in works.items():
        begin = time.perf_counter()
        wanted = work.run(folder / "one", threads=2)
        one = time.perf_counter() - begin
        print(f"{verb:12} one process: {one:.1f} s, {wanted[:16]}", flush=True)
        for place, where in places_of(arguments).items():
            for shards in arguments.shards:
                begin = time.perf_counter()
                found = work.run(folder / "all", where=where, shards=shards, threads=1)
                seconds = time.perf_counter() - begin
                is_same &= found == wanted
                print(f"{verb:12} {place}, {shards} shards: {seconds:.1f} s ({seconds / one:.2f}), "
                      f"{found[:16] if found == wanted else 'DIFFERS'}", flush=True)
    return is_same


def processes_of(word, ancestor):
    """Processes whose command line has the word: children of the ancestor, or actors of any Ray on this machine."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and word in (entry / "cmdline").read_text(errors="replace").replace("\0", " "):
                parent = (entry / "stat").read_text().rpartition(")")[2].split()[1]
                if word.startswith("ray::") or parent == str(ancestor):
                    found.append(int(entry.name))
        except OSError:  # it ended meanwhile
            continue
    return found


CALLER = "import sys; sys.path.insert(0, {here!r}); import same_bytes; same_bytes.call({words!r}, {verb!r}, {folder!r})"


def call(words, verb, folder):
    """Runs one work on the last place, as a process that is to be killed."""
    arguments = parse(words)
    work = works_of(arguments, Path(folder))[verb]
    *_, where = places_of(arguments).values()
    print(work.run(Path(folder) / "all", where=where, shards=arguments.shards[0], threads=1), flush=True)


def kill_at_random(arguments, works, folder):
    chance = random.Random(arguments.seed)
    word = "ray::_Worker" if arguments.ray else "bitpress.distributed._worker"
    is_same = True
    for verb, work in works.items():
        wanted = work.run(folder / "one", threads=2)
        code = CALLER.format(here=str(Path(__file__).parent), words=sys.argv[1:], verb=verb, folder=str(folder))
        begin = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        length = time.perf_counter() - begin
        for kind, number in arguments.kill.items():
            hits, good, runs = 0, 0, 0
            while hits < number:
                runs += 1
                while True:  # a killed caller is started again
                    caller = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
                    time.sleep(chance.uniform(0, length))
                    victims = [caller.pid] if kind == "callers" else processes_of(word, caller.pid)
                    if victims and hits < number and caller.poll() is None:
                        os.kill(chance.choice(victims), signal.SIGKILL)
                        hits += 1
                    out, err = caller.communicate()
                    if caller.returncode != -signal.SIGKILL:
                        break
                is_good = caller.returncode == 0 and wanted in out.split()  # Ray writes about dead workers there, too
                good += is_good
                if not is_good:
                    print(f"{verb}: {err.splitlines()[-1:] or out}", file=sys.stderr)
            print(f"{verb:12} {kind}: {hits} killed in {runs} calls, {good} of them with the bytes of one process", flush=True)
            is_same &= good == runs
    return is_same


def numbers(text):
    return [int(word) for word in text.split(",") if word]


def kills(text):
    return {kind: int(number) for kind, _, number in (word.partition("=") for word in text.split(","))}


def parse(words=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--data", type=Path, required=True, help="a folder of samples, or a file of tokens")
    parser.add_argument("--image", default="", help="as of bitpress calibrate")
    parser.add_argument("--sequence", type=int, default=0, help="of tokens")
    parser.add_argument("--samples", type=int, default=50, help="default: 50")
    parser.add_argument("--few", type=int, default=8, help="samples of sensitivity and search (default: 8)")
    parser.add_argument("--works", type=lambda text: text.split(","), default=["calibrate", "evaluate", "moments", "quantize", "sensitivity", "search"])
    parser.add_argument("--calibrated", default="INT8", help="configuration that calibrate gathers for (default: INT8)")
    parser.add_argument("--tuned", default="MX6", help="configuration of moments and quantize (default: MX6)")
    parser.add_argument("--recipe", default="gptq", help="default: gptq")
    parser.add_argument("--shards", type=numbers, default=[50, 7, 1], help="numbers of shards (default: 50,7,1)")
    parser.add_argument("--processes", type=numbers, default=[2], help="numbers of processes (default: 2)")
    parser.add_argument("--ray", type=numbers, default=[], help="numbers of actors, such as 2,4 (default: none)")
    parser.add_argument("--address", help="of a Ray cluster (default: one that starts with each process)")
    parser.add_argument("--kill", type=kills, help="workers=N,callers=M: kill so many at random moments")
    parser.add_argument("--seed", type=int, default=1, help="of the moments (default: 1)")
    return parser.parse_args(words)


def main() -> int:
    arguments = parse()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        works = works_of(arguments, folder)
        return 0 if (kill_at_random if arguments.kill else compare)(arguments, works, folder) else 1


if __name__ == "__main__":
    sys.exit(main())
