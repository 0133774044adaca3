#!/usr/bin/env python3
"""Runs every operator of the library in sessions on CUDA, and compares the outputs with those of sessions on the CPU, bit for bit.

    python tests/cuda/sessions.py LIBRARY [--pretended] [--quark FOLDER] [--cudnn]

It needs onnxruntime-gpu, onnx and numpy, and a GPU or one that pretends (`./dev cuda`): that one runs none of ONNX Runtime's own
kernels, so that models hold our operators alone. Exit code: 0 all equal, 1 not, 77 there is no CUDA provider.
"""

import argparse
import itertools
import sys
import threading
import time
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper

FORMATS = {"bfp16": {}, "mx4": {}, "mx6": {}, "mx9": {}, "mxfp8_e5m2": {"block_size": 32}, "mxfp8_e4m3": {"block_size": 16}, "mxfp6_e3m2": {},
           "mxfp6_e2m3": {}, "mxfp4_e2m1": {}, "mxint8": {}, "nvfp4": {}, "fp16": {}, "bf16": {}, "fp8_e4m3": {}, "fp8_e5m2": {},
           "bfp": {"bits": 13, "block_size": 20}, "mx": {"bits": 12, "block_size": 32, "sub_block_size": 4}}
CODES = {"UINT8": 7, "INT8": -3, "UINT16": 300, "INT16": -5, "UINT32": 9, "INT32": -100, "FLOAT16": 0, "BFLOAT16": 2}
SHAPES = ([3, 45, 7], [2, 64, 5], [4, 7, 96], [1, 1, 1], [5, 33])


class Sessions:
    """Makes sessions of a model, and counts what was compared."""

    def __init__(self, library, cudnn, pretended):
        import onnxruntime
        if not pretended:
            try:
                import torch  # noqa: F401: its CUDA libraries are those that ONNX Runtime needs
            except ImportError:
                pass
            onnxruntime.preload_dlls()
        self.runtime, self.library, self.compared, self.runs, self.wrong = onnxruntime, str(library), 0, 0, []
        # Without TF32, so that ONNX Runtime's products and convolutions are near those of the CPU.
        self.options = {"use_tf32": "0", **({} if cudnn else {"enable_cudnn": "0"})}

    def open(self, model, on_cuda, all_on_cuda=True, **more):
        options = self.runtime.SessionOptions()
        options.log_severity_level = 3
        options.register_custom_ops_library(self.library)
        if on_cuda and all_on_cuda:  # a node on the CPU is an error
            options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
        providers = ([("CUDAExecutionProvider", {**self.options, **more})] if on_cuda else []) + ([] if on_cuda and all_on_cuda else ["CPUExecutionProvider"])
        session = self.runtime.InferenceSession(model.SerializeToString(), options, providers=providers)
        if on_cuda and session.get_providers()[0] != "CUDAExecutionProvider":
            sys.exit("the session is not on CUDA")
        return session

    def compare(self, what, model, feeds):
        """The outputs of one model on both providers are the same bytes."""
        try:
            found = self.open(model, True).run(None, feeds)
        except Exception as error:
            self.wrong.append(f"{what}: {str(error)[:300]}")
            return
        for output, a, b in zip(model.graph.output, self.open(model, False).run(None, feeds), found):
            self.runs += 1
            self.compared += a.size
            if a.shape != b.shape or a.tobytes() != b.tobytes():
                at = np.flatnonzero(np.ascontiguousarray(a).view(np.uint8).ravel() != np.ascontiguousarray(b).view(np.uint8).ravel())[:1]
                node = next(node for node in model.graph.node if output.name in node.output)
                self.wrong.append(f"{what} {node.domain}.{node.op_type} {[helper.get_attribute_value(a) for a in node.attribute]}: other bytes at {at}")


def model_of(nodes, x_type, shape, y_type=None, initializers=(), outputs=("y",)):
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", x_type, shape)],
                              [helper.make_tensor_value_info(name, y_type or x_type, shape) for name in outputs], list(initializers))
    domains = [helper.make_opsetid(name, 1) for name in ("bitpress", "com.amd.quark", "com.vai.quantize")]
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), *domains], ir_version=9)


