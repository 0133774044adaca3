#!/usr/bin/env python3
"""Writes docs/benchmarks/corpus.md out of the results of measure.py, so that nobody copies a number by hand.

    python page.py [--cache DIR] [--out FILE]

What was not measured yet stands in the page as such. After a fault is repaired, measure its row again (measure.py --again faults) and run
this.
"""

import argparse
import collections
import functools
import json
import re
from pathlib import Path

import onnx
from faults import CLOSE, CLOSE_DB, decibels_of, faults_of, int8_fault, is_far
from measure import CONFIGURATIONS, ROOT
from networks import NETWORKS, model_of
from packages import CACHE, WHEELS, wheel
from tuning import ALLOWED_DB, COUNTS, FOLDER, RECIPES, WITHOUT, loss_of, other_losses, worst

TABLES = {"Integers": ["INT8", "INT8_DYNAMIC", "INT8_WEIGHTS", "INT4_WEIGHTS", "INT8_ADAQUANT", "ORT static", "ORT dynamic"],
          "Blocks and floats": ["MX6", "MX9", "MXINT8", "MXFP8E4M3", "BFP16", "BF16", "FP16"]}
MISSING = "·"
EXPORTERS = {"OnnxMLTools": "keras2onnx", "PaddlePaddle": "Paddle", "": "Paddle", "onnx.quantize": "ONNX Runtime's tool",
             "pytorch": "PyTorch"}  # as they call themselves, or do not

HEAD = """# Many real networks

This page shows what {count} real networks out of {packages} packages become in up to {configurations} configurations: whether the file is
written, loads, runs, how large it is, and how close it is to the float network. It is for people who want to know whether Bitpress
takes their kind of network, and for those who change the code. [Integers](integers.md#what-stays-float-in-int8) explains single numbers.

`bench/corpus/measure.py` measures, `bench/corpus/tuning.py` measures fine-tuning, and `bench/corpus/page.py` writes this page
(`bench/corpus/README.md` says how to run them). Figures are those of [the defaults of their day](index.md#defaults-since-then).

```sh
build/corpus/venv/bin/python bench/corpus/measure.py
build/corpus/venv/bin/python bench/corpus/tuning.py
build/corpus/venv/bin/python bench/corpus/page.py
```

Quantizing and measuring are processes of their own with a limit of time and memory, so that a crash is an entry of the
table. Samples for calibration and for measuring share no photo, recording, molecule or text. Each result runs with the operator
library and without it; models of ONNX Runtime's own tool (`ORT`: per channel, by its defaults) run without. Missing are {missing} of
{wanted} results ({dot}).

| what | value |
|---|---|
| measured | {dates} |
| program | {programs} |
| ONNX Runtime | {runtimes} |
| machine | {machine}, one thread |
"""
FAULTS = """
## Faults

These results are wrong or not there. To measure one again: `measure.py --again all --only NETWORK CONFIGURATION`.
"""
RULES = """
Faults are errors, crashes, time-outs, models that do not load or run, other shapes of outputs, files larger than the float one
(by more than the 4 kB of a recorded configuration), outputs with 0 dB or less, more than 1 dB between the results with and without the
operator library, and an `INT8` below both 20 dB and the decibels of `INT8_DYNAMIC` less 3. The decibels of `piper` say nothing: it
rounds durations, so that any change moves the sound that follows. `piper_decoder`, the part behind the durations, stands for it.
"""
FAR = """
These are no faults, but farther from the float network than the others (less than {db:.0f} dB in one of {names}):
{networks}.
"""
CELLS = """
## {title}

A cell has the SQNR of the worst float output in dB (at most 100), the size in % of the float file, and the seconds of the processor
that quantizing took. **Bold** cells have a fault.
"""
TUNING = """
## Fine-tuned with few samples

`bench/corpus/tuning.py` measures what [fine-tuning](../finetuning.md) does with {counts} samples: SQNR of the worst float output in dB,
untuned → tuned, or one number where every layer stays as rounded. Other samples validate. **Bold** cells are faults: the worst output
lost more than {allowed} dB.
"""


