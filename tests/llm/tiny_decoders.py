"""Small random decoders of each architecture: their files, and a forward pass in NumPy that shares nothing with the example's graphs."""

import json

import numpy as np

VOCABULARY = 300
CONTEXT = 64
BEGIN, END = 256, 257  # special tokens, behind those of the bytes
HIDDEN, FEED_FORWARD, LAYERS, HEADS, KV_HEADS, HEAD_SIZE, WINDOW = 32, 48, 3, 4, 2, 16, 5
EPSILON = 1e-6

# By model_type of config.json: what is different. gemma3's second layer of two sees all tokens.
ARCHITECTURES = {
    "llama": {},
    "mistral": {"sliding_window": WINDOW},
    "qwen2": {"bias": True, "use_sliding_window": False, "sliding_window": WINDOW},
    "qwen3": {"head_norms": True},
    "gemma3_text": {"head_norms": True, "post_norms": True, "sliding_window": WINDOW, "sliding_window_pattern": 2,
                    "rope_theta": 1e6, "query_pre_attn_scalar": HEAD_SIZE, "tied": True},
}


class TinyDecoder:
    """Random weights by their names in Hugging Face's checkpoints."""

    def __init__(self, kind, seed=1):
        self.kind, self.traits = kind, ARCHITECTURES[kind]
        self.random = np.random.default_rng(seed)
        self.weights = {"model.embed_tokens.weight": self.values(VOCABULARY, HIDDEN, scale=1), "model.norm.weight": self.norm(HIDDEN)}
        if not self.traits.get("tied"):
            self.weights["lm_head.weight"] = self.values(VOCABULARY, HIDDEN)
        for i in range(LAYERS):
            layer = {}
            shapes = {"self_attn.q_proj": (HEADS * HEAD_SIZE, HIDDEN), "self_attn.k_proj": (KV_HEADS * HEAD_SIZE, HIDDEN),
                      "self_attn.v_proj": (KV_HEADS * HEAD_SIZE, HIDDEN), "self_attn.o_proj": (HIDDEN, HEADS * HEAD_SIZE),
                      "mlp.gate_proj": (FEED_FORWARD, HIDDEN), "mlp.up_proj": (FEED_FORWARD, HIDDEN), "mlp.down_proj": (HIDDEN, FEED_FORWARD)}
            for name, (outputs, inputs) in shapes.items():
                layer[f"{name}.weight"] = self.values(outputs, inputs)
                if self.traits.get("bias") and name[-6:] in ("q_proj", "k_proj", "v_proj"):
                    layer[f"{name}.bias"] = self.values(outputs, scale=0.5)
            names = ["input_layernorm", "post_attention_layernorm"]
            if self.traits.get("post_norms"):
                names += ["pre_feedforward_layernorm", "post_feedforward_layernorm"]
            layer |= {f"{name}.weight": self.norm(HIDDEN) for name in names}
            if self.traits.get("head_norms"):
                layer |= {f"self_attn.{c}_norm.weight": self.norm(HEAD_SIZE) for c in "qk"}
            self.weights |= {f"model.layers.{i}.{name}": values for name, values in layer.items()}

    @property
    def is_gemma(self):
        return self.kind == "gemma3_text"

    def values(self, *shape, scale=None):
        return (self.random.standard_normal(shape) * (scale or shape[-1] ** -0.5)).astype(np.float32)

    def norm(self, size):
        """Around 1; Gemma's checkpoints store the difference to it."""
        return (self.random.standard_normal(size) * 0.2 + (0 if self.is_gemma else 1)).astype(np.float32)

    def windows(self):
        window = 0 if self.kind == "qwen2" else self.traits.get("sliding_window", 0)
        return [0 if self.is_gemma and i % 2 == 1 else window for i in range(LAYERS)]

    def save_checkpoint(self, folder, is_bfloat16=False):
        """Writes config.json and model.safetensors, without the package of that name; BF16 cuts what follows its seven bits."""
        folder.mkdir(parents=True)
        config = {"model_type": self.kind, "hidden_size": HIDDEN, "intermediate_size": FEED_FORWARD, "num_hidden_layers": LAYERS,
                  "num_attention_heads": HEADS, "num_key_value_heads": KV_HEADS, "head_dim": HEAD_SIZE, "rms_norm_eps": EPSILON,
                  "max_position_embeddings": CONTEXT, "rope_theta": 10000.0, "bos_token_id": BEGIN, "eos_token_id": END} | self.traits
        (folder / "config.json").write_text(json.dumps(config))
        stored = {name: (values.view(np.uint32) >> 16).astype(np.uint16) if is_bfloat16 else values for name, values in self.weights.items()}
        header, offset = {}, 0
        for name, values in stored.items():
            header[name] = {"dtype": "BF16" if is_bfloat16 else "F32", "shape": values.shape, "data_offsets": [offset, offset + values.nbytes]}
            offset += values.nbytes
        head = json.dumps(header).encode()
        with (folder / "model.safetensors").open("wb") as stream:
            stream.write(len(head).to_bytes(8, "little") + head)
            for values in stored.values():
                stream.write(values.tobytes())
        return folder

    def logits(self, ids):
        """[tokens, vocabulary], in double precision, one token and one head at a time."""
        weights = {name: values.astype(np.float64) for name, values in self.weights.items()}
        if self.is_gemma:
            weights |= {name: values + 1 for name, values in weights.items() if name.endswith("norm.weight")}
        x = weights["model.embed_tokens.weight"][ids] * (HIDDEN**0.5 if self.is_gemma else 1)
        for i, window in enumerate(self.windows()):
            w = {name.removeprefix(f"model.layers.{i}."): values for name, values in weights.items()}
            attended = self.attend(w, rms(x, w["input_layernorm.weight"]), window)
            if self.is_gemma:
                attended = rms(attended, w["post_attention_layernorm.weight"])
            x = x + attended
            h = rms(x, w["pre_feedforward_layernorm.weight" if self.is_gemma else "post_attention_layernorm.weight"])
            gate = h @ w["mlp.gate_proj.weight"].T
            if self.is_gemma:
                gate = 0.5 * gate * (1 + np.tanh((2 / np.pi) ** 0.5 * (gate + 0.044715 * gate**3)))
            else:
                gate = gate / (1 + np.exp(-gate))
            h = (gate * (h @ w["mlp.up_proj.weight"].T)) @ w["mlp.down_proj.weight"].T
            x = x + (rms(h, w["post_feedforward_layernorm.weight"]) if self.is_gemma else h)
        head = weights.get("lm_head.weight", weights["model.embed_tokens.weight"])
        return rms(x, weights["model.norm.weight"]) @ head.T

    def attend(self, w, x, window):
        base = self.traits.get("rope_theta", 1e4)
        if self.is_gemma and window:
            base = 1e4
        result = np.zeros((len(x), HEADS * HEAD_SIZE))
        for head in range(HEADS):
            q, k, v = (x @ w[f"self_attn.{c}_proj.weight"].T + w.get(f"self_attn.{c}_proj.bias", 0) for c in "qkv")
            shared = head // (HEADS // KV_HEADS)
            q, k, v = (y[:, n * HEAD_SIZE:(n + 1) * HEAD_SIZE] for y, n in ((q, head), (k, shared), (v, shared)))
            if "self_attn.q_norm.weight" in w:
                q, k = rms(q, w["self_attn.q_norm.weight"]), rms(k, w["self_attn.k_norm.weight"])
            q, k = rotate(q, base), rotate(k, base)
            for t in range(len(x)):
                first = max(0, t + 1 - window) if window else 0
                scores = np.exp(k[first:t + 1] @ q[t] * HEAD_SIZE**-0.5)
                result[t, head * HEAD_SIZE:(head + 1) * HEAD_SIZE] = scores @ v[first:t + 1] / scores.sum()
        return result @ w["self_attn.o_proj.weight"].T


def rms(x, weight):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + EPSILON) * weight


def rotate(x, base):
    """Turns each pair (x[i], x[i + half]) as a complex number."""
    half = HEAD_SIZE // 2
    turned = (x[:, :half] + 1j * x[:, half:]) * np.exp(1j * np.outer(np.arange(len(x)), base ** (-np.arange(half) / half)))
    return np.concatenate([turned.real, turned.imag], 1)


def save_tokenizer(folder, characters):
    """Writes a byte-level tokenizer of 256 bytes and two special tokens, as a checkpoint has it."""
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    special = [{"id": BEGIN + i, "content": name, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
                "special": True} for i, name in enumerate(("<s>", "</s>"))]
    model = {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None, "end_of_word_suffix": None,
             "fuse_unk": False, "byte_fallback": False, "merges": [],
             "vocab": {character: i for i, character in enumerate(characters)} | {"<s>": BEGIN, "</s>": END}}
    (folder / "tokenizer.json").write_text(json.dumps({
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": special, "normalizer": None, "pre_tokenizer": level,
        "post_processor": None, "decoder": level, "model": model}))
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "GPT2Tokenizer", "bos_token": "<s>", "eos_token": "</s>"}))
