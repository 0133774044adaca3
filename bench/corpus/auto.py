#!/usr/bin/env python3
"""Lets `bitpress auto` choose for networks of the corpus, and prints a table for docs/benchmarks/auto.md.

    python bench/corpus/auto.py --cache build/corpus [--only NAME,...] | tools/measure/put_table.py docs/benchmarks/auto.md corpus
    python bench/corpus/auto.py --brute --only ... | tools/measure/put_table.py docs/benchmarks/auto.md brute

It chooses on the samples for calibration, and measures on the others. The networks of UNSEEN come last. The column "elsewhere" is the
signal-to-noise ratio of the worst output in plain ONNX Runtime, on 16 samples that played no part. `--keep DIR` keeps the files and what
the command said. `--brute` tries every preset of BRUTE on the same samples with the same preference, and says how far the choice is from
the best of them. `--peers ort=PYTHON,nc=PYTHON,quark=PYTHON` adds what the defaults of other tools give, measured in the same way; each
interpreter has the packages that bench/peers/jobs.py names.
"""

import argparse
import contextlib
import itertools
import json
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))
import samples  # noqa: E402
from networks import NETWORKS as ALL  # noqa: E402
from networks import UNSEEN, model_of, samples_of  # noqa: E402

NETWORKS = ["nsnet2_16k", "silero_sequence", "dnsmos_p808", "lac", "wake_alexa", "orientation", "nudenet", "magika", "surfaces_trees", "minilm_l3",
            "swift_f0", "aecmos", "dtln_1", "wake_embedding", "wake_mycroft", "plcmos", "ppocr_cls_23", "centerface", "thai_attacut", "icalabel",
            "tinyocr_det", "moonshine_encoder", "names_encoder", "thai_deepcut", "chars2vec", "isbnx", "ppocr_rec", "nsnet2_48k", "captcha_crnn"]
BRUTE = ["INT8", "INT8_DYNAMIC", "INT8_ADAROUND", "INT8_ADAQUANT", "INT4_WEIGHTS", "INT8_WEIGHTS", "LM_4BIT", "MATMUL_NBITS", "FP16", "BF16",
         "S8S8_AAWS", "U8S8_AAWS", "A8W8", "A16W8", "INT8_CNN_DEFAULT", "INT8_TRANSFORMER_DEFAULT", "UINT8_DYNAMIC_QUANT", "XINT8", "MXINT8", "MX6",
         "MX9", "MXFP8E4M3", "BFP16"]
# The scripts of other tools in bench/peers, and the configurations that are their defaults.
PEERS = {"ort": ("ONNX Runtime, static", "quantize_ort.py", "minmax"), "nc": ("Neural Compressor, static", "quantize_nc.py", "static"),
         "quark": ("Quark, A8W8", "quantize_quark.py", "A8W8")}
TASKS = {"centerface": ["--task", "detection:layout=centermap,score=0.35"]}


def processor_seconds():
    """Those of the programs that ended. A busy machine does not change them."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def decibels_elsewhere(cache, name, model):
    """Those of the worst output; None: it is equal in all."""
    network, folder = (ALL | UNSEEN)[name], cache / "samples" / name / "elsewhere"
    samples.write(folder, itertools.islice(network.maker(cache, "validation"), network.validation, None), 16)
    sessions = [samples.open_session(path) for path in (model_of(cache, name), model)]
    energies = {}
    for inputs in samples.load(folder):
        for output, wanted, found in zip(sessions[0].get_outputs(), *(session.run(None, inputs) for session in sessions)):
            if wanted.dtype.kind == "f":
                energy = energies.setdefault(output.name, np.zeros(2))
                energy += np.square(wanted, dtype=np.float64).sum(), np.square(np.float64(found) - wanted).sum()
    ratios = [signal / noise for signal, noise in energies.values() if noise > 0 or np.isnan(noise)]
    return 10 * np.log10(min(ratios)) if ratios else None


def run(program, name, cache, folder, *words):
    model = model_of(cache, name)
    command = [program, "auto", model, "-o", folder / "best.onnx", "--data", samples_of(cache, name, "calibration"),
               "--validation", samples_of(cache, name, "validation"), "--json", folder / "auto.json", "--no-report", "--threads", "1", *TASKS.get(name, []), *words]
    start = processor_seconds()
    ended = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    (folder / "said.txt").write_text(ended.stdout + ended.stderr, encoding="utf-8")
    if ended.returncode != 0:
        return None, ended.stderr.strip().splitlines()[-1:], 0.0
    return json.loads((folder / "auto.json").read_text(encoding="utf-8")), [], processor_seconds() - start


def loss_of(evaluation):
    """As `auto` has it: the first measure, or that of an output that loses more."""
    task, top = evaluation["task"], evaluation["reference_expected_top1"]
    losses = [head["loss"] for head in evaluation["heads"]]
    if task and task["loss"] is not None:
        losses.append(task["loss"])
    elif top:
        losses.append(1 - evaluation["expected_top1"] / top)
    elif evaluation["agreement"] is not None:
        losses.append(1 - evaluation["agreement"])
    return float("inf") if evaluation["num_nonfinite_values"] else max(losses)


def by_peer(program, name, cache, folder, tool, python):
    """The loss and bytes of another tool's default, in words."""
    _, script, config = PEERS[tool]
    model, output = model_of(cache, name), folder / f"{tool}.onnx"
    for old in folder.glob(f"{tool}.onnx*"):  # data beside a file may be appended to
        old.unlink()
    command = [python, Path(__file__).parents[1] / "peers" / script, model, output, samples_of(cache, name, "calibration"), config]
    ended = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if ended.returncode != 0 or not output.is_file():
        return f"fails: {(ended.stderr.strip().splitlines() or ['no message'])[-1][:80]}"
    command = [program, "evaluate", output, "--reference", model, "--data", samples_of(cache, name, "validation"), "--batch", "1", "--threads", "1",
               "--json", folder / "peer.json", *TASKS.get(name, [])]
    ended = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if ended.returncode != 0:
        return f"does not run: {(ended.stderr.strip().splitlines() or ['no message'])[-1].split(chr(39) + ': ')[-1][:80]}"
    evaluation = json.loads((folder / "peer.json").read_text(encoding="utf-8"))
    ratio = f", {evaluation['time_ratio']:.2f}" if evaluation["time_ratio"] else ""
    return f"{100 * loss_of(evaluation):.2f} %, {100 * evaluation['file_bytes'] / evaluation['reference_file_bytes']:.1f} %{ratio}"


