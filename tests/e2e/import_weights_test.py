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


def three_bits(groups):
    """Codes of 3 bits: two in the low bits of each of three bytes, and two in the six bits that are left."""
    spare = (groups >> 6).astype(np.int64) @ [1, 4, 16]
    return np.stack([groups[:, 0] & 7, groups[:, 0] >> 3 & 7, groups[:, 1] & 7, groups[:, 1] >> 3 & 7, groups[:, 2] & 7, groups[:, 2] >> 3 & 7,
                     spare & 7, spare >> 3], -1)


def decoded(path):
    """The weights of MatMulNBits nodes [outputs, inputs], their codes, and the offsets that are added beside them."""
    graph = onnx.load(path).graph
    values = {constant.name: numpy_helper.to_array(constant) for constant in graph.initializer}
    narrow = {node.output[0]: node.input[0] for node in graph.node if node.op_type.startswith("Widen_")}  # codes of 3 bits
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

        stored = narrow.get(node.input[1], node.input[1])
        if stored in narrow.values():
            codes = three_bits(values[stored]).reshape(outputs, -1)[:, :inputs].astype(np.int64)
        else:
            codes = unpack(values[stored], inputs)
        scales = values[node.input[2]].reshape(outputs, -1)
        zeros = unpack(values[node.input[3]], inputs // size) if len(node.input) > 3 and node.input[3] else np.full(scales.shape, 4 if stored in narrow.values() else 1 << (bits - 1))
        codes = codes - np.repeat(zeros, size, 1)
        name = stored.removesuffix("_codes")
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


def test_fused_matrices_join_tensors_of_different_types(bitpress, tmp_path):
    """Queries, keys and values in one matrix, as GenAI's builder writes them: codes of 8 bits in the smallest of the blocks hold them all."""
    rng = np.random.default_rng(6)
    kinds = {"attn_q": (128, Type.Q4_K), "attn_k": (64, Type.Q4_0), "attn_v": (64, Type.Q6_K)}
    blocks = {name: random_blocks(kind, rows, HIDDEN, rng) for name, (rows, kind) in kinds.items()}
    floats = np.concatenate([gguf.quants.dequantize(values, kinds[name][1]) for name, values in blocks.items()])
    source = save_gguf({f"blk.0.{name}.weight": (values, kinds[name][1]) for name, values in blocks.items()}, tmp_path / "model.gguf")
    name = "model.layers.0.attn.qkv_proj.MatMul.weight"
    near = (floats.T + rng.standard_normal(floats.T.shape) * floats.std() / 10).astype(np.float32)
    path = models.save(models.make_model([helper.make_node("MatMul", ["x", name], ["y"], "/model/layers.0/attn/qkv_proj/MatMul")],
                                         [("x", ["N", HIDDEN])], [("y", ["N", 256])], {name: near}), tmp_path / "model.onnx")
    output, report, _ = convert(bitpress, path, source, tmp_path)
    assert report[name]["is_kept"] and report[name]["type"] == "Q4_K+Q4_0+Q6_K" and report[name]["format"] == "int8"
    codes, scales, offsets = decoded(output)[name]
    np.testing.assert_allclose(codes * scales.astype(np.float64) + offsets, floats, atol=1e-7)


def test_biases_of_queries_get_the_order_of_the_model(bitpress, tmp_path):
    """llama.cpp stores weight and bias of queries pair by pair."""
    rng = np.random.default_rng(8)
    heads, size, name = 4, 16, "model.layers.0.self_attn.q_proj"
    floats, bias = rng.standard_normal((heads * size, HIDDEN)).astype(np.float32), rng.standard_normal(heads * size).astype(np.float32)

    def pairs(values):
        return np.ascontiguousarray(values.reshape(heads, 2, size // 2, -1).swapaxes(1, 2).reshape(values.shape))

    blocks = gguf.quants.quantize(pairs(floats), Type.Q8_0)
    source = save_gguf({"blk.0.attn_q.weight": (blocks, Type.Q8_0), "blk.0.attn_q.bias": (pairs(bias), None)}, tmp_path / "model.gguf")
    nodes = [helper.make_node("MatMul", ["x", f"{name}.weight"], ["product"], "/model/layers.0/self_attn/q_proj/MatMul"),
             helper.make_node("Add", [f"{name}.bias", "product"], ["y"], "/model/layers.0/self_attn/q_proj/Add")]
    constants = {f"{name}.weight": floats.T, f"{name}.bias": bias + np.float32(0.01)}
    path = models.save(models.make_model(nodes, [("x", ["N", HIDDEN])], [("y", ["N", heads * size])], constants), tmp_path / "model.onnx")
    output, report, _ = convert(bitpress, path, source, tmp_path)
    codes, scales, _ = decoded(output)[f"{name}.weight"]
    values = gguf.quants.dequantize(blocks, Type.Q8_0)
    assert np.array_equal(pairs((codes * scales).astype(np.float32)), values)
    kept = {constant.name: numpy_helper.to_array(constant) for constant in onnx.load(output).graph.initializer}
    assert np.array_equal(kept[f"{name}.bias"], bias)


# --- checkpoints in safetensors

TYPES = {"int32": "I32", "int64": "I64", "uint8": "U8", "int8": "I8", "float16": "F16", "float32": "F32", "float8": "F8_E4M3"}


def save_checkpoint(tensors, folder, config=None):
    """Writes model.safetensors and config.json. An array of bytes that stand for FLOAT8E4M3 comes as ("float8", array)."""
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({"quantization_config": config or {}}))
    header, offset, parts = {}, 0, []
    for name, values in tensors.items():
        kind, values = values if isinstance(values, tuple) else (values.dtype.name, values)
        header[name] = {"dtype": TYPES[kind], "shape": values.shape, "data_offsets": [offset, offset + values.nbytes]}
        offset += values.nbytes
        parts.append(np.ascontiguousarray(values).tobytes())
    head = json.dumps(header).encode()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(head)) + head + b"".join(parts))
    return folder


