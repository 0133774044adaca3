#!/usr/bin/env python3
"""Opens models of --target cuda in sessions on CUDA, in which a node on the CPU is an error.

    python tests/cuda/placement.py PROGRAM LIBRARY

ONNX Runtime decides where nodes run when a session is made, so that a GPU that only pretends is enough (`./dev cuda`). It needs
onnxruntime-gpu, onnx and numpy. Exit code: 0 all nodes on CUDA, 1 not.
"""

import argparse
import collections
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

# Configuration, settings, and whether the model needs our library to be on CUDA as a whole.
FORMS = [("INT4_WEIGHTS", [], False), ("INT8_WEIGHTS", [], False), ("MX6", ["activations=none"], False), ("MXINT8", ["activations=none"], False),
         ("MXFP4E2M1", ["activations=none"], False), ("FP16", [], False), ("INT8", [], False), ("BF16", [], False), ("MXINT8", [], True), ("MX6", [], True),
         ("MXFP8E4M3", [], True), ("NVFP4", [], True), ("BFP16", [], True)]


def save(folder, name, nodes, given, result, constants):
    graph = helper.make_graph(nodes, name, [given], [result], [numpy_helper.from_array(value, key) for key, value in constants.items()])
    path = folder / f"{name}.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), path)
    return path


def convolutions(folder):
    rng = np.random.default_rng(0)
    weight = lambda *shape: rng.normal(scale=0.1, size=shape).astype(np.float32)
    nodes = [helper.make_node("Conv", ["x", "w0"], ["a"], name="c0", pads=[1] * 4), helper.make_node("Relu", ["a"], ["b"], name="r"),
             helper.make_node("Conv", ["b", "w1"], ["c"], name="c1", pads=[1] * 4), helper.make_node("GlobalAveragePool", ["c"], ["d"], name="p"),
             helper.make_node("Flatten", ["d"], ["e"], name="f"), helper.make_node("MatMul", ["e", "m"], ["y"], name="m0")]
    path = save(folder, "convolutions", nodes, helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 32, 16, 16]),
                helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 64]),
                {"w0": weight(32, 32, 3, 3), "w1": weight(64, 32, 3, 3), "m": weight(64, 64)})
    return path, {"x": rng.normal(size=(8, 32, 16, 16)).astype(np.float32)}


def products(folder):
    rng = np.random.default_rng(1)
    weight = lambda *shape: rng.normal(scale=0.1, size=shape).astype(np.float32)
    nodes = [helper.make_node("Gather", ["t", "ids"], ["x"], name="table"), helper.make_node("MatMul", ["x", "m0"], ["a"], name="m0"),
             helper.make_node("Relu", ["a"], ["b"], name="r"), helper.make_node("MatMul", ["b", "m1"], ["y"], name="m1")]
    path = save(folder, "products", nodes, helper.make_tensor_value_info("ids", TensorProto.INT64, ["n", 5]),
                helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 5, 64]), {"t": weight(500, 128), "m0": weight(128, 256), "m1": weight(256, 64)})
    return path, {"ids": rng.integers(0, 500, (8, 5))}


def why_not_on_cuda(runtime, path, library):
    """"" if all nodes are on CUDA."""
    options = runtime.SessionOptions()
    options.log_severity_level = 4
    options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    if library:
        options.register_custom_ops_library(str(library))
    try:
        runtime.InferenceSession(path, options, providers=[("CUDAExecutionProvider", {"enable_cudnn": "0"})])
        return ""
    except Exception as error:
        return str(error)[:300]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program", type=Path)
    parser.add_argument("library", type=Path)
    arguments = parser.parse_args()
    import onnxruntime
    failed = False
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for path, sample in (convolutions(folder), products(folder)):
            data, output = folder / f"{path.stem}_data", folder / "quantized.onnx"
            data.mkdir()
            np.savez(data / "samples.npz", **sample)
            for config, settings, needs_library in FORMS:
                words = [word for setting in settings for word in ("--set", setting)]
                subprocess.run([arguments.program, "quantize", path, "-o", output, "--config", config, "--target", "cuda", "--data", data, "--check", "off",
                                *words], check=True, capture_output=True)
                with_library, without = (why_not_on_cuda(onnxruntime, output, library) for library in (arguments.library, None))
                operators = collections.Counter(node.op_type for node in onnx.load(output).graph.node)
                computing = {kind: count for kind, count in sorted(operators.items()) if "MatMul" in kind or "Conv" in kind or "Gather" in kind}
                print(f"{path.stem} {config} {' '.join(settings)}: {computing}, all on CUDA {not with_library}, without the library {not without}")
                if with_library or bool(without) != needs_library:
                    failed = True
                    print("WRONG", with_library or without or "it needs no library")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
