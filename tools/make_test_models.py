#!/usr/bin/env python3
"""Writes the small models of the unit tests into tests/data/runtime.

Run it from anywhere with the project's Python: .deps/venv/bin/python tools/make_test_models.py
The files are committed, so that the tests need no Python; the same version of onnx writes the same
bytes.
"""

import pathlib

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper, parser

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "tests" / "data" / "runtime"


def initializer(name, array):
    return numpy_helper.from_array(np.asarray(array), name)


def save(name, text, initializers=(), check=True):
    model = parser.parse_model(text)
    model.graph.initializer.extend(initializers)
    model.producer_name = "make_test_models.py"
    if check:
        onnx.checker.check_model(model, full_check=True)
    onnx.save(model, FOLDER / name)


def affine():
    """y = x W + k: two inputs of different types, one symbolic dimension."""
    save(
        "affine.onnx",
        """<ir_version: 8, opset_import: ["": 17]>
        affine (float[N, 3] x, int64[1] k) => (float[N, 2] y) {
          product = MatMul (x, weight)
          k_float = Cast <to = 1> (k)
          y = Add (product, k_float)
        }""",
        [initializer("weight", np.array([[1, 2], [3, 4], [5, 6]], np.float32))],
    )


def types():
    """For each element type: an input of it cast to float, and a float input cast to it."""
    names = [
        "UINT8", "INT8", "UINT16", "INT16", "INT32", "INT64", "BOOL", "FLOAT16", "DOUBLE", "UINT32",
        "UINT64", "BFLOAT16", "FLOAT8E4M3FN", "FLOAT8E4M3FNUZ", "FLOAT8E5M2", "FLOAT8E5M2FNUZ",
        "UINT4", "INT4", "FLOAT8E8M0", "UINT2", "INT2",
    ]
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [5])]
    outputs, nodes = [], []
    for name in names:
        kind = getattr(TensorProto, name)
        inputs.append(helper.make_tensor_value_info(name, kind, [5]))
        outputs.append(helper.make_tensor_value_info(f"{name}_to_float", TensorProto.FLOAT, [5]))
        outputs.append(helper.make_tensor_value_info(f"x_to_{name}", kind, [5]))
        nodes.append(helper.make_node("Cast", [name], [f"{name}_to_float"], to=TensorProto.FLOAT))
        nodes.append(helper.make_node("Cast", ["x"], [f"x_to_{name}"], to=kind))
    graph = helper.make_graph(nodes, "types", inputs, outputs)
    model = helper.make_model(
        graph, ir_version=12, opset_imports=[helper.make_opsetid("", 25)], producer_name="make_test_models.py")
    onnx.checker.check_model(model)
    onnx.save(model, FOLDER / "types.onnx")


def unknown_operator():
    save(
        "unknown_operator.onnx",
        """<ir_version: 8, opset_import: ["": 17, "no.such.domain": 1]>
        unknown (float[N] x) => (float[N] y) {
          h = Relu (x)
          [mystery_node] y = no.such.domain.Mystery (h)
        }""",
        check=False,
    )


def quark_operator():
    save(
        "quark_operator.onnx",
        """<ir_version: 8, opset_import: ["": 17, "com.amd.quark": 1]>
        quark (float[N, 64] x) => (float[N, 64] y) {
          h = Relu (x)
          [quantize_h] y = com.amd.quark.MXQuantizeDequantize <element_dtype = "fp8_e4m3", axis = 1, block_size = 32, rounding_mode = 2> (h)
        }""",
        check=False,
    )


