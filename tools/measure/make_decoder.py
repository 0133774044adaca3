#!/usr/bin/env python3
"""Makes a decoder of any size with random weights, and samples for it, to measure memory and time.

    make_decoder.py out/decoder.onnx --gigabytes 12 --samples 8 --sequence 64

The model has plain operators (opset 17), float32 weights in external data, and llama's layout: RMS
norms, attention with grouped keys and values (no position embedding: memory does not depend on it),
a gated MLP. Weights are written one at a time, so that memory does not grow with the model. Samples
are .npz files of random tokens in the folder `samples` beside the model.
"""

import argparse
import pathlib

import numpy as np
import onnx
from onnx import TensorProto, helper


class Decoder:
    def __init__(self, path, args):
        self.args = args
        self.data = open(f"{path}.data", "wb")
        self.location = f"{path.name}.data"
        self.nodes = []
        self.tensors = []
        self.random = np.random.default_rng(args.seed)

    def weight(self, name, dims, scale=None):
        """Adds a weight to the data file; rows at a time, each with its own magnitude."""
        offset = -(-self.data.tell() // 4096) * 4096
        self.data.write(b"\0" * (offset - self.data.tell()))
        deviation = dims[0] ** -0.5 if scale is None else scale
        for begin in range(0, dims[0], 1024):
            rows = min(1024, dims[0] - begin)
            values = self.random.standard_normal((rows, *dims[1:]), dtype=np.float32)
            self.data.write((values * np.float32(deviation)).tobytes())
        tensor = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=dims)
        tensor.data_location = TensorProto.EXTERNAL
        for key, value in (("location", self.location), ("offset", offset), ("length", 4 * int(np.prod(dims)))):
            tensor.external_data.add(key=key, value=str(value))
        self.tensors.append(tensor)
        return name

    def constant(self, name, values):
        self.tensors.append(onnx.numpy_helper.from_array(values, name))
        return name

    def add(self, op_type, inputs, name, **attributes):
        self.nodes.append(helper.make_node(op_type, inputs, [name], name=name, **attributes))
        return name

    def product(self, x, name, dims):
        return self.add("MatMul", [x, self.weight(f"{name}.weight", dims)], name)

    def norm(self, x, name):
        square = self.add("Mul", [x, x], f"{name}/square")
        mean = self.add("ReduceMean", [square], f"{name}/mean", axes=[-1], keepdims=1)
        root = self.add("Sqrt", [self.add("Add", [mean, "epsilon"], f"{name}/safe")], f"{name}/root")
        return self.add("Div", [x, root], name)

    def layer(self, x, name):
        a = self.args
        heads = a.hidden // 64
        pairs = a.key_heads
        n = self.norm(x, f"{name}/norm")
        parts = {}
        for part, count in (("q", heads), ("k", pairs), ("v", pairs)):
            flat = self.product(n, f"{name}/{part}_proj", [a.hidden, count * 64])
            if part != "q" and pairs != heads:  # every key serves several queries
                flat = self.add("Tile", [flat, "repeats"], f"{name}/{part}_tiled")
            split = self.add("Reshape", [flat, "split"], f"{name}/{part}_split")
            parts[part] = self.add("Transpose", [split], f"{name}/{part}", perm=[0, 2, 3, 1] if part == "k" else [0, 2, 1, 3])
        scores = self.add("MatMul", [parts["q"], parts["k"]], f"{name}/scores")
        scaled = self.add("Mul", [scores, "attention_scale"], f"{name}/scaled")
        share = self.add("Softmax", [scaled], f"{name}/share", axis=-1)
        mixed = self.add("MatMul", [share, parts["v"]], f"{name}/mixed")
        turned = self.add("Transpose", [mixed], f"{name}/turned", perm=[0, 2, 1, 3])
        joined = self.add("Reshape", [turned, "join"], f"{name}/joined")
        x = self.add("Add", [x, self.product(joined, f"{name}/o_proj", [a.hidden, a.hidden])], f"{name}/attended")
        n = self.norm(x, f"{name}/mlp_norm")
        gate = self.product(n, f"{name}/gate_proj", [a.hidden, a.inner])
        up = self.product(n, f"{name}/up_proj", [a.hidden, a.inner])
        silu = self.add("Mul", [gate, self.add("Sigmoid", [gate], f"{name}/sigmoid")], f"{name}/silu")
        down = self.product(self.add("Mul", [silu, up], f"{name}/gated"), f"{name}/down_proj", [a.inner, a.hidden])
        return self.add("Add", [x, down], f"{name}/out")

    def model(self):
        a = self.args
        heads = a.hidden // 64
        per_layer = 4 * (2 * a.hidden * a.hidden + 2 * a.hidden * a.key_heads * 64 + 3 * a.hidden * a.inner)
        num_layers = max(1, round((a.gigabytes * 1e9 - 8 * a.vocabulary * a.hidden) / per_layer))
        for name, values in (("split", [0, 0, heads, 64]), ("join", [0, 0, heads * 64]), ("repeats", [1, 1, heads // a.key_heads])):
            self.constant(name, np.array(values, np.int64))
        self.constant("epsilon", np.array(1e-5, np.float32))
        self.constant("attention_scale", np.array(64**-0.5, np.float32))
        x = self.add("Gather", [self.weight("embedding", [a.vocabulary, a.hidden], 1.0), "input_ids"], "embedded", axis=0)
        for i in range(num_layers):
            x = self.layer(x, f"layer{i}")
        logits = helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", "sequence", a.vocabulary])
        self.product(self.norm(x, "norm"), "logits", [a.hidden, a.vocabulary])
        ids = helper.make_tensor_value_info("input_ids", TensorProto.INT64, ["batch", "sequence"])
        graph = helper.make_graph(self.nodes, "decoder", [ids], [logits], self.tensors)
        self.data.close()
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), num_layers


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("--gigabytes", type=float, default=2, help="size of the weights (default 2)")
    parser.add_argument("--hidden", type=int, default=2048, help="a multiple of 64 (default 2048)")
    parser.add_argument("--inner", type=int, default=5632, help="width of the MLP (default 5632)")
    parser.add_argument("--key-heads", type=int, default=4, help="a divisor of hidden / 64 (default 4)")
    parser.add_argument("--vocabulary", type=int, default=32000)
    parser.add_argument("--samples", type=int, default=32)
    parser.add_argument("--sequence", type=int, default=64)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    args.model.parent.mkdir(parents=True, exist_ok=True)
    model, num_layers = Decoder(args.model, args).model()
    onnx.save(model, args.model)
    folder = args.model.parent / "samples"
    folder.mkdir(exist_ok=True)
    random = np.random.default_rng(args.seed + 1)
    for i in range(args.samples):
        ids = random.integers(0, args.vocabulary, (1, args.sequence))
        np.savez(folder / f"sample_{i:03}.npz", input_ids=ids)
    print(f"{args.model}: {num_layers} layers, {args.samples} samples in {folder}")


if __name__ == "__main__":
    main()
