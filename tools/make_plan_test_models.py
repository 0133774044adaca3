#!/usr/bin/env python3
"""Writes the small models that the tests of plan/, weights/ and emit/ read, into tests/data/plan/.

Run with the project's Python: .deps/venv/bin/python tools/make_plan_test_models.py
The files are committed; the script is here to say what they hold. Seeds are fixed.
"""

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper, parser

FOLDER = Path(__file__).resolve().parent.parent / "tests" / "data" / "plan"


def random(*dims, seed=0, dtype=np.float32):
    return np.random.default_rng(seed).standard_normal(dims).astype(dtype)


def write(name, text, initializers, ir_version=8, opset=17, imports=()):
    """A model in ONNX's text form, whose constants are added by name."""
    domains = "".join(f', "{domain}": 1' for domain in imports)
    model = parser.parse_model(
        f'<ir_version: {ir_version}, opset_import: ["": {opset}{domains}]>\n{text}'
    )
    for key, array in initializers.items():
        model.graph.initializer.append(numpy_helper.from_array(array, key))
    for index, node in enumerate(model.graph.node):
        if not node.name:
            node.name = f"{node.op_type.lower()}_{index}"
    onnx.checker.check_model(model)
    onnx.save(model, FOLDER / name)


def convnet():
    """Stem, depthwise, pointwise, a residual Add and a classifier: every kind of weight of an image network."""
    write(
        "convnet.onnx",
        """
        convnet (float[N, 3, 16, 16] x) => (float[N, 10] logits) {
          a = Conv <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (x, stem_weight, stem_bias)
          b = Clip (a, zero, six)
          c = Conv <kernel_shape = [3, 3], pads = [1, 1, 1, 1], group = 8> (b, depthwise_weight, depthwise_bias)
          d = Conv (c, expand_weight)
          e = Conv (d, project_weight)
          f = Add (e, b)
          g = GlobalAveragePool (f)
          h = Reshape (g, shape)
          logits = Gemm <transB = 1> (h, fc_weight, fc_bias)
        }""",
        {
            "stem_weight": random(8, 3, 3, 3, seed=1),
            "stem_bias": random(8, seed=2),
            "depthwise_weight": random(8, 1, 3, 3, seed=3),
            "depthwise_bias": random(8, seed=4),
            "expand_weight": random(48, 8, 1, 1, seed=5),
            "project_weight": random(8, 48, 1, 1, seed=6),
            "fc_weight": random(10, 8, seed=7),
            "fc_bias": random(10, seed=8),
            "zero": np.array(0, np.float32),
            "six": np.array(6, np.float32),
            "shape": np.array([0, -1], np.int64),
        },
    )


def attention():
    """Matrix products of every kind: weights on both sides, two activations, transposed Gemm, a 1-D operand, Softmax."""
    write(
        "attention.onnx",
        """
        attention (float[N, 5, 64] x, float[5, 64] y) => (float[N, 5, 64] z, float[64, 7] g, float[N, 5] v) {
          q = MatMul (x, wq)
          k = MatMul (x, wk)
          kt = Transpose <perm = [0, 2, 1]> (k)
          s = MatMul (q, kt)
          p = Softmax (s)
          z = MatMul (p, k)
          g = Gemm <transA = 1> (y, wg)
          v = MatMul (x, wv)
        }""",
        {
            "wq": random(64, 64, seed=11),
            "wk": random(64, 64, seed=12),
            "wg": random(5, 7, seed=13),
            "wv": random(64, seed=14),
        },
    )


def shared():
    """One weight for two Convs in the same way, one for two Gemms in different ways, one also a plain operand."""
    write(
        "shared.onnx",
        """
        shared (float[N, 40, 4, 4] x, float[M, 40] y) => (float[N, 40, 4, 4] a, float[M, 40] b, float[M, 40] e) {
          t = Conv (x, conv_weight)
          a = Conv (t, conv_weight)
          u = Gemm <transB = 1> (y, gemm_weight)
          b = Gemm <transB = 0> (u, gemm_weight)
          c = MatMul (y, matmul_weight)
          d = Add (matmul_weight, one)
          e = MatMul (c, d)
        }""",
        {
            "conv_weight": random(40, 40, 1, 1, seed=21),
            "gemm_weight": random(40, 40, seed=22),
            "matmul_weight": random(40, 40, seed=23),
            "one": np.ones((1, 40), np.float32),
        },
    )


def exotic():
    """A model with operands that stay float (double, computed and scalar ones, a model input as weight), ConvTranspose and float16."""
    write(
        "exotic.onnx",
        """
        exotic (float[N, 4, 8, 8] x, double[2, 6] xd, float16[2, 33] xh, float[4, 4, 1, 1] w_in)
            => (float[N, 8, 16, 16] a, float[N, 6, 8, 8] t6, double[2, 3] b, float16[2, 3] c, float[N, 4, 8, 8] e, float r) {
          a = ConvTranspose <kernel_shape = [2, 2], strides = [2, 2]> (x, up_weight, up_bias)
          t6 = ConvTranspose <kernel_shape = [1, 1]> (x, wide_weight)
          b = MatMul (xd, double_weight)
          c = MatMul (xh, half_weight)
          w = Mul (w_in, two)
          d = Conv (x, w)
          e = Conv (d, w_in)
          r = ReduceSum <keepdims = 0> (e)
        }""",
        {
            "up_weight": random(4, 8, 2, 2, seed=31),
            "up_bias": random(8, seed=32),
            "wide_weight": random(4, 6, 1, 1, seed=33),
            "double_weight": random(6, 3, seed=34, dtype=np.float64),
            "half_weight": random(33, 3, seed=35, dtype=np.float16),
            "two": np.array(2, np.float32),
        },
    )


