"""The same network, spelled otherwise, gives the same codes and the same outputs: names of nodes and values, constants as nodes or
initializers, shapes or none, the order of nodes, Identity at outputs, typed or external data, a weight stored once or twice."""

import functools

import models
import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

ODD_NAMES = ["a b", "it's \"said\"", "x/y\\z", "卷积层", "n" * 200, "a\tb", "%s{}", "0"]

# ONNX Runtime may fuse otherwise, and add the same floats in another order.
FLOAT_SUMS_DB = 120

# What a spelling changes, and why. Nothing is left out that is not here: (spelling, network or "", configuration or "") -> reason.
REASONS = {("ai.onnx", "recurrent", ""): "ONNX Runtime itself refuses the other name of ONNX's domain in bodies, also of the given model",
           **{("stored twice", "attention", config): "the codes that are moved so that no pair saturates differ where two nodes read one weight"
              for config in ("INT8", "INT8_ADAQUANT", "INT8_CLE", "A8W8")},
           **{("stored twice", "attention", config): "a weight that two nodes read is learned for both, and each copy for its own"
              for config in ("XINT8_ADAROUND", "MXFP4_GPTQ")}}


def weights(rng, *shape):
    return (rng.standard_normal(shape) / np.sqrt(np.prod(shape[1:]) or 1)).astype(np.float32)


def vision():
    """Convolutions of three kinds, their biases and activations, an addition, a head, and a second output inside."""
    rng = np.random.default_rng(1)
    node = helper.make_node
    nodes = [
        node("Conv", ["x", "w1", "b1"], ["c1"], "conv1", pads=[1] * 4), node("Relu", ["c1"], ["r1"], "relu1"),
        node("Conv", ["r1", "w2"], ["c2"], "conv2", pads=[1] * 4, group=16), node("Clip", ["c2", "zero", "six"], ["r2"], "clip"),
        node("Conv", ["r2", "w3", "b3"], ["c3"], "conv3"), node("Add", ["c3", "r1"], ["features"], "add"),
        node("GlobalAveragePool", ["features"], ["p"], "pool"), node("Flatten", ["p"], ["f"], "flatten"),
        node("Gemm", ["f", "w4", "b4"], ["y"], "head", transB=1)]
    constants = {"w1": weights(rng, 16, 3, 3, 3), "b1": weights(rng, 16), "w2": weights(rng, 16, 1, 3, 3), "zero": np.float32(0),
                 "six": np.float32(6), "w3": weights(rng, 16, 16, 1, 1), "b3": weights(rng, 16), "w4": weights(rng, 8, 16),
                 "b4": weights(rng, 8)}
    return models.make_model(nodes, [("x", ["N", 3, 8, 8])], [("y", ["N", 8]), ("features", ["N", 16, 8, 8])], constants)


def attention():
    """Projections, one of which two nodes share, a product of activations, and a normalization in pieces."""
    rng = np.random.default_rng(2)
    node = helper.make_node
    nodes = [
        node("MatMul", ["x", "wq"], ["q"], "query"), node("Add", ["q", "bq"], ["qb"], "query_bias"),
        node("MatMul", ["x", "shared"], ["k"], "key"), node("MatMul", ["qb", "shared"], ["v"], "value"),
        node("Transpose", ["k"], ["kt"], "turn", perm=[0, 2, 1]), node("MatMul", ["qb", "kt"], ["s"], "scores"),
        node("Mul", ["s", "scale"], ["ss"], "scale_scores"), node("Softmax", ["ss"], ["a"], "softmax", axis=-1),
        node("MatMul", ["a", "v"], ["m"], "mix"), node("Sub", ["m", "mean"], ["d"], "center"), node("Tanh", ["d"], ["t"], "tanh"),
        node("MatMul", ["t", "wo"], ["y"], "out")]
    constants = {"wq": weights(rng, 32, 32).T.copy(), "bq": weights(rng, 32), "shared": weights(rng, 32, 32).T.copy(),
                 "scale": np.float32(0.25), "mean": weights(rng, 32), "wo": weights(rng, 32, 32).T.copy()}
    return models.make_model(nodes, [("x", ["N", 6, 32])], [("y", ["N", 6, 32])], constants)


