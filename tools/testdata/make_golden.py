#!/usr/bin/env python3
"""Takes a small set out of a full set of golden outputs, into tests/data/golden.

    .deps/venv/bin/python tools/testdata/make_golden.py FOLDER

FOLDER holds block_formats.{json,npz} and extended_qdq.{json,npz}: what AMD Quark 0.13's CPU operators gave in ONNX Runtime
1.28, one operator at a time. The choice: every set of attributes of the block operators, each with one input, in turns; of
the Q/DQ pairs every zero-point type, per tensor and per axis.
"""

import json
import sys
from pathlib import Path

import numpy as np

DESTINATION = Path(__file__).resolve().parents[2] / "tests" / "data" / "golden"
# The input with infinities and NaN comes twice: most rules are about them.
INPUTS = ["in/inf_nan", "in/zeros_powers_ties", "in/subnormal_huge", "in/vector", "in/inf_nan", "in/tiny_axis"]


def write(kind, cases, arrays):
    names = {case[key] for case in cases for key in ("input", "output", "scale", "dequantized", "codes") if case.get(key)}
    np.savez_compressed(DESTINATION / f"{kind}.npz", **{name: arrays[name] for name in sorted(names)})
    lines = ",\n".join(json.dumps(case) for case in cases)
    (DESTINATION / f"{kind}.json").write_text(f"[\n{lines}\n]\n")


def choose_block_formats(cases):
    groups = {}
    for case in cases:
        key = json.dumps([case["op"], {k: v for k, v in case["attrs"].items() if k != "axis"}], sort_keys=True)
        groups.setdefault(key, []).append(case)
    chosen = []
    for turn, group in enumerate(groups.values()):
        for offset in (0, 1):
            wanted = INPUTS[(2 * turn + offset) % len(INPUTS)]
            matching = [case for case in group if case["input"] == wanted]
            chosen.append(matching[turn % len(matching)])
    return chosen


def choose_extended_qdq(cases):
    groups = {}
    for case in cases:
        groups.setdefault((case["type"], case["axis"] is None), []).append(case)
    return [group[turn % len(group)] for turn, group in enumerate(groups.values())]


def main():
    if len(sys.argv) != 2:
        print(__doc__.strip(), file=sys.stderr)
        return 2
    folder = Path(sys.argv[1])
    DESTINATION.mkdir(parents=True, exist_ok=True)
    for kind, choose in (("block_formats", choose_block_formats), ("extended_qdq", choose_extended_qdq)):
        write(kind, choose(json.loads((folder / f"{kind}.json").read_text())), np.load(folder / f"{kind}.npz"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
