"""`plan --import` and `--export`: what other quantizers decided, in a plan and back."""

import importlib.util
import json
import sys
import types
import unittest.mock
from pathlib import Path

import models
import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import numpy_helper
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static


DECISIONS = Path(__file__).parent.parent / "data" / "decisions"


class Reader(CalibrationDataReader):
    def __init__(self, samples):
        self.items = iter([{"image": np.load(path)} for path in sorted(samples.glob("*.npy"))])

    def get_next(self):
        return next(self.items, None)


@pytest.fixture
def theirs(tmp_path, conv_path):
    """The network without BatchNorm, and as ONNX Runtime's own tool quantizes it."""
    samples = models.save_noise(tmp_path / "samples", (1, 3, 20, 20), 8)
    prepared, quantized = tmp_path / "prepared.onnx", tmp_path / "quantized.onnx"
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.optimized_model_filepath = str(prepared)
    onnxruntime.InferenceSession(conv_path, options)
    quantize_static(prepared, quantized, Reader(samples), quant_format=QuantFormat.QDQ, per_channel=True, activation_type=QuantType.QUInt8,
                    weight_type=QuantType.QInt8)
    return prepared, quantized


def parameters(path):
    """Codes, scale and zero point of the weight of each product, and scale and zero point of each activation."""
    graph = onnx.load(path).graph
    values = {constant.name: numpy_helper.to_array(constant) for constant in graph.initializer}
    producers = {output: node for node in graph.node for output in node.output}
    weights, activations = {}, {}
    for node in graph.node:
        pair = producers.get(node.input[1]) if node.op_type in ("Conv", "Gemm", "MatMul") else None
        if pair is not None:
            weights[node.name] = [values[name] for name in pair.input[:2]]
        if node.op_type == "QuantizeLinear":
            activations[node.input[0]] = [values[name].item() for name in node.input[1:]]
    return weights, activations


def test_a_model_is_made_again_as_another_tool_made_it(bitpress, theirs, tmp_path):
    """Equal codes, scales and zero points, without samples."""
    prepared, quantized = theirs
    plan, output = tmp_path / "plan.json", tmp_path / "ours.onnx"
    bitpress.ok("plan", prepared, "--config", "INT8", "--import", quantized, "-o", plan)
    bitpress.ok("quantize", prepared, "--plan", plan, "-o", output)
    (weights, activations), (our_weights, our_activations) = parameters(quantized), parameters(output)
    assert len(our_weights) > 2 and set(our_weights) <= set(weights)
    for name, given in our_weights.items():
        assert all(np.array_equal(a, b) for a, b in zip(given, weights[name])), name
    assert len(our_activations) > 2 and all(activations[name] == given for name, given in our_activations.items())


@pytest.mark.parametrize("kind", ["aimet-0.6.1", "aimet-1.0.0", "aimet-2.0.0", "onnxruntime"])
def test_the_same_through_a_file(bitpress, theirs, tmp_path, kind):
    prepared, quantized = theirs
    decisions, plan = tmp_path / "decisions.json", tmp_path / "plan.json"
    bitpress.ok("plan", quantized, "--export", kind, "-o", decisions)
    bitpress.ok("plan", prepared, "--config", "INT8", "--import", decisions, "-o", plan)
    direct = tmp_path / "direct.json"
    bitpress.ok("plan", prepared, "--config", "INT8", "--import", quantized, "-o", direct)
    named = {row["value"]: row for row in json.loads(plan.read_text())["tensors"]}
    for row in json.loads(direct.read_text())["tensors"]:
        if row["role"] == "activation" and "scale" in row:
            assert named[row["value"]]["scale"] == pytest.approx(row["scale"]) and named[row["value"]].get("zero_point") == row.get("zero_point")


def rows_of(path):
    return {row["value"]: row for row in json.loads(path.read_text())["tensors"]}