def recurrent():
    """A GRU and a branch whose bodies have weights of their own."""
    rng = np.random.default_rng(3)
    node, info = helper.make_node, helper.make_tensor_value_info
    shape = ["N", 32]

    def body(name):
        return helper.make_graph([node("MatMul", ["last", "w_" + name], ["m_" + name], "product_" + name),
                                  node("Relu", ["m_" + name], ["o_" + name], "relu_" + name)], name, [],
                                 [info("o_" + name, TensorProto.FLOAT, shape)])

    nodes = [
        node("GRU", ["x", "w", "r", "b"], ["all", "state"], "gru", hidden_size=32), node("Squeeze", ["state", "axis"], ["last"], "squeeze"),
        node("ReduceSum", ["last"], ["sum"], "sum", keepdims=0), node("Greater", ["sum", "limit"], ["is_large"], "greater"),
        node("If", ["is_large"], ["chosen"], "choose", then_branch=body("then"), else_branch=body("else")),
        node("Gemm", ["chosen", "wh", "bh"], ["y"], "head")]
    constants = {"w": weights(rng, 1, 96, 16), "r": weights(rng, 1, 96, 32), "b": weights(rng, 1, 192), "axis": np.array([0], np.int64),
                 "limit": np.float32(0), "w_then": weights(rng, 32, 32), "w_else": weights(rng, 32, 32), "wh": weights(rng, 32, 8),
                 "bh": weights(rng, 8)}
    return models.make_model(nodes, [("x", [5, "N", 16])], [("y", ["N", 8])], constants)


NETWORKS = {"vision": (vision, {"x": (1, 3, 8, 8)}), "attention": (attention, {"x": (1, 6, 32)}), "recurrent": (recurrent, {"x": (5, 1, 16)})}
MORE_NETWORKS = {"conv": (models.conv_model, {"image": (1, *models.CONV_INPUT)}), "matmul": (models.matmul_model, {"x": (1, 12, 48)}),
                 "odd": (models.odd_model, {name: (1, *shape) for name, shape in models.ODD_INPUTS.items()})}

CONFIGS = {"INT8": ["--config", "INT8"], "MX6": ["--config", "MX6"], "INT4_WEIGHTS": ["--config", "INT4_WEIGHTS"],
           "INT8_ADAQUANT": ["--config", "INT8_ADAQUANT", "--set", "finetune_rounds=10"]}
MORE_CONFIGS = {**CONFIGS, "INT8_DYNAMIC": ["--config", "INT8_DYNAMIC"], "XINT8_ADAROUND": ["--config", "XINT8_ADAROUND"],
                "MXFP4_GPTQ": ["--config", "MXFP4E2M1", "--finetune", "gptq"], "A8W8": ["--config", "A8W8"], "BF16": ["--config", "BF16"],
                "MX9": ["--config", "MX9"], "INT8_CLE": ["--config", "INT8", "--set", "equalize=on"]}


def graphs_of(graph):
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            for body in [attribute.g] if attribute.HasField("g") else attribute.graphs:
                yield from graphs_of(body)


def nodes_of(model):
    return [node for graph in graphs_of(model.graph) for node in graph.node]


def name_nodes(names):
    def spell(model):
        for i, node in enumerate(nodes_of(model)):
            node.name = names(i, node)
    return spell


def rename_values(names):
    """Gives other names to all values but inputs and outputs of the model. `names(i, name)` gives the name of the i-th."""
    def spell(model):
        kept = {value.name for value in [*model.graph.input, *model.graph.output]} | {""}
        new = {}
        for graph in graphs_of(model.graph):
            own = [value.name for value in [*graph.initializer, *graph.input, *graph.output]]
            for name in own + [output for node in graph.node for output in node.output]:
                if name not in kept and name not in new:
                    new[name] = names(len(new), name)
        for graph in graphs_of(model.graph):
            for value in [*graph.initializer, *graph.input, *graph.output, *graph.value_info]:
                value.name = new.get(value.name, value.name)
            for node in graph.node:
                node.input[:] = [new.get(name, name) for name in node.input]
                node.output[:] = [new.get(name, name) for name in node.output]
    return spell


def odd_names(i, _):
    return f"{ODD_NAMES[i % len(ODD_NAMES)]}{i // len(ODD_NAMES) or ''}"


