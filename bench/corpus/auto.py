#!/usr/bin/env python3
"""Lets `bitpress auto` choose for networks of the corpus, and prints a table for docs/benchmarks/auto.md.

    python bench/corpus/auto.py --cache build/corpus [--only NAME,...] | tools/measure/put_table.py docs/benchmarks/auto.md corpus
    python bench/corpus/auto.py --brute --only ... | tools/measure/put_table.py docs/benchmarks/auto.md brute

It chooses on the samples for calibration, and measures on the others. `--brute` tries every preset of BRUTE on the same samples with the
same preference, and says how far the choice is from the best of them.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from networks import model_of, samples_of  # noqa: E402

NETWORKS = ["nsnet2_16k", "silero_sequence", "dnsmos_p808", "lac", "wake_alexa", "orientation", "nudenet", "magika", "surfaces_trees", "minilm_l3",
            "swift_f0"]
BRUTE = ["INT8", "INT8_DYNAMIC", "INT8_ADAROUND", "INT8_ADAQUANT", "INT4_WEIGHTS", "INT8_WEIGHTS", "LM_4BIT", "MATMUL_NBITS", "FP16", "BF16",
         "S8S8_AAWS", "U8S8_AAWS", "A8W8", "A16W8", "INT8_CNN_DEFAULT", "INT8_TRANSFORMER_DEFAULT", "UINT8_DYNAMIC_QUANT", "XINT8", "MXINT8", "MX6",
         "MX9", "MXFP8E4M3", "BFP16"]
TASKS = {"centerface": ["--task", "detection:layout=centermap,score=0.35"]}


def processor_seconds():
    """Those of the programs that ended. A busy machine does not change them."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def run(program, name, cache, folder, *words):
    model = model_of(cache, name)
    command = [program, "auto", model, "-o", folder / "best.onnx", "--data", samples_of(cache, name, "calibration"),
               "--validation", samples_of(cache, name, "validation"), "--json", folder / "auto.json", "--no-report", "--threads", "1", *TASKS.get(name, []), *words]
    start = processor_seconds()
    ended = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if ended.returncode != 0:
        return None, ended.stderr.strip().splitlines()[-1:], 0.0
    return json.loads((folder / "auto.json").read_text(encoding="utf-8")), [], processor_seconds() - start


def chosen(report):
    return next(trial for trial in report["trials"] if trial["config"] == report["chosen"])


def loss(trial):
    return "-" if trial["loss"] is None else f"{100 * trial['loss']:.2f} %"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", type=Path, default=Path("build/bitpress"))
    parser.add_argument("--cache", type=Path, default=Path("build/corpus"))
    parser.add_argument("--only", default=",".join(NETWORKS))
    parser.add_argument("--brute", action="store_true")
    arguments = parser.parse_args()
    if arguments.brute:
        print("| network | chosen, of how many | loss, bytes | best of all presets, of how many | loss, bytes |", "|---|---|---|---|---|", sep="\n")
    else:
        print("| network | kind, float bytes | measure | chosen | loss | bytes of float | time of float | keeps the limits | processor |",
              "|---|---|---|---|---|---|---|---|---|", sep="\n", flush=True)
    for name in arguments.only.split(","):
        with tempfile.TemporaryDirectory() as folder:
            words = ["--want", "smaller"] if arguments.brute else []
            report, error, seconds = run(arguments.program, name, arguments.cache, Path(folder), *words)
            if report is None:
                print(f"{name}: {error}", file=sys.stderr)
                continue
            trial, share = chosen(report), f"{100 * chosen(report)['file_bytes'] / report['float_bytes']:.1f} %"
            if not arguments.brute:
                ratio = "-" if trial["time_ratio"] is None else f"{trial['time_ratio']:.2f}"
                print(f"| {name} | {report['network']}, {report['float_bytes'] / 1e6:.1f} MB | {report['measure']} | `{trial['config']}` | {loss(trial)} | "
                      f"{share} | {ratio} | {'yes' if report['is_tolerable'] else 'no'} | {seconds:.0f} s |", flush=True)
                continue
            best, _, _ = run(arguments.program, name, arguments.cache, Path(folder), *words, "--configs", ",".join(BRUTE))
            other = chosen(best)
            print(f"| {name} | `{trial['config']}`, {len(report['trials'])} | {loss(trial)}, {share} | `{other['config']}`, {len(best['trials'])} | "
                  f"{loss(other)}, {100 * other['file_bytes'] / report['float_bytes']:.1f} % |", flush=True)


if __name__ == "__main__":
    main()