def test_the_ignored_scope_that_nncf_writes(bitpress, conv_path, tmp_path):
    """Recorded with dataclasses.asdict(nncf.IgnoredScope(...)) of NNCF 3.4, and written with its fields."""
    recorded = DECISIONS / "nncf.json"
    plan, written = tmp_path / "plan.json", tmp_path / "scope.json"
    done = bitpress.run("plan", conv_path, "--config", "INT8", "--import", recorded, "-o", plan)
    assert "4 settings and rules" in done.stderr
    assert all(row["format"] == "none" for row in rows_of(plan).values())
    done = bitpress.run("plan", conv_path, "--config", "INT8", "--rule", "names=head;stem: exclude", "--export", "nncf", "-o", written)
    assert "formats and scales of" in done.stderr
    scope = json.loads(written.read_text())
    assert set(scope) == set(json.loads(recorded.read_text())) and scope["names"] == ["head", "stem"] and scope["validate"] is True
    bitpress.ok("plan", conv_path, "--config", "INT8", "--import", written, "-o", plan)
    excluded = tmp_path / "excluded.json"
    bitpress.ok("plan", conv_path, "--config", "INT8", "--rule", "names=head;stem: exclude", "-o", excluded)
    assert rows_of(plan) == rows_of(excluded)
    written.write_text(json.dumps({**scope, "names": ["steam"]}))
    assert "'steam'" in bitpress.error("plan", conv_path, "--config", "INT8", "--import", written)
    written.write_text(json.dumps({**scope, "names": ["steam"], "validate": False}))
    assert "'steam' matches no node" in bitpress.run("plan", conv_path, "--config", "INT8", "--import", written).stderr


def test_float_operators_of_a_quantized_model_are_an_ignored_scope(bitpress, conv_path, tmp_path):
    model, scope = tmp_path / "quantized.onnx", tmp_path / "scope.json"
    samples = models.save_noise(tmp_path / "samples", (1, 3, 20, 20), 4)
    bitpress.ok("quantize", conv_path, "-o", model, "--config", "INT8", "--data", samples, "--rule", "names=depthwise: exclude")
    bitpress.ok("plan", model, "--export", "nncf", "-o", scope)
    assert json.loads(scope.read_text())["names"] == ["depthwise"]


def test_the_configuration_that_quark_writes(bitpress, conv_path, tmp_path):
    """Recorded with QConfig(...).to_dict() of AMD Quark 0.13, and written with its fields."""
    recorded = DECISIONS / "quark.json"
    plan, written = tmp_path / "plan.json", tmp_path / "quark.json"
    done = bitpress.run("plan", conv_path, "--config", "INT8", "--import", recorded, "-o", plan)
    assert "'Int32Bias' is left out" in done.stderr and "adaround" not in done.stderr
    config = json.loads(plan.read_text())["config"]
    assert config["finetune"] == "adaround+bias_correction" and config["equalize"] == "on" and config["equalize_steps"] == "1"
    formats = {value: row["format"] for value, row in rows_of(plan).items()}
    assert formats["head.weight"] == "int16" and formats["flat"] == "uint8" and formats["project.weight"] == formats["image"] == "none"
    assert rows_of(plan)["flat"]["range"] == "percentile(99.99)"
    words = ["--config", "A8W8", "--set", "activation_range=percentile(99.9)", "--rule", "names=stem: exclude", "--rule", "names=head: weights=mx6, activations=mx6"]
    bitpress.ok("plan", conv_path, *words, "--export", "quark", "-o", written)
    config = json.loads(written.read_text())
    assert set(config) <= set(json.loads(recorded.read_text())) and config["exclude"] == ["stem"]
    assert config["extra_options"] == {"Percentile": 99.9}
    (layer, names), = config["specific_layer_config"]
    assert names == ["head"] and layer["weight"]["data_type"] == "MX6"
    bitpress.ok("plan", conv_path, "--config", "INT8", "--import", written, "-o", plan)
    given = tmp_path / "given.json"
    bitpress.ok("plan", conv_path, *words, "-o", given)
    assert {value: row["format"] for value, row in rows_of(plan).items()} == {value: row["format"] for value, row in rows_of(given).items()}


