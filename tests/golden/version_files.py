"""Golden files of each version of the formats of Bitpress: how new ones are written, and how each is read.

The name of a file is KIND_VERSION_WHAT, such as plan_1_blocks.json. tools/testdata/make_versions.py writes files of a new version,
versions_test.py reads all of them.
"""

import hashlib
import json
import re
import struct
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

DATA = Path(__file__).resolve().parents[1] / "data" / "versions"
FORMAT_KEY = "bitpress.format_version"
MAGIC = {".bpc": b"BITPCALB", ".bpe": b"BITPEVAL", ".bpm": b"BITPMOMT"}  # the version stands behind it
INPUTS = {  # multiples of powers of two, which are the same on every machine
    "float.onnx": {"x": ((np.arange(40, dtype=np.float32) * 7 % 40 - 19.5) / 16).reshape(2, 20)},
    "conv.onnx": {"x": ((np.arange(256, dtype=np.float32) * 11 % 256 - 127.5) / 64).reshape(1, 16, 4, 4)},
}

PLANS = {  # what -> (float model, arguments of plan)
    "blocks": ("float.onnx", ["--config", "MXFP6E2M3", "--set", "weight_scale=ceil", "--rule", "nodes=second: weights=mx6"]),
    "integers": ("float.onnx", ["--config", "INT8", "--set", "guard=off", "--set", "activation_range=min_max"]),
    "rewritten": ("float.onnx", ["--config", "BF16", "--activations", "none", "--weights", "int8", "--set", "weight_granularity=per_tensor",
                                 "--set", "rotate=4"]),
    "caches": ("decoder.onnx", ["--config", "none", "--set", "kv_cache=int8", "--set", "kv_cache_range=min_max"]),
}
MODELS = {  # what -> (float model, arguments of quantize)
    "packed": ("float.onnx", ["--config", "MX6", "--activations", "none", "--set", "weight_scale=ceil", "--rule",
                              "nodes=second: weights=int4, weight_granularity=per_block, weight_block_size=32"]),
    "quantizers": ("float.onnx", ["--config", "MXFP8E4M3", "--weights", "none", "--rule", "nodes=second: activations=bf16"]),
    "products": ("float.onnx", ["--config", "MXINT8", "--set", "weight_scale=floor", "--target", "bitpress"]),
    "convolution": ("conv.onnx", ["--config", "MXINT8", "--set", "weight_scale=floor", "--target", "bitpress"]),
    "integers": ("float.onnx", ["--as-is", "--config", "INT8", "--set", "guard=off", "--calibration", "{calibration}"]),
}
CALIBRATIONS = {  # what -> (float model, arguments of calibrate)
    "channels": ("float.onnx", ["--as-is", "--per-channel"]),
    "caches": ("decoder.onnx", ["--as-is", "--config", "none", "--set", "kv_cache=int8"]),
}


EVALUATIONS = {"outputs": ("float.onnx", [])}  # what -> (float model, arguments of evaluate)
MOMENTS = {  # what -> (float model, arguments of moments)
    "sums": ("float.onnx", ["--as-is", "--config", "MX6", "--finetune", "gptq"]),
}


def _save(graph_parts, path, domains=("",)):
    nodes, inputs, outputs, constants = graph_parts
    info = helper.make_tensor_value_info
    graph = helper.make_graph(nodes, "golden", [info(*value) for value in inputs], [info(*value) for value in outputs],
                              [numpy_helper.from_array(array, name) for name, array in constants.items()])
    opsets = [helper.make_opsetid(domain, 1 if domain else 17) for domain in domains]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8, producer_name="")
    path.write_bytes(model.SerializeToString(deterministic=True))


def _weights(seed, *shape):
    return (np.random.default_rng(seed).standard_normal(shape) / 4).astype(np.float32)


def make_float_models(folder):
    """Two matrix products (blocks end with groups of 20 and 32 elements), a convolution, and an attention with caches."""
    node, real = helper.make_node, TensorProto.FLOAT
    _save(([node("MatMul", ["x", "a"], ["sum"], "first"), node("Relu", ["sum"], ["h"], "relu"),
            node("MatMul", ["h", "b"], ["y"], "second")], [("x", real, ["N", 20])], [("y", real, ["N", 20])],
           {"a": _weights(1, 20, 32), "b": _weights(2, 32, 20)}), folder / "float.onnx")
    _save(([node("Conv", ["x", "kernel"], ["sum"], "first"), node("Relu", ["sum"], ["y"], "relu")],
           [("x", real, ["N", 16, 4, 4])], [("y", real, ["N", 32, 4, 4])], {"kernel": _weights(3, 32, 16, 1, 1)}), folder / "conv.onnx")
    products = [node("MatMul", ["x", f"{name}.weight"], [name], name) for name in "qkv"]
    attention = node("GroupQueryAttention", ["q", "k", "v", "past_key", "past_value", "seqlens", "total"],
                     ["y", "present_key", "present_value"], "attention", domain="com.microsoft", num_heads=1, kv_num_heads=1)
    _save(([*products, attention],
           [("x", real, [1, "S", 16]), ("past_key", real, [1, 1, "P", 16]), ("past_value", real, [1, 1, "P", 16]),
            ("seqlens", TensorProto.INT32, [1]), ("total", TensorProto.INT32, [])],
           [("y", real, [1, "S", 16]), ("present_key", real, [1, 1, "T", 16]), ("present_value", real, [1, 1, "T", 16])],
           {f"{name}.weight": _weights(seed, 16, 16) for seed, name in enumerate("qkv")}), folder / "decoder.onnx",
          ("", "com.microsoft"))


