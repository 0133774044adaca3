"""inspect, plan and quantize on small models write the right models, which run."""

import json

import numpy as np
import onnx
import pytest

import models
from models import is_as_measured, sqnr_db

MX9_DB = 45.0  # the SQNR of the logits with MX9, as measured on 2026-11-22


def conv_inputs():
    return {"image": np.random.default_rng(3).standard_normal((16, *models.CONV_INPUT)).astype(np.float32)}


def reads_codes(node):
    return node.domain == "bitpress" and node.op_type.startswith(("Unpack_", "MatMul_", "MatMulClip_"))


def quantizers(model):
    """The nodes that quantize an activation; convolutions in blocks do so themselves."""
    return [node for node in model.graph.node
            if node.domain in ("bitpress", "com.amd.quark") and not reads_codes(node)]


def count_ops(model):
    return sorted(node.op_type for node in model.graph.node if node.domain == "")


@pytest.mark.parametrize("preset", ["MX6", "MXFP8E4M3", "BF16"])
def test_no_operator_runs_on_a_weight(preset, conv_path, tmp_path, bitpress):
    output = tmp_path / "out.onnx"
    bitpress.ok("quantize", conv_path, "-o", output, "--config", preset, "--target", "portable")
    model = onnx.load(output)
    constants = {tensor.name for tensor in model.graph.initializer}
    constants |= {node.output[0] for node in model.graph.node if node.op_type == "Constant"}
    for node in model.graph.node:
        if (node.domain or node.op_type == "Cast") and not reads_codes(node):
            assert not constants & set(node.input), f"{node.op_type} runs on a constant"
    assert "BatchNormalization" not in count_ops(model)
    # Four operators multiply. Their activations are the input, two values between them, and the output of the pooling.
    if quantizers(model):
        assert len(quantizers(model)) == 4


def test_the_matmul_model_is_quantized_on_both_sides(matmul_path, tmp_path, bitpress, run_model):
    output = tmp_path / "out.onnx"
    bitpress.ok("quantize", matmul_path, "-o", output, "--config", "MX9")
    x = {"x": np.random.default_rng(4).standard_normal((2, 12, 48)).astype(np.float32)}
    assert is_as_measured(sqnr_db(run_model(matmul_path, x)[0], run_model(output, x)[0]), 32.2)
    # x is quantized along its last axis and along the axis that `mix` sums over; then there are q, k_t and the weights.
    assert len(quantizers(onnx.load(output))) == 5


def test_symbolic_dimensions_stay(conv_path, tmp_path, bitpress):
    output = tmp_path / "out.onnx"
    bitpress.ok("quantize", conv_path, "-o", output, "--config", "MX6")
    graph = onnx.load(output).graph
    assert [value.name for value in graph.input] == ["image"]
    assert [value.name for value in graph.output] == ["logits"]
    assert graph.input[0].type.tensor_type.shape.dim[0].dim_param == "N"
    assert graph.output[0].type.tensor_type.shape.dim[0].dim_param == "N"


def test_the_same_input_gives_the_same_bytes(conv_path, tmp_path, bitpress):
    written = []
    for number, threads in enumerate((1, 2, 1)):
        output = tmp_path / f"out{number}.onnx"
        bitpress.ok("quantize", conv_path, "-o", output, "--config", "MXFP8E4M3", "--threads", threads)
        written.append(output.read_bytes())
    assert written[0] == written[1] == written[2]


def test_a_plan_gives_what_its_config_gives(conv_path, tmp_path, bitpress):
    plan, direct, planned = tmp_path / "plan.json", tmp_path / "direct.onnx", tmp_path / "planned.onnx"
    bitpress.ok("plan", conv_path, "--config", "MX6", "-o", plan)
    bitpress.ok("quantize", conv_path, "-o", direct, "--config", "MX6")
    bitpress.ok("quantize", conv_path, "-o", planned, "--plan", plan)
    assert direct.read_bytes() == planned.read_bytes()


def test_a_plan_says_why_a_tensor_stays_float(conv_path, bitpress):
    plan = json.loads(bitpress.ok("plan", conv_path, "--config", "MX6"))
    rows = plan["tensors"]
    assert {row["format"] for row in rows} == {"mx6", "none"}
    for row in rows:
        assert (row["format"] == "none") == bool(row.get("reason"))
    values = {row["value"]: row for row in rows}
    assert values["image"]["format"] == "mx6" and values["image"]["role"] == "activation"
    assert values["head.weight"]["format"] == "mx6" and values["head.weight"]["role"] == "weight"
    assert values["head.bias"]["format"] == "none"


@pytest.mark.quick
def test_a_plan_may_be_edited(conv_path, tmp_path, bitpress):
    path, output = tmp_path / "plan.json", tmp_path / "out.onnx"
    bitpress.ok("plan", conv_path, "--config", "MX6", "-o", path)
    plan = json.loads(path.read_text())
    for row in plan["tensors"]:
        if row["value"] == "image":
            kept = {key: row[key] for key in ("value", "role", "uses")}
            row.clear()
            row.update(kept, format="none", reason="the sensor gives 8 bits")
        elif row["value"] == "head.weight":
            row["format"] = "mx9"
    path.write_text(json.dumps(plan))
    bitpress.ok("quantize", conv_path, "-o", output, "--plan", path)
    assert len(quantizers(onnx.load(output))) == 3