def test_the_algorithms_of_quark_are_carried_out(bitpress, conv_path, tmp_path):
    samples = models.save_noise(tmp_path / "samples", (1, 3, 20, 20), 8)
    spec = {"symmetric": True, "calibration_method": "CalibMethod.MinMax", "data_type": "Int8"}
    algorithms = [{"name": "cle", "cle_steps": 2, "cle_scale_append_bias": True}, {"name": "adaround", "data_size": 6, "num_iterations": 3}]
    quark, plan = tmp_path / "quark.json", tmp_path / "plan.json"
    quark.write_text(json.dumps({"global_config": {"input_tensors": spec, "weight": spec}, "algo_config": algorithms}))
    done = bitpress.run("plan", conv_path, "--config", "INT8", "--import", quark, "-o", plan)
    assert done.returncode == 0 and "left out" not in done.stderr
    settings = ["weights=int8", "activations=int8", "weight_granularity=per_tensor", "weight_range=min_max", "activation_range=min_max",
                "activation_symmetric=true", "weight_symmetric=true", "equalize=on", "equalize_steps=2", "equalize_bias=0.05",
                "finetune=adaround", "finetune_samples=6", "finetune_rounds=3"]
    asked = [word for setting in settings for word in ("--set", setting)]
    made = [tmp_path / name for name in ("imported.onnx", "asked.onnx")]
    bitpress.ok("quantize", conv_path, "--plan", plan, "--data", samples, "-o", made[0])
    bitpress.ok("quantize", conv_path, "--config", "INT8", *asked, "--data", samples, "-o", made[1])
    weights = [{name: value.tobytes() for name, (value, *_) in parameters(path)[0].items()} for path in made]
    assert len(weights[0]) > 3 and weights[0] == weights[1]
    bitpress.ok("plan", conv_path, "--config", "INT8", "--import", quark, "--export", "quark", "-o", plan)
    assert json.loads(plan.read_text())["algo_config"] == algorithms
    quark.write_text(json.dumps({"global_config": {}, "algo_config": [{"name": "adaruond"}]}))
    assert "did you mean 'adaround'" in bitpress.error("plan", conv_path, "--config", "INT8", "--import", quark)


def builder_configs():
    """The classes of the installed onnxruntime-genai, whose module needs another package for the names of types only."""
    found = importlib.util.find_spec("onnxruntime_genai")
    path = Path(found.submodule_search_locations[0], "models", "quantization", "quant_config.py")
    types_only = types.ModuleType("onnx_ir")
    types_only.DataType = types.SimpleNamespace(INT4="int4")
    spec = importlib.util.spec_from_file_location("quant_config_of_genai", path)
    module = importlib.util.module_from_spec(spec)
    with unittest.mock.patch.dict(sys.modules, {"onnx_ir": types_only, spec.name: module}):
        spec.loader.exec_module(module)
    return module


def test_the_configuration_of_genai_both_ways(bitpress, matmul_path, tmp_path):
    genai = builder_configs().QuantConfig
    given = genai.from_extra_options({"block_size": 64, "nodes_to_exclude": ["make_query"], "algo_config": "rtn"}, "int4", "cpu")
    path, plan, written = tmp_path / "genai.json", tmp_path / "plan.json", tmp_path / "written.json"
    path.write_text(json.dumps(given.to_dict()))
    done = bitpress.run("plan", matmul_path, "--config", "INT4_WEIGHTS", "--import", path, "-o", plan)
    assert "--accuracy-level 4" in done.stderr and "MoE" not in done.stderr
    rows = rows_of(plan)
    assert rows["query"]["format"] == "none"
    key = rows["key"]
    assert (key["format"], key["granularity"], key["block_size"], key["symmetric"]) == ("int4", "per_block", 64, True)
    bitpress.ok("plan", matmul_path, "--config", "INT4_WEIGHTS", "--import", path, "--export", "genai", "-o", written)
    again = genai.from_json(str(written))
    assert (again.weights.type, again.weights.block_size, again.weights.symmetric) == ("int4", 64, True)
    assert again.weights.overrides == given.weights.overrides