def make_samples(folder, model):
    folder.mkdir()
    if model == "float.onnx":
        np.save(folder / "0.npy", INPUTS[model]["x"])
        return
    past = np.zeros((1, 1, 0, 16), np.float32)
    np.savez(folder / "0.npz", x=_weights(7, 1, 2, 16), past_key=past, past_value=past, seqlens=np.array([1], np.int32),
             total=np.array(2, np.int32))


def version_of(path):
    """The version that stands in a file; of a model without a number, 1."""
    if path.suffix == ".json":
        return next(value for key, value in json.loads(path.read_text()).items() if key in ("bitpress_plan", "bitpress_search"))
    if path.suffix in MAGIC:
        return struct.unpack_from("<I", path.read_bytes(), len(MAGIC[path.suffix]))[0]
    return int({entry.key: entry.value for entry in onnx.load(path).metadata_props}.get(FORMAT_KEY, "1"))


def with_version(path, version, output):
    """Writes the file with another version, and nothing else changed."""
    if path.suffix == ".json":
        text, count = re.subn(r'("bitpress_(?:plan|search)": *)\d+', rf"\g<1>{version}", path.read_text())
        assert count == 1
        output.write_text(text)
    elif path.suffix in MAGIC:
        data = bytearray(path.read_bytes())
        struct.pack_into("<I", data, len(MAGIC[path.suffix]), version)
        output.write_bytes(data)
    else:
        model = onnx.load(path)
        kept = [entry for entry in model.metadata_props if entry.key != FORMAT_KEY]
        del model.metadata_props[:]
        model.metadata_props.extend([*kept, onnx.StringStringEntryProto(key=FORMAT_KEY, value=str(version))])
        onnx.save(model, output)
    return output


