"""Integer models on both kinds of x86 processors: with VNNI, and without it, where sums of two 8-bit products saturate. Each
kind is computed twice: by a program whose ONNX Runtime has the kernels of that kind, and simulated by the other program."""

import json
import math
import os
import subprocess
from pathlib import Path

import numpy as np
import onnx
import pytest
from locations import from_environment
from onnx import TensorProto, helper, numpy_helper


@pytest.fixture(scope="session")
def programs(program):
    """{name: run(arguments)} of the program as it is, and of the one that sees no VNNI."""
    folder = from_environment("BITPRESS_NO_VNNI_DIR", Path("build/tests/no_vnni"))
    assert (folder / "bitpress").is_file(), f"{folder} is not built"
    narrow = {**os.environ, "LD_PRELOAD": str(folder / "narrow_cpu.so")}

    def runner(path, environment):
        def run(*arguments):
            result = subprocess.run([str(path), *map(str, arguments)], capture_output=True, text=True, timeout=300, check=False,
                                    env=environment)
            assert result.returncode == 0, result.stderr
            return result.stdout
        return run

    return {"as it is": runner(program, dict(os.environ)), "narrow": runner(folder / "bitpress", narrow)}


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


@pytest.fixture(scope="module")
def setting(tmp_path_factory):
    folder = tmp_path_factory.mktemp("processors")
    onnx.save(network(), folder / "float.onnx")
    (folder / "samples").mkdir()
    rng = np.random.default_rng(6)
    for i in range(12):
        np.save(folder / "samples" / f"{i:02}.npy", rng.random((1, 3, 16, 16), dtype=np.float32) / 2 + np.float32(0.5))
    return folder


def quantized(folder, bitpress, config, *options):
    output = folder / f"{config}{'_'.join(options).replace('=', '-').replace(' ', '')}.onnx"
    if not output.exists():
        bitpress.ok("quantize", folder / "float.onnx", "-o", output, "--config", config, "--data", folder / "samples", *options)
    return output


def evaluated(run, folder, model, kind):
    report = folder / "report.json"
    run("evaluate", model, "--reference", folder / "float.onnx", "--data", folder / "samples", "--processor", kind, "--json", report)
    return json.loads(report.read_text())


FORMS = [("INT8",), ("INT8", "--form", "qoperator"), ("INT8_DYNAMIC",), ("U8S8_AAWS",)]


@pytest.mark.parametrize("form", FORMS, ids=" ".join)
@pytest.mark.parametrize("kind", ["vnni", "no_vnni"])
def test_a_simulation_is_what_that_kind_computes(form, kind, setting, programs, bitpress):
    model = quantized(setting, bitpress, *form, "--set", "integer_kernels=vnni")
    reports = [evaluated(run, setting, model, kind) for run in programs.values()]
    # Simulated by one program at least, and computed by the kernels of the other. A machine without VNNI has one kind only.
    has_vnni = not evaluated(programs["as it is"], setting, model, "vnni")["processor"]["is_simulated"]
    assert any(report["processor"]["is_simulated"] for report in reports) == (has_vnni or kind == "vnni")
    assert not reports[1]["processor"]["is_simulated"] or kind == "vnni"
    assert abs(reports[0]["sqnr_db"] - reports[1]["sqnr_db"]) < 0.05
    # Both see the other kind on the first batch, as far apart.
    apart = [report["processor"]["sqnr_db"] for report in reports]
    assert abs(apart[0] - apart[1]) < 0.3 and apart[0] < 60