def test_what_an_import_does_not_take_is_said(bitpress, conv_path, tmp_path):
    decisions = tmp_path / "model.encodings"
    decisions.write_text(json.dumps({"version": "1.0.0", "param_encodings": [], "activation_encodings": [
        {"name": "image", "enc_type": "PER_TENSOR", "dtype": "INT", "bw": 8, "is_sym": False, "scale": [0.02], "offset": [-128]},
        {"name": "nowhere", "enc_type": "PER_TENSOR", "dtype": "INT", "bw": 8, "is_sym": False, "scale": [0.02], "offset": [-128]}]}))
    done = bitpress.run("plan", conv_path, "--config", "INT8", "--import", decisions, "-o", tmp_path / "plan.json")
    assert done.returncode == 0 and "'nowhere'" in done.stderr and "stay float, because the file does not name them" in done.stderr
    row, *others = json.loads((tmp_path / "plan.json").read_text())["tensors"]
    assert row["value"] == "image" and row["scale"] == pytest.approx(0.02) and all(other["format"] == "none" for other in others)
    assert "--config" in bitpress.error("plan", conv_path, "-o", tmp_path / "p.json")
    decisions.write_text("[1]")
    assert "ignored scope of NNCF" in bitpress.error("plan", conv_path, "--config", "INT8", "--import", decisions)


@pytest.mark.parametrize("placement", ["qdq", "all"])
def test_names_of_our_models_are_those_of_their_networks(bitpress, conv_path, tmp_path, placement):
    """A graph output that is quantized keeps its name, and what the network gives for it has another one in the model."""
    samples = models.save_noise(tmp_path / "samples", (1, 3, 20, 20), 4)
    words = ("--config", "A8W8", "--set", f"placement={placement}")
    bitpress.ok("quantize", conv_path, "-o", tmp_path / "q.onnx", *words, "--data", samples)
    done = bitpress.run("plan", conv_path, *words, "--import", tmp_path / "q.onnx", "-o", tmp_path / "plan.json")
    assert done.returncode == 0 and "none that this model quantizes" not in done.stderr and "_float" not in done.stderr
    assert placement == "qdq" or "scale" in rows_of(tmp_path / "plan.json")["logits"]


def block_weight(rng):
    """A weight of MatMul in blocks of 16, with codes, scales and zero points of its own."""
    codes = rng.integers(0, 16, (64, 8)).astype(np.uint8)
    codes[0] = 15
    scales, zeros = rng.uniform(0.01, 0.1, (4, 8)).astype(np.float32), rng.integers(1, 15, (4, 8)).astype(np.uint8)
    return codes, scales, zeros, (codes - zeros.repeat(16, 0).astype(np.float32)) * scales.repeat(16, 0)


@pytest.mark.parametrize("source", ["model", "aimet-2.0.0"])
def test_scales_of_blocks_are_kept(source, bitpress, tmp_path):
    codes, scales, zeros, floats = block_weight(np.random.default_rng(9))
    shapes = [("x", ["N", 64])], [("y", ["N", 8])]
    product = onnx.helper.make_node("MatMul", ["x", "w"], ["y"], "layer")
    network = models.save(models.make_model([product], *shapes, {"w": floats}), tmp_path / "network.onnx")
    decisions = tmp_path / "decisions.json"
    entry = {"name": "w", "output_dtype": "uint4", "axis": 0, "block_size": 16, "y_scale": scales.tolist(), "y_zero_point": zeros.tolist()}
    decisions.write_text(json.dumps({"version": "2.0.0", "encodings": [entry]}))
    if source == "model":
        decisions = tmp_path / "theirs.onnx"
        theirs = models.make_model([onnx.helper.make_node("DequantizeLinear", ["w_codes", "s", "z"], ["w"], axis=0, block_size=16), product], *shapes, {"s": scales})
        theirs.graph.initializer.extend([onnx.helper.make_tensor("w_codes", onnx.TensorProto.UINT4, codes.shape, codes.ravel().tolist()),
                                         onnx.helper.make_tensor("z", onnx.TensorProto.UINT4, zeros.shape, zeros.ravel().tolist())])
        theirs.opset_import[0].version, theirs.ir_version = 21, 10
        onnx.save(theirs, decisions)
    done = bitpress.run("plan", network, "--config", "INT8_WEIGHTS", "--import", decisions, "-o", tmp_path / "plan.json")
    assert done.returncode == 0 and "anew" not in done.stderr, done.stderr
    row = rows_of(tmp_path / "plan.json")["w"]
    assert row["granularity"] == "per_block" and row["scale"] == pytest.approx(scales.ravel().tolist()) and row["zero_point"] == zeros.ravel().tolist()
    bitpress.ok("quantize", network, "-o", tmp_path / "q.onnx", "--plan", tmp_path / "plan.json", "--storage", "qdq", "--target", "portable")
    found = {constant.name: onnx.numpy_helper.to_array(constant) for constant in onnx.load(tmp_path / "q.onnx").graph.initializer}
    np.testing.assert_array_equal(found["w_codes"].astype(np.uint8), codes)
    np.testing.assert_array_equal(found["w_scale"], scales)
    np.testing.assert_array_equal(found["w_zero_point"].astype(np.uint8), zeros)