class Reader:
    """Reads golden files by the command line (run) and by ONNX Runtime. What it returns can be compared, and stored as JSON."""

    def __init__(self, run, library, folder):
        self._run, self._library, self._folder, self._count = run, library, folder, 0

    def _new(self, suffix):
        self._count += 1
        return self._folder / f"{self._count}{suffix}"

    def _outputs(self, path, source):
        """Some of the numbers that the model gives with our operators, and without them if it has their functions."""
        model = onnx.load(path)
        functions = {function.name for function in model.functions}
        is_portable = all(node.op_type in functions for node in model.graph.node if node.domain == "bitpress")
        results = []
        for library in (self._library, None)[:1 + is_portable]:
            options = onnxruntime.SessionOptions()
            options.log_severity_level = 3
            if library is not None:
                options.register_custom_ops_library(str(library))
            session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
            results.append(session.run(None, INPUTS[source])[0])
        assert np.allclose(results[0], results[-1], rtol=1e-5, atol=1e-5), path
        return [round(float(value), 6) for value in results[0].ravel()[::7]]

    def _weights(self, path, names):
        """A number for the bytes of each weight as floats. Packed weights are decoded first."""
        floats = self._new(".onnx")
        self._run("unpack", path, "-o", floats)
        return {tensor.name: hashlib.sha256(numpy_helper.to_array(tensor).tobytes()).hexdigest()[:16]
                for tensor in onnx.load(floats).graph.initializer if tensor.name in names}

    @staticmethod
    def _scales(path):
        """The scales of activations and caches. Those of the weights a and b follow from the model."""
        return {tensor.name: [round(float(value), 9) for value in numpy_helper.to_array(tensor).ravel()]
                for tensor in onnx.load(path).graph.initializer
                if tensor.name.endswith("_scale") and tensor.name[:2] not in ("a_", "b_")}

    def _page(self, path, source, *arguments):
        """The data of the report about a model."""
        page = self._new(".json")
        self._run("report", path, "--reference", DATA / source, "-o", self._new(".html"), "--json", page, *arguments)
        return json.loads(page.read_text())

    def _model(self, path, source):
        return {"config": self._page(path, source)["config"], "weights": self._weights(path, ("a", "b", "kernel")),
                "outputs": self._outputs(path, source)}

    def _plan(self, path, source):
        output = self._new(".onnx")
        needs_ranges = '"range"' in path.read_text().partition('"tensors"')[2] or source == "decoder.onnx"
        statistics = DATA / f"calibration_1_{'caches' if source == 'decoder.onnx' else 'channels'}.bpc"
        self._run("quantize", DATA / source, "--as-is", "--plan", path, *(["--calibration", statistics] if needs_ranges else []), "-o",
                  output)
        if source == "decoder.onnx":
            return {"scales": self._scales(output)}
        # Equalization may become better, so that no bytes of its weights are expected.
        names = () if '"equalize": {' in path.read_text() else ("a", "b")
        return {"scales": self._scales(output), "weights": self._weights(output, names), "outputs": self._outputs(output, source)}

    def _calibration(self, path, source):
        """The scales that follow from a copy of the file, and statistics of some channels."""
        copy, output = self._new(".bpc"), self._new(".onnx")
        self._run("merge", path, "-o", copy)
        config = (["none", "--set", "kv_cache=int8", "--set", "kv_cache_range=min_max"] if source == "decoder.onnx" else
                  ["INT8", "--set", "guard=off", "--set", "activation_range=percentile(95)"])
        self._run("quantize", DATA / source, "--as-is", "--config", *config, "--calibration", copy, "-o", output)
        channels = re.findall(r"\[\d+\] (\d+) elements, (\S+) to (\S+), mean (\S+), mean square (\S+)\n",
                              self._run("inspect", "--tensors", copy))
        return {"scales": self._scales(output), "num_channels": len(channels),
                "channels": [[float(number) for number in channel] for channel in channels[:3]]}

    def _evaluation(self, path, _):
        """The figures of a copy of the file."""
        copy, figures = self._new(".bpe"), self._new(".json")
        self._run("merge", path, "-o", copy)
        self._run("inspect", copy, "--json", figures)
        report = json.loads(figures.read_text())
        return {key: report[key] for key in ("num_samples", "sqnr_db", "cosine", "l2", "class_output", "file_bytes")}

    def _moments(self, path, _):
        """Returns what is in a copy of the file, which has the same bytes."""
        copy, description = self._new(".bpm"), self._new(".json")
        self._run("merge", path, "-o", copy)
        self._run("inspect", copy, "--json", description)
        found = json.loads(description.read_text())
        return {"bytes": hashlib.sha256(copy.read_bytes()).hexdigest()[:16],
                **{key: found[key] for key in ("num_samples", "num_samples_of_all", "samples", "layers")}}

    def _search(self, path, source):
        search = self._page(DATA / "model_1_packed.onnx", source, "--search", path)["search"]
        return {"chosen": search["chosen"], "costs": [point["cost"] for point in search["front"]]}

    def read(self, path, source):
        read = {"plan": self._plan, "calibration": self._calibration, "evaluation": self._evaluation, "model": self._model,
                "moments": self._moments, "search": self._search}
        return read[path.name.partition("_")[0]](path, source)


def write_new(run, folder):
    """Writes files of each kind, in the versions that the program writes. Returns {(kind, what): (path, float model)}."""
    written = {}
    for what, (source, arguments) in CALIBRATIONS.items():
        samples = folder / f"samples_{what}"
        make_samples(samples, source)
        path = folder / f"calibration_{what}.bpc"
        run("calibrate", DATA / source, "--data", samples, *arguments, "-o", path)
        written["calibration", what] = path, source
    for kind, command, suffix, cases in (("plan", "plan", ".json", PLANS), ("model", "quantize", ".onnx", MODELS)):
        for what, (source, arguments) in cases.items():
            path = folder / f"{kind}_{what}{suffix}"
            run(command, DATA / source, "-o", path, *[a.format(calibration=folder / "calibration_channels.bpc") for a in arguments])
            written[kind, what] = path, source
    for what, (source, arguments) in EVALUATIONS.items():
        path = folder / f"evaluation_{what}.bpe"
        run("evaluate", DATA / "model_1_quantizers.onnx", "--reference", DATA / source, "--data", folder / "samples_channels", *arguments,
            "-o", path)
        written["evaluation", what] = path, source
    for what, (source, arguments) in MOMENTS.items():
        path = folder / f"moments_{what}.bpm"
        run("moments", DATA / source, "--data", folder / "samples_channels", *arguments, "-o", path)
        written["moments", what] = path, source
    path = folder / "search.json"
    run("search", DATA / "float.onnx", "--candidates", "mx9,mx6", "--budget", "bits<=10", "--data", folder / "samples_channels", "-o",
        folder / "found.json", "--json", path)
    written["search", "front"] = path, "float.onnx"
    return written
