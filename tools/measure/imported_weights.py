"""Measures imported weights (docs/benchmarks/imported_weights.md).

    python tools/measure/imported_weights.py offsets
    python tools/measure/imported_weights.py decoder MODEL.gguf QUANTIZED.onnx EXACT.onnx

`offsets` times a product whose weights are scale * code + offset in the two forms that ONNX Runtime has for it. `decoder` compares a
decoder that was written from a GGUF file with llama.cpp on that file and on its floats, and both with the same network in float64. It
needs onnxruntime, onnx, gguf and xllamacpp. One thread, runs in turns.
"""

import json
import sys
import tempfile
import time
from pathlib import Path

import gguf
import numpy as np
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

IDS = [1, 504, 2101, 282, 4649, 314, 253, 2004, 28, 564, 357, 1743]
TOP = 2000  # tokens whose log-probabilities are compared
DECODED = 64
ROUNDS = 5


def open_session(model):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def product(form, accuracy_level, size=2048, block=32):
    """A session that multiplies by a matrix, and that matrix."""
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 16, (size, size // block, block)).astype(np.uint8)
    scales = rng.uniform(0.001, 0.02, codes.shape[:2]).astype(np.float32)
    offsets = (-8 * scales * rng.uniform(0.8, 1.2, scales.shape)).astype(np.float32)
    constants = {"codes": codes[..., 0::2] | codes[..., 1::2] << 4, "scales": scales.reshape(-1)}
    inputs = ["x", "codes", "scales"]
    nodes = []
    if form == "zero points":
        constants["zeros"] = (-offsets / scales).reshape(-1)
        inputs.append("zeros")
    elif form == "sums":
        constants |= {"offsets": np.ascontiguousarray((offsets + 8 * scales).T), "shape": np.array([-1, size // block, block]), "axes": np.array([-1])}
        nodes = [helper.make_node("Reshape", ["x", "shape"], ["blocks"]), helper.make_node("ReduceSum", ["blocks", "axes"], ["sums"], keepdims=0),
                 helper.make_node("MatMul", ["sums", "offsets"], ["moved"]), helper.make_node("Add", ["of_codes", "moved"], ["y"])]
    output = "of_codes" if form == "sums" else "y"
    nodes.insert(0, helper.make_node("MatMulNBits", inputs, [output], domain="com.microsoft", K=size, N=size, bits=4, block_size=block,
                                     accuracy_level=accuracy_level))
    described = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["rows", size]) for name in ("x", "y")]
    graph = helper.make_graph(nodes, "product", described[:1], described[1:], [numpy_helper.from_array(v, k) for k, v in constants.items()])
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    return open_session(model.SerializeToString()), (codes * scales[..., None] + offsets[..., None]).reshape(size, size)


def measure_offsets():
    sessions = {(form, level): product(form, level) for level in (1, 4) for form in ("none", "zero points", "sums")}
    for rows in (1, 64):
        x = np.random.default_rng(1).standard_normal((rows, 2048)).astype(np.float32)
        times = {key: [] for key in sessions}
        for _ in range(3 * ROUNDS):
            for key, (session, _) in sessions.items():
                begin = time.perf_counter()
                session.run(None, {"x": x})
                times[key].append(time.perf_counter() - begin)
        for (form, level), (session, weight) in sessions.items():
            wanted = x.astype(np.float64) @ weight.T
            error = "-" if form == "none" else f"{np.abs(session.run(None, {'x': x})[0] - wanted).max() / np.abs(wanted).max():.1e}"
            ratio = min(times[form, level]) / min(times["none", level])
            print(f"{rows} rows, accuracy level {level}, {form}: {ratio:.2f} of the time without offsets, largest error {error} of the largest value")


def feeds_for(session, ids, past=None):
    length = len(ids) + (past[0].shape[2] if past else 0)
    feeds = {"input_ids": np.array([ids]), "attention_mask": np.ones((1, length), np.int64)}
    caches = [value for value in session.get_inputs() if "past" in value.name]
    for i, value in enumerate(caches):
        feeds[value.name] = past[i] if past else np.zeros([1, value.shape[1], 0, value.shape[3]], np.float32)
    return {value.name: feeds[value.name] for value in session.get_inputs()}


def as_log_probabilities(logits):
    return logits - logits.max() - np.log(np.exp(logits - logits.max()).sum())


def log_probabilities(session):
    return as_log_probabilities(session.run(["logits"], feeds_for(session, IDS))[0][0, -1].astype(np.float64))


def log_probabilities_in_float64(source):
    """Those of the network of the GGUF file behind IDS, computed by NumPy alone: a Llama decoder, whose rows of queries and keys lie in pairs."""
    reader = gguf.GGUFReader(source)
    tensors = {tensor.name: tensor for tensor in reader.tensors}

    def field(name):
        return reader.fields[f"llama.{name}"].contents()

    def weight(name):
        tensor = tensors[f"{name}.weight"]
        return gguf.quants.dequantize(tensor.data, tensor.tensor_type).astype(np.float64)

    def norm(x, name):
        return x / np.sqrt((x**2).mean(-1, keepdims=True) + field("attention.layer_norm_rms_epsilon")) * weight(name)

    def rotate(x):
        turns = np.arange(len(IDS))[:, None] * field("rope.freq_base") ** (-np.arange(0, x.shape[-1], 2) / x.shape[-1])
        even, odd, cos, sin = x[..., 0::2], x[..., 1::2], np.cos(turns)[:, None], np.sin(turns)[:, None]
        return np.stack([even * cos - odd * sin, even * sin + odd * cos], -1).reshape(x.shape)

    heads, shared = field("attention.head_count"), field("attention.head_count_kv")
    table = weight("token_embd")
    x = table[IDS]
    later = np.triu(np.full((len(IDS), len(IDS)), -np.inf), 1)
    for layer in range(field("block_count")):
        block = f"blk.{layer}"
        state = norm(x, f"{block}.attn_norm")
        q, k, v = ((state @ weight(f"{block}.attn_{name}").T).reshape(len(IDS), count, -1)
                   for name, count in (("q", heads), ("k", shared), ("v", shared)))
        k, v = (np.repeat(values, heads // shared, axis=1) for values in (rotate(k), v))
        scores = np.einsum("qhd,khd->hqk", rotate(q), k) / np.sqrt(q.shape[-1]) + later
        shares = np.exp(scores - scores.max(-1, keepdims=True))
        mixed = np.einsum("hqk,khd->qhd", shares / shares.sum(-1, keepdims=True), v).reshape(len(IDS), -1)
        x = x + mixed @ weight(f"{block}.attn_output").T
        state = norm(x, f"{block}.ffn_norm")
        gate = state @ weight(f"{block}.ffn_gate").T
        x = x + (gate / (1 + np.exp(-gate)) * (state @ weight(f"{block}.ffn_up").T)) @ weight(f"{block}.ffn_down").T
    head = weight("output") if "output.weight" in tensors else table
    return as_log_probabilities(head @ norm(x, "output_norm")[-1])


def decode(session):
    """Tokens per second of one after another."""
    logits, *past = session.run(None, feeds_for(session, IDS))
    begin = time.perf_counter()
    for _ in range(DECODED):
        logits, *past = session.run(None, feeds_for(session, [int(logits[0, -1].argmax())], past))
    return DECODED / (time.perf_counter() - begin)


def write_gguf(source, path, kind=gguf.GGMLQuantizationType.F32):
    """The same GGUF file with all matrices in `kind`, rounded from the values of their blocks."""
    reader = gguf.GGUFReader(source)
    writer = gguf.GGUFWriter(path, reader.fields["general.architecture"].contents())
    for name, field in reader.fields.items():
        if not name.startswith("GGUF.") and name not in ("general.architecture", "general.file_type"):
            is_array = field.types[0] == gguf.GGUFValueType.ARRAY
            writer.add_key_value(name, field.contents(), field.types[0], field.types[-1] if is_array else None)
    for tensor in reader.tensors:
        values = gguf.quants.dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
        values = values.reshape([int(size) for size in reversed(tensor.shape)])
        to = kind if values.ndim == 2 else gguf.GGMLQuantizationType.F32
        writer.add_tensor(tensor.name, gguf.quants.quantize(values, to), raw_dtype=to)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


class Llama:
    def __init__(self, path):
        import xllamacpp

        params = xllamacpp.CommonParams()
        params.model.path, params.n_ctx, params.n_gpu_layers, params.warmup, params.n_parallel = str(path), 512, 0, False, 1
        params.cpuparams.n_threads = 1
        params.flash_attn_type = xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED
        params.cache_type_k = params.cache_type_v = xllamacpp.ggml_type.GGML_TYPE_F32
        self.server = xllamacpp.Server(params)

    def complete(self, **settings):
        answer = self.server.handle_completions({"prompt": IDS, "temperature": 0, "cache_prompt": False} | settings)
        return answer if isinstance(answer, dict) else json.loads(answer)

    def log_probabilities(self):
        answer = self.complete(n_predict=1, n_probs=TOP)
        top = answer["choices"][0]["logprobs"]["content"][0]["top_logprobs"]
        return {token["id"]: token["logprob"] for token in top}

    def decode(self):
        return self.complete(n_predict=DECODED, ignore_eos=True)["timings"]["predicted_per_second"]


def compare_decoder(source, quantized, exact):
    with tempfile.TemporaryDirectory() as folder:
        floats = Path(folder) / "floats.gguf"
        write_gguf(source, floats)
        llamas = {"llama.cpp, floats of the file": Llama(floats), "llama.cpp, the file": Llama(source)}
        sessions = {f"ONNX Runtime, {Path(path).name}": open_session(path) for path in (quantized, exact)}
        ours = {name: log_probabilities(session) for name, session in sessions.items()}
        exactly = log_probabilities_in_float64(source)
        for theirs, wanted in [("float64", dict(enumerate(exactly))), *((name, llama.log_probabilities()) for name, llama in llamas.items())]:
            if theirs != "float64":
                print(f"{theirs} and float64: log-probabilities differ by {max(abs(exactly[i] - p) for i, p in wanted.items()):.1e} at most")
            for name, found in ours.items():
                print(f"{name} and {theirs}: log-probabilities differ by {max(abs(found[i] - p) for i, p in wanted.items()):.1e} at most")
        runs = {name: [] for name in [*llamas, *sessions]}
        for _ in range(ROUNDS):
            for name, llama in llamas.items():
                runs[name].append(llama.decode())
            for name, session in sessions.items():
                runs[name].append(decode(session))
        for name, rates in runs.items():
            print(f"{name}: {max(rates):.1f} tokens/s")


if __name__ == "__main__":
    measure_offsets() if sys.argv[1] == "offsets" else compare_decoder(*sys.argv[2:])
