#!/usr/bin/env python3
"""Runs models in OpenVINO and in ONNX Runtime: how near their outputs are, and what OpenVINO computes with.

    tools/measure/openvino_models.py SAMPLES MODEL...

SAMPLES is a folder of .npy or .npz files, one input or members by name. It needs `pip install openvino onnxruntime` in an environment of
its own.
"""

import argparse
import collections
from pathlib import Path

import numpy as np
import onnxruntime
import openvino

COMPUTE = ("Convolution", "Deconvolution", "FullyConnected", "MatMul", "Gather")


def samples_of(folder, inputs):
    for path in sorted(Path(folder).iterdir()):
        loaded = np.load(path)
        yield dict(loaded) if path.suffix == ".npz" else {inputs[0].name: loaded}


def decibels(wanted, found):
    noise = sum(float(((a - b).astype(np.float64) ** 2).sum()) for a, b in zip(wanted, found))
    signal = sum(float((a.astype(np.float64) ** 2).sum()) for a in wanted)
    return np.inf if noise == 0 else 10 * np.log10(signal / noise)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("samples", type=Path)
    parser.add_argument("models", nargs="+", type=Path)
    arguments = parser.parse_args()
    core = openvino.Core()
    print("| model | closeness to ONNX Runtime, dB | operators by precision |\n|---|---|---|")
    for model in arguments.models:
        session = onnxruntime.InferenceSession(model)
        samples = list(samples_of(arguments.samples, session.get_inputs()))
        wanted = [session.run(None, sample)[0] for sample in samples]
        try:
            compiled = core.compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
            found = [compiled(sample)[0] for sample in samples]
        except RuntimeError as error:
            print(f"| {model.stem} | not read: {str(error).strip().splitlines()[-1][:120]} | |")
            continue
        kinds = collections.Counter()
        for node in compiled.get_runtime_model().get_ordered_ops():
            info = node.get_rt_info()
            if "layerType" in info and info["layerType"].astype(str) in COMPUTE:
                kinds[f"{info['layerType'].astype(str)} {info['runtimePrecision'].astype(str)}"] += 1
        print(f"| {model.stem} | {decibels(wanted, found):.1f} | {', '.join(f'{count} {kind}' for kind, count in sorted(kinds.items()))} |")


if __name__ == "__main__":
    main()
