"""Reads a decoder's sizes and weights from a GGUF file or from a folder of safetensors, whatever its architecture.

`open_decoder` returns a Decoder: its sizes, and `tensor(name)`, which reads one weight at a time. Names and layouts are those of
Hugging Face's checkpoints, a linear layer's weight is [outputs, inputs]. Architectures: llama (and mistral, SmolLM2), qwen2, qwen3,
gemma3. What a file asks for that is not implemented is an error, never left out.
"""

import json
import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Callable

import numpy as np

ARCHITECTURES = ("llama", "qwen2", "qwen3", "gemma3")
GEMMA3_LOCAL_ROPE_BASE = 10000.0
GEMMA3_GLOBAL_EVERY = 6  # each sixth layer sees all tokens


class DecoderError(Exception):
    """A file that is no such decoder, in one line."""


@dataclass
class Decoder:
    """The sizes of a decoder, and the reader of its weights."""

    architecture: str  # one of ARCHITECTURES
    layers: int
    hidden_size: int
    feed_forward_size: int
    heads: int
    kv_heads: int
    head_size: int
    vocabulary: int
    context: int  # tokens that it was trained for, and the rows of the rotary tables
    epsilon: float
    rope_bases: list[float]  # of each layer
    windows: list[int]  # of each layer: how many tokens it sees, itself included; 0: all
    activation: str  # "silu" or "gelu_tanh"
    embedding_scale: float  # what embeddings are multiplied by
    has_attention_bias: bool  # at q, k and v
    has_head_norms: bool  # RMS norms of each head of q and k
    has_post_norms: bool  # norms behind attention and feed-forward, before they are added
    is_tied: bool  # the head is the table of embeddings
    tensor: Callable[[str], np.ndarray]  # float32, by its name in Hugging Face's checkpoints

    @property
    def attention_scale(self) -> float:
        return self.head_size**-0.5


def open_decoder(path: Path) -> Decoder:
    """The decoder in a `.gguf` file, or in a folder with config.json and *.safetensors."""
    path = Path(path)
    if path.is_dir():
        return _open_safetensors(path)
    if path.suffix == ".gguf":
        return _open_gguf(path)
    raise DecoderError(f"{path}: neither a .gguf file nor a folder with config.json")


def _traits(architecture: str, hidden_size: int, rope_base: float, windows: list[int]) -> dict:
    """Returns the traits that an architecture's name says and its file does not."""
    is_gemma = architecture == "gemma3"
    return {
        "rope_bases": [GEMMA3_LOCAL_ROPE_BASE if is_gemma and window else rope_base for window in windows],
        "windows": windows,
        "activation": "gelu_tanh" if is_gemma else "silu",
        "embedding_scale": math.sqrt(hidden_size) if is_gemma else 1.0,
        "has_head_norms": architecture in ("qwen3", "gemma3"),
        "has_post_norms": is_gemma,
    }


# --- GGUF

_GGUF_NAMES = {
    "model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output",
    "input_layernorm": "attn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
    "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm", "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
    "pre_feedforward_layernorm": "ffn_norm", "post_feedforward_layernorm": "post_ffw_norm",
}


def gguf_name(name: str, has_post_norms: bool) -> str:
    """The name in a GGUF file of a tensor of a Hugging Face checkpoint."""
    stem, _, kind = name.rpartition(".")
    layer = re.fullmatch(r"model\.layers\.(\d+)\.(.+)", stem)
    if not layer:
        return f"{_GGUF_NAMES[stem]}.{kind}"
    part = layer[2]
    if part == "post_attention_layernorm":  # the norm before the feed-forward, unless that has one of its own
        return f"blk.{layer[1]}.{'post_attention_norm' if has_post_norms else 'ffn_norm'}.{kind}"
    return f"blk.{layer[1]}.{_GGUF_NAMES[part]}.{kind}"