def test_scales_of_blocks_that_do_not_fit_are_chosen_anew(bitpress, tmp_path):
    _, scales, zeros, floats = block_weight(np.random.default_rng(9))
    product = onnx.helper.make_node("MatMul", ["x", "w"], ["y"], "layer")
    network = models.save(models.make_model([product], [("x", ["N", 64])], [("y", ["N", 8])], {"w": floats}), tmp_path / "network.onnx")
    decisions = tmp_path / "decisions.json"
    entry = {"name": "w", "output_dtype": "uint4", "axis": 0, "block_size": 16, "y_scale": scales.tolist(), "y_zero_point": zeros.tolist()}

    def imported(**changed):
        decisions.write_text(json.dumps({"version": "2.0.0", "encodings": [{**entry, **changed}]}))
        done = bitpress.run("plan", network, "--config", "INT8_WEIGHTS", "--import", decisions, "-o", tmp_path / "plan.json")
        assert done.returncode == 0, done.stderr
        bitpress.ok("quantize", network, "-o", tmp_path / "q.onnx", "--plan", tmp_path / "plan.json")
        return done.stderr + done.stdout, rows_of(tmp_path / "plan.json")["w"]

    text, row = imported(y_scale=scales[:2].tolist(), y_zero_point=zeros[:2].tolist())
    assert "'w': the scales of its blocks are chosen anew: the file has 16, and the weight 32 blocks" in text and "scale" not in row
    text, row = imported(y_scale=(-scales).tolist())
    assert "chosen anew: some are not above 0" in text and "scale" not in row
    # Codes whose zero is 0 are not symmetric in an unsigned type, whose middle is 8.
    text, row = imported(y_zero_point=np.zeros_like(zeros).tolist())
    assert "anew" not in text and row["symmetric"] is False and set(row["zero_point"]) == {0}
    decisions.write_text(json.dumps({"version": "2.0.0", "encodings": [{**entry, "y_scale": [[0.1, 0.2], [0.3]]}]}))
    assert "tensor 'w': lists of different lengths" in bitpress.error("plan", network, "--config", "INT8_WEIGHTS", "--import", decisions)


AIMET = {"name": "project.weight", "enc_type": "PER_TENSOR", "dtype": "INT", "bw": 8, "is_sym": True, "scale": [0.01], "offset": [-128]}
OLD_AIMET = {"bitwidth": 8, "is_symmetric": "True", "scale": 0.01, "offset": -128}


def scope(**words):
    return {"names": [], "patterns": [], "types": [], "subgraphs": [], "validate": True, **words}


@pytest.mark.parametrize("content, message", [
    *[({"version": "1.0.0", "param_encodings": [{k: v for k, v in AIMET.items() if k != key}]}, f"tensor 'project.weight': encoding: the key '{key}' is missing")
      for key in AIMET if key != "name"],
    ({"param_encodings": [{"dtype": "INT"}]}, "encoding 0: encoding: the key 'name' is missing"),
    ({"param_encodings": [{**AIMET, "enc_type": "PER_CHANEL"}]}, "enc_type 'PER_CHANEL' is not one of PER_TENSOR"),
    ({"param_encodings": [{**AIMET, "dtype": "INTEGER"}]}, "dtype 'INTEGER' is neither INT nor FLOAT"),
    ({"param_encodings": [{**AIMET, "scale": [0.1, 0.2], "offset": [-128, -128]}]}, "PER_TENSOR has one scale, not 2"),
    ({"param_encodings": {"project.weight": [{**OLD_AIMET, "is_symmetric": "Yes"}]}}, "is_symmetric is 'Yes', expected True or False"),
    ({"encodings": [{"name": "project.weight", "output_dtype": "int9", "y_scale": 1}]}, "output_dtype 'int9' is no format here"),
    ({"encodings": 7}, "neither an object nor a list"),
    ({"project.weight": [{"quant_type": "QInt8", "symetric": True}]}, "unknown key 'symetric' (did you mean 'symmetric'?)"),
    ({"project.weight": [{"quant_type": "QInt8", "zero_point": 3}]}, "it gives a part of its range"),
    ({"project.weight": [{"quant_type": "QInt8", "rmin": 3.0}]}, "it gives a part of its range"),
    (scope(patterns=["nomatch.*"]), "rule 'nodes=nomatch.*: exclude': 'nomatch.*' matches no node's name"),
    (scope(patterns=["("]), "'(.*' is not a regular expression"),
])
def test_mistakes_in_files_of_others_are_errors(content, message, bitpress, conv_path, tmp_path):
    file = tmp_path / "decisions.json"
    file.write_text(json.dumps(content))
    error = bitpress.error("plan", conv_path, "--config", "INT8", "--import", file, "-o", tmp_path / "plan.json")
    assert message in error and str(file) in error, error


