#!/usr/bin/env python3
"""Times ONNX Runtime's integer products with int8 and with uint8 weights, one thread each, as a Markdown table.

    tools/measure/unsigned_weights.py [--runs 60]

The kernels differ with the processor: the environment of a test in tests/no_vnni (PYTHONPATH, LD_PRELOAD) gives those of one
without VNNI.
"""
import argparse
import time

import numpy as np
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

# Weights [outputs, inputs, rows, columns] and the width of the image, or the number of rows that a matrix is multiplied with.
PRODUCTS = [("QLinearConv", (32, 3, 3, 3), 224, 2), ("QLinearConv", (64, 3, 7, 7), 224, 2), ("QLinearConv", (192, 32, 1, 1), 56, 1),
            ("QLinearConv", (64, 64, 3, 3), 56, 1), ("QLinearConv", (320, 192, 1, 1), 14, 1), ("QLinearMatMul", (384, 384), 128, 1),
            ("QLinearMatMul", (1536, 384), 128, 1), ("QLinearMatMul", (384, 384), 16, 1)]
RNG = np.random.default_rng(0)


def open_product(op_type, dims, size, stride, weight_type):
    """Returns a function that computes one product."""
    is_image = op_type == "QLinearConv"
    codes = RNG.integers(1, 100, dims if is_image else dims[::-1]).astype(weight_type)
    num_scales = (dims[0],) if is_image else ()
    constants = {"xs": np.float32(0.02), "xz": np.uint8(3), "w": codes, "ws": np.full(num_scales, 0.01, np.float32),
                 "wz": np.full(num_scales, 128 if weight_type == np.uint8 else 0, weight_type), "ys": np.float32(0.1), "yz": np.uint8(7)}
    attributes = {"pads": [dims[2] // 2] * 4, "strides": [stride] * 2} if is_image else {}
    node = helper.make_node(op_type, ["x", "xs", "xz", "w", "ws", "wz", "ys", "yz"], ["y"], **attributes)
    shape = (1, dims[1], size, size) if is_image else (size, dims[1])
    graph = helper.make_graph([node], "product", [helper.make_tensor_value_info("x", TensorProto.UINT8, shape)],
                              [helper.make_tensor_value_info("y", TensorProto.UINT8, None)],
                              [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    inputs = {"x": RNG.integers(0, 256, shape).astype(np.uint8)}
    return lambda: session.run(None, inputs)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=60, help="the least time of so many counts")
    arguments = parser.parse_args()
    print("| product | weight | int8 | uint8 | ratio |\n|---|---|---|---|---|")
    for product in PRODUCTS:
        runs = [open_product(*product, weight_type) for weight_type in (np.int8, np.uint8)]
        least = [float("inf")] * 2
        for _ in range(arguments.runs):  # in turns, so that other work on the machine slows both
            for i, run in enumerate(runs):
                start = time.perf_counter()
                run()
                least[i] = min(least[i], time.perf_counter() - start)
        int8, uint8 = (1e3 * seconds for seconds in least)
        print(f"| {product[0]} | {list(product[1])} | {int8:.3f} ms | {uint8:.3f} ms | {uint8 / int8:.2f} |", flush=True)


if __name__ == "__main__":
    main()