def values_of(shape, dtype, seed):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=shape).astype(np.float32) * np.exp2(rng.integers(-20, 20, size=shape)).astype(np.float32)
    x.flat[::7] = np.round(x.flat[::7])
    if seed % 2 and x.size > 8:
        x.flat[3], x.flat[5], x.flat[-1] = np.nan, np.inf, np.float32(1e-42)
    with np.errstate(over="ignore"):
        return x.astype(dtype)


def compare_blocks(sessions):
    """All formats, scale choices and roundings; both of Quark's operators in both domains; float32 and float16."""
    nodes = []
    for name, attributes in FORMATS.items():
        for choice in ("even",) if name == "nvfp4" else ("floor", "ceil", "even", "mse"):
            nodes.append((f"QuantizeDequantize_{name}", "bitpress", {**attributes, "scale_choice": choice}))
        if name in ("mxint8", "bfp", "mx6"):
            for rounding in ("half_away_from_zero", "half_up"):
                nodes.append((f"QuantizeDequantize_{name}", "bitpress", {**attributes, "rounding_mode": rounding}))
    for (mx, bfp), domain in ((("MXQuantizeDequantize", "BFPQuantizeDequantize"), "com.amd.quark"), (("MXFixNeuron", "BFPFixNeuron"), "com.vai.quantize")):
        for mode in (0, 1, 2):
            nodes += [(mx, domain, {"element_dtype": kind, "rounding_mode": mode, "block_size": 32}) for kind in
                      ("fp8_e5m2", "fp8_e4m3", "fp6_e3m2", "fp6_e2m3", "fp4_e2m1", "int8")]
            nodes += [(bfp, domain, {"bfp_method": method, "bit_width": 16, "block_size": 16, "rounding_mode": mode}) for method in ("to_bfp", "to_bfp_prime")]
    types = ((TensorProto.FLOAT, np.float32), (TensorProto.FLOAT16, np.float16))
    for i, (shape, (kind, dtype)) in enumerate(itertools.product(SHAPES, types)):
        outputs = [f"y{j}" for j in range(len(nodes))]
        made = [helper.make_node(name, ["x"], [output], name=output, domain=domain, axis=(i + j) % len(shape), **attributes)
                for j, (output, (name, domain, attributes)) in enumerate(zip(outputs, nodes))]
        sessions.compare(f"{dtype.__name__} {shape}", model_of(made, kind, shape, outputs=outputs), {"x": values_of(shape, dtype, i)})


def compare_codes(sessions):
    """The extended pairs: all types of codes, per tensor and along an axis."""
    for (quantize, dequantize), domain in ((("ExtendedQuantizeLinear", "ExtendedDequantizeLinear"), "com.amd.quark"),
                                           (("VitisQuantizeLinear", "VitisDequantizeLinear"), "com.vai.quantize")):
        for i, (code, zero) in enumerate(CODES.items()):
            for shape, axis in (([3, 8, 5], 1), ([40], None), ([2, 3, 16], 2)):
                count = 1 if axis is None else shape[axis]
                dims = [] if axis is None else [count]
                scales = helper.make_tensor("s", TensorProto.FLOAT, dims, np.linspace(0.01, 2, count).tolist())
                zeros = helper.make_tensor("z", getattr(TensorProto, code), dims, [zero] * count)
                attributes = {} if axis is None else {"axis": axis}
                nodes = [helper.make_node(quantize, ["x", "s", "z"], ["c"], name="q", domain=domain, **attributes),
                         helper.make_node(dequantize, ["c", "s", "z"], ["y"], name="d", domain=domain, **attributes)]
                for kind, dtype in ((TensorProto.FLOAT, np.float32), (TensorProto.FLOAT16, np.float16)):
                    sessions.compare(f"{domain} {code} axis {axis} {dtype.__name__}", model_of(nodes, kind, shape, TensorProto.FLOAT, [scales, zeros]),
                                     {"x": values_of(shape, dtype, i)})


def chain(shape, names=("mxint8", "mxfp8_e4m3", "bfp16", "mx6")):
    """Quantizers one after the other, which may take each other's memory."""
    nodes = [helper.make_node(f"QuantizeDequantize_{name}", [f"v{i}" if i else "x"], [f"v{i + 1}" if i + 1 < len(names) else "y"], name=f"q{i}",
                              domain="bitpress", axis=i % len(shape)) for i, name in enumerate(names)]
    return model_of(nodes, TensorProto.FLOAT, shape)