def own_node_names(i, node):
    """Names that quantizing gives to nodes: those that it makes have to take others."""
    constant = next((name for name in node.input[1:] if name), node.output[0])
    return [f"{constant}_dequantize", f"{node.input[0]}_quantize", f"{node.output[0]}_dequantize", f"{constant}_quantized"][i % 4] + (
        "" if i < 12 else str(i))


def own_value_names(i, name):
    return [f"{name}_quantized", f"{name}_scale", f"_v_{i}", f"{name}_zero_point", f"{name}_dequantized"][i % 5]


def constants_as_nodes(model):
    tensors = list(model.graph.initializer)
    del model.graph.initializer[:]
    nodes = [helper.make_node("Constant", [], [tensor.name], f"constant_{tensor.name}", value=tensor) for tensor in tensors]
    rest = list(model.graph.node)
    del model.graph.node[:]
    model.graph.node.extend(nodes + rest)


def initializers_as_inputs(model):
    for tensor in model.graph.initializer:
        model.graph.input.append(helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims))


def old_ir_version(model):
    initializers_as_inputs(model)
    model.ir_version = 3


def no_shapes(model):
    for graph in graphs_of(model.graph):
        del graph.value_info[:]
        for value in graph.output:
            value.type.tensor_type.ClearField("shape")


def all_shapes(model):
    model.CopyFrom(onnx.shape_inference.infer_shapes(model, data_prop=True))


def other_order(model):
    """Of the nodes that could come next, takes the last one of the file."""
    left, ready = list(model.graph.node), {value.name for value in [*model.graph.input, *model.graph.initializer]} | {""}
    order = []

    def reads(node):
        inner = [other for graph in graphs_of(helper.make_graph([node], "g", [], [])) for other in graph.node]
        made = {output for other in inner for output in other.output}
        return {name for other in inner for name in other.input} - made

    while left:
        node = next(node for node in reversed(left) if reads(node) <= ready)
        left.remove(node)
        order.append(node)
        ready.update(node.output)
    copies = [onnx.NodeProto.FromString(node.SerializeToString()) for node in order]
    del model.graph.node[:]
    model.graph.node.extend(copies)


def identity_at_outputs(model):
    outputs = {value.name for value in model.graph.output}
    rename = {name: f"{name}_inside" for name in outputs}
    for graph in graphs_of(model.graph):
        for node in graph.node:
            node.input[:] = [rename.get(name, name) for name in node.input]
            node.output[:] = [rename.get(name, name) for name in node.output]
    for name in sorted(outputs):
        model.graph.node.append(helper.make_node("Identity", [rename[name]], [name], f"give_{name}"))


def typed_data(model):
    for tensor in model.graph.initializer:
        array = numpy_helper.to_array(tensor)
        tensor.CopyFrom(helper.make_tensor(tensor.name, tensor.data_type, tensor.dims, array.ravel().tolist()))


def stored_twice(model):
    """Each reader of a constant gets a copy of its own."""
    seen = set()
    for graph in graphs_of(model.graph):
        for node in graph.node:
            for i, name in enumerate(node.input):
                tensor = next((tensor for tensor in model.graph.initializer if tensor.name == name), None)
                if tensor is not None and name in seen:
                    copy = model.graph.initializer.add()
                    copy.CopyFrom(tensor)
                    node.input[i] = copy.name = f"{name}_copy_{len(seen)}"
                seen.add(name)


def other_domain_name(model):
    model.opset_import[0].domain = "ai.onnx"
    for node in nodes_of(model):
        if not node.domain:
            node.domain = "ai.onnx"


def omitted_inputs(model):
    """Inputs that are left out stand there by an empty name."""
    for node in nodes_of(model):
        if node.op_type in ("Conv", "Gemm") and len(node.input) == 2:
            node.input.append("")


def documented(model):
    model.doc_string = model.graph.doc_string = "a network"
    for node in nodes_of(model):
        node.doc_string = f"the node {node.name}"
    entry = model.metadata_props.add()
    entry.key, entry.value = "author", "somebody"


def external_data(_):
    """Only the way of saving differs."""