def _open_gguf(path: Path) -> Decoder:
    import gguf

    try:
        reader = gguf.GGUFReader(path)
    except (OSError, ValueError) as error:
        raise DecoderError(f"{path}: {error}") from None
    fields = {name: field for name, field in reader.fields.items() if not name.startswith("tokenizer.")}
    architecture = fields["general.architecture"].contents()
    if architecture not in ARCHITECTURES:
        raise DecoderError(f"{path}: the architecture '{architecture}' is not one of {', '.join(ARCHITECTURES)}")

    def field(name, default=None):
        found = fields.get(f"{architecture}.{name}")
        if found is None and default is None:
            raise DecoderError(f"{path}: {architecture}.{name} is missing")
        return default if found is None else found.contents()

    for name in ("rope.scaling.type", "attn_logit_softcapping", "final_logit_softcapping", "expert_count"):
        if field(name, "") not in ("", "none", 0, 0.0):
            raise DecoderError(f"{path}: {architecture}.{name} is not implemented")
    tensors = {tensor.name: tensor for tensor in reader.tensors}
    if "rope_freqs.weight" in tensors:
        raise DecoderError(f"{path}: scaled rotary frequencies are not implemented")
    layers, hidden, heads = field("block_count"), field("embedding_length"), field("attention.head_count")
    head_size = field("attention.key_length", hidden // heads)
    if field("rope.dimension_count", head_size) != head_size or field("attention.value_length", head_size) != head_size:
        raise DecoderError(f"{path}: heads that are rotated in part, or with values of another size, are not implemented")
    every = field("attention.sliding_window_pattern", GEMMA3_GLOBAL_EVERY) if architecture == "gemma3" else layers + 1
    windows = [0 if (i + 1) % every == 0 else field("attention.sliding_window", 0) for i in range(layers)]
    traits = _traits(architecture, hidden, float(field("rope.freq_base", 10000.0)), windows)

    def tensor(name):
        found = tensors[gguf_name(name, traits["has_post_norms"])]
        values = gguf.quants.dequantize(found.data, found.tensor_type).astype(np.float32, copy=False)
        # llama.cpp stores the two halves of a rotated pair side by side for this architecture, checkpoints half a head apart.
        if architecture == "llama" and re.search(r"\.[qk]_proj\.", name):
            values = values.reshape(-1, head_size // 2, 2, *values.shape[1:]).swapaxes(1, 2).reshape(values.shape)
        return values

    return Decoder(
        architecture=architecture, layers=layers, hidden_size=hidden, feed_forward_size=field("feed_forward_length"), heads=heads,
        kv_heads=field("attention.head_count_kv", heads), head_size=head_size, vocabulary=int(tensors["token_embd.weight"].shape[1]),
        context=field("context_length"), epsilon=float(field("attention.layer_norm_rms_epsilon")),
        has_attention_bias="blk.0.attn_q.bias" in tensors, is_tied="output.weight" not in tensors, tensor=tensor, **traits)


# --- safetensors

_SAFETENSORS_TYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2"}


def _open_safetensors(folder: Path) -> Decoder:
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DecoderError(f"{folder / 'config.json'}: {error}") from None
    kind = config.get("model_type", "")
    architecture = {"gemma3_text": "gemma3", "mistral": "llama"}.get(kind, kind)
    if architecture not in ARCHITECTURES:
        raise DecoderError(f"{folder}: the architecture '{kind}' is not one of {', '.join(ARCHITECTURES)}")
    rope = config.get("rope_parameters") or {}  # of one kind of layers, or of each by its name
    rope = rope.get("full_attention", rope)
    if config.get("rope_scaling") or rope.get("rope_type", "default") != "default":
        raise DecoderError(f"{folder}: scaled rotary frequencies are not implemented")
    found = _find_tensors(folder)
    layers, hidden, heads = config["num_hidden_layers"], config["hidden_size"], config["num_attention_heads"]
    head_size = config.get("head_dim") or hidden // heads
    is_gemma = architecture == "gemma3"
    if is_gemma and config.get("query_pre_attn_scalar", head_size) != head_size:
        raise DecoderError(f"{folder}: attention with another scale than its heads' size is not implemented")
    if kind.startswith("qwen") and config.get("use_sliding_window", False):
        raise DecoderError(f"{folder}: use_sliding_window is not implemented for {kind}")
    # Qwen's configurations name a window that is not used.
    window = 0 if kind.startswith("qwen") else config.get("sliding_window") or 0
    every = config.get("sliding_window_pattern", GEMMA3_GLOBAL_EVERY) if is_gemma else layers + 1
    kinds = config.get("layer_types") or ["full_attention" if (i + 1) % every == 0 else "sliding_attention" for i in range(layers)]
    traits = _traits(architecture, hidden, float(rope.get("rope_theta") or config.get("rope_theta", 10000.0)),
                     [0 if layer == "full_attention" else window for layer in kinds])

    def tensor(name):
        file, offset, dtype, shape = found[name]
        values = np.memmap(file, np.dtype(_SAFETENSORS_TYPES[dtype]), "r", offset, tuple(shape))
        if dtype == "BF16":
            values = (values.astype(np.uint32) << 16).view(np.float32)
        values = values.astype(np.float32, copy=False)
        return values + np.float32(1) if is_gemma and name.endswith("norm.weight") else values

    return Decoder(
        architecture=architecture, layers=layers, hidden_size=hidden, feed_forward_size=config["intermediate_size"], heads=heads,
        kv_heads=config.get("num_key_value_heads") or heads, head_size=head_size, vocabulary=found["model.embed_tokens.weight"][3][0],
        context=config["max_position_embeddings"], epsilon=float(config.get("rms_norm_eps", 1e-6)),
        has_attention_bias="model.layers.0.self_attn.q_proj.bias" in found, is_tied="lm_head.weight" not in found, tensor=tensor,
        **traits)


def _find_tensors(folder: Path) -> dict:
    """File, offset, type and shape of each tensor, by its name."""
    found = {}
    for file in sorted(folder.glob("*.safetensors")):
        with file.open("rb") as stream:
            size = int.from_bytes(stream.read(8), "little")
            header = json.loads(stream.read(size))
        for name, entry in header.items():
            if name != "__metadata__":
                found[name] = (file, 8 + size + entry["data_offsets"][0], entry["dtype"], entry["shape"])
    if "model.embed_tokens.weight" not in found:
        raise DecoderError(f"{folder}: no *.safetensors with model.embed_tokens.weight")
    return found
