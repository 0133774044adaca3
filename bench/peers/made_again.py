#!/usr/bin/env python3
"""Models that other tools quantized, made again: their decisions are imported into a plan, and codes and scales are compared.

    python made_again.py MODEL SAMPLES TITLE=QUANTIZED... (Q/DQ models of the same network)

Prints a table. Codes are those of the weights of Conv, ConvTranspose, Gemm and MatMul and of the tables of Gather; scales are those of what
these operators read. SQNR is that of the first output of the model made again, with that of the other tool's as the signal, over the .npy
or .npz files of SAMPLES.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import numpy_helper

PROGRAM = Path(__file__).resolve().parents[2] / "build" / "bitpress"
PRODUCTS = ("Conv", "ConvTranspose", "Gemm", "MatMul")
# The inputs of a layer that have codes; biases follow from the two of a product.
OPERANDS = {**dict.fromkeys(PRODUCTS, (0, 1)), "Gather": (0,)}
COLUMNS = ["tool", "layers", "equal codes", "equal scales of weights", "equal scales of activations", "SQNR dB"]


def codes_of(values, scale, zero_point, axis):
    """The codes that QuantizeLinear gives."""
    shape = [1] * values.ndim
    if scale.size > 1:
        shape[axis] = scale.size
    limits = np.iinfo(zero_point.dtype)
    rounded = np.rint(values / scale.reshape(shape)) + zero_point.reshape(shape).astype(np.float32)
    return np.clip(rounded, limits.min, limits.max).astype(zero_point.dtype)


def layers_of(path):
    """What each layer reads, by the layer's name and the number of the input: (codes, scales, zero points) where it is quantized. The codes
    are None where the value is computed."""
    graph = onnx.load(path).graph
    constants = {constant.name: numpy_helper.to_array(constant) for constant in graph.initializer}
    for node in graph.node:
        if node.op_type == "Constant":
            constants[node.output[0]] = numpy_helper.to_array(node.attribute[0].t)
    producers = {output: node for node in graph.node for output in node.output}

    def params(node):
        scale = constants[node.input[1]]
        zero = constants[node.input[2]] if len(node.input) > 2 and node.input[2] else np.zeros_like(scale, np.uint8)
        return scale.reshape(-1), np.broadcast_to(zero.reshape(-1), scale.size)

    def operand(name):
        node = producers.get(name)
        if node is None or node.op_type != "DequantizeLinear":
            return None
        (scale, zero), stored = params(node), node.input[0]
        axis = next((item.i for item in node.attribute if item.name == "axis"), 1)
        codes = constants.get(stored)
        if codes is None and producers[stored].input[0] in constants:  # the weight is float behind a QuantizeLinear
            codes = codes_of(constants[producers[stored].input[0]], scale, zero, axis)
        return codes, scale, zero

    return {(node.name, k): operand(node.input[k]) for node in graph.node for k in OPERANDS.get(node.op_type, ())}


def has_float_biases(path):
    graph = onnx.load(path).graph
    producers = {output: node.op_type for node in graph.node for output in node.output}
    return not any(producers.get(name) == "DequantizeLinear" for node in graph.node if node.op_type in PRODUCTS for name in node.input[2:])


def outputs_of(path, samples):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    wanted = {item.name for item in session.get_inputs()}

    def inputs_of(sample):
        values = np.load(sample)
        return {name: values} if sample.suffix == ".npy" else {key: values[key] for key in wanted}

    return np.concatenate([session.run(None, inputs_of(sample))[0] for sample in samples]).astype(np.float64)


def row(title, theirs, model, samples, folder):
    plan, ours = folder / "plan.json", folder / "ours.onnx"
    biases = ["--set", "biases=none"] if has_float_biases(theirs) else []
    for command in (["plan", model, "--config", "INT8", "--set", "guard=off", *biases, "--import", theirs, "-o", plan],
                    ["quantize", model, "--plan", plan, "-o", ours, "--storage", "qdq", "--check", "off"]):
        result = subprocess.run([str(PROGRAM), *map(str, command)], capture_output=True, text=True, check=False)
        print(result.stderr, file=sys.stderr, end="")
        if result.returncode != 0:
            raise SystemExit(f"made_again: {title}: {result.stderr.strip()}")
    wanted, given = layers_of(theirs), layers_of(ours)
    same = num_codes = same_scales = num_scales = same_inputs = num_inputs = 0
    for key, tensor in wanted.items():
        if tensor is None:
            continue
        codes, scales, zeros = tensor
        our_codes, our_scales, our_zeros = given.get(key) or (None, np.empty(0), np.empty(0))
        if codes is None:
            num_inputs += 1
            same_inputs += np.array_equal(scales, our_scales) and np.array_equal(zeros, our_zeros)
            continue
        num_codes += codes.size
        num_scales += scales.size
        if our_codes is not None and our_codes.shape == codes.shape:
            same += int((codes.astype(np.int64) == our_codes.astype(np.int64)).sum())
        if our_scales.shape == scales.shape:
            same_scales += int((our_scales == scales).sum())
    signal, again = outputs_of(theirs, samples), outputs_of(ours, samples)
    noise = float(((signal - again) ** 2).sum())
    sqnr = "equal" if noise == 0 else f"{10 * np.log10((signal ** 2).sum() / noise):.1f}"
    return [title, str(len({name for name, _ in wanted})), f"{100 * same / max(num_codes, 1):.3f} %", f"{same_scales} of {num_scales}",
            f"{same_inputs} of {num_inputs}", sqnr]


def main():
    model, samples, *files = sys.argv[1:]
    paths = sorted(Path(samples).glob("*.np[yz]"))
    print("| " + " | ".join(COLUMNS) + " |\n|" + "---|" * len(COLUMNS))
    for text in files:
        title, _, path = text.partition("=")
        with tempfile.TemporaryDirectory() as folder:
            print("| " + " | ".join(row(title, Path(path), model, paths, Path(folder))) + " |", flush=True)


if __name__ == "__main__":
    main()
