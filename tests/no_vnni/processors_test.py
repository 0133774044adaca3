"""Integer models on both kinds of x86 processors: with VNNI, and without it, where sums of two 8-bit products saturate. Each
kind is computed twice: by a program whose ONNX Runtime has the kernels of that kind, and simulated by the other program."""

import functools
import json
import math
import os
import platform
import subprocess

import numpy as np
import onnx
import pytest
from locations import NO_VNNI
from models import QuantizedModels, save_arrays
from onnx import TensorProto, helper, numpy_helper


if platform.machine() not in ("x86_64", "AMD64"):
    pytest.skip("VNNI is an extension of x86 processors", allow_module_level=True)


@pytest.fixture(scope="module")
def programs(bitpress):
    """{name: run(arguments)} of the command line as it is, and of the program that sees no VNNI."""
    environment = {**os.environ, "LD_PRELOAD": str(NO_VNNI / "narrow_cpu.so")}

    def run_narrow(*arguments):
        result = subprocess.run([str(NO_VNNI / "bitpress"), *map(str, arguments)], capture_output=True, text=True, timeout=300,
                                check=False, env=environment)
        assert result.returncode == 0, result.stderr
        return result.stdout

    return {"as it is": bitpress.ok, "narrow": run_narrow}


def network(opset=17):
    """Convolutions with even and odd channels, grouped, depthwise and strided; a Gemm, a MatMul."""
    rng = np.random.default_rng(5)
    constants = {}

    def constant(name, *shape, outputs=0):
        # Large neighbours of one sign, which is what saturates: one sign for each output.
        signs = rng.choice([-1.0, 1.0], shape[outputs]).reshape([-1 if i == outputs else 1 for i in range(len(shape))])
        values = signs * (0.7 + 0.3 * rng.standard_normal(shape))
        constants[name] = (values * shape[outputs] / np.prod(shape)).astype(np.float32)
        return name

    node = helper.make_node
    nodes = [
        node("Conv", ["x", constant("w1", 15, 3, 3, 3), constant("b1", 15)], ["c1"], "stem", pads=[1, 1, 1, 1], strides=[2, 2]),
        node("Relu", ["c1"], ["r1"], "relu1"),
        node("Conv", ["r1", constant("w2", 16, 15, 1, 1), constant("b2", 16)], ["c2"], "pointwise"),
        node("Conv", ["c2", constant("w3", 16, 4, 3, 3), constant("b3", 16)], ["c3"], "grouped", group=4, auto_pad="SAME_UPPER"),
        node("Relu", ["c3"], ["r3"], "relu3"),
        node("Conv", ["r3", constant("w4", 16, 1, 3, 3), constant("b4", 16)], ["c4"], "depthwise", group=16, dilations=[2, 2]),
        node("GlobalAveragePool", ["c4"], ["g"], "average"),
        node("Flatten", ["g"], ["f"], "flatten"),
        node("Gemm", ["f", constant("w5", 32, 16), constant("b5", 32)], ["h"], "gemm", transB=1),
        node("Relu", ["h"], ["rh"], "relu_h"),
        node("MatMul", ["rh", constant("w6", 32, 10, outputs=1)], ["y"], "matmul"),
    ]
    graph = helper.make_graph(nodes, "net", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 3, 16, 16])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 10])],
                              [numpy_helper.from_array(value, name) for name, value in constants.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


class Setting:
    """A float model, its quantized models, and what programs say about them on samples."""

    def __init__(self, folder, programs, bitpress):
        self.float_path = folder / "float.onnx"
        onnx.save(network(), self.float_path)
        rng = np.random.default_rng(6)
        self.samples = save_arrays(folder / "samples", rng.random((12, 1, 3, 16, 16), dtype=np.float32) / 2 + np.float32(0.5))
        self._models = QuantizedModels(bitpress, self.float_path, folder)
        self._programs = programs
        self.evaluated = functools.cache(self._evaluate)

    def quantized(self, config, *options):
        return self._models.path("--config", config, "--data", self.samples, *options)

    def _evaluate(self, program, model, kind):
        return evaluated(self._programs[program], self.float_path, self.samples, model, kind)


@pytest.fixture(scope="module")
def setting(tmp_path_factory, programs, bitpress):
    return Setting(tmp_path_factory.mktemp("processors"), programs, bitpress)


def evaluated(run, float_path, samples, model, kind):
    return json.loads(run("evaluate", model, "--reference", float_path, "--data", samples, "--processor", kind, "--json", "-"))


FORMS = [("INT8",), ("INT8", "--form", "qoperator"), ("INT8_DYNAMIC",), ("U8S8_AAWS",), ("INT8", "--activations", "int8"), ("A8W8",)]


@pytest.mark.parametrize("form", [pytest.param(FORMS[0], marks=pytest.mark.quick), *FORMS[1:]], ids=" ".join)
@pytest.mark.parametrize("kind", ["vnni", "no_vnni"])
def test_a_simulation_is_what_that_kind_computes(form, kind, setting, programs):
    model = setting.quantized(*form, "--set", "integer_kernels=vnni")
    reports = [setting.evaluated(program, model, kind) for program in programs]
    # Simulated by one program at least, and computed by the kernels of the other. A machine without VNNI has one kind only.
    has_vnni = not setting.evaluated("as it is", model, "vnni")["processor"]["is_simulated"]
    assert any(report["processor"]["is_simulated"] for report in reports) == (has_vnni or kind == "vnni")
    assert not reports[1]["processor"]["is_simulated"] or kind == "vnni"
    assert abs(reports[0]["sqnr_db"] - reports[1]["sqnr_db"]) < 0.05
    # Both see the other kind on the first batch, as far apart.
    apart = [report["processor"]["sqnr_db"] for report in reports]
    assert abs(apart[0] - apart[1]) < 0.3 and apart[0] < 60


@pytest.mark.parametrize("form", FORMS, ids=" ".join)
def test_the_default_is_right_on_both(form, setting):
    model = setting.quantized(*form)
    reports = {kind: setting.evaluated("as it is", model, kind) for kind in ("vnni", "no_vnni")}
    assert abs(reports["vnni"]["sqnr_db"] - reports["no_vnni"]["sqnr_db"]) < 0.01
    unsafe = setting.evaluated("as it is", setting.quantized(*form, "--set", "integer_kernels=vnni"), "vnni")
    # All weights of an output have one sign here, so that nearly every pair must give up a bit: 6 dB, and chance.
    assert reports["vnni"]["sqnr_db"] > unsafe["sqnr_db"] - 9


@pytest.mark.parametrize("form", FORMS[:3], ids=" ".join)
def test_a_small_layer_that_loses_much_is_uint8(form, programs, bitpress, tmp_path):
    """The first product does a tenth of the work of the second. All its weights have one sign, and its inputs are codes."""
    rng = np.random.default_rng(8)
    first = (0.7 + 0.3 * rng.standard_normal((32, 8))).astype(np.float32)
    second = rng.standard_normal((8, 400), dtype=np.float32)
    nodes = [helper.make_node("MatMul", ["x", "first"], ["h"], "first"), helper.make_node("MatMul", ["h", "second"], ["y"], "second")]
    graph = helper.make_graph(nodes, "net", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 32])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 400])],
                              [numpy_helper.from_array(first, "first"), numpy_helper.from_array(second, "second")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "float.onnx")
    codes = rng.integers(0, 256, (12, 1, 32))
    codes[:, 0, :2] = 0, 255  # the whole range, so that dynamic scales are 1/255, too
    samples = save_arrays(tmp_path / "samples", (codes / 255).astype(np.float32))

    def quantize(name, *arguments):
        config, *options = form
        said = bitpress.ok("quantize", tmp_path / "float.onnx", "-o", tmp_path / name, "--config", config, "--data", samples,
                           *options, *arguments)
        stored = onnx.load(tmp_path / name).graph.initializer
        unsigned = [list(value.dims) for value in stored if value.data_type == TensorProto.UINT8 and len(value.dims) == 2]
        report = evaluated(programs["narrow"], tmp_path / "float.onnx", samples, tmp_path / name, "here")
        return said, unsigned, report["sqnr_db"]

    said, unsigned, sqnr = quantize("unsigned.onnx")
    assert "'first' is uint8, which saves its layer" in said and unsigned == [[32, 8]]
    said, unsigned, sqnr_int8 = quantize("int8.onnx", "--set", "integer_kernels=safe_int8")
    assert "is uint8" not in said and not unsigned
    assert sqnr > sqnr_int8


