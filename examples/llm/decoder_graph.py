"""Writes a decoder as ONNX, in one of the three forms in which decoders are exported.

plain      operators of opset 17, as torch and Optimum export
genai      com.microsoft GroupQueryAttention and SkipSimplifiedLayerNormalization, as ONNX Runtime GenAI's builder writes
attention  RMSNormalization, RotaryEmbedding and Attention of opset 23

All have the inputs `input_ids`, `attention_mask` and `past_key_values.N.key/value`, all but genai `position_ids`, and the outputs
`logits` and `present.N.key/value`. Weights go to FORM.onnx.data one by one, so that memory holds two of them at most.
"""

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper

from decoder_weights import Decoder

ALIGNMENT = 4096  # of each weight in the file, so that it can be mapped
INLINE_BYTES = 1024  # smaller constants stay in the .onnx file
ALL_THE_REST = 2**62


class Graph:
    """Nodes, constants and values of a model, whose large constants are written at once."""

    def __init__(self, path: Path):
        self.path = path
        self.data_path = path.with_name(path.name + ".data")
        self.data = self.data_path.open("wb")
        self.nodes, self.constants, self.inputs, self.outputs = [], {}, [], []

    def initializer(self, name: str, values: np.ndarray) -> str:
        values = np.ascontiguousarray(values)
        if values.nbytes < INLINE_BYTES:
            self.constants[name] = onnx.numpy_helper.from_array(values, name)
            return name
        self.data.write(b"\0" * (-self.data.tell() % ALIGNMENT))
        tensor = TensorProto(name=name, dims=values.shape, data_type=helper.np_dtype_to_tensor_dtype(values.dtype),
                             data_location=TensorProto.EXTERNAL)
        for key, value in (("location", self.data_path.name), ("offset", self.data.tell()), ("length", values.nbytes)):
            tensor.external_data.add(key=key, value=str(value))
        values.tofile(self.data)
        self.constants[name] = tensor
        return name

    def constant(self, name: str, values, kind=np.int64) -> str:
        return name if name in self.constants else self.initializer(name, np.array(values, kind))

    def node(self, operator: str, inputs, name: str, outputs=None, domain: str = "", **attributes) -> str:
        outputs = outputs or [name + "_output_0"]
        self.nodes.append(helper.make_node(operator, inputs, outputs, name=name, domain=domain, **attributes))
        return outputs[0]

    def input(self, name: str, kind: int, shape) -> None:
        self.inputs.append(helper.make_tensor_value_info(name, kind, shape))

    def output(self, name: str, shape) -> None:
        self.outputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, shape))

    def save(self, opsets: dict[str, int], ir_version: int) -> None:
        self.data.close()
        graph = helper.make_graph(self.nodes, "main_graph", self.inputs, self.outputs, list(self.constants.values()))
        imports = [helper.make_opsetid(domain, version) for domain, version in opsets.items()]
        onnx.save(helper.make_model(graph, ir_version=ir_version, producer_name="make_decoder", opset_imports=imports), self.path)


