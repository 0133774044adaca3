"""The three forms of a decoder's graph: the operators that norms, activations and attention are made of."""

import numpy as np
from onnx import TensorProto

from decoder_graph import ALL_THE_REST, Form


class MaskedForm(Form):
    """A form whose attention reads a mask and positions: plain and attention."""

    def prepare(self) -> None:
        self.graph.input("position_ids", TensorProto.INT64, ["batch_size", "sequence_length"])
        self.constants |= {
            "zero_scalar": 0, "axes12": [1, 2], "size": [self.decoder.head_size],
            f"shape_{self.decoder.heads}": [0, 0, self.decoder.heads, self.decoder.head_size],
            f"shape_{self.decoder.kv_heads}": [0, 0, self.decoder.kv_heads, self.decoder.head_size],
            "shape_h": [0, 0, self.decoder.heads * self.decoder.head_size],
            "half": [self.decoder.head_size // 2], "end": [ALL_THE_REST], "last": [3],
            "kv_heads": [self.decoder.kv_heads], "repeats": [self.decoder.heads // self.decoder.kv_heads], "heads": [self.decoder.heads],
        }
        ids = self.node("Shape", ["input_ids"], "/Shape")
        self.batch = self.node("Slice", [ids, "zero", "one"], "/Slice")
        length = self.node("Slice", [ids, "one", "two"], "/Slice_1")
        self.total = self.node("Slice", [self.node("Shape", ["attention_mask"], "/Shape_1"), "one", "two"], "/Slice_2")
        past = self.node("Sub", [self.total, length], "/Sub")
        total = self.node("Squeeze", [self.total, "zero"], "/Squeeze")
        keys = self.node("Range", ["zero_scalar", total, "one_scalar"], "/Range")
        queries = self.node("Range", [self.node("Squeeze", [past, "zero"], "/Squeeze_1"), total, "one_scalar"], "/Range_1")
        queries = self.node("Unsqueeze", [queries, "one"], "/Unsqueeze")
        causal = self.node("LessOrEqual", [keys, queries], "/LessOrEqual")
        present = self.node("Cast", ["attention_mask"], "/Cast", to=TensorProto.BOOL)
        present = self.node("Unsqueeze", [present, "axes12"], "/Unsqueeze_1")
        allowed = self.node("And", [causal, present], "/And")
        self.masks = {}
        for window in sorted(set(self.decoder.windows)):
            suffix = f"_{window}" if window else ""
            seen = allowed
            if window:
                oldest = self.node("Sub", [queries, self.graph.constant(f"window_{window}", [window])], f"/window{suffix}/Sub")
                near = self.node("Greater", [keys, oldest], f"/window{suffix}/Greater")
                seen = self.node("And", [allowed, near], f"/window{suffix}/And")
            zero, lowest = self.float("zero_f", 0), self.float("lowest", np.finfo(np.float32).min)
            self.masks[window] = self.node("Where", [seen, zero, lowest], f"/Where{suffix}")

    def float(self, name: str, value: float) -> str:
        return self.graph.constant(name, value, np.float32)

    def split_heads(self, x: str, count: int, path: str, norm: str | None) -> str:
        """[batch, heads, sequence, head size], each head normalized."""
        x = self.node("Reshape", [x, f"shape_{count}"], f"{path}/Reshape")
        if norm:
            x = self.norm(x, norm, path.removesuffix("q").removesuffix("k") + norm.rpartition(".")[2])
        return self.node("Transpose", [x], f"{path}/Transpose", perm=[0, 2, 1, 3])

    def split_all_heads(self, i, q, k, v):
        path, weights = f"/model/layers.{i}/self_attn", f"model.layers.{i}.self_attn"
        norms = (f"{weights}.q_norm", f"{weights}.k_norm") if self.decoder.has_head_norms else (None, None)
        return (self.split_heads(q, self.decoder.heads, f"{path}/q", norms[0]),
                self.split_heads(k, self.decoder.kv_heads, f"{path}/k", norms[1]),
                self.split_heads(v, self.decoder.kv_heads, f"{path}/v", None))

    def join_heads(self, x: str, path: str, name: str) -> str:
        x = self.node("Transpose", [x], f"{path}/{name}", perm=[0, 2, 1, 3])
        return self.node("Reshape", [x, "shape_h"], f"{path}/Reshape")


class Plain(MaskedForm):
    opsets = {"": 17}
    ir_version = 8

    def prepare(self) -> None:
        super().prepare()
        self.rotary = {}
        for number, base in enumerate(dict.fromkeys(self.decoder.rope_bases)):
            path = f"/rotary_{number}" if number else "/rotary"
            self.rotary[base] = [
                self.node("Unsqueeze", [self.node("Gather", [table, "position_ids"], f"{path}/Gather{suffix}"), "one"],
                          f"{path}/Unsqueeze{suffix}")
                for table, suffix in zip(self.rotary_tables(base, repeats=2), ("", "_1"))]

    def norm(self, x, weights, path):
        scale = self.graph.initializer(f"{path}.weight", self.decoder.tensor(f"{weights}.weight"))
        squares = self.node("Pow", [x, self.float("two_f", 2)], f"{path}/Pow")
        mean = self.node("ReduceMean", [squares], f"{path}/ReduceMean", axes=[-1])
        root = self.node("Sqrt", [self.node("Add", [mean, self.float("eps", self.decoder.epsilon)], f"{path}/Add")], f"{path}/Sqrt")
        reciprocal = self.node("Div", [self.float("one_f", 1), root], f"{path}/Div")
        return self.node("Mul", [scale, self.node("Mul", [x, reciprocal], f"{path}/Mul")], f"{path}/Mul_1")

    def gelu_tanh(self, x, path):
        cube = self.node("Pow", [x, self.float("three_f", 3)], f"{path}/Pow")
        bent = self.node("Mul", [cube, self.float("gelu_cube", 0.044715)], f"{path}/Mul")
        bent = self.node("Add", [x, bent], f"{path}/Add")
        inner = self.node("Mul", [bent, self.float("gelu_slope", np.sqrt(2 / np.pi))], f"{path}/Mul_1")
        gate = self.node("Add", [self.node("Tanh", [inner], f"{path}/Tanh"), self.float("one_f", 1)], f"{path}/Add_1")
        return self.node("Mul", [self.node("Mul", [x, self.float("half_f", 0.5)], f"{path}/Mul_2"), gate], f"{path}/Mul_3")

    def rotate(self, x, base, path):
        cosines, sines = self.rotary[base]
        first = self.node("Slice", [x, "zero", "half", "last"], f"{path}/Slice")
        second = self.node("Slice", [x, "half", "end", "last"], f"{path}/Slice_1")
        turned = self.node("Concat", [self.node("Neg", [second], f"{path}/Neg"), first], f"{path}/Concat", axis=-1)
        kept, turned = self.node("Mul", [x, cosines], f"{path}/Mul"), self.node("Mul", [turned, sines], f"{path}/Mul_1")
        return self.node("Add", [kept, turned], f"{path}/Add")

    def repeat(self, x, path):
        """Keys or values, once for each head of queries."""
        if self.decoder.heads == self.decoder.kv_heads:
            return x
        x = self.node("Unsqueeze", [x, "two"], f"{path}/Unsqueeze")
        shape = self.node("Concat", [self.batch, "kv_heads", "repeats", self.total, "size"], f"{path}/Concat", axis=0)
        x = self.node("Expand", [x, shape], f"{path}/Expand")
        shape = self.node("Concat", [self.batch, "heads", self.total, "size"], f"{path}/Concat_1", axis=0)
        return self.node("Reshape", [x, shape], f"{path}/Reshape")

    def attention(self, i, q, k, v):
        path, base = f"/model/layers.{i}/self_attn", self.decoder.rope_bases[i]
        q, k, v = self.split_all_heads(i, q, k, v)
        q, k = self.rotate(q, base, f"{path}/q_rotary"), self.rotate(k, base, f"{path}/k_rotary")
        k = self.node("Concat", [f"past_key_values.{i}.key", k], f"{path}/Concat", [f"present.{i}.key"], axis=2)
        v = self.node("Concat", [f"past_key_values.{i}.value", v], f"{path}/Concat_1", [f"present.{i}.value"], axis=2)
        keys = self.node("Transpose", [self.repeat(k, f"{path}/repeat_k")], f"{path}/Transpose", perm=[0, 1, 3, 2])
        scores = self.node("MatMul", [q, keys], f"{path}/MatMul")
        scores = self.node("Mul", [scores, self.float("scale", self.decoder.attention_scale)], f"{path}/Mul")
        scores = self.node("Add", [scores, self.masks[self.decoder.windows[i]]], f"{path}/Add")
        shares = self.node("Softmax", [scores], f"{path}/Softmax", axis=-1)
        attended = self.node("MatMul", [shares, self.repeat(v, f"{path}/repeat_v")], f"{path}/MatMul_1")
        return self.join_heads(attended, path, "Transpose_1")


class Attention(MaskedForm):
    opsets = {"": 23}
    ir_version = 11

    def norm(self, x, weights, path):
        scale = self.graph.initializer(f"{path}.weight", self.decoder.tensor(f"{weights}.weight"))
        return self.node("RMSNormalization", [x, scale], path, axis=-1, epsilon=self.decoder.epsilon)

    def gelu_tanh(self, x, path):
        return self.node("Gelu", [x], f"{path}/Gelu", approximate="tanh")

    def attention(self, i, q, k, v):
        path = f"/model/layers.{i}/self_attn"
        q, k, v = self.split_all_heads(i, q, k, v)
        tables = self.rotary_tables(self.decoder.rope_bases[i])
        q, k = (self.node("RotaryEmbedding", [x, *tables, "position_ids"], f"{path}/{c}_rotary") for x, c in ((q, "q"), (k, "k")))
        inputs = [q, k, v, self.masks[self.decoder.windows[i]], f"past_key_values.{i}.key", f"past_key_values.{i}.value"]
        outputs = [f"{path}/Attention_output_0", f"present.{i}.key", f"present.{i}.value"]
        attended = self.node("Attention", inputs, f"{path}/Attention", outputs, scale=self.decoder.attention_scale)
        return self.join_heads(attended, path, "Transpose")


class Genai(Form):
    opsets = {"": 17, "com.microsoft": 1}
    ir_version = 8

    def prepare(self) -> None:
        total = self.node("ReduceSum", ["attention_mask", "one"], "/attn_mask/ReduceSum")
        self.lengths = self.node("Cast", [self.node("Sub", [total, "one"], "/attn_mask/Sub")], "/attn_mask/Cast", to=TensorProto.INT32)
        shape = self.node("Shape", ["attention_mask"], "/attn_mask/Shape")
        longest = self.node("Gather", [shape, "one_scalar"], "/attn_mask/Gather", axis=0)
        self.longest = self.node("Cast", [longest], "/attn_mask/Cast_1", to=TensorProto.INT32)
        self.constants["by_head"] = [0, -1, self.decoder.head_size]
        for count in (self.decoder.heads, self.decoder.kv_heads):
            self.constants[f"joined_{count}"] = [0, -1, count * self.decoder.head_size]

    def norm(self, x, weights, path):
        scale = self.graph.initializer(f"{path}.weight", self.decoder.tensor(f"{weights}.weight"))
        return self.node("SimplifiedLayerNormalization", [x, scale], path, axis=-1, epsilon=self.decoder.epsilon, stash_type=1)

    def add_norm(self, x, branch, weights, path, is_last=False):
        if branch is None:
            return self.norm(x, weights, path), x
        scale = self.graph.initializer(f"{path}.weight", self.decoder.tensor(f"{weights}.weight"))
        outputs = [f"{path}/output_0"] if is_last else [f"{path}/output_0", "", "", f"{path}/output_3"]
        self.node("SkipSimplifiedLayerNormalization", [x, branch, scale], path, outputs, "com.microsoft", epsilon=self.decoder.epsilon)
        return outputs[0], outputs[-1]

    def gelu_tanh(self, x, path):
        return self.node("FastGelu", [x], f"{path}/FastGelu", domain="com.microsoft")

    def head_norm(self, x, count, weights, path):
        x = self.node("Reshape", [x, "by_head"], f"{path}/Reshape_1")
        return self.node("Reshape", [self.norm(x, weights, path), f"joined_{count}"], f"{path}/Reshape_2")

    def attention(self, i, q, k, v):
        path, weights = f"/model/layers.{i}/self_attn", f"model.layers.{i}.self_attn"
        if self.decoder.has_head_norms:
            q = self.head_norm(q, self.decoder.heads, f"{weights}.q_norm", f"{path}/q_norm")
            k = self.head_norm(k, self.decoder.kv_heads, f"{weights}.k_norm", f"{path}/k_norm")
        inputs = [q, k, v, f"past_key_values.{i}.key", f"past_key_values.{i}.value", self.lengths, self.longest,
                  *self.rotary_tables(self.decoder.rope_bases[i])]
        outputs = [f"{path}/GroupQueryAttention/output_0", f"present.{i}.key", f"present.{i}.value"]
        window = {"local_window_size": self.decoder.windows[i]} if self.decoder.windows[i] else {}
        return self.node("GroupQueryAttention", inputs, f"{path}/GroupQueryAttention", outputs, "com.microsoft",
                         num_heads=self.decoder.heads, kv_num_heads=self.decoder.kv_heads, scale=self.decoder.attention_scale,
                         do_rotary=1, rotary_interleaved=0, **window)

    def head(self, x):
        # GenAI's builder writes a head of its own even where the table is shared.
        name = "model.embed_tokens.weight" if self.decoder.is_tied else "lm_head.weight"
        weight = self.graph.initializer("lm_head.weight", self.decoder.tensor(name).T)
        self.node("MatMul", [x, weight], "/lm_head/MatMul", ["logits"])


FORMS = {"plain": Plain, "genai": Genai, "attention": Attention}