def results_in(cache):
    """{network: {configuration: result}} of the networks and configurations that still are."""
    found = collections.defaultdict(dict)
    for path in sorted((cache / "results").glob("*/*.json")):
        result = json.loads(path.read_text(encoding="utf-8"))
        if result["network"] in NETWORKS and result["configuration"] in CONFIGURATIONS:
            found[result["network"]][result["configuration"]] = result
    return found


def shorten(text):
    """A message without the names of folders and without line ends; as code if Markdown would take it for something else."""
    text = re.sub(r"\s+", " ", re.sub(r"(?:/[\w.+-]+)+/(?=[\w.+-])", "", text))[:260]
    return f"`{text.replace('`', '')}`" if re.search(r"[\[<*`]", text) else text


def faults_in(results):
    """(configuration, sentence) of one network."""
    found = [(label, fault) for label in CONFIGURATIONS if label in results for fault in faults_of(results[label])]
    late = int8_fault(results)
    return found + ([("INT8", late)] if late else [])


def cell(result, faults):
    if result is None:
        return MISSING
    values = decibels_of(result)
    done = result.get("quantize", {"status": "no inputs"})
    if done["status"]:
        text = re.sub(r"exit status \d+|:.*| after.*", lambda found: "error" if found[0][0] == "e" else "", done["status"])
    elif values is None:
        text = "does not load" if any("does not load" in fault for fault in faults) else "does not run"
    else:
        text = f"{min(values):.1f} / {done['bytes'] / result['float_bytes']:.0%} / {done['seconds']:.1f}"
    return f"**{text}**" if faults else text


def table(title, labels, everything, faults):
    yield CELLS.format(title=title)
    yield "| network | " + " | ".join(label if label.startswith("ORT") else f"`{label}`" for label in labels) + " |"
    yield "|---|" + "---|" * len(labels)
    for name in NETWORKS:
        results = everything.get(name, {})
        found = {label: [fault for which, fault in faults[name] if which == label] for label in labels}
        yield f"| {name} | " + " | ".join(cell(results.get(label), found[label]) for label in labels) + " |"


def fault_lists(faults):
    """Ours, with one line for configurations with the same sentence, and those of ONNX Runtime's own tool."""
    for is_ours in (True, False):
        lines = []
        for name in NETWORKS:
            labels = collections.defaultdict(list)
            for label, fault in faults[name]:
                if label.startswith("ORT") != is_ours:
                    labels[shorten(fault)].append(label)
            lines += [f"- {name}, {', '.join(each)}: {fault}" for fault, each in labels.items()]
        yield lines


def short_of(everything, label):
    """How many networks have a fault in a configuration of integers, or are below the bar of INT8."""
    return sum(label in results and bool(faults_of(results[label]) or int8_fault(results, label)) for results in everything.values())


def tuning_cell(result):
    if result is None:
        return MISSING
    loss = loss_of(result)
    if loss is None:
        return "**error**"
    untuned, tuned = worst(result["untuned"]), worst(result["tuned"])
    text = untuned if result["untuned"] == result["tuned"] else f"{untuned} → {tuned}"
    return f"**{text}**" if loss > ALLOWED_DB else text


def tuning_tables(found):
    """A table for each configuration; nothing where nothing was measured."""
    if not found:
        return
    yield TUNING.format(counts=", ".join(map(str, COUNTS[:-1])) + f" and {COUNTS[-1]}", allowed=ALLOWED_DB)
    for label, recipe in RECIPES.items():
        yield f"\n`{label}`, `{recipe}`:\n"
        yield f"| network | {' | '.join(map(str, COUNTS))} |\n|---|{'---|' * len(COUNTS)}"
        for name in NETWORKS:
            if name not in WITHOUT and any((name, label, count) in found for count in COUNTS):
                yield f"| {name} | {' | '.join(tuning_cell(found.get((name, label, count))) for count in COUNTS)} |"
    lost = [f"- {name}, {label}, {count} samples: '{output}' {before:.1f} → {after:.1f} dB"
            for (name, label, count), result in found.items() for output, before, after in other_losses(result)]
    if lost:
        yield f"\nThese outputs lost more than {ALLOWED_DB} dB and are still closer than the worst one:\n"
        yield from lost