class Form:
    """The common parts of the three forms; each derived class has the operators of one of them."""

    opsets: dict[str, int]
    ir_version: int

    def __init__(self, decoder: Decoder, path: Path):
        self.decoder = decoder
        self.graph = Graph(path)
        self.constants = {"zero": [0], "one": [1], "two": [2], "minus_one": [-1], "one_scalar": 1}

    def const(self, name: str) -> str:
        return self.graph.constant(name, self.constants[name])

    def node(self, operator, inputs, name, outputs=None, domain="", **attributes) -> str:
        inputs = [self.const(i) if i in self.constants else i for i in inputs]
        return self.graph.node(operator, inputs, name, outputs, domain, **attributes)

    def write(self) -> None:
        decoder, graph = self.decoder, self.graph
        graph.input("input_ids", TensorProto.INT64, ["batch_size", "sequence_length"])
        graph.input("attention_mask", TensorProto.INT64, ["batch_size", "total_sequence_length"])
        self.prepare()
        table = graph.initializer("model.embed_tokens.weight", decoder.tensor("model.embed_tokens.weight"))
        x = self.node("Gather", [table, "input_ids"], "/model/embed_tokens/Gather")
        if decoder.embedding_scale != 1:
            scale = graph.constant("embedding_scale", decoder.embedding_scale, np.float32)
            x = self.node("Mul", [x, scale], "/model/embed_tokens/Mul")
        branch = None
        for i in range(decoder.layers):
            x, branch = self.layer(i, x, branch)
        x, _ = self.add_norm(x, branch, "model.norm", "/model/norm", is_last=True)
        self.head(x)
        graph.outputs.insert(0, helper.make_tensor_value_info(
            "logits", TensorProto.FLOAT, ["batch_size", "sequence_length", decoder.vocabulary]))
        graph.save(self.opsets, self.ir_version)

    def layer(self, i: int, x: str, branch: str | None) -> tuple[str, str]:
        """The sum before its feed-forward is added, and the feed-forward's output. `branch` is that of the layer before."""
        decoder, weights, path = self.decoder, f"model.layers.{i}", f"/model/layers.{i}"
        for kind in ("key", "value"):
            shape = ["batch_size", decoder.kv_heads, "past_sequence_length", decoder.head_size]
            self.graph.input(f"past_key_values.{i}.{kind}", TensorProto.FLOAT, shape)
            self.graph.output(f"present.{i}.{kind}", [*shape[:2], "total_sequence_length", shape[3]])
        normed, x = self.add_norm(x, branch, f"{weights}.input_layernorm", f"{path}/input_layernorm")
        q, k, v = (self.linear(normed, f"{weights}.self_attn.{c}_proj", f"{path}/self_attn/{c}_proj", decoder.has_attention_bias)
                   for c in "qkv")
        attended = self.attention(i, q, k, v)
        branch = self.linear(attended, f"{weights}.self_attn.o_proj", f"{path}/self_attn/o_proj")
        before = "post_attention_layernorm"
        if decoder.has_post_norms:
            branch = self.norm(branch, f"{weights}.post_attention_layernorm", f"{path}/post_attention_layernorm")
            before = "pre_feedforward_layernorm"
        normed, x = self.add_norm(x, branch, f"{weights}.{before}", f"{path}/{before}")
        gate = self.linear(normed, f"{weights}.mlp.gate_proj", f"{path}/mlp/gate_proj")
        up = self.linear(normed, f"{weights}.mlp.up_proj", f"{path}/mlp/up_proj")
        activated = self.gelu_tanh(gate, f"{path}/mlp/act_fn") if decoder.activation == "gelu_tanh" else self.node(
            "Mul", [gate, self.node("Sigmoid", [gate], f"{path}/mlp/act_fn/Sigmoid")], f"{path}/mlp/act_fn/Mul")
        product = self.node("Mul", [activated, up], f"{path}/mlp/Mul")
        branch = self.linear(product, f"{weights}.mlp.down_proj", f"{path}/mlp/down_proj")
        if decoder.has_post_norms:
            branch = self.norm(branch, f"{weights}.post_feedforward_layernorm", f"{path}/post_feedforward_layernorm")
        return x, branch

    def linear(self, x: str, weights: str, path: str, has_bias: bool = False) -> str:
        weight = self.graph.initializer(f"{path}.weight", self.decoder.tensor(f"{weights}.weight").T)
        x = self.node("MatMul", [x, weight], f"{path}/MatMul")
        if has_bias:
            x = self.node("Add", [x, self.graph.initializer(f"{path}.bias", self.decoder.tensor(f"{weights}.bias"))], f"{path}/Add")
        return x

    def add_norm(self, x, branch, weights, path, is_last=False) -> tuple[str, str]:
        """The normalized sum, and the sum."""
        if branch is not None:
            x = self.node("Add", [x, branch], path + "/residual")
        return self.norm(x, weights, path), x

    def head(self, x: str) -> None:
        if self.decoder.is_tied:  # as exporters write a table that is shared
            weight = self.node("Transpose", ["model.embed_tokens.weight"], "/lm_head/Transpose", perm=[1, 0])
        else:
            weight = self.graph.initializer("lm_head.weight", self.decoder.tensor("lm_head.weight").T)
        self.node("MatMul", [x, weight], "/lm_head/MatMul", ["logits"])

    def angles(self, base: float) -> np.ndarray:
        """Rotary angles, [context, head size / 2]."""
        size = self.decoder.head_size
        return np.arange(self.decoder.context)[:, None] / base ** (np.arange(0, size, 2) / size)

    def rotary_tables(self, base: float, repeats: int = 1) -> tuple[str, str]:
        """The names of the cosines and sines, which are written the first time."""
        bases = list(dict.fromkeys(self.decoder.rope_bases))
        suffix = "" if base == bases[0] else f"_{bases.index(base)}"
        names = f"cos_cache{suffix}", f"sin_cache{suffix}"
        if names[0] not in self.graph.constants:
            angles = np.tile(self.angles(base), (1, repeats))
            self.graph.initializer(names[0], np.cos(angles).astype(np.float32))
            self.graph.initializer(names[1], np.sin(angles).astype(np.float32))
        return names

    def prepare(self) -> None:
        raise NotImplementedError

    def norm(self, x: str, weights: str, path: str) -> str:
        raise NotImplementedError

    def gelu_tanh(self, x: str, path: str) -> str:
        raise NotImplementedError

    def attention(self, i: int, q: str, k: str, v: str) -> str:
        raise NotImplementedError