SPELLINGS = {
    "no node names": name_nodes(lambda i, node: ""),
    "odd node names": name_nodes(lambda i, node: odd_names(i, node)), "our node names": name_nodes(own_node_names),
    "nodes named as values": name_nodes(lambda i, node: node.output[0]),
    "numbered values": rename_values(lambda i, name: str(i)), "odd value names": rename_values(odd_names),
    "our value names": rename_values(own_value_names), "constants as nodes": constants_as_nodes,
    "initializers as inputs": initializers_as_inputs, "old IR version": old_ir_version, "no shapes": no_shapes, "all shapes": all_shapes,
    "other order": other_order, "Identity at outputs": identity_at_outputs, "typed data": typed_data, "external data": external_data,
    "stored twice": stored_twice, "ai.onnx": other_domain_name, "omitted inputs": omitted_inputs, "documented": documented}


class Spelled:
    """Quantizes spellings of a network and looks at what comes out. The network as it is was quantized once."""

    def __init__(self, bitpress, folder, make, shapes):
        self._bitpress, self._folder, self._make = bitpress, folder, make
        rng = np.random.default_rng(7)
        self._samples = folder / "samples"
        self._samples.mkdir()
        self._inputs = [{name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()} for _ in range(6)]
        for i, inputs in enumerate(self._inputs):
            np.savez(self._samples / f"{i}.npz", **inputs)

    @functools.cached_property
    def _plain(self):
        return {}

    def plain(self, options):
        if tuple(options) not in self._plain:
            self._plain[tuple(options)] = self.result("plain", lambda model: None, options)
        return self._plain[tuple(options)]

    def result(self, name, spell, options):
        """Returns the codes of the quantized model, without names and order, and its outputs for the samples."""
        model = self._make()
        spell(model)
        path, out = self._folder / "m.onnx", self._folder / "q.onnx"
        if name == "external data":
            onnx.save(model, path, save_as_external_data=True, size_threshold=64, location="m.onnx.weights")
        else:
            onnx.save(model, path)
        self._bitpress.ok("quantize", path, "-o", out, *options, "--data", self._samples, "--threads", "1")
        quantized = onnx.load(out)
        codes = {(tensor.data_type, tuple(tensor.dims), numpy_helper.to_array(tensor).tobytes())
                 for tensor in quantized.graph.initializer if tensor.data_type not in (TensorProto.INT64, TensorProto.FLOAT)}
        settings = onnxruntime.SessionOptions()
        settings.log_severity_level, settings.intra_op_num_threads = 3, 1
        settings.register_custom_ops_library(str(self.library))
        session = onnxruntime.InferenceSession(str(out), settings, providers=["CPUExecutionProvider"])
        return codes, [session.run(sorted(value.name for value in session.get_outputs()), inputs) for inputs in self._inputs[:2]]


def differences(spelled, spelling, network, configs):
    for config, options in configs.items():
        reasons = [REASONS.get((spelling, *key)) for key in ((network, config), (network, ""), ("", config), ("", ""))]
        if any(reasons):
            continue
        codes, outputs = spelled.plain(options)
        found_codes, found_outputs = spelled.result(spelling, SPELLINGS[spelling], options)
        noise = min(models.sqnr_db(a, b) for wanted, found in zip(outputs, found_outputs) for a, b in zip(wanted, found))
        if noise < FLOAT_SUMS_DB:
            yield f"{config}: other outputs, {noise:.1f} dB"
        if codes != found_codes:
            yield f"{config}: {len(found_codes - codes)} of {len(codes)} tensors of codes differ"


@pytest.fixture(scope="module")
def spelled(request, bitpress, operator_library, tmp_path_factory):
    make, shapes = {**NETWORKS, **MORE_NETWORKS}[request.param]
    result = Spelled(bitpress, tmp_path_factory.mktemp("spelled"), make, shapes)
    result.library, result.name = operator_library, request.param
    return result


@pytest.mark.parametrize("spelled", NETWORKS, indirect=True)
@pytest.mark.parametrize("spelling", SPELLINGS)
def test_another_spelling_gives_the_same_numbers(spelling, spelled):
    assert not list(differences(spelled, spelling, spelled.name, CONFIGS))


@pytest.mark.corpus
@pytest.mark.parametrize("spelled", [*NETWORKS, *MORE_NETWORKS], indirect=True)
@pytest.mark.parametrize("spelling", SPELLINGS)
def test_more_networks_and_configurations(spelling, spelled):
    assert not list(differences(spelled, spelling, spelled.name, MORE_CONFIGS))
