"""`quantize --weights-from`: weights that other tools quantized, code for code. What a file means is what the package gguf says, and what
NumPy makes of the layouts of GPTQ, AWQ and compressed-tensors."""

import json
import struct

import gguf
import models
import numpy as np
import onnx
import onnxruntime
import pytest
from gguf import GGMLQuantizationType as Type
from onnx import helper, numpy_helper

WORDS, HIDDEN, WIDE = 64, 256, 512
SHAPES = {"embed_tokens": (WORDS, HIDDEN), "up_proj": (WIDE, HIDDEN), "down_proj": (HIDDEN, WIDE), "lm_head": (WORDS, HIDDEN)}
LLAMA_NAMES = {"embed_tokens": "token_embd", "up_proj": "blk.0.ffn_up", "down_proj": "blk.0.ffn_down", "lm_head": "output"}
NAMES = {"embed_tokens": "model.embed_tokens", "up_proj": "model.layers.0.mlp.up_proj", "down_proj": "model.layers.0.mlp.down_proj",
         "lm_head": "lm_head"}
# Where blocks have their scales of 16 bits.
SCALES = {Type.Q2_K: (80, 82), Type.Q3_K: (108,), Type.Q4_0: (0,), Type.Q4_1: (0, 2), Type.Q5_0: (0,), Type.Q5_1: (0, 2), Type.Q8_0: (0,),
          Type.Q4_K: (0, 2), Type.Q5_K: (0, 2), Type.Q6_K: (208,), Type.IQ4_NL: (0,), Type.IQ4_XS: (0,), Type.MXFP4: ()}
HAS_OFFSETS = (Type.Q2_K, Type.Q4_1, Type.Q5_1, Type.Q4_K, Type.Q5_K)