def test_check_inspect_and_quantize_say_it(setting, tmp_path, bitpress):
    unsafe = setting.quantized("INT8", "--set", "integer_kernels=vnni")
    said = bitpress.ok("check", unsafe, "--data", setting.samples)
    assert "x86 without VNNI: sums of 8-bit products can saturate in" in said and "pairs of weights" in said
    assert "WARNING" in said
    assert "was not measured" in bitpress.ok("check", unsafe)
    assert "x86 without VNNI" in bitpress.ok("inspect", unsafe)
    quantize = ["quantize", setting.float_path, "-o", tmp_path / "said.onnx", "--config", "INT8", "--data", setting.samples]
    said = bitpress.checking.ok(*quantize)
    assert "right with and without VNNI" in said and "WARNING: this model is wrong" not in said
    said = bitpress.checking.ok(*quantize, "--set", "integer_kernels=vnni")
    assert "WARNING: this model is wrong on x86 processors without VNNI" in said


@pytest.mark.parametrize("config, recipe", [("INT8", "gptq"), ("INT8", "adaround"), ("INT8", "adaquant"), ("INT8_DYNAMIC", "gptq"),
                                            ("INT8_DYNAMIC", "adaquant")])
def test_learned_weights_are_right_on_both(config, recipe, setting):
    model = setting.quantized(config, "--set", f"finetune={recipe}")
    reports = [setting.evaluated("as it is", model, kind)["sqnr_db"] for kind in ("vnni", "no_vnni")]
    assert abs(reports[0] - reports[1]) < 0.01


