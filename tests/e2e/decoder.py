"""A small decoder as exporters write them: token ids, attention mask, positions and caches go in, logits and caches come out."""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

VOCABULARY, HIDDEN, HEADS, LAYERS, POSITIONS = 61, 32, 2, 2, 256
HEAD = HIDDEN // HEADS


def _value(name, kind, shape):
    return helper.make_tensor_value_info(name, kind, shape)


def make(seed=5):
    """Returns the model: learned positions, two layers of attention and a gated MLP, a head of its own. Opset 17."""
    rng = np.random.default_rng(seed)
    nodes, constants = [], {}

    def constant(name, value):
        constants[name] = np.asarray(value)
        return name

    def weight(name, *shape):
        return constant(name, (rng.standard_normal(shape) * 1.5 / np.sqrt(shape[0])).astype(np.float32))

    def node(kind, inputs, output, **attributes):
        nodes.append(helper.make_node(kind, inputs, [output], name=output, **attributes))
        return output

    split = constant("split", np.array([0, 0, HEADS, HEAD], np.int64))
    merge = constant("merge", np.array([0, 0, HIDDEN], np.int64))
    for name, number in (("zero", 0), ("one", 1), ("two", 2)):
        constant(name, np.array(number, np.int64))
    words = node("Gather", [weight("embed.weight", VOCABULARY, HIDDEN), "input_ids"], "words")
    x = node("Add", [words, node("Gather", [weight("positions.weight", POSITIONS, HIDDEN), "position_ids"], "places")], "x")
    # Position i sees j <= i: [N, 1, S, T].
    total = node("Gather", [node("Shape", ["attention_mask"], "mask_shape"), "one"], "total")
    keys = node("Range", ["zero", total, "one"], "keys")
    seen = node("LessOrEqual", [keys, node("Unsqueeze", ["position_ids", "two_axis"], "rows")], "seen")
    constant("two_axis", np.array([2], np.int64))
    constant("one_axis", np.array([1], np.int64))
    allowed = node("Unsqueeze", [seen, "one_axis"], "allowed")
    constant("minus", np.array(-1e9, np.float32))
    constant("none", np.array(0, np.float32))
    bias = node("Where", [allowed, "none", "minus"], "bias")
    constant("root", np.array(np.sqrt(HEAD), np.float32))
    outputs = [_value("logits", TensorProto.FLOAT, ["N", "S", VOCABULARY])]
    inputs = [_value(name, TensorProto.INT64, ["N", "T" if name == "attention_mask" else "S"])
              for name in ("input_ids", "attention_mask", "position_ids")]
    for i in range(LAYERS):
        parts = {}
        for part in "qkv":
            y = node("MatMul", [x, weight(f"l{i}.{part}.weight", HIDDEN, HIDDEN)], f"l{i}.{part}")
            y = node("Reshape", [y, split], f"l{i}.{part}.split")
            parts[part] = node("Transpose", [y], f"l{i}.{part}.heads", perm=[0, 2, 1, 3])
        for part, name in (("k", "key"), ("v", "value")):
            shape = ["N", HEADS, "P", HEAD]
            inputs.append(_value(f"past_key_values.{i}.{name}", TensorProto.FLOAT, shape))
            parts[part] = node("Concat", [f"past_key_values.{i}.{name}", parts[part]], f"present.{i}.{name}", axis=2)
            outputs.append(_value(f"present.{i}.{name}", TensorProto.FLOAT, ["N", HEADS, "T", HEAD]))
        turned = node("Transpose", [parts["k"]], f"l{i}.turned", perm=[0, 1, 3, 2])
        scores = node("Div", [node("MatMul", [parts["q"], turned], f"l{i}.scores"), "root"], f"l{i}.scaled")
        shares = node("Softmax", [node("Add", [scores, bias], f"l{i}.masked")], f"l{i}.shares", axis=-1)
        mixed = node("Transpose", [node("MatMul", [shares, parts["v"]], f"l{i}.mix")], f"l{i}.mixed", perm=[0, 2, 1, 3])
        mixed = node("Reshape", [mixed, merge], f"l{i}.merged")
        x = node("Add", [x, node("MatMul", [mixed, weight(f"l{i}.o.weight", HIDDEN, HIDDEN)], f"l{i}.o")], f"l{i}.x")
        gate = node("MatMul", [x, weight(f"l{i}.gate.weight", HIDDEN, 2 * HIDDEN)], f"l{i}.gate")
        gate = node("Mul", [gate, node("Sigmoid", [gate], f"l{i}.sigmoid")], f"l{i}.silu")
        up = node("MatMul", [x, weight(f"l{i}.up.weight", HIDDEN, 2 * HIDDEN)], f"l{i}.up")
        down = node("MatMul", [node("Mul", [gate, up], f"l{i}.gated"), weight(f"l{i}.down.weight", 2 * HIDDEN, HIDDEN)], f"l{i}.down")
        x = node("Add", [x, down], f"l{i}.y")
    node("MatMul", [x, weight("lm_head.weight", HIDDEN, VOCABULARY)], "logits")
    graph = helper.make_graph(nodes, "decoder", inputs, outputs, [numpy_helper.from_array(value, name) for name, value in constants.items()])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return model


def feeds(ids, past=None):
    """The inputs for token ids [N, S]; `past` has the caches by the names of their inputs."""
    rows, length = ids.shape
    caches = past or {f"past_key_values.{i}.{name}": np.zeros((rows, HEADS, 0, HEAD), np.float32)
                      for i in range(LAYERS) for name in ("key", "value")}
    begin = next(iter(caches.values())).shape[2]
    positions = np.tile(np.arange(begin, begin + length), (rows, 1))
    return {"input_ids": ids, "attention_mask": np.ones((rows, begin + length), np.int64), "position_ids": positions, **caches}


def token_ids(count, seed=3):
    """Ids in which each token has a few likely next ones, so that there is something to predict."""
    rng = np.random.default_rng(seed)
    ids = [1]
    for _ in range(count - 1):
        ids.append(int((ids[-1] * 7 + rng.integers(0, 3)) % VOCABULARY))
    return np.array(ids, np.int64)
