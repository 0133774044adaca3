"""Makes the seeds of the fuzzers: `python make_corpus.py BITPRESS FOLDER` (folders FOLDER/model and FOLDER/input). The same
seed gives the same bytes; packed models are made by the program itself."""

import io
import json
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

import gguf
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

RECORDED = Path(__file__).parent.parent / "tests" / "data" / "decisions"
RNG = np.random.default_rng(7)
PACKED = ["bf16", "fp16", "bfp16", "mx4", "mx6", "mx9", "mxfp8_e5m2", "mxfp8_e4m3", "mxfp6_e3m2", "mxfp6_e2m3", "mxfp4_e2m1",
          "mxint8", "bfp(bits=13, block=32)", "int2", "int4", "uint8", "int16", "uint32"]
node = helper.make_node


def weights(*shape, dtype=np.float32):
    return (RNG.standard_normal(shape) / 4).astype(dtype)


def value(name, shape, data_type=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, data_type, shape)


def make(nodes, inputs, outputs, constants=(), functions=(), opset=21):
    tensors = [numpy_helper.from_array(array, name) for name, array in dict(constants).items()]
    graph = helper.make_graph(nodes, "g", inputs, outputs, tensors)
    domains = [helper.make_opsetid("", opset)] + [helper.make_opsetid("local", 1)] * bool(functions)
    return helper.make_model(graph, opset_imports=domains, ir_version=9, functions=list(functions))


def matmul(shape=(26, 21), dtype=np.float32, opset=21):
    data_type = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    return make([node("MatMul", ["x", "w"], ["y"], "m")], [value("x", ["N", shape[0]], data_type)],
                [value("y", ["N", shape[1]], data_type)], {"w": weights(*shape, dtype=dtype)}, opset=opset)


def conv():
    nodes = [node("Conv", ["x", "w", "b"], ["c"], "conv", kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]),
             node("BatchNormalization", ["c", "s", "b", "b", "v"], ["n"], "bn"), node("Relu", ["n"], ["r"], "relu"),
             node("GlobalAveragePool", ["r"], ["p"], "pool"), node("Flatten", ["p"], ["f"], "flatten"),
             node("Gemm", ["f", "h"], ["y"], "head", transB=1)]
    constants = {"w": weights(4, 3, 3, 3), "b": weights(4), "s": weights(4), "v": np.ones(4, np.float32), "h": weights(5, 4)}
    return make(nodes, [value("x", ["N", 3, 8, 8])], [value("y", ["N", 5])], constants)


def shapes():
    """A model with what shape inference computes: Shape, Gather, Concat, Reshape, Slice, Pad, Expand, Split, Resize."""
    nodes = [node("Shape", ["x"], ["s"]), node("Gather", ["s", "zero"], ["n"]), node("Concat", ["n", "rest"], ["t"], axis=0),
             node("Reshape", ["x", "t"], ["r"]), node("Slice", ["r", "zero", "one", "one"], ["sl"]),
             node("Pad", ["sl", "pads"], ["p"]), node("Split", ["p"], ["a", "b"], axis=1, num_outputs=2),
             node("Constant", [], ["c"], value_ints=[1, 1, 1]), node("Expand", ["a", "c"], ["e"]),
             node("Resize", ["x4", "", "scales"], ["z"], mode="nearest"),
             node("MatMul", ["e", "w"], ["y"], "m")]
    constants = {"zero": np.array([0]), "one": np.array([1]), "rest": np.array([2, 6]), "pads": np.array([0, 0, 0, 0, 0, 0]),
                 "scales": np.array([1, 1, 2, 2], np.float32), "w": weights(6, 3)}
    return make(nodes, [value("x", ["N", 12]), value("x4", [1, 1, 2, 2])], [value("y", None), value("z", None)], constants)