def random_blocks(kind, rows, columns, rng):
    """Any bits with sane scales of either sign: every code occurs."""
    elements, size = gguf.GGML_QUANT_SIZES[kind]
    blocks = rng.integers(0, 256, (rows * columns // elements, size), np.uint8)
    for place in SCALES[kind]:
        blocks[:, place:place + 2] = (rng.uniform(0.001, 0.01, len(blocks)) * rng.choice([-1, 1], len(blocks))).astype("<f2")[:, None].view(np.uint8)
    if kind == Type.MXFP4:
        blocks[:, 0] = rng.integers(116, 124, len(blocks))
    return blocks.reshape(rows, -1)


def forward(weights, ids):
    x = weights["embed_tokens"][ids].astype(np.float64)
    x = np.maximum(x @ weights["up_proj"].T, 0) @ weights["down_proj"].T
    return x @ weights["lm_head"].T


def save_model(weights, path):
    """The network, with weights near the given ones: what the file has shall count."""
    rng = np.random.default_rng(9)
    constants = {}
    for name, values in weights.items():
        near = (values + rng.standard_normal(values.shape) * values.std() / 10).astype(np.float32)
        constants[f"{NAMES[name]}.weight"] = near if name == "embed_tokens" else near.T
    nodes = [helper.make_node("Gather", ["model.embed_tokens.weight", "ids"], ["x"], "/model/embed_tokens/Gather")]
    value = "x"
    for name in ("up_proj", "down_proj", "lm_head"):
        nodes.append(helper.make_node("MatMul", [value, f"{NAMES[name]}.weight"], [name], f"/{NAMES[name].replace('model.layers.0', 'model/layers.0')}"))
        value = name
        if name == "up_proj":
            nodes.append(helper.make_node("Relu", [name], ["active"], "relu"))
            value = "active"
    model = models.make_model(nodes, [("ids", ["batch", "tokens"])], [("lm_head", ["batch", "tokens", WORDS])], constants)
    model.graph.input[0].type.tensor_type.elem_type = onnx.TensorProto.INT64
    return models.save(model, path)


def save_gguf(tensors, path):
    """Writes {name: (array of bytes or floats, type or None)}."""
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_head_count(4)
    for name, (values, kind) in tensors.items():
        writer.add_tensor(name, values, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def decoded(path):
    """The weights of MatMulNBits nodes [outputs, inputs], their codes, and the offsets that are added beside them."""
    graph = onnx.load(path).graph
    values = {constant.name: numpy_helper.to_array(constant) for constant in graph.initializer}
    found = {}
    for node in graph.node:
        if node.op_type != "MatMulNBits":
            continue
        a = {x.name: helper.get_attribute_value(x) for x in node.attribute}
        outputs, inputs, size, bits = a["N"], a["K"], a["block_size"], a["bits"]

        def unpack(array, count, bits=bits, outputs=outputs):
            array = array.reshape(outputs, -1)
            if bits == 4:
                array = np.stack([array & 15, array >> 4], -1)
            return array.reshape(outputs, -1)[:, :count].astype(np.int64)

        codes = unpack(values[node.input[1]], inputs)
        scales = values[node.input[2]].reshape(outputs, -1)
        zeros = unpack(values[node.input[3]], inputs // size) if len(node.input) > 3 else np.full(scales.shape, 1 << (bits - 1))
        codes = codes - np.repeat(zeros, size, 1)
        name = node.input[1].removesuffix("_codes")
        offsets = values.get(f"{name}_offsets")
        offsets = np.zeros(scales.shape, np.float32) if offsets is None else offsets.T
        found[name] = (codes, np.repeat(scales, size, 1), np.repeat(offsets, size, 1))
    return found


def convert(bitpress, model, source, tmp_path, *words):
    output, report = tmp_path / "quantized.onnx", tmp_path / "report.json"
    text = bitpress.ok("quantize", model, "-o", output, "--weights-from", source, "--target", "onnxruntime", "--json", report, *words)
    return output, {weight["value"]: weight for weight in json.loads(report.read_text())["imported"]["weights"]}, text


@pytest.mark.parametrize("kind", SCALES, ids=lambda kind: kind.name)
def test_every_block_type_keeps_its_codes(bitpress, tmp_path, run_model, kind):
    rng = np.random.default_rng(kind.value)
    blocks = {name: random_blocks(kind, *shape, rng) for name, shape in SHAPES.items()}
    floats = {name: gguf.quants.dequantize(values, kind) for name, values in blocks.items()}
    source = save_gguf({f"{LLAMA_NAMES[name]}.weight": (values, kind) for name, values in blocks.items()}, tmp_path / "model.gguf")
    output, report, _ = convert(bitpress, save_model(floats, tmp_path / "model.onnx"), source, tmp_path)
    assert len(report) == 4 and all(weight["is_kept"] and weight["type"] == kind.name for weight in report.values())
    found = decoded(output)
    assert len(found) == 3
    for name in ("up_proj", "down_proj", "lm_head"):
        codes, scales, offsets = found[f"{NAMES[name]}.weight"]
        values = codes * scales.astype(np.float64) + offsets
        if kind not in HAS_OFFSETS:
            assert np.array_equal(values.astype(np.float32), floats[name])
        # With offsets gguf rounds scale * code and the sum, which are exact here.
        assert np.abs(values - floats[name]).max() <= 2e-7 * np.abs(floats[name]).max() * 8
        assert np.abs(values - floats[name]).max() < 1e-3 * np.abs(scales[scales != 0]).min() + 1e-7
    ids = rng.integers(0, WORDS, (2, 5))
    exact, _, _ = convert(bitpress, tmp_path / "model.onnx", source, tmp_path, "--accuracy-level", "1")
    [logits] = run_model(exact, {"ids": ids})
    expected = forward(floats, ids)
    assert np.abs(logits - expected).max() < 1e-4 * np.abs(expected).max()


def test_quantized_by_gguf_itself(bitpress, tmp_path):
    """Symmetric blocks as llama.cpp chooses them: half of the scales are negative, and the smallest code is used."""
    rng = np.random.default_rng(3)
    floats = {name: (rng.standard_normal(shape) * shape[1]**-0.5).astype(np.float32) for name, shape in SHAPES.items()}
    blocks = {name: gguf.quants.quantize(values, Type.Q4_0) for name, values in floats.items()}
    source = save_gguf({f"{LLAMA_NAMES[name]}.weight": (values, Type.Q4_0) for name, values in blocks.items()}, tmp_path / "model.gguf")
    output, _, text = convert(bitpress, save_model(floats, tmp_path / "model.onnx"), source, tmp_path)
    assert "4 of 4 weights with every code of the file: 4 Q4_0 as int4" in text
    codes, scales, _ = decoded(output)["lm_head.weight"]
    assert (scales < 0).any() and codes.min() == -8
    assert np.array_equal((codes * scales).astype(np.float32), gguf.quants.dequantize(blocks["lm_head"], Type.Q4_0))
