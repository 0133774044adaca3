"""Small decoders and their tokenizers in GGUF files, laid out as llama.cpp does."""

import gguf
import numpy as np
from tiny_decoders import CONTEXT, EPSILON, FEED_FORWARD, HEAD_SIZE, HEADS, HIDDEN, KV_HEADS, LAYERS

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, BYTE = 1, 2, 3, 4, 6
NAMES = {
    "model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output", "model.layers": "blk",
    "input_layernorm": "attn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output", "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm", "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down", "pre_feedforward_layernorm": "ffn_norm",
    "post_feedforward_layernorm": "post_ffw_norm",
}


def gguf_name(name, is_gemma):
    names = NAMES | {"post_attention_layernorm": "post_attention_norm" if is_gemma else "ffn_norm"}
    for theirs, ours in names.items():
        name = name.replace(theirs, ours)
    return name


def save_gguf(decoder, path, tokenizer=None, kind_of_blocks=None):
    """Writes a TinyDecoder, its matrices in blocks of a type if that is given. `tokenizer` has the values of llama.cpp's keys behind
    `tokenizer.`."""
    kind = {"gemma3_text": "gemma3", "mistral": "llama"}.get(decoder.kind, decoder.kind)
    writer = gguf.GGUFWriter(path, kind)
    writer.add_block_count(LAYERS)
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(HIDDEN)
    writer.add_feed_forward_length(FEED_FORWARD)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_key_length(HEAD_SIZE)
    writer.add_value_length(HEAD_SIZE)
    writer.add_layer_norm_rms_eps(EPSILON)
    writer.add_rope_freq_base(decoder.traits.get("rope_theta", 10000.0))
    if decoder.windows()[0]:
        writer.add_sliding_window(decoder.windows()[0])
    if "sliding_window_pattern" in decoder.traits:
        writer.add_sliding_window_pattern(decoder.traits["sliding_window_pattern"])
    for name, value in (tokenizer or {}).items():
        add = {str: writer.add_string, bool: writer.add_bool, int: writer.add_uint32, list: writer.add_array}[type(value)]
        add(f"tokenizer.{name}", value)
    for name, values in decoder.weights.items():
        if decoder.is_gemma and name.endswith("norm.weight"):
            values = values + np.float32(1)
        if kind == "llama" and ("q_proj" in name or "k_proj" in name):  # the two of a rotated pair side by side
            values = values.reshape(-1, 2, HEAD_SIZE // 2, *values.shape[1:]).swapaxes(1, 2).reshape(values.shape)
        if kind_of_blocks and values.ndim == 2 and values.shape[1] % 32 == 0:
            values = gguf.quants.quantize(np.ascontiguousarray(values), kind_of_blocks)
            writer.add_tensor(gguf_name(name, decoder.is_gemma), values, raw_dtype=kind_of_blocks)
            continue
        writer.add_tensor(gguf_name(name, decoder.is_gemma), np.ascontiguousarray(values))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def byte_characters():
    """The character by which byte-level BPE writes each byte."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    return [chr(b if b in printable else 256 + b - sum(p < b for p in printable)) for b in range(256)]


def byte_level_tokenizer():
    """Bytes, a few merges, two special tokens."""
    merges = ["t h", "th e", "\u0120 the", "i n", "' s", "\u0120 i"]
    tokens = byte_characters() + ["<s>", "</s>"] + [merge.replace(" ", "") for merge in merges]
    return {"ggml.model": "gpt2", "ggml.pre": "smollm", "ggml.tokens": tokens, "ggml.merges": merges,
            "ggml.token_type": [NORMAL] * 256 + [CONTROL] * 2 + [NORMAL] * len(merges), "ggml.bos_token_id": 256,
            "ggml.eos_token_id": 257, "ggml.add_bos_token": False, "chat_template": "{{ messages }}"}


def sentence_piece_tokenizer():
    """Pieces with scores, bytes for what no piece has, symbols of the user, and a token that begins each text."""
    pieces = {"\u2581": -3, "t": -4, "h": -5, "e": -6, "a": -7, "n": -8, "1": -9, "\u2581t": -1, "th": -0.5, "the": -2, "he": -1.5,
              "\u2581the": -2.5, "an": -1.2, "\u2581an": -3.5, "en": -1.1, "\n": -10}
    tokens = ["<pad>", "</s>", "<s>", "<unk>"] + [f"<0x{b:02X}>" for b in range(256)] + list(pieces) + ["\n\n", "<b>"]
    types = [CONTROL] * 3 + [UNKNOWN] + [BYTE] * 256 + [NORMAL] * len(pieces) + [USER_DEFINED] * 2
    scores = [-1000.0] * 260 + [float(score) for score in pieces.values()] + [-1000.0] * 2
    return {"ggml.model": "llama", "ggml.tokens": tokens, "ggml.scores": scores, "ggml.token_type": types, "ggml.bos_token_id": 2,
            "ggml.eos_token_id": 1, "ggml.unknown_token_id": 3, "ggml.add_bos_token": True, "ggml.add_space_prefix": False}