def clean_up():
    """A model with what an exporter leaves behind: BatchNorm, an Identity, shape arithmetic, a dead node."""
    rng = np.random.default_rng(1)
    save(
        "clean_up.onnx",
        """<ir_version: 8, opset_import: ["": 17]>
        clean_up (float[N, 3, 8, 8] x) => (float[N, 4] y) {
          [conv] h = Conv <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (x, weight)
          [bn] n = BatchNormalization (h, scale, bias, mean, variance)
          [dead] unused = Exp (n)
          r = Relu (n)
          i = Identity (r)
          p = GlobalAveragePool (i)
          shape = Concat <axis = 0> (minus_one, four)
          y = Reshape (p, shape)
        }""",
        [
            initializer("weight", rng.normal(size=(4, 3, 3, 3)).astype(np.float32)),
            initializer("scale", rng.uniform(0.5, 2, 4).astype(np.float32)),
            initializer("bias", rng.normal(size=4).astype(np.float32)),
            initializer("mean", rng.normal(size=4).astype(np.float32)),
            initializer("variance", rng.uniform(0.5, 2, 4).astype(np.float32)),
            initializer("minus_one", np.array([-1], np.int64)),
            initializer("four", np.array([4], np.int64)),
        ],
    )


def qdq():
    """A model that is quantized already: every Q and DQ must outlive the clean-up."""
    rng = np.random.default_rng(2)
    save(
        "qdq.onnx",
        """<ir_version: 10, opset_import: ["": 21]>
        qdq (float[N, 3, 8, 8] x) => (float[N, 4, 4, 4] y) {
          xq = QuantizeLinear (x, x_scale, x_zero_point)
          xd = DequantizeLinear (xq, x_scale, x_zero_point)
          wd = DequantizeLinear <axis = 0> (weight, w_scale, w_zero_point)
          h = Conv <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (xd, wd, bias)
          r = Relu (h)
          rq = QuantizeLinear (r, r_scale, x_zero_point)
          rd = DequantizeLinear (rq, r_scale, x_zero_point)
          m = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (rd)
          mq = QuantizeLinear (m, r_scale, x_zero_point)
          y = DequantizeLinear (mq, r_scale, x_zero_point)
        }""",
        [
            initializer("weight", rng.integers(-127, 128, (4, 3, 3, 3), dtype=np.int8)),
            initializer("w_scale", rng.uniform(0.01, 0.02, 4).astype(np.float32)),
            initializer("w_zero_point", np.zeros(4, np.int8)),
            initializer("bias", rng.normal(size=4).astype(np.float32)),
            initializer("x_scale", np.float32(0.02)),
            initializer("r_scale", np.float32(0.05)),
            initializer("x_zero_point", np.uint8(0)),
        ],
    )


def strings():
    save(
        "strings.onnx",
        """<ir_version: 8, opset_import: ["": 17]>
        strings (string[N] x) => (string[N] y) { y = Identity (x) }""",
    )


def other_outputs():
    save(
        "other_outputs.onnx",
        """<ir_version: 8, opset_import: ["": 17]>
        other_outputs (float[N] x) => (float[N] y, seq(float[N]) s, string[N] names) {
          y = Relu (x)
          s = SequenceConstruct (y, x)
          names = Cast <to = 8> (x)
        }""",
    )


def transformer():
    """The patterns of a transformer block that fusions look for: erf Gelu, LayerNorm in pieces,
    MatMul of a Transpose, a residual Add."""
    rng = np.random.default_rng(3)
    save(
        "transformer.onnx",
        """<ir_version: 9, opset_import: ["": 20]>
        transformer (float[1, 4, 8] x) => (float[1, 4, 8] y) {
          xt = Transpose <perm = [0, 2, 1]> (x)
          scores = MatMul (x, xt)
          attention = Softmax <axis = -1> (scores)
          mixed = MatMul (attention, x)
          residual = Add (mixed, x)
          mean = ReduceMean <keepdims = 1> (residual, last)
          centred = Sub (residual, mean)
          square = Pow (centred, two)
          variance = ReduceMean <keepdims = 1> (square, last)
          shifted = Add (variance, epsilon)
          deviation = Sqrt (shifted)
          normal = Div (centred, deviation)
          scaled = Mul (normal, gamma)
          normalized = Add (scaled, beta)
          product = MatMul (normalized, weight)
          h = Add (product, bias)
          part = Div (h, root_two)
          erf = Erf (part)
          one_more = Add (erf, one)
          gated = Mul (h, one_more)
          y = Mul (gated, half)
        }""",
        [
            initializer("last", np.array([-1], np.int64)),
            initializer("two", np.float32(2)),
            initializer("epsilon", np.float32(1e-5)),
            initializer("gamma", rng.uniform(0.5, 2, 8).astype(np.float32)),
            initializer("beta", rng.normal(size=8).astype(np.float32)),
            initializer("weight", rng.normal(size=(8, 8)).astype(np.float32)),
            initializer("bias", rng.normal(size=8).astype(np.float32)),
            initializer("root_two", np.float32(np.sqrt(2))),
            initializer("one", np.float32(1)),
            initializer("half", np.float32(0.5)),
        ],
    )