@pytest.mark.parametrize("form", FORMS, ids=" ".join)
def test_the_default_is_right_on_both(form, setting, programs, bitpress):
    model = quantized(setting, bitpress, *form)
    reports = {kind: evaluated(programs["as it is"], setting, model, kind) for kind in ("vnni", "no_vnni")}
    assert abs(reports["vnni"]["sqnr_db"] - reports["no_vnni"]["sqnr_db"]) < 0.01
    unsafe = evaluated(programs["as it is"], setting, quantized(setting, bitpress, *form, "--set", "integer_kernels=vnni"), "vnni")
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
    (tmp_path / "samples").mkdir()
    for i in range(12):
        codes = rng.integers(0, 256, (1, 32))
        codes[0, :2] = 0, 255  # the whole range, so that dynamic scales are 1/255, too
        np.save(tmp_path / "samples" / f"{i:02}.npy", (codes / 255).astype(np.float32))

    def quantize(name, *arguments):
        config, *options = form
        said = bitpress.ok("quantize", tmp_path / "float.onnx", "-o", tmp_path / name, "--config", config, "--data",
                           tmp_path / "samples", *options, *arguments)
        stored = onnx.load(tmp_path / name).graph.initializer
        unsigned = [list(value.dims) for value in stored if value.data_type == TensorProto.UINT8 and len(value.dims) == 2]
        return said, unsigned, evaluated(programs["narrow"], tmp_path, tmp_path / name, "here")["sqnr_db"]

    said, unsigned, sqnr = quantize("unsigned.onnx")
    assert "'first' is uint8, which saves its layer" in said and unsigned == [[32, 8]]
    said, unsigned, sqnr_int8 = quantize("int8.onnx", "--set", "integer_kernels=safe_int8")
    assert "is uint8" not in said and not unsigned
    assert sqnr > sqnr_int8


def test_check_inspect_and_quantize_say_it(setting, bitpress):
    unsafe = quantized(setting, bitpress, "INT8", "--set", "integer_kernels=vnni")
    said = bitpress.ok("check", unsafe, "--data", setting / "samples")
    assert "x86 without VNNI: sums of 8-bit products can saturate in" in said and "pairs of weights" in said
    assert "WARNING" in said
    assert "was not measured" in bitpress.ok("check", unsafe)
    assert "x86 without VNNI" in bitpress.ok("inspect", unsafe)
    safe = setting / "said.onnx"
    said = bitpress.ok("quantize", setting / "float.onnx", "-o", safe, "--config", "INT8", "--data", setting / "samples")
    assert "right with and without VNNI" in said and "WARNING" not in said
    said = bitpress.ok("quantize", setting / "float.onnx", "-o", safe, "--config", "INT8", "--data", setting / "samples", "--set",
                       "integer_kernels=vnni")
    assert "WARNING: this model is wrong on such processors" in said


@pytest.mark.parametrize("recipe", ["gptq", "adaround", "adaquant"])
def test_learned_weights_are_right_on_both(recipe, setting, programs, bitpress):
    for config in ("INT8", "INT8_DYNAMIC"):
        model = quantized(setting, bitpress, config, "--set", f"finetune={recipe}")
        reports = [evaluated(programs["as it is"], setting, model, kind)["sqnr_db"] for kind in ("vnni", "no_vnni")]
        assert abs(reports[0] - reports[1]) < 0.01


def test_what_cannot_saturate_stays_as_it_is(setting, bitpress):
    for options in (("--weights", "uint8"), ("--activations", "int8"), ("--activations", "uint16")):
        models = []
        for kernels in ("safe", "vnni"):
            path = quantized(setting, bitpress, "INT8", *options, "--set", f"integer_kernels={kernels}")
            model = onnx.load(path)
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
    (tmp_path / "samples").mkdir()
    np.save(tmp_path / "samples" / "x.npy", rng.random((12, 32), dtype=np.float32))
    wide, narrow = programs.values()
    here = evaluated(narrow, tmp_path, tmp_path / "int8.onnx", "here")  # computed by kernels that saturate
    simulated = evaluated(wide, tmp_path, tmp_path / "int8.onnx", "no_vnni")
    assert [node["op_type"] for node in simulated["processor"]["saturating_nodes"]] == [nodes[-2 if "may" in form else -3].op_type]
    assert not simulated["processor"]["not_simulated"]
    assert abs(here["sqnr_db"] - simulated["sqnr_db"]) < 0.05
    assert evaluated(wide, tmp_path, tmp_path / "int8.onnx", "vnni")["sqnr_db"] > here["sqnr_db"] + 10


def test_models_of_other_tools(setting, bitpress):
    """A QDQ model without any word of ours in it."""
    model = onnx.load(quantized(setting, bitpress, "INT8", "--set", "integer_kernels=vnni"))
    del model.metadata_props[:]
    model.producer_name = "somebody"
    path = setting / "other.onnx"
    onnx.save(model, path)
    output = setting / "check.json"
    bitpress.ok("check", path, "--data", setting / "samples", "--json", output)
    processor = json.loads(output.read_text())["processor"]
    assert {node["op_type"] for node in processor["saturating_nodes"]} >= {"QLinearConv", "QGemm"}
    assert processor["is_compared"] and not math.isinf(processor["sqnr_db"])