def compare_threads(sessions):
    """Threads that share a session, and threads with sessions of their own."""
    model, shared = chain(["n", 70]), None
    shared = sessions.open(model, True)
    cpu = sessions.open(model, False)
    expected = {n: cpu.run(None, {"x": values_of([n, 70], np.float32, n)})[0] for n in (0, 1, 3, 40, 129)}

    def work(session):
        for _ in range(5):
            for n, wanted in expected.items():
                found = session.run(None, {"x": values_of([n, 70], np.float32, n)})[0]
                sessions.runs += 1
                sessions.compared += wanted.size
                if wanted.tobytes() != found.tobytes():
                    sessions.wrong.append(f"threads, {n} rows")

    threads = [threading.Thread(target=work, args=(shared if i % 2 else sessions.open(model, True),)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def expect_errors(sessions):
    """What is wrong with a node is said with its name when the model is loaded."""
    for what, node, initializers in (
            ("attribute axis is 5", helper.make_node("QuantizeDequantize_mx6", ["x"], ["y"], name="here", domain="bitpress", axis=5), []),
            ("scale 1 is -1", helper.make_node("ExtendedQuantizeLinear", ["x", "s", "z"], ["y"], name="here", domain="com.amd.quark", axis=0),
             [helper.make_tensor("s", TensorProto.FLOAT, [2], [1.0, -1.0]), helper.make_tensor("z", TensorProto.INT8, [2], [0, 0])])):
        try:
            sessions.open(model_of([node], TensorProto.FLOAT, [2, 8], TensorProto.INT8 if initializers else None, initializers), True)
            sessions.wrong.append(f"no error: {what}")
        except Exception as error:
            if what not in str(error) or "'here'" not in str(error):
                sessions.wrong.append(f"another error than '{what}': {str(error)[:300]}")


def mixed_model():
    """Our operators between ONNX Runtime's own."""
    rng = np.random.default_rng(0)
    weights = {"w": rng.normal(size=(32, 16, 3, 3)).astype(np.float32) * 0.1, "m": rng.normal(size=(32, 10)).astype(np.float32)}
    qdq = lambda name, a, b: helper.make_node("QuantizeDequantize_mxfp8_e4m3", [a], [b], name=name, domain="bitpress", axis=1)
    nodes = [qdq("q0", "x", "a"), helper.make_node("Conv", ["a", "w"], ["b"], name="conv", pads=[1] * 4), helper.make_node("Relu", ["b"], ["c"], name="relu"),
             qdq("q1", "c", "d"), helper.make_node("GlobalAveragePool", ["d"], ["e"], name="pool"), helper.make_node("Flatten", ["e"], ["f"], name="flat"),
             qdq("q2", "f", "g"), helper.make_node("MatMul", ["g", "m"], ["y"], name="matmul")]
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [8, 16, 24, 24])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, [8, 10])],
                              [onnx.numpy_helper.from_array(value, key) for key, value in weights.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("bitpress", 1)], ir_version=9)


def close(a, b):
    a, b = a.astype(np.float64).ravel(), b.astype(np.float64).ravel()
    return a @ b / np.linalg.norm(a) / np.linalg.norm(b)


def run_mixed(sessions):
    """A model with kernels of both: the same bytes in each run, and close to the CPU's."""
    x = {"x": values_of([8, 16, 24, 24], np.float32, 2)}
    x["x"] = np.random.default_rng(1).normal(size=x["x"].shape).astype(np.float32)
    session = sessions.open(mixed_model(), True)
    runs = [session.run(None, x)[0] for _ in range(3)]
    likeness = close(runs[0], sessions.open(mixed_model(), False).run(None, x)[0])
    print(f"mixed model: all nodes on CUDA, cosine with the CPU {likeness:.9f}, runs equal {all(r.tobytes() == runs[0].tobytes() for r in runs)}")
    if likeness < 0.9999:
        sessions.wrong.append(f"mixed model: cosine {likeness}")