def chain():
    """Four products of 64 bytes each, with a residual connection around every two of them, and a
    constant that is transposed before it is read."""
    rng = np.random.default_rng(5)
    save(
        "chain.onnx",
        """<ir_version: 8, opset_import: ["": 17]>
        chain (float[N, 4] x) => (float[N, 4] y) {
          r = Relu (x)
          turned = Transpose (w3)
          a0 = MatMul (r, w0)
          a1 = MatMul (a0, w1)
          b = Add (r, a1)
          a2 = MatMul (b, w2)
          a3 = MatMul (a2, turned)
          y = Add (b, a3)
        }""",
        [initializer(f"w{i}", rng.normal(size=(4, 4)).astype(np.float32)) for i in range(4)],
    )


def sequence():
    """Three products of 64 bytes each, one before, one beside and one behind a sequence."""
    rng = np.random.default_rng(6)
    save(
        "sequence.onnx",
        """<ir_version: 8, opset_import: ["": 17]>
        sequence (float[N, 4] x) => (float[N, 4] y) {
          a0 = MatMul (x, w0)
          parts = SplitToSequence <axis = 1> (a0)
          a1 = MatMul (x, w1)
          joined = ConcatFromSequence <axis = 1> (parts)
          b = Add (a1, joined)
          y = MatMul (b, w2)
        }""",
        [initializer(f"w{i}", rng.normal(size=(4, 4)).astype(np.float32)) for i in range(3)],
    )


def fragile():
    """Products, and behind them a lookup that fails for samples whose largest element is 8 or more."""
    rng = np.random.default_rng(6)
    save(
        "fragile.onnx",
        """<ir_version: 8, opset_import: ["": 17]>
        fragile (float[N, 4] x) => (float[N, 4] y) {
          a0 = MatMul (x, w0)
          a1 = Relu (a0)
          a2 = MatMul (a1, w1)
          largest = ReduceMax <axes = [1], keepdims = 0> (x)
          row = Cast <to = 7> (largest)
          found = Gather (table, row)
          y = Add (a2, found)
        }""",
        [initializer(name, rng.normal(size=size).astype(np.float32)) for name, size in (("w0", (4, 4)), ("w1", (4, 4)), ("table", (8, 4)))],
    )


def external():
    """Weights in a second file."""
    model = parser.parse_model(
        """<ir_version: 8, opset_import: ["": 17]>
        external (float[N, 16] x) => (float[N, 16] y) { y = MatMul (x, weight) }"""
    )
    weight = np.random.default_rng(4).normal(size=(16, 16)).astype(np.float32)
    model.graph.initializer.append(initializer("weight", weight))
    (FOLDER / "external.bin").unlink(missing_ok=True)
    onnx.save(
        model, FOLDER / "external.onnx", save_as_external_data=True, location="external.bin", size_threshold=0)


if __name__ == "__main__":
    FOLDER.mkdir(parents=True, exist_ok=True)
    for make in (affine, types, unknown_operator, quark_operator, clean_up, qdq, strings, other_outputs, transformer, chain, sequence, fragile,
                 external):
        make()
    for path in sorted(FOLDER.iterdir()):
        print(path.name, path.stat().st_size)