@pytest.mark.parametrize("options", [("--weights", "uint8"), ("--activations", "uint16")], ids=" ".join)
def test_what_cannot_saturate_stays_as_it_is(options, setting):
    models = []
    for kernels in ("safe", "vnni"):
        model = onnx.load(setting.quantized("INT8", *options, "--set", f"integer_kernels={kernels}"))
        del model.metadata_props[:]
        models.append(model.SerializeToString())
    assert models[0] == models[1]


@pytest.mark.parametrize("form", ["codes that callers may replace", "codes", "floats"])
def test_a_weight_behind_a_transpose(form, programs, tmp_path):
    """Tied embeddings look so. ONNX Runtime folds the Transpose of a constant at load, not of an input with a default."""
    rng = np.random.default_rng(9)
    codes = rng.integers(60, 128, (10, 32)).astype(np.int8)  # [outputs, inputs]
    constants = {"xs": np.float32(1 / 255), "xz": np.uint8(0), "codes": codes, "ws": np.float32(0.01), "wz": np.int8(0),
                 "ys": np.float32(0.2), "yz": np.uint8(0)}
    node, turn = helper.make_node, {"perm": [1, 0]}
    nodes = [node("QuantizeLinear", ["x", "xs", "xz"], ["xq"])]
    if form == "codes that callers may replace":
        nodes += [node("Transpose", ["codes"], ["w"], **turn),
                  node("QLinearMatMul", ["xq", "xs", "xz", "w", "ws", "wz", "ys", "yz"], ["yq"], "product")]
    else:
        nodes += [node("DequantizeLinear", ["xq", "xs", "xz"], ["xf"])]
        if form == "codes":
            nodes += [node("Transpose", ["codes"], ["turned"], **turn), node("DequantizeLinear", ["turned", "ws", "wz"], ["w"])]
        else:
            nodes += [node("DequantizeLinear", ["codes", "ws", "wz"], ["floats"]), node("Transpose", ["floats"], ["w"], **turn)]
        nodes += [node("MatMul", ["xf", "w"], ["yf"], "product"), node("QuantizeLinear", ["yf", "ys", "yz"], ["yq"])]
    nodes.append(node("DequantizeLinear", ["yq", "ys", "yz"], ["y"]))
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 32])]
    if form == "codes that callers may replace":
        inputs.append(helper.make_tensor_value_info("codes", TensorProto.INT8, codes.shape))
    graph = helper.make_graph(nodes, "net", inputs, [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 10])],
                              [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "int8.onnx")
    exact = [node("MatMul", ["x", "w"], ["y"])]
    graph = helper.make_graph(exact, "net", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 32])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 10])],
                              [numpy_helper.from_array((codes.T * 0.01).astype(np.float32), "w")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "float.onnx")
    samples = save_arrays(tmp_path / "samples", [rng.random((12, 32), dtype=np.float32)])
    paths = [tmp_path / "float.onnx", samples, tmp_path / "int8.onnx"]
    wide, narrow = programs.values()
    here = evaluated(narrow, *paths, "here")  # computed by kernels that saturate
    simulated = evaluated(wide, *paths, "no_vnni")
    assert [node["op_type"] for node in simulated["processor"]["saturating_nodes"]] == [nodes[-2 if "may" in form else -3].op_type]
    assert not simulated["processor"]["not_simulated"]
    assert abs(here["sqnr_db"] - simulated["sqnr_db"]) < 0.05
    assert evaluated(wide, *paths, "vnni")["sqnr_db"] > here["sqnr_db"] + 10


def test_models_of_other_tools(setting, tmp_path, bitpress):
    """A QDQ model without any word of ours in it."""
    model = onnx.load(setting.quantized("INT8", "--set", "integer_kernels=vnni"))
    del model.metadata_props[:]
    model.producer_name = "somebody"
    onnx.save(model, tmp_path / "other.onnx")
    processor = json.loads(bitpress.ok("check", tmp_path / "other.onnx", "--data", setting.samples, "--json", "-"))["processor"]
    assert {node["op_type"] for node in processor["saturating_nodes"]} >= {"QLinearConv", "QGemm"}
    assert processor["is_compared"] and not math.isinf(processor["sqnr_db"])