def run_graph(sessions):
    """A captured graph of our kernels gives the right bytes for other inputs, too."""
    shape = [40, 70]
    inputs = [values_of(shape, np.float32, 2 * i) for i in range(4)]
    x = sessions.runtime.OrtValue.ortvalue_from_numpy(inputs[0], "cuda", 0)
    y = sessions.runtime.OrtValue.ortvalue_from_shape_and_type(shape, np.float32, "cuda", 0)
    session, cpu = sessions.open(chain(shape), True, enable_cuda_graph="1"), sessions.open(chain(shape), False)
    binding = session.io_binding()
    binding.bind_ortvalue_input("x", x)
    binding.bind_ortvalue_output("y", y)
    for given in inputs:
        x.update_inplace(given)
        session.run_with_iobinding(binding)
        sessions.runs += 1
        if y.numpy().tobytes() != cpu.run(None, {"x": given})[0].tobytes():
            sessions.wrong.append("a captured graph")
    print("a captured graph ran with four inputs")


def run_quark(sessions, folder):
    """Models made by Quark with the outputs of its own operators."""
    for path in sorted(Path(folder).glob("*.npz")):
        golden, model = np.load(path), onnx.load(path.with_suffix(".onnx"))
        session, cpu = sessions.open(model, True, all_on_cuda=False), sessions.open(model, False)
        # Convolutions sum in another order on each device, and a quantizer makes a step of what was a rounding.
        logits, ours = session.run(None, {"input": golden["input"]})[0], cpu.run(None, {"input": golden["input"]})[0]
        tf32 = sessions.open(model, True, all_on_cuda=False, use_tf32="1")
        milliseconds = []
        for of in (session, tf32, cpu):
            of.run(None, {"input": golden["input"]})
            start = time.perf_counter()
            for _ in range(10):
                found = of.run(None, {"input": golden["input"]})[0]
            milliseconds.append(round((time.perf_counter() - start) * 100, 2))
            if of is tf32:
                print(f"{path.stem} with TF32: cosine with Quark's outputs {close(found, golden['logits']):.6f}")
        same = (logits.argmax(axis=1) == golden["logits"].argmax(axis=1)).all()
        print(f"{path.stem}: cosine with Quark's outputs {close(logits, golden['logits']):.6f}, with our CPU's {close(logits, ours):.6f}, "
              f"classes equal {same}, milliseconds for {len(logits)} images without TF32, with, on the CPU: {milliseconds}")
        if not same or close(logits, golden["logits"]) < 0.999:
            sessions.wrong.append(path.stem)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("library", type=Path)
    parser.add_argument("--pretended", action="store_true", help="the GPU pretends: no kernels of ONNX Runtime")
    parser.add_argument("--cudnn", action="store_true", help="let ONNX Runtime use cuDNN")
    parser.add_argument("--quark", type=Path, help="a folder with models and outputs of Quark")
    arguments = parser.parse_args()
    try:
        sessions = Sessions(arguments.library.resolve(), arguments.cudnn, arguments.pretended)
    except ImportError as error:
        print(f"skipped: {error}")
        sys.exit(77)
    if "CUDAExecutionProvider" not in sessions.runtime.get_available_providers():
        print(f"skipped: this onnxruntime {sessions.runtime.__version__} has no CUDAExecutionProvider")
        sys.exit(77)
    print(f"onnxruntime {sessions.runtime.__version__}")
    steps = [compare_blocks, compare_codes, compare_threads, expect_errors]
    if not arguments.pretended:
        steps += [run_mixed, run_graph]
        if arguments.quark:
            steps.append(lambda s: run_quark(s, arguments.quark))
    for step in steps:
        try:
            step(sessions)
        except Exception as error:
            sessions.wrong.append(f"{getattr(step, '__name__', 'quark')}: {str(error)[:500]}")
    sessions.compare("in place", chain([40, 70]), {"x": values_of([40, 70], np.float32, 0)})
    for line in sessions.wrong[:20]:
        print("WRONG", line)
    print(f"{sessions.runs} outputs of sessions, {sessions.compared} values, {len(sessions.wrong)} wrong")
    sys.exit(1 if sessions.wrong else 0)


if __name__ == "__main__":
    main()
