#!/usr/bin/env python3
"""Weights of 4 bits in blocks of 32, activations in float: what each recipe of fine-tuning gives.

    venv/bin/python tools/measure/weight_only.py --bitpress build/bitpress --work work

Networks, samples and packages are those of real_models.py; half of the samples are learned from, the other half is compared.
Prints a table of the SQNR of the first output.
"""

import argparse
import sys
import time
from pathlib import Path

import numpy as np
import real_models

RECIPES = ["none", "gptq", "adaquant", "clip_search", "awq", "awq+gptq+bias_correction"]


def networks(work):
    real_models.minilm(work / "minilm.onnx")
    recognition = real_models.package("rapidocr") / "models" / "PP-OCRv6_rec_small.onnx"
    speech = real_models.package("silero_vad") / "data" / "silero_vad_16k_sequence.onnx"
    return {"PP-OCRv6 recognition": (recognition, list(real_models.recognition(128))),
            "MiniLM": (work / "minilm.onnx", list(real_models.sentences(256))),
            "Silero VAD, sequences": (speech, list(real_models.speech_sequences(128)))}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bitpress", type=Path, required=True, help="the program; the operator library lies beside it")
    parser.add_argument("--work", type=Path, required=True, help="a folder for samples and models")
    parser.add_argument("--only", default="", help="networks whose name holds this")
    parser.add_argument("--recipes", nargs="+", default=RECIPES)
    parser.add_argument("--arguments", nargs="*", default=[], help="of quantize, without their dashes")
    arguments = parser.parse_args()
    arguments.work.mkdir(parents=True, exist_ok=True)
    library = arguments.bitpress.parent / "libbitpress_ops.so"
    more = ["--" + argument for argument in arguments.arguments]
    print("| network | recipe | SQNR dB | cosine | size | time |\n|---|---|---|---|---|---|")
    for name, (model, samples) in networks(arguments.work).items():
        if arguments.only.lower() not in name.lower():
            continue
        folder = arguments.work / ("weight_only_" + "".join(c for c in name if c.isalnum()))
        folder.mkdir(exist_ok=True)
        for i, sample in enumerate(samples[::2]):
            np.savez(folder / f"{i:03}.npz", **sample)
        wanted = real_models.outputs_of(model, samples[1::2], library)
        for recipe in arguments.recipes:
            output = arguments.work / f"{folder.name}_{recipe}.onnx"
            begin = time.time()
            code, text = real_models.run(arguments.bitpress, "quantize", model, "-o", output, "--config", "INT4_WEIGHTS", "--data",
                                         folder, "--finetune", recipe, "--check", "off", *more)
            seconds = time.time() - begin
            (arguments.work / f"{output.stem}.txt").write_text(text)
            if code != 0:
                sys.exit(f"{name}, {recipe}: {text.strip().splitlines()[-1]}")
            sqnr, cosine = real_models.closeness(wanted, real_models.outputs_of(output, samples[1::2], library))
            size = output.stat().st_size / Path(model).stat().st_size
            print(f"| {name} | `{recipe}` | {sqnr:.1f} | {cosine:.4f} | {size:.0%} | {seconds:.0f} s |", flush=True)


if __name__ == "__main__":
    sys.exit(main())