def fused():
    """ONNX Runtime's fused operators; FusedMatMul with all its transpositions. Ranks stay unknown behind them."""
    write(
        "fused.onnx",
        """
        fused (float[N, 40, 4, 4] x, float[3, 2, 40] m) => (float[N, 8, 4, 4] a, float[2, 3, 5] o, float[3, 36, 36] o2) {
          a = com.microsoft.FusedConv <activation = "Relu", kernel_shape = [1, 1]> (x, conv_weight, conv_bias, z)
          n = com.microsoft.FusedMatMul <transB = 1> (m, right_weight)
          o = com.microsoft.FusedMatMul <transBatchA = 1, transBatchB = 1> (n, batch_weight)
          o2 = com.microsoft.FusedMatMul <transA = 1> (n, n)
        }""",
        {
            "conv_weight": random(8, 40, 1, 1, seed=41),
            "conv_bias": random(8, seed=42),
            "z": random(1, 8, 4, 4, seed=43),
            "right_weight": random(36, 40, seed=44),
            "batch_weight": random(36, 2, 5, seed=45),
        },
        imports=["com.microsoft"],
    )


def quantized():
    """Already quantized in part: one MX operator, one Q/DQ pair around a weight."""
    write(
        "quantized.onnx",
        """
        quantized (float[N, 32, 4, 4] x) => (float[N, 8, 4, 4] y) {
          xq = com.amd.quark.MXQuantizeDequantize <axis = 1, block_size = 32, element_dtype = "int8", rounding_mode = 2> (x)
          h = Conv (xq, a_weight)
          w = DequantizeLinear (b_codes, b_scale)
          y = Conv (h, w)
        }""",
        {
            "a_weight": random(32, 32, 1, 1, seed=51),
            "b_codes": (random(8, 32, 1, 1, seed=52) * 40).astype(np.int8),
            "b_scale": np.array(0.05, np.float32),
        },
        imports=["com.amd.quark"],
    )


def branches():
    """A Conv inside the branches of an If, reading a weight of the main graph and one of its own; a captured activation."""
    weight = numpy_helper.from_array(random(4, 4, 1, 1, seed=61), "inner_weight")
    then_graph = helper.make_graph(
        [helper.make_node("Conv", ["h", "outer_weight"], ["t"], "then_conv")],
        "then",
        [],
        [helper.make_tensor_value_info("t", TensorProto.FLOAT, ["N", 4, 8, 8])],
    )
    else_graph = helper.make_graph(
        [helper.make_node("Conv", ["h", "inner_weight"], ["e"], "else_conv")],
        "else",
        [],
        [helper.make_tensor_value_info("e", TensorProto.FLOAT, ["N", 4, 8, 8])],
        initializer=[weight],
    )
    graph = helper.make_graph(
        [
            helper.make_node("Conv", ["x", "outer_weight"], ["h"], "first"),
            helper.make_node(
                "If", ["flag"], ["y"], "choose", then_branch=then_graph, else_branch=else_graph
            ),
            helper.make_node("Relu", ["h"], ["z"], "relu"),
        ],
        "branches",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 4, 8, 8]),
            helper.make_tensor_value_info("flag", TensorProto.BOOL, []),
        ],
        [
            helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 4, 8, 8]),
            helper.make_tensor_value_info("z", TensorProto.FLOAT, ["N", 4, 8, 8]),
        ],
        initializer=[numpy_helper.from_array(random(4, 4, 1, 1, seed=62), "outer_weight")],
    )
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8, producer_name="bitpress"
    )
    onnx.checker.check_model(model)
    onnx.save(model, FOLDER / "branches.onnx")


def broken_weight():
    """A weight with a NaN at index 5 (and an infinity behind it), in a model that is fine otherwise."""
    weight = random(4, 4, 1, 1, seed=71)
    weight.reshape(-1)[5] = np.nan
    weight.reshape(-1)[9] = np.inf
    write(
        "nan_weight.onnx",
        "nan_weight (float[N, 4, 2, 2] x) => (float[N, 4, 2, 2] y) { y = Conv (x, weight) }",
        {"weight": weight},
    )


def nameless():
    """Nodes without names, and two of the same name: told apart by their outputs."""
    write(
        "nameless.onnx",
        """
        nameless (float[N, 40] x) => (float[N, 40] y) {
          a = MatMul (x, w1)
          b = MatMul (a, w2)
          y = Relu (b)
        }""",
        {"w1": random(40, 40, seed=81), "w2": random(40, 40, seed=82)},
    )
    path = FOLDER / "nameless.onnx"
    model = onnx.load(path)
    model.graph.node[0].name = "twin"
    model.graph.node[1].name = "twin"
    model.graph.node[2].name = ""
    onnx.save(model, path)


def main():
    FOLDER.mkdir(parents=True, exist_ok=True)
    convnet()
    attention()
    shared()
    exotic()
    fused()
    quantized()
    branches()
    broken_weight()
    nameless()
    for path in sorted(FOLDER.glob("*.onnx")):
        print(f"{path.name}: {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