def weight_of(path, name):
    (tensor,) = [tensor for tensor in onnx.load(path).graph.initializer if tensor.name.startswith(name)]
    return onnx.numpy_helper.to_array(tensor)


@pytest.mark.quick
def test_each_side_may_have_its_own_format(conv_path, tmp_path, bitpress):
    def quantize(name, *options):
        output = tmp_path / f"{name}.onnx"
        bitpress.ok("quantize", conv_path, "-o", output, "--config", "MX6", *options)
        return output

    both, weight_only = quantize("both"), quantize("weight_only", "--activations", "none")
    activation_only, mixed = quantize("activation_only", "--weights", "none"), quantize("mixed", "--weights", "mx9")
    assert [len(quantizers(onnx.load(path))) for path in (both, weight_only, activation_only, mixed)] == [4, 0, 4, 4]
    original = weight_of(conv_path, "head.weight")
    assert (weight_of(activation_only, "head.weight") == original).all()
    assert (weight_of(both, "head.weight") == weight_of(weight_only, "head.weight")).all()
    assert sqnr_db(original, weight_of(mixed, "head.weight")) > sqnr_db(original, weight_of(both, "head.weight")) + 10


def test_quark_compatibility_writes_quarks_operators(conv_path, tmp_path, bitpress, run_model):
    output = tmp_path / "out.onnx"
    bitpress.ok("quantize", conv_path, "-o", output, "--config", "MXFP8E4M3", "--set", "operators=quark", "--set",
                "placement=all", "--set", "scale=floor")
    nodes = quantizers(onnx.load(output))
    assert {(node.domain, node.op_type) for node in nodes} == {("com.amd.quark", "MXQuantizeDequantize")}
    assert len(nodes) > 4  # placement=all
    assert is_as_measured(sqnr_db(run_model(conv_path, conv_inputs())[0], run_model(output, conv_inputs())[0]), 24.0)


@pytest.mark.parametrize("preset, measured", [("BFP16", 44.1), ("MX6", 28.4), ("MXINT8", 42.2)])
def test_weights_for_quarks_operators_are_packed_as_ours(preset, measured, matmul_path, tmp_path, bitpress):
    output, floats = tmp_path / "out.onnx", tmp_path / "floats.onnx"
    bitpress.ok("quantize", matmul_path, "-o", output, "--config", preset, "--set", "operators=quark")
    decoders = {node.op_type for node in onnx.load(output).graph.node if node.op_type.startswith("Unpack")}
    assert {name.removesuffix("_padded") for name in decoders} == {f"Unpack_{preset.lower()}"}
    assert preset.lower() in bitpress.ok("inspect", output)
    bitpress.ok("unpack", output, "-o", floats)
    assert is_as_measured(sqnr_db(weight_of(matmul_path, "query"), weight_of(floats, "query")), measured)


def test_excluded_nodes_stay_float(conv_path, tmp_path, bitpress):
    output = tmp_path / "out.onnx"
    bitpress.ok("quantize", conv_path, "-o", output, "--config", "MX6", "--set", "exclude_nodes=stem|head")
    assert len(quantizers(onnx.load(output))) == 2


def test_external_data_goes_in(tmp_path, bitpress, run_model):
    path, output = tmp_path / "conv.onnx", tmp_path / "sub" / "out.onnx"
    output.parent.mkdir()
    onnx.save(models.conv_model(), path, save_as_external_data=True, location="conv.bin", size_threshold=100)
    bitpress.ok("quantize", path, "-o", output, "--config", "MX9")
    assert is_as_measured(sqnr_db(run_model(path, conv_inputs())[0], run_model(output, conv_inputs())[0]), MX9_DB)


def test_a_model_may_be_written_over(conv_path, tmp_path, bitpress):
    output = tmp_path / "out.onnx"
    bitpress.ok("quantize", conv_path, "-o", output, "--config", "MX9")
    bitpress.ok("quantize", conv_path, "-o", conv_path, "--config", "MX9")
    assert conv_path.read_bytes() == output.read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["conv.onnx", "out.onnx"]


def test_inspect_names_what_is_in_the_model(conv_path, bitpress):
    text = bitpress.ok("inspect", conv_path)
    for word in ("Conv", "Gemm", "image", "logits", "17"):
        assert word in text


def test_the_file_of_a_16_bit_config_is_no_larger(conv_path, tmp_path, bitpress):
    output = tmp_path / "out.onnx"
    bitpress.ok("quantize", conv_path, "-o", output, "--config", "BF16")
    assert output.stat().st_size < conv_path.stat().st_size * 1.2


def test_no_progress_in_a_pipe(conv_path, tmp_path, bitpress):
    result = bitpress.run("quantize", conv_path, "-o", tmp_path / "out.onnx", "--config", "MX6")
    assert result.returncode == 0
    assert "\r" not in result.stderr + result.stdout and "\x1b" not in result.stderr + result.stdout


@pytest.mark.parametrize("command", ["inspect", "plan", "quantize", "evaluate"])
def test_help_has_an_example(command, bitpress):
    text = bitpress.ok(command, "--help")
    assert "xample" in text and f"bitpress {command} " in text


def test_plan_help_lists_the_settings(bitpress):
    text = bitpress.ok("plan", "--help")
    for key in ("placement", "weight_scale", "exclude_nodes"):
        assert key in text