def tuning_faults(found):
    for (name, label, count), result in found.items():
        loss = loss_of(result)
        if loss is None:
            yield f"- {name}, {label} tuned with {count} samples: {shorten(worst(result['untuned']))} {shorten(worst(result['tuned']))}"
        elif loss > ALLOWED_DB:
            yield f"- {name}, {label} tuned with {count} samples: the worst output lost {loss:.1f} dB"


def describe(cache, name):
    """The row of a network in the table of networks."""
    network = NETWORKS[name]
    model = onnx.load(model_of(cache, name), load_external_data=False)
    opset = next((entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")), 0)
    exporter = onnx.load(wheel(cache, network.package) / network.file, load_external_data=False).producer_name.strip()
    exporter = EXPORTERS.get(exporter, exporter)
    return f"| {name} | {network.what} | `{network.package}` {WHEELS[network.package]} | {exporter} | {opset} |"


@functools.lru_cache(None)
def machine():
    flags = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    for flag, name in (("avx512_vnni", "AVX-512 VNNI"), ("avx_vnni", "AVX VNNI"), ("avx512f", "AVX-512 without VNNI"), ("avx2", "AVX2")):
        if flag in flags:
            return f"x86 with {name}"
    return "another processor"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cache", type=Path, default=CACHE, metavar="DIR", help="that of measure.py (default: build/corpus)")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "benchmarks" / "corpus.md", metavar="FILE", help="default: docs/benchmarks/corpus.md")
    arguments = parser.parse_args()
    everything = results_in(arguments.cache.absolute())
    rows = [result for results in everything.values() for result in results.values()]
    faults = {name: faults_in(everything.get(name, {})) for name in NETWORKS}
    wanted = len(NETWORKS) * len(CONFIGURATIONS)
    dates = sorted({row["date"] for row in rows})
    lines = [HEAD.format(count=len(NETWORKS), packages=len({network.package for network in NETWORKS.values()}),
                         configurations=len(CONFIGURATIONS), missing=wanted - len(rows), wanted=wanted, dot=f"`{MISSING}`",
                         dates=" to ".join(dict.fromkeys([dates[0], dates[-1]])), machine=machine(),
                         programs=", ".join(sorted({row["program"] for row in rows})),
                         runtimes=", ".join(sorted({row["onnxruntime"] for row in rows})))]
    tuned = [json.loads(path.read_text(encoding="utf-8")) for path in sorted((arguments.cache / FOLDER).glob("*.json"))]
    tuned = {(result["network"], result["configuration"], result["samples"]): result for result in tuned}
    ours, theirs = fault_lists(faults)
    ours += tuning_faults(tuned)
    far = collections.defaultdict(list)
    for row in rows:
        if is_far(row):
            far[row["network"]].append(f"`{row['configuration']}` {min(decibels_of(row)):.1f}")
    lines += [FAULTS, *(ours or ["There are none."]), RULES,
              FAR.format(db=CLOSE_DB, names=", ".join(f"`{name}`" for name in CLOSE),
                         networks="; ".join(f"{name} {', '.join(far[name])}" for name in NETWORKS if name in far))]
    for title, labels in TABLES.items():
        lines += table(title, labels, everything, faults)
    lines += tuning_tables(tuned)
    lines += ["\n## Networks\n", "| network | what it is | package | exporter | opset |", "|---|---|---|---|---|",
              *(describe(arguments.cache.absolute(), name) for name in NETWORKS)]
    counts = ", ".join(f"{short_of(everything, label)} in {label if label.startswith('ORT') else f'`{label}`'}"
                       for label in ("INT8", "INT8_DYNAMIC", "ORT static", "ORT dynamic"))
    lines += ["\n## ONNX Runtime's own tool\n",
              f"Of {len(NETWORKS)} networks, these have a fault or are below the bar of `INT8`: {counts}.\n"
              "The rules above find these faults in the results of ONNX Runtime's tool:\n", *theirs]
    text = re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()
    arguments.out.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