def bodies():
    def body(name, inputs, outputs, nodes, constants=()):
        return helper.make_graph(nodes, name, inputs, outputs, [numpy_helper.from_array(a, n) for n, a in dict(constants).items()])

    then = body("then", [], [value("t", None)], [node("MatMul", ["x", "w"], ["t"])])
    other = body("else", [], [value("e", None)], [node("MatMul", ["x", "v"], ["e"])], {"v": weights(4, 4)})
    loop = body("loop", [value("i", [], TensorProto.INT64), value("c", [], TensorProto.BOOL), value("s", None)],
                [value("c2", [], TensorProto.BOOL), value("s2", None)],
                [node("Identity", ["c"], ["c2"]), node("If", ["c"], ["s2"], then_branch=then, else_branch=other)])
    scan = body("scan", [value("a", [4]), value("b", [4])], [value("sum", [4]), value("out", [4])],
                [node("Add", ["a", "b"], ["sum"]), node("Identity", ["sum"], ["out"])])
    nodes = [node("Loop", ["trips", "on", "x"], ["l"], "loop", body=loop),
             node("Scan", ["k", "l"], ["y", "z"], "scan", body=scan, num_scan_inputs=1)]
    return make(nodes, [value("x", [4, 4])], [value("y", None), value("z", None)],
                {"w": weights(4, 4), "k": weights(4), "trips": np.array(2), "on": np.array(True)})


def functions():
    opset = [helper.make_opsetid("", 21), helper.make_opsetid("local", 1)]
    inner = helper.make_function("local", "Inner", ["a"], ["b"], [node("Relu", ["a"], ["b"])], opset)
    outer = helper.make_function("local", "Outer", ["a", "w"], ["b"],
                                 [node("Inner", ["a"], ["i"], domain="local"), node("MatMul", ["i", "w"], ["b"])], opset)
    return make([node("Outer", ["x", "w"], ["y"], "call", domain="local")], [value("x", ["N", 8])], [value("y", None)],
                {"w": weights(8, 8)}, [inner, outer])


def sparse():
    model = make([node("Add", ["x", "s"], ["y"])], [value("x", [4])], [value("y", [4])])
    model.graph.sparse_initializer.append(helper.make_sparse_tensor(
        numpy_helper.from_array(weights(2), "s"), numpy_helper.from_array(np.array([0, 2]), "i"), [4]))
    return model


def external():
    model = matmul((16, 16))
    tensor = model.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    for key, text in (("location", "weights.bin"), ("offset", "64"), ("length", "1024")):
        entry = tensor.external_data.add()
        entry.key, entry.value = key, text
    return model


def typed():
    """Elements in typed fields instead of raw_data; an operator set before 13."""
    model = matmul((3, 4), opset=11)
    model.graph.initializer[0].CopyFrom(helper.make_tensor("w", TensorProto.FLOAT, [3, 4], range(12)))
    model.graph.initializer.append(helper.make_tensor("half", TensorProto.FLOAT16, [2], [1, 2]))
    model.graph.initializer.append(helper.make_tensor("text", TensorProto.STRING, [1], [b"t"]))
    return model


def table():
    return make([node("Gather", ["t", "i"], ["r"], "lookup"), node("MatMul", ["r", "w"], ["y"], "m")],
                [value("i", ["N"], TensorProto.INT64)], [value("y", ["N", 5])], {"t": weights(20, 32), "w": weights(32, 5)})


def integers():
    """Q/DQ: what the form of operators on integers is made of."""
    nodes = [node("QuantizeLinear", ["x", "s", "z"], ["xc"], "q"), node("DequantizeLinear", ["xc", "s", "z"], ["xd"], "d"),
             node("DequantizeLinear", ["w", "ws", "wz"], ["wd"], "wd", axis=0),
             node("DequantizeLinear", ["b", "bs", "bz"], ["bd"], "bd", axis=0),
             node("Conv", ["xd", "wd", "bd"], ["c"], "conv"), node("Relu", ["c"], ["r"], "relu"),
             node("QuantizeLinear", ["r", "s", "z"], ["rc"], "rq"), node("DequantizeLinear", ["rc", "s", "z"], ["rd"], "rd"),
             node("MaxPool", ["rd"], ["p"], "pool", kernel_shape=[2, 2]),
             node("QuantizeLinear", ["p", "s", "z"], ["pc"], "pq"), node("DequantizeLinear", ["pc", "s", "z"], ["y"], "yd")]
    scale = np.array([0.5, 0.25], np.float32)
    constants = {"s": np.float32(0.5), "z": np.uint8(0), "w": np.arange(12, dtype=np.int8).reshape(2, 6, 1, 1), "ws": scale,
                 "wz": np.zeros(2, np.int8), "b": np.arange(2, dtype=np.int32), "bs": scale / 2, "bz": np.zeros(2, np.int32)}
    return make(nodes, [value("x", [1, 6, 4, 4])], [value("y", None)], constants)