def chosen(report):
    return next(trial for trial in report["trials"] if trial["config"] == report["chosen"])


def loss(trial):
    return "-" if trial["loss"] is None else f"{100 * trial['loss']:.2f} %"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", type=Path, default=Path("build/bitpress"))
    parser.add_argument("--cache", type=Path, default=Path("build/corpus"))
    parser.add_argument("--only", default=",".join([*NETWORKS, *UNSEEN]))
    parser.add_argument("--keep", type=Path, metavar="DIR", help="a folder for each network's file, report and text (default: they go)")
    parser.add_argument("--brute", action="store_true")
    parser.add_argument("--peers", default="", metavar="TOOL=PYTHON,...")
    arguments = parser.parse_args()
    peers = dict(word.split("=") for word in arguments.peers.split(",") if word)
    if arguments.brute:
        titles = "".join(f" {PEERS[tool][0]}: loss, bytes, time |" for tool in peers)
        print(f"| network | chosen, of how many | loss, bytes | best of all presets, of how many | loss, bytes |{titles}",
              "|---|---|---|---|---|" + "---|" * len(peers), sep="\n", flush=True)
    else:
        print("| network | kind, float bytes | measure | chosen | loss | elsewhere | bytes of float | time of float | keeps the limits | processor |",
              "|---|---|---|---|---|---|---|---|---|---|", sep="\n", flush=True)
    for name in arguments.only.split(","):
        with contextlib.ExitStack() as stack:
            folder = arguments.keep / name if arguments.keep else stack.enter_context(tempfile.TemporaryDirectory())
            Path(folder).mkdir(parents=True, exist_ok=True)
            words = ["--want", "smaller"] if arguments.brute else []
            report, error, seconds = run(arguments.program, name, arguments.cache, Path(folder), *words)
            if report is None:
                print(f"{name}: {error}", file=sys.stderr)
                continue
            trial, share = chosen(report), f"{100 * chosen(report)['file_bytes'] / report['float_bytes']:.1f} %"
            if not arguments.brute:
                decibels = decibels_elsewhere(arguments.cache, name, Path(folder) / "best.onnx")
                elsewhere = "equal" if decibels is None else f"{decibels:.1f} dB"
                ratio = "-" if trial["time_ratio"] is None else f"{trial['time_ratio']:.2f}"
                print(f"| {name} | {report['network']}, {report['float_bytes'] / 1e6:.1f} MB | {report['measure']} | `{trial['config']}` | {loss(trial)} | "
                      f"{elsewhere} | {share} | {ratio} | {'yes' if report['is_tolerable'] else 'no'} | {seconds:.0f} s |", flush=True)
                continue
            best, _, _ = run(arguments.program, name, arguments.cache, Path(folder), *words, "--configs", ",".join(BRUTE))
            other = chosen(best)
            others = "".join(f" {by_peer(arguments.program, name, arguments.cache, Path(folder), *peer)} |" for peer in peers.items())
            print(f"| {name} | `{trial['config']}`, {len(report['trials'])} | {loss(trial)}, {share} | `{other['config']}`, {len(best['trials'])} | "
                  f"{loss(other)}, {100 * other['file_bytes'] / report['float_bytes']:.1f} % |{others}", flush=True)


if __name__ == "__main__":
    main()
