#!/usr/bin/env python3
"""Writes what AMD Quark's two layers give for small random inputs: tests/data/golden/extended_layers.{json,npz}.

    .deps/venv/bin/python tools/testdata/make_layer_golden.py LIBRARY

LIBRARY is the operator library of AMD Quark 0.13 for the CPU. The layers are ExtendedInstanceNormalization and ExtendedLSTM.
"""

import json
import platform
import sys
from pathlib import Path

import numpy as np
import onnxruntime
from onnx import TensorProto, helper

DESTINATION = Path(__file__).resolve().parents[2] / "tests" / "data" / "golden"
DOMAIN = "com.amd.quark"
RANDOM = np.random.default_rng(20261128)


def run(library, op, attributes, inputs, rank):
    values = [helper.make_tensor_value_info(f"i{i}", TensorProto.FLOAT, x.shape) for i, x in enumerate(inputs)]
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, [None] * rank)
    node = helper.make_node(op, [value.name for value in values], ["y"], domain=DOMAIN, **attributes)
    graph = helper.make_graph([node], "layer", values, [output])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid(DOMAIN, 1)], ir_version=8)
    options = onnxruntime.SessionOptions()
    options.register_custom_ops_library(str(library))
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, {value.name: x for value, x in zip(values, inputs, strict=True)})[0]


def norm_cases():
    def normal(shape, size=1.0):
        return (RANDOM.standard_normal(shape) * size).astype(np.float32)

    wide = normal((2, 3, 40)) * (2.0 ** RANDOM.integers(-20, 20, (2, 3, 40))).astype(np.float32)
    constant = np.full((1, 6, 50), 1, np.float32) * np.array([0, 1, 0.1, -7.3, 1e-30, 3e7], np.float32)[None, :, None]
    huge = normal((1, 4, 16)) * np.array([1e15, 1e19, 1e30, 1e38], np.float32)[None, :, None]
    tiny = normal((1, 4, 16)) * np.array([1e-3, 1e-18, 1e-37, 1e-41], np.float32)[None, :, None]
    special = normal((1, 5, 8))
    for channel, bits in enumerate([0x7F800000, 0xFF800000, 0x7FC00000, 0x7F800001, 0x7FFFFFFF]):
        special.view(np.uint32)[0, channel, 3] = bits
    shifted = normal((2, 3, 5, 7)) + np.float32(100)
    for x in (normal((2, 3, 5, 7)), shifted, normal((1, 2, 3, 2, 5)), normal((3, 4)), wide, constant, huge, tiny, special):
        for attributes in ({}, {"epsilon": float(np.float32(0.01))}):
            yield attributes, [x, normal(x.shape[1]), normal(x.shape[1])]
    yield {"epsilon": 0.0}, [constant, normal(6), normal(6)]


def lstm_case(steps, inputs, hidden, span=1.0, y_range=(-1.0, 1.0), powers=False, **changed):
    """`span`: the largest weight; `powers`: scales are powers of two."""
    def uniform(shape, size):
        return RANDOM.uniform(-size, size, shape).astype(np.float32)

    tensors = {"x": uniform((steps, 1, inputs), 2.5), "w": uniform((2, 4 * hidden, inputs), span),
               "r": uniform((2, 4 * hidden, hidden), span), "b": uniform((2, 8 * hidden), span)}
    attributes = {"hidden_size": hidden}
    for name, (low, high) in {**{name: (x.min(initial=0), x.max(initial=0)) for name, x in tensors.items()}, "y": y_range}.items():
        scale = np.float32((float(high) - float(low)) / 65535)
        if powers:
            scale = np.float32(2.0 ** np.ceil(np.log2(scale)))
        attributes[f"{name}_scale"] = float(scale)
        attributes[f"{name}_zero_point"] = int(np.clip(np.round(-low / scale), 0, 65535))
    return {**attributes, **changed}, list(tensors.values())


def lstm_cases():
    yield lstm_case(5, 3, 4)
    yield lstm_case(9, 8, 8, direction="bidirectional", input_forget=0, layout=0)
    yield lstm_case(1, 1, 1)
    yield lstm_case(6, 7, 5, span=0.05)
    yield lstm_case(6, 7, 5, span=4.0)
    yield lstm_case(12, 5, 6, x_zero_point=32768, w_zero_point=32768, r_zero_point=32768, b_zero_point=32768, y_zero_point=32768)
    yield lstm_case(6, 4, 3, powers=True)
    yield lstm_case(6, 4, 3, y_range=(-0.9, 1.1))     # a zero point below 32768
    yield lstm_case(6, 4, 3, y_range=(-0.25, 0.1))    # outputs saturate
    yield lstm_case(6, 4, 3, x_zero_point=20000, w_zero_point=41000, r_zero_point=10000, b_zero_point=50000)
    yield lstm_case(8, 4, 3, y_zero_point=65535)      # outputs wrap
    yield lstm_case(8, 4, 3, y_zero_point=0)


def main():
    if len(sys.argv) != 2:
        print(__doc__.strip(), file=sys.stderr)
        return 2
    arrays, cases = {}, []
    for op, rank, made in (("ExtendedInstanceNormalization", None, norm_cases()), ("ExtendedLSTM", 4, lstm_cases())):
        for attributes, inputs in made:
            at = len(cases)
            names = [f"{at}/{i}" for i in range(len(inputs))]
            arrays.update(zip(names, inputs))
            arrays[f"{at}/y"] = run(sys.argv[1], op, attributes, inputs, rank or inputs[0].ndim)
            cases.append({"op": op, "attrs": attributes, "inputs": names, "output": f"{at}/y"})
    np.savez_compressed(DESTINATION / "extended_layers.npz", **arrays)
    lines = ",\n".join(json.dumps(case) for case in cases)
    made_with = json.dumps({"c_library": " ".join(platform.libc_ver())})
    (DESTINATION / "extended_layers.json").write_text(f'{{"made_with": {made_with}, "cases": [\n{lines}\n]}}\n')
    return 0


if __name__ == "__main__":
    sys.exit(main())