def quark():
    model = matmul((8, 8))
    model.opset_import.append(helper.make_opsetid("com.amd.quark", 1))
    model.graph.node.insert(0, node("MXQuantizeDequantize", ["x"], ["q"], "q", domain="com.amd.quark", element_dtype="fp8_e4m3",
                                    axis=1, block_size=32, rounding_mode=2))
    model.graph.node[1].input[0] = "q"
    return model


def write_models(program, folder):
    folder.mkdir(parents=True, exist_ok=True)
    plain = {"matmul": matmul(), "half": matmul((24, 24), np.float16), "conv": conv(), "shapes": shapes(), "bodies": bodies(),
             "functions": functions(), "sparse": sparse(), "external": external(), "typed": typed(), "quark": quark(), "table": table(),
             "integers": integers()}
    for name, model in plain.items():
        (folder / f"{name}.onnx").write_bytes(model.SerializeToString(deterministic=True))
        if name != "external":  # its data lie in the fuzzer's folder
            subprocess.run([program, "inspect", folder / f"{name}.onnx"], check=True, stdout=subprocess.DEVNULL)

    def quantize(source, name, weight_format, *options, activations="none"):
        subprocess.run([program, "quantize", folder / f"{source}.onnx", "-o", folder / f"{name}.onnx", "--as-is", "--config",
                        "MX6", "--weights", weight_format, "--activations", activations, *options], check=True,
                       capture_output=True)

    for weight_format in PACKED:
        quantize("matmul", "packed_" + "".join(c if c.isalnum() else "_" for c in weight_format), weight_format)
    quantize("matmul", "packed_blocks", "uint4", "--set", "weight_granularity=per_block", "--set", "weight_symmetric=false")
    quantize("matmul", "native", "uint4", "--set", "weight_granularity=per_block", "--set", "weight_symmetric=false",
             "--target", "onnxruntime")
    quantize("table", "native_table", "int8", "--set", "weight_granularity=per_block", "--set", "embeddings=int8", "--target",
             "onnxruntime")
    quantize("half", "packed_half", "mxfp4_e2m1")
    quantize("conv", "quantized_conv", "mx6", activations="mx6")


def write_inputs(folder):
    folder.mkdir(parents=True, exist_ok=True)
    for name, array in {"rows": weights(3, 2), "fortran": np.asfortranarray(weights(3, 2)), "bytes": np.arange(4, dtype=np.uint8),
                        "big": np.arange(3).astype(">i4"), "scalar": np.float64(2)}.items():
        file = io.BytesIO()
        np.save(file, array)
        (folder / f"{name}.npy").write_bytes(b"y" + file.getvalue())
    for name, save in {"stored": np.savez, "deflated": np.savez_compressed}.items():
        file = io.BytesIO()
        save(file, a=weights(4, 4), b=np.zeros((2, 8)))
        (folder / f"{name}.npz").write_bytes(b"z" + file.getvalue())
    for name, tensor in {"raw": numpy_helper.from_array(weights(2, 3), "t"),
                         "typed": helper.make_tensor("t", TensorProto.INT32, [2], [1, 2])}.items():
        (folder / f"{name}.pb").write_bytes(b"p" + tensor.SerializeToString())