@pytest.mark.parametrize("content, message", [
    ({"param_encodings": [{**AIMET, "scales": 1}]}, "'project.weight': 'scales' is left out (did you mean 'scale'?)"),
    ({"param_encoding": [], "activation_encodings": []}, "'param_encoding' is left out (did you mean 'param_encodings'?)"),
    ({"version": "3.0.0", "param_encodings": [AIMET]}, "version 3.0.0 is read as one of 0.6.1"),
    ({"param_encodings": [AIMET, AIMET]}, "'project.weight' has several encodings, and the last one counts"),
    ({"projekt.weight": [{"quant_type": "QInt8"}]}, "1 tensor of the file is none that this model quantizes: 'projekt.weight'"),
    (scope(patterns=["nomatch|nothing"], validate=False), "'(?:nomatch|nothing).*' matches no node's name"),
])
def test_what_files_of_others_say_in_vain_is_told(content, message, bitpress, conv_path, tmp_path):
    file = tmp_path / "decisions.json"
    file.write_text(json.dumps(content))
    done = bitpress.run("plan", conv_path, "--config", "INT8", "--import", file, "-o", tmp_path / "plan.json")
    assert done.returncode == 0 and message in done.stderr, done.stderr


def test_decisions_before_and_behind_operators_that_move(bitpress, tmp_path):
    """A quantizer in front of a Reshape and a Transpose, or behind them, is the one that the plan has elsewhere in between."""
    rng = np.random.default_rng(3)
    constants = {"w1": rng.standard_normal((16, 16), np.float32), "b1": rng.standard_normal(16, np.float32),
                 "w2": rng.standard_normal((16, 8), np.float32), "shape": np.array([2, 4, 2, 8], np.int64), "rows": np.array([8, 16], np.int64)}
    nodes = [onnx.helper.make_node(*node, name=node[0] + node[2][0], **attributes) for node, attributes in [
        (("MatMul", ["x", "w1"], ["product"]), {}), (("Add", ["product", "b1"], ["sum"]), {}), (("Reshape", ["sum", "shape"], ["heads"]), {}),
        (("Transpose", ["heads"], ["turned"]), {"perm": [2, 1, 0, 3]}), (("Reshape", ["turned", "rows"], ["flat"]), {}),
        (("MatMul", ["flat", "w2"], ["y"]), {})]]
    model, decisions, plan = tmp_path / "model.onnx", tmp_path / "decisions.json", tmp_path / "plan.json"
    models.save(models.make_model(nodes, [("x", (8, 16))], [("y", (8, 8))], constants), model)
    weights = [{"name": name, "output_dtype": "int8", "axis": 1, "y_scale": [0.02] * constants[name].shape[1]} for name in ("w1", "w2")]
    for value in ("sum", "heads", "turned", "flat"):
        named = [{"name": name, "output_dtype": "uint8", "y_scale": scale, "y_zero_point": 99} for name, scale in (("x", 0.25), (value, 0.5))]
        decisions.write_text(json.dumps({"version": "2.0.0", "encodings": weights + named}))
        done = bitpress.run("plan", model, "--config", "INT8", "--import", decisions, "-o", plan)
        assert "none that this model quantizes" not in done.stderr and "stay float" not in done.stderr, value
        assert rows_of(plan)["flat"]["scale"] == 0.5 and rows_of(plan)["flat"]["zero_point"] == 99, value


