"""Times a mixture of experts in the forms that it takes here (docs/benchmarks/experts.md).

    python tools/measure/experts.py build/bitpress build/libbitpress_ops.so FOLDER [EXPERTS HIDDEN INNER]

It makes a `com.microsoft` MoE with random weights in FOLDER (by default 32 experts of 512 x 1024, 4 of them for each row, gated), quantizes
it, and compares outputs and processor time of one thread with those of the float node, all forms in turns. It needs onnxruntime and onnx.
"""

import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

CHOSEN = 4
ROWS = (1, 16, 256)
ROUNDS = 9
SPLIT = ("--set", "passes=split-experts=all")
FORMS = {
    "float, split": ("--config", "none", "--weights", "mxint8", "--set", "exclude_op_types=Gemm", *SPLIT),
    "QMoE int4, level 4": ("--config", "INT4_WEIGHTS", "--weights", "int4", "--target", "onnxruntime"),
    "QMoE int4, level 1": ("--config", "INT4_WEIGHTS", "--weights", "int4", "--target", "onnxruntime", "--accuracy-level", "1"),
    "MatMulNBits int4, split": ("--config", "INT4_WEIGHTS", "--weights", "int4", "--target", "onnxruntime", *SPLIT),
    "MXFP4 decoded for the MoE": ("--config", "MXFP4E2M1", "--activations", "none"),
    "MXFP4 weights, split": ("--config", "MXFP4E2M1", "--activations", "none", *SPLIT),
    "MXFP4 weights, split, fastest sums": ("--config", "MXFP4E2M1", "--activations", "none", "--fastest-sums", *SPLIT),
    "MXFP4 both, split": ("--config", "MXFP4E2M1", *SPLIT),
    "MXFP4 both, split, fastest sums": ("--config", "MXFP4E2M1", "--fastest-sums", *SPLIT),
}


def make_model(path, experts, hidden, inner):
    rng = np.random.default_rng(0)
    constants = {"up": rng.standard_normal((experts, 2 * inner, hidden)) / np.sqrt(hidden), "up_bias": rng.standard_normal((experts, 2 * inner)) / 4,
                 "down": rng.standard_normal((experts, hidden, inner)) / np.sqrt(inner), "down_bias": rng.standard_normal((experts, hidden)) / 4}
    node = helper.make_node("MoE", ["x", "router", *constants], ["y"], "experts", domain="com.microsoft", k=CHOSEN, activation_type="swiglu",
                            normalize_routing_weights=1, swiglu_fusion=1, activation_alpha=1.702, activation_beta=1.0, swiglu_limit=7.0)
    rows = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", size]) for name, size in (("x", hidden), ("router", experts), ("y", hidden))]
    graph = helper.make_graph([node], "moe", rows[:2], rows[2:],
                              [numpy_helper.from_array(value.astype(np.float32), name) for name, value in constants.items()])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)


def open_session(path, library):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.register_custom_ops_library(str(library))
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def seconds(session, feeds, rounds):
    begin = time.process_time()
    for _ in range(rounds):
        session.run(None, feeds)
    return (time.process_time() - begin) / rounds


def main():
    program, library, folder, *sizes = sys.argv[1:]
    experts, hidden, inner = map(int, sizes) if sizes else (32, 512, 1024)
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    make_model(folder / "float.onnx", experts, hidden, inner)
    paths = {"float": folder / "float.onnx"}
    for name, options in FORMS.items():
        paths[name] = folder / f"{name.replace(' ', '_').replace(',', '')}.onnx"
        subprocess.run([program, "quantize", paths["float"], "-o", paths[name], "--threads", "1", *options], check=True,
                       capture_output=True)
    sessions = {name: open_session(path, library) for name, path in paths.items()}
    print(f"| form | MB | dB | {' | '.join(f'{rows} rows' for rows in ROWS)} |\n|---|---|---|{'---|' * len(ROWS)}")
    table = {name: [f"{path.stat().st_size / 1e6:.1f}"] for name, path in paths.items()}
    for rows in ROWS:
        rng = np.random.default_rng(rows)
        feeds = {"x": rng.standard_normal((rows, hidden)).astype(np.float32), "router": 2 * rng.standard_normal((rows, experts)).astype(np.float32)}
        wanted = sessions["float"].run(None, feeds)[0].astype(np.float64)
        times = {name: [] for name in sessions}
        for _ in range(ROUNDS):
            for name, session in sessions.items():
                times[name].append(seconds(session, feeds, max(1, 64 // rows)))
        for name, session in sessions.items():
            if rows == ROWS[-1]:
                error = np.square(session.run(None, feeds)[0] - wanted).sum()
                table[name].insert(1, "" if name == "float" else f"{10 * np.log10(np.square(wanted).sum() / error):.1f}")
            table[name].append(f"{1e3 * min(times[name]):.2f} ms, {min(times['float']) / min(times[name]):.2f}")
    for name, cells in table.items():
        print(f"| {name} | {' | '.join(cells)} |")


main()