def write_decisions(folder):
    """Writes a file of each kind of decisions: those that the tests recorded, and small ones."""
    encoding = {"name": "x", "enc_type": "PER_TENSOR", "dtype": "INT", "bw": 8, "is_sym": False, "scale": [0.02], "offset": [-128]}
    overrides = [{"match": {"name": "m"}, "exclude": True}, {"match": {"preset": "last_matmul"}, "type": "int8"}]
    texts = {path.stem: path.read_text(encoding="utf-8") for path in sorted(RECORDED.glob("*.json"))}
    for name, data in {"aimet": {"version": "1.0.0", "activation_encodings": [encoding], "param_encodings": []},
                       "overrides": {"x": [{"quant_type": "QUInt8", "rmin": -1.0, "rmax": 2.0}]},
                       "genai": {"weights": {"type": "int4", "block_size": 32, "overrides": overrides}, "moe": {"type": "mxfp4"}}}.items():
        texts[name] = json.dumps(data)
    for name, text in texts.items():
        (folder / f"decisions_{name}.json").write_bytes(b"d" + text.encode())


def write_plan(program, models, folder):
    text = subprocess.run([program, "plan", models / "conv.onnx", "--as-is", "--config", "MX6"], check=True,
                          capture_output=True).stdout
    (folder / "plan.json").write_bytes(b"j" + text)


def write_states(program, models, folder, temporary):
    """Writes the files of statistics, evaluations, moments and journals, each made from two samples."""
    def run(*arguments):
        subprocess.run([program, *arguments], check=True, capture_output=True, cwd=temporary)

    samples = temporary / "samples"
    samples.mkdir()
    for i in range(2):
        np.save(samples / f"{i}.npy", weights(1, 3, 8, 8))
    float_model, quantized = models / "conv.onnx", models / "quantized_conv.onnx"
    tuned = ["--config", "MX6", "--finetune", "gptq", "--data", samples]
    run("calibrate", float_model, "--data", samples, "--config", "INT8", "-o", "calibration.bpc")
    run("evaluate", quantized, "--reference", float_model, "--data", samples, "-o", "evaluation.bpe")
    run("moments", float_model, *tuned, "-o", "moments.bpm")
    run("tune", float_model, *tuned, "--moments", "moments.bpm", "-o", "learned.journal")
    run("sensitivity", float_model, "--candidates", "mx6,mx4", "--data", samples, "--shard", "1/2", "-o", "measured.journal")
    for kind, name in (("c", "calibration.bpc"), ("e", "evaluation.bpe"), ("m", "moments.bpm"), ("l", "learned.journal"),
                       ("s", "measured.journal")):
        (folder / name).write_bytes(kind.encode() + (temporary / name).read_bytes())


def write_weights(folder):
    """Writes a GGUF file with a few types of blocks, and tensors of GPTQ, both small."""
    rng = np.random.default_rng(1)
    with tempfile.TemporaryDirectory() as name:
        writer = gguf.GGUFWriter(Path(name) / "weights.gguf", "llama")
        writer.add_head_count(2)
        for i, kind in enumerate(("Q4_1", "Q4_K", "Q6_K", "MXFP4")):
            kind = gguf.GGMLQuantizationType[kind]
            _, size = gguf.GGML_QUANT_SIZES[kind]
            writer.add_tensor(f"blk.{i}.attn_q.weight", rng.integers(0, 60, (4, size), np.uint8), raw_dtype=kind)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        (folder / "weights.gguf").write_bytes(b"g" + (Path(name) / "weights.gguf").read_bytes())
    header, parts, offset = {}, [], 0
    for name, kind, shape in (("qweight", "I32", (4, 8)), ("qzeros", "I32", (2, 1)), ("scales", "F16", (2, 8)), ("g_idx", "I32", (32,))):
        part = np.zeros(shape, np.int32 if kind == "I32" else np.float16)
        header[f"lm_head.{name}"] = {"dtype": kind, "shape": shape, "data_offsets": [offset, offset + part.nbytes]}
        offset += part.nbytes
        parts.append(part.tobytes())
    head = json.dumps(header).encode()
    (folder / "weights.safetensors").write_bytes(b"t" + struct.pack("<Q", len(head)) + head + b"".join(parts))


if __name__ == "__main__":
    program, folder = Path(sys.argv[1]).resolve(), Path(sys.argv[2])
    write_models(program, folder / "model")
    write_inputs(folder / "input")
    write_decisions(folder / "input")
    write_weights(folder / "input")
    write_plan(program, folder / "model", folder / "input")
    with tempfile.TemporaryDirectory() as name:
        write_states(program, folder.resolve() / "model", folder / "input", Path(name))