def pack(codes, axis, bits=4, order=None):
    """Codes of `bits` in words of 32, neighbours along an axis behind each other, the first in the lowest bits; of 8 codes in the `order`."""
    codes = np.moveaxis(np.asarray(codes).astype(np.uint32), axis, -1)
    if order:
        codes = codes.reshape(*codes.shape[:-1], -1, 8)[..., order].reshape(codes.shape)
    stream = (codes[..., None] >> np.arange(bits, dtype=np.uint32) & 1).reshape(*codes.shape[:-1], -1)
    stream = np.concatenate([stream, np.zeros((*stream.shape[:-1], -stream.shape[-1] % 32), np.uint32)], -1)
    words = (stream.reshape(*stream.shape[:-1], -1, 32) << np.arange(32, dtype=np.uint32)).sum(-1, dtype=np.uint32)
    return np.moveaxis(words, -1, axis).view(np.int32)


def random_layer(rng, shape, of_columns, bits=4, symmetric=False):
    """Codes [outputs, inputs], scales and zero points [outputs, groups], and the whole numbers and floats that they mean."""
    codes = rng.integers(0, 1 << bits, shape)
    groups = (shape[0], of_columns.max() + 1)
    scales = rng.uniform(0.001, 0.01, groups).astype(np.float16)
    zeros = np.full(groups, 1 << (bits - 1)) if symmetric else rng.integers(1, 1 << bits, groups)
    numbers = codes - zeros[:, of_columns]
    return codes, scales, zeros, numbers, numbers.astype(np.float32) * scales.astype(np.float32)[:, of_columns]