def test_nncf_calls_operators_without_a_name_by_their_place(bitpress, conv_path, tmp_path):
    model = onnx.load(conv_path)
    places = [i for i, node in enumerate(model.graph.node) if node.op_type == "Conv"]
    for node in model.graph.node:
        node.ClearField("name")
    path, scope = models.save(model, tmp_path / "unnamed.onnx"), tmp_path / "scope.json"
    scope.write_text(json.dumps({"names": [f"Conv_nncf_{places[0]}"]}))
    bitpress.ok("plan", path, "--config", "INT8", "--import", scope, "-o", tmp_path / "plan.json")
    bitpress.ok("plan", conv_path, "--config", "INT8", "--rule", f"names={onnx.load(conv_path).graph.node[places[0]].name}: exclude",
                "-o", tmp_path / "named.json")
    found, wanted = ({row["value"]: row["format"] for row in json.loads((tmp_path / name).read_text())["tensors"]} for name in ("plan.json", "named.json"))
    assert found == wanted
    scope.write_text(json.dumps({"names": [f"Relu_nncf_{places[0]}"]}))
    assert f"Relu_nncf_{places[0]}" in bitpress.error("plan", path, "--config", "INT8", "--import", scope)


@pytest.mark.parametrize("is_per_channel", [False, True])
def test_weights_that_a_cast_and_a_mul_decode(is_per_channel, bitpress, matmul_path, tmp_path):
    """The codes and scales of a weight that another tool decodes by hand decide for the float network."""
    rng = np.random.default_rng(7)
    codes, scales = rng.integers(-127, 128, (16, 8)).astype(np.int8), (rng.uniform(0.01, 0.1, (1, 8)) if is_per_channel else np.array(0.05)).astype(np.float32)
    nodes = [onnx.helper.make_node("Cast", ["w_quantized"], ["floats"], "cast", to=1), onnx.helper.make_node("Mul", ["scale", "floats"], ["w"], "mul"),
             onnx.helper.make_node("MatMul", ["x", "w"], ["y"], "layer")]
    shapes = [("x", ["N", 16])], [("y", ["N", 8])]
    theirs = models.save(models.make_model(nodes, *shapes, {"w_quantized": codes, "scale": scales}), tmp_path / "theirs.onnx")
    ours = models.save(models.make_model(nodes[2:], *shapes, {"w": codes * scales}), tmp_path / "ours.onnx")
    bitpress.ok("plan", ours, "--config", "INT8_WEIGHTS", "--import", theirs, "-o", tmp_path / "plan.json")
    bitpress.ok("quantize", ours, "-o", tmp_path / "q.onnx", "--plan", tmp_path / "plan.json", "--storage", "qdq", "--target", "portable")
    found = {constant.name: onnx.numpy_helper.to_array(constant) for constant in onnx.load(tmp_path / "q.onnx").graph.initializer}
    np.testing.assert_array_equal(found["w_codes"], codes)
    np.testing.assert_array_equal(found["w_scale"], scales.reshape(-1) if is_per_channel else scales)
    assert "decodes these codes when it loads the model" in bitpress.run("check", theirs, "--target", "onnxruntime").stdout


def test_the_layers_that_genai_gives_more_bits(bitpress, matmul_path, tmp_path):
    """The preset mixed_layers is the rule layers=mixed, which a model without layers passes over."""
    path, plan = tmp_path / "genai.json", tmp_path / "plan.json"
    path.write_text(json.dumps({"weights": {"type": "int4", "block_size": 32, "overrides": [
        {"match": {"preset": "mixed_layers"}, "type": "int8"}, {"match": {"preset": "linear_attn"}, "type": "int8"}]}}))
    done = bitpress.run("plan", matmul_path, "--config", "INT4_WEIGHTS", "--import", path, "-o", plan)
    assert done.returncode == 0 and "of the preset 'linear_attn' the projections are taken" in done.stderr, done.stderr
    rules = [rule for rule in json.loads(plan.read_text())["config"]["rules"] if "layers" in rule]
    assert rules[0]["layers"] == ["mixed"] and rules[0]["roles"] == ["attn_qkv", "attn_v", "mlp_down"]