def gptq(prefix, codes, scales, zeros, bits, group, stored_less=1):
    return {f"{prefix}.qweight": pack(codes.T, 0, bits), f"{prefix}.scales": scales.T,
            f"{prefix}.qzeros": pack((zeros.T - stored_less) % (1 << bits), 1, bits),
            f"{prefix}.g_idx": (np.arange(codes.shape[1]) // group).astype(np.int32)}


def awq(prefix, codes, scales, zeros, bits, group):
    order = (0, 2, 4, 6, 1, 3, 5, 7)
    return {f"{prefix}.qweight": pack(codes.T, 1, 4, order), f"{prefix}.scales": scales.T, f"{prefix}.qzeros": pack(zeros.T, 1, 4, order)}


def compressed(prefix, codes, scales, zeros, bits, group):
    tensors = {f"{prefix}.weight_packed": pack(codes, 1, bits), f"{prefix}.weight_scale": scales,
               f"{prefix}.weight_shape": np.array(codes.shape, np.int64)}
    if (zeros != 1 << (bits - 1)).any():
        tensors[f"{prefix}.weight_zero_point"] = pack(zeros, 0, bits)
    return tensors


def make_checkpoint(tmp_path, write, group, bits=4, symmetric=False, config=None, regroup=None):
    """The quantized layers and a float table in a checkpoint, and the model; the layers' codes and floats by their names. `regroup` gives columns
    other groups."""
    rng = np.random.default_rng(group)
    table = (rng.standard_normal(SHAPES["embed_tokens"]) / 16).astype(np.float16)
    tensors, layers, floats = {"model.embed_tokens.weight": table}, {}, {"embed_tokens": table.astype(np.float32)}
    for name in ("up_proj", "down_proj", "lm_head"):
        size = group or SHAPES[name][1]
        of_columns = np.arange(SHAPES[name][1]) // size
        of_columns = of_columns if regroup is None else regroup(of_columns)
        codes, scales, zeros, layers[name], floats[name] = random_layer(rng, SHAPES[name], of_columns, bits, symmetric)
        tensors |= write(NAMES[name], codes, scales, zeros, bits, size)
        if regroup is not None:
            tensors[f"{NAMES[name]}.g_idx"] = of_columns.astype(np.int32)
    return save_model(floats, tmp_path / "model.onnx"), save_checkpoint(tensors, tmp_path / "checkpoint", config), layers, floats


@pytest.mark.parametrize(("write", "group", "bits", "symmetric", "config", "format"), [
    (gptq, 128, 4, False, {"quant_method": "gptq"}, "uint4"), (gptq, 64, 4, True, {"quant_method": "gptq", "sym": True}, "int4"),
    (gptq, 32, 8, False, {"quant_method": "gptq"}, "uint8"), (gptq, 64, 4, False, {"quant_method": "auto-round", "sym": False}, "uint4"),
    (awq, 64, 4, False, {"quant_method": "awq"}, "uint4"), (compressed, 128, 4, True, {"quant_method": "compressed-tensors"}, "int4"),
    (compressed, 32, 4, False, {"quant_method": "compressed-tensors"}, "uint4"), (compressed, 64, 8, True, {}, "int8"),
    (compressed, None, 4, True, {}, "int4"), (gptq, 64, 3, False, {"quant_method": "gptq"}, "uint3"), (gptq, 32, 2, True, {"sym": True}, "int4"),
    (gptq, 128, 3, True, {"quant_method": "gptq", "sym": True}, "int3"), (compressed, 32, 3, True, {}, "int3"), (compressed, 64, 6, False, {}, "uint8"),
    (compressed, 64, 2, False, {}, "uint4")])
def test_groups_of_integers_keep_their_codes(bitpress, tmp_path, run_model, write, group, bits, symmetric, config, format):
    model, source, layers, floats = make_checkpoint(tmp_path, write, group or 0, bits, symmetric, config)
    output, report, _ = convert(bitpress, model, source, tmp_path)
    found = decoded(output)
    for name, wanted in layers.items():
        entry = report[f"{NAMES[name]}.weight"]
        assert entry["is_kept"] and entry["format"] == format, entry
        codes, scales, _ = found[f"{NAMES[name]}.weight"]
        assert np.array_equal(codes, wanted) and np.array_equal((codes * scales).astype(np.float32), floats[name])
    assert not report["model.embed_tokens.weight"]["is_kept"]
    exact, _, _ = convert(bitpress, model, source, tmp_path, "--accuracy-level", "1")
    ids = np.arange(10).reshape(2, 5)
    expected = forward(floats, ids)
    assert np.abs(run_model(exact, {"ids": ids})[0] - expected).max() < 1e-4 * np.abs(expected).max()


def test_gptq_of_the_second_format_stores_zero_points_as_they_are(bitpress, tmp_path):
    def write(*arguments):
        return gptq(*arguments, stored_less=0)

    model, source, layers, _ = make_checkpoint(tmp_path, write, 128, config={"quant_method": "gptq", "checkpoint_format": "gptq_v2"})
    output, _, _ = convert(bitpress, model, source, tmp_path)
    assert np.array_equal(decoded(output)["lm_head.weight"][0], layers["lm_head"])


@pytest.mark.parametrize(("bits", "symmetric"), [(4, False), (4, True), (3, False), (8, False)])
def test_act_order_keeps_its_codes(bitpress, tmp_path, run_model, bits, symmetric):
    """Columns in groups of another order: the inputs of their products are put into the order of the groups."""
    groups = {}

    def regroup(of_columns):
        groups[len(of_columns)] = np.random.default_rng(5).permutation(of_columns)
        return groups[len(of_columns)]

    model, source, layers, floats = make_checkpoint(tmp_path, gptq, 64, bits, symmetric, {"quant_method": "gptq", "sym": symmetric}, regroup)
    output, report, text = convert(bitpress, model, source, tmp_path)
    for name, wanted in layers.items():
        assert report[f"{NAMES[name]}.weight"]["is_kept"], text
        assert np.array_equal(decoded(output)[f"{NAMES[name]}.weight"][0], wanted[:, np.argsort(groups[wanted.shape[1]], kind="stable")])
    exact, _, _ = convert(bitpress, model, source, tmp_path, "--accuracy-level", "1")
    ids = np.arange(10).reshape(2, 5)
    expected = forward(floats, ids)
    assert np.abs(run_model(exact, {"ids": ids})[0] - expected).max() < 1e-4 * np.abs(expected).max()


def test_products_of_one_input_share_its_order(bitpress, tmp_path, run_model):
    """Queries and values in one order, keys in another one; as one matrix they have no order in common."""
    rng = np.random.default_rng(2)
    tensors, floats = {}, {}
    for part, seed in (("q_proj", 1), ("k_proj", 2), ("v_proj", 1)):
        of_columns = np.random.default_rng(seed).permutation(np.arange(HIDDEN) // 32)
        codes, scales, zeros, _, floats[part] = random_layer(rng, (64, HIDDEN), of_columns)
        prefix = f"model.layers.0.self_attn.{part}"
        tensors |= gptq(prefix, codes, scales, zeros, 4, 32) | {f"{prefix}.g_idx": of_columns.astype(np.int32)}
    source = save_checkpoint(tensors, tmp_path / "checkpoint", {"quant_method": "gptq"})
    x = rng.standard_normal((3, HIDDEN)).astype(np.float32)
    apart = [helper.make_node("MatMul", ["x", f"model.layers.0.self_attn.{part}.weight"], [part], f"/model/layers.0/self_attn/{part}") for part in floats]
    path = models.save(models.make_model(apart, [("x", ["N", HIDDEN])], [(part, ["N", 64]) for part in floats],
                                         {f"model.layers.0.self_attn.{part}.weight": values.T for part, values in floats.items()}), tmp_path / "apart.onnx")
    output, report, _ = convert(bitpress, path, source, tmp_path, "--accuracy-level", "1")
    assert all(weight["is_kept"] for weight in report.values())
    assert sum(node.op_type == "Gather" for node in onnx.load(output).graph.node) == 2
    for found, part in zip(run_model(output, {"x": x}), floats):
        np.testing.assert_allclose(found, x @ floats[part].T, atol=1e-4)

    name = "model.layers.0.attn.qkv_proj.MatMul.weight"
    joined = np.concatenate(list(floats.values())).T
    path = models.save(models.make_model([helper.make_node("MatMul", ["x", name], ["y"], "/model/layers.0/attn/qkv_proj/MatMul")],
                                         [("x", ["N", HIDDEN])], [("y", ["N", 192])], {name: joined}), tmp_path / "joined.onnx")
    output, report, _ = convert(bitpress, path, source, tmp_path, "--accuracy-level", "1")
    assert not report[name]["is_kept"]
    assert models.sqnr_db(x @ joined, run_model(output, {"x": x})[0]) > 35


def test_groups_of_different_sizes_are_rounded_anew_and_said(bitpress, tmp_path):
    model, source, layers, _ = make_checkpoint(tmp_path, gptq, 64, config={"quant_method": "gptq"},
                                               regroup=lambda of_columns: np.where(of_columns == 0, of_columns.max(), of_columns))
    output, _, text = convert(bitpress, model, source, tmp_path)
    assert "3 without its codes: GPTQ 4 bits as int8, its groups of columns have different sizes (act-order)" in text
    assert decoded(output)["lm_head.weight"][0].shape == layers["lm_head"].shape


@pytest.mark.parametrize("kind", ["MXFP4", "NVFP4"])
def test_floats_of_four_bits_keep_their_codes(bitpress, tmp_path, kind):
    rng = np.random.default_rng(1)
    halves = np.array([0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12])
    tensors, floats = {}, {}
    for name, shape in SHAPES.items():
        codes = rng.integers(0, 16, shape)
        size = 32 if kind == "MXFP4" else 16
        packed = (codes[:, 0::2] | codes[:, 1::2] << 4).astype(np.uint8)
        if name == "embed_tokens":
            tensors[f"{NAMES[name]}.weight"] = floats[name] = (rng.standard_normal(shape) / 16).astype(np.float32)
            continue
        stored = rng.integers(118, 124, (shape[0], shape[1] // size)).astype(np.uint8)
        if kind == "MXFP4":
            scales = 2.0**(stored.astype(np.float64) - 127)
            tensors[f"{NAMES[name]}.weight_scale"] = stored
        else:
            stored = (stored % 64 + 32).astype(np.uint8)
            exponent, mantissa = stored >> 3, stored & 7
            scales = (8 + mantissa) / 8 * 2.0**(exponent.astype(np.float64) - 7) / 100
            tensors |= {f"{NAMES[name]}.weight_scale": ("float8", stored), f"{NAMES[name]}.weight_global_scale": np.array([100], np.float32)}
        tensors[f"{NAMES[name]}.weight_packed"] = packed
        floats[name] = (halves[codes] / 2 * np.repeat(scales, size, 1)).astype(np.float32)
    source = save_checkpoint(tensors, tmp_path / "checkpoint")
    output, report, _ = convert(bitpress, save_model(floats, tmp_path / "model.onnx"), source, tmp_path)
    codes, scales, _ = decoded(output)["lm_head.weight"]
    assert report["lm_head.weight"]["is_kept"] and report["lm_head.weight"]["type"] == kind
    np.testing.assert_allclose(codes * scales, floats["lm_head"], rtol=2e-7)


# --- errors

@pytest.fixture
def written(tmp_path):
    """A model, and the tensors of its file."""
    rng = np.random.default_rng(2)
    floats = {name: (rng.standard_normal(shape) * shape[1]**-0.5).astype(np.float32) for name, shape in SHAPES.items()}
    tensors = {f"{LLAMA_NAMES[name]}.weight": (gguf.quants.quantize(values, Type.Q8_0), Type.Q8_0) for name, values in floats.items()}
    return save_model(floats, tmp_path / "model.onnx"), tensors


def fail(bitpress, tmp_path, model, tensors, *words):
    source = tensors if not isinstance(tensors, dict) else save_gguf(tensors, tmp_path / "model.gguf")
    return bitpress.error("quantize", model, "-o", tmp_path / "out.onnx", "--weights-from", source, *words)


def test_errors_name_the_tensor(bitpress, tmp_path, written):
    model, tensors = written
    rng = np.random.default_rng(4)
    up = "blk.0.ffn_up.weight"
    without = {name: values for name, values in tensors.items() if name != up}
    assert f"'{NAMES['up_proj']}.weight' needs up_proj of layer 0, which the file does not have" in fail(bitpress, tmp_path, model, without)
    smaller = tensors | {up: (tensors[up][0][:-1], Type.Q8_0)}
    assert f"'{up}' has 511 rows of 256 elements in the file, but '{NAMES['up_proj']}.weight' of the model 512 of 256" in fail(
        bitpress, tmp_path, model, smaller)
    unknown = tensors | {up: (rng.integers(0, 256, (WIDE, 66), np.uint8), Type.IQ2_XXS)}
    assert f"tensor '{up}': its type number 16 of ggml is not read; these are: F32, F16, BF16, Q4_0" in fail(bitpress, tmp_path, model, unknown)
    other = tensors | {up: (gguf.quants.quantize(rng.standard_normal((WIDE, HIDDEN)).astype(np.float32), Type.Q8_0), Type.Q8_0)}
    assert f"'{up}' is so unlike the model's weight '{NAMES['up_proj']}.weight'" in fail(bitpress, tmp_path, model, other)
    assert "is in layer 0, which the file does not have: is it the same network?" in fail(
        bitpress, tmp_path, model, {"x.weight": (np.zeros(4, np.float32), None)})
    half = onnx.load(model)
    for constant in half.graph.initializer:
        constant.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(constant).astype(np.float16), constant.name))
    half.graph.output[0].type.tensor_type.elem_type = onnx.TensorProto.FLOAT16
    assert "is FLOAT16: give the network in float32" in fail(bitpress, tmp_path, models.save(half, tmp_path / "half.onnx"), tensors)
    nothing = models.save(models.conv_model(), tmp_path / "nothing.onnx")
    assert "none of its 4 tensors is a weight of the model" in fail(bitpress, tmp_path, nothing, tensors)


def test_damaged_files_are_an_error(bitpress, tmp_path, written):
    model, tensors = written
    whole = save_gguf(tensors, tmp_path / "whole.gguf").read_bytes()
    cut = tmp_path / "cut.gguf"
    for length in (5, 30, 200, 400, len(whole) // 2):
        cut.write_bytes(whole[:length])
        text = fail(bitpress, tmp_path, model, cut)
        assert "damaged" in text or "do not fit the file" in text, (length, text)
    cut.write_bytes(b"ONNX")
    (tmp_path / "empty").mkdir()
    assert "it holds no weights that are read here" in fail(bitpress, tmp_path, model, cut)
    bad = tmp_path / "bad.safetensors"
    for content in (b"", struct.pack("<Q", 1 << 60) + b"{}", struct.pack("<Q", 2) + b"[]",
                    struct.pack("<Q", 64) + b'{"lm_head.weight":{"dtype":"F32","shape":[4],"data_offsets":[0,9]}}'):
        bad.write_bytes(content)
        assert "the safetensors file is damaged" in fail(bitpress, tmp_path, model, bad)
    assert "holds no *.safetensors" in fail(bitpress, tmp_path, model, tmp_path / "empty")


@pytest.mark.parametrize("group", [-1, 4, 1 << 30])
def test_a_column_in_a_group_that_there_is_not_is_an_error(bitpress, tmp_path, group):
    def one_is_wrong(of_columns):
        wrong = of_columns.copy()
        wrong[0] = group
        return wrong

    def write(prefix, codes, scales, zeros, bits, size):
        return gptq(prefix, codes, scales, zeros, bits, size) | {f"{prefix}.g_idx": one_is_wrong(np.arange(codes.shape[1]) // size).astype(np.int32)}

    model, source, _, _ = make_checkpoint(tmp_path, write, 64, config={"quant_method": "gptq"})
    assert "sizes" in fail(bitpress, tmp_path, model, source)


def test_settings_that_would_change_codes_are_refused(bitpress, tmp_path, written):
    model, tensors = written
    assert "--weights-from keeps the codes of another tool, and finetune would change them" in fail(
        bitpress, tmp_path, model, tensors, "--config", "none", "--finetune", "gptq")
