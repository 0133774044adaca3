"""Packed models are as small as their formats say, in every operator set and element type, and need no library for weights. That
they give the outputs of simulated ones, in all formats: format_table_test.py."""

import json
import re

import models
import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

SOME_INTEGERS = ["int2 per_block(32) false", "uint4 per_axis true", "int4 per_block(7) true", "int8 per_axis true",
                 "int3 per_block(7) true", "uint3 per_axis false",
                 "uint16 per_tensor false", "int32 per_block(32) false"]
# Bits of codes, scales and micro-exponents for each element of a full block.
BITS = {"fp16": 16, "bf16": 16, "fp8_e4m3": 8, "fp8_e5m2": 8, "bfp16": 9, "mx4": 4, "mx6": 6, "mx9": 9,
        "mxfp8_e5m2": 8.25, "mxfp8_e4m3": 8.25, "mxfp6_e3m2": 6.25, "mxfp6_e2m3": 6.25, "mxfp4_e2m1": 4.25,
        "mxint8": 8.25}


def run(path, library=None, dtype=np.float32):
    """Returns the outputs and their types as bytes, so that equal ones are equal bit for bit."""
    settings = onnxruntime.SessionOptions()
    settings.log_severity_level = 3
    if library:
        settings.register_custom_ops_library(str(library))
    session = onnxruntime.InferenceSession(str(path), settings, providers=["CPUExecutionProvider"])
    return [(y.dtype, y.tobytes()) for y in session.run(None, models.odd_inputs(dtype))]


def save(model, path):
    onnx.save(model, path)
    return path


@pytest.fixture(scope="module")
def odd_path(tmp_path_factory):
    return save(models.odd_model(), tmp_path_factory.mktemp("odd") / "odd.onnx")


def quantize(bitpress, source, target, weights, *options):
    """`weights` is a format, or for integers also granularity and symmetry, as in "int4 per_block(7) true"."""
    weights, *scales = weights.split(" ") if weights.endswith(("true", "false")) else [weights]
    if scales:
        granularity, _, block_size = scales[0].partition("(")
        options += ("--set", f"weight_granularity={granularity}", "--set", f"weight_symmetric={scales[1]}")
        if block_size:
            options += ("--set", f"weight_block_size={block_size[:-1]}")
    bitpress.ok("quantize", source, "-o", target, "--config", "BF16", "--activations", "none", "--weights", weights,
                "--target", "portable", *options)
    return target


# Operator sets below 13 are raised to it. From 19 on, codes of fp8 have their own type. Other formats have one function, whose
# operators have another version in the last operator set.
@pytest.mark.parametrize("name, opset", [
    *[(name, opset) for name in ["mx6", "mxfp4_e2m1", "bf16", *SOME_INTEGERS] for opset in (11, 23)],
    *[(name, opset) for name in ["mxfp8_e4m3", "fp8_e5m2"] for opset in (11, 18, 19, 23)],
    *[(name, opset) for name in ["mx6", "int4 per_block(7) true"] for opset in (12, 13, 16, 21)]])
def test_operator_sets(opset, name, tmp_path, bitpress):
    source = save(models.odd_model(opset), tmp_path / "odd.onnx")
    packed = quantize(bitpress, source, tmp_path / "packed.onnx", name)
    simulated = quantize(bitpress, source, tmp_path / "simulated.onnx", name, "--storage", "simulated")
    onnx.checker.check_model(packed, full_check=True)
    assert run(packed) == run(simulated)
    assert any(node.op_type.startswith("Unpack_") for node in onnx.load(packed).graph.node)


@pytest.mark.parametrize("name", ["mxfp8_e4m3", "mx6", "bfp16", "bf16", *SOME_INTEGERS])
def test_half_weights_keep_their_type(name, tmp_path, bitpress):
    source = save(models.odd_model(dtype=np.float16), tmp_path / "odd.onnx")
    packed = quantize(bitpress, source, tmp_path / "packed.onnx", name)
    simulated = quantize(bitpress, source, tmp_path / "simulated.onnx", name, "--storage", "simulated")
    onnx.checker.check_model(packed, full_check=True)
    wanted = run(simulated, dtype=np.float16)
    assert {dtype for dtype, _ in wanted} == {np.dtype(np.float16)}
    assert run(packed, dtype=np.float16) == wanted
    bitpress.ok("unpack", packed, "-o", tmp_path / "floats.onnx")
    assert run(tmp_path / "floats.onnx", dtype=np.float16) == wanted
    types = {tensor.data_type for tensor in onnx.load(tmp_path / "floats.onnx").graph.initializer}
    assert types == {TensorProto.FLOAT16}


# Each block or column has a scale of 32 bits and, if codes are asymmetric, a zero point.
INTEGER_BITS = {"int4 per_block(32) true": 5, "uint4 per_block(32) false": 5.125, "int2 per_block(32) true": 3,
                "int3 per_block(32) true": 4, "uint3 per_block(32) false": 4.09375,
                "uint2 per_block(32) false": 3.0625, "int8 per_axis true": 8.0625, "uint8 per_axis false": 8.078125,
                "int8 per_block(32) true": 9, "int16 per_axis true": 16.0625}


@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.quick if name in ("mx6", "uint4 per_block(32) false") else ())
                                  for name in [*BITS, *INTEGER_BITS]])
def test_a_weight_takes_the_bits_of_its_format(name, tmp_path, bitpress):
    wanted = (BITS | INTEGER_BITS)[name]
    values = np.random.default_rng(0).standard_normal((512, 256)).astype(np.float32)
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "one",
                              [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 512])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 256])],
                              [numpy_helper.from_array(values, "w")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    packed = quantize(bitpress, save(model, tmp_path / "one.onnx"), tmp_path / "packed.onnx", name)
    stored = sum(len(tensor.raw_data) for tensor in onnx.load(packed).graph.initializer)
    assert stored * 8 / values.size == wanted
    line = next(line for line in bitpress.ok("inspect", packed, "--tensors").splitlines() if line.startswith("  w "))
    assert f"{wanted:.2f} bits each" in line and f" {name.split(' per')[0]} [512, 256]" in line


def test_types_of_codes_follow_the_operator_set(odd_path, tmp_path, bitpress):
    types = {}
    for name in ["mxfp8_e4m3", "fp8_e5m2", "mxint8", "bf16", "fp16", "mx9"]:
        model = onnx.load(quantize(bitpress, odd_path, tmp_path / "packed.onnx", name))
        types[name] = next(t.data_type for t in model.graph.initializer if t.name == "stem_codes")
        assert model.opset_import[0].version == (19 if "fp8" in name else 17)
    assert types == {"mxfp8_e4m3": TensorProto.FLOAT8E4M3FN, "fp8_e5m2": TensorProto.FLOAT8E5M2,
                     "mxint8": TensorProto.INT8, "bf16": TensorProto.BFLOAT16, "fp16": TensorProto.FLOAT16,
                     "mx9": TensorProto.UINT8}


def test_inspect_says_what_stayed_float_and_why(conv_path, tmp_path, bitpress):
    bitpress.ok("quantize", conv_path, "-o", tmp_path / "q.onnx", "--config", "MX6")
    text = bitpress.ok("inspect", tmp_path / "q.onnx")
    assert re.search(r"mx6 as floats: its \d+ elements are too few", text)
    assert "biases stay float unless asked" in text
    assert "bits each" in text and "in all:" in text
    unpacked = next(p.value for p in onnx.load(tmp_path / "q.onnx").metadata_props if p.key == "bitpress.unpacked")
    assert json.loads(unpacked)


def test_quantizing_a_packed_model_leaves_it(odd_path, tmp_path, bitpress):
    packed = quantize(bitpress, odd_path, tmp_path / "packed.onnx", "mx6")
    bitpress.ok("quantize", packed, "-o", tmp_path / "again.onnx", "--config", "MXFP8E4M3", "--activations", "none",
                "--as-is")
    assert run(packed) == run(tmp_path / "again.onnx")
    plan = json.loads(bitpress.ok("plan", packed, "--config", "MX6", "--as-is"))
    reasons = {row["reason"] for row in plan["tensors"] if row["role"] == "weight"}
    assert reasons == {"already quantized: stored as codes"}


def test_unpack_takes_quantizers_out_when_asked(odd_path, tmp_path, bitpress, operator_library):
    bitpress.ok("quantize", odd_path, "-o", tmp_path / "q.onnx", "--config", "MX9", "--set", "placement=all", "--target",
                "portable")
    bitpress.ok("unpack", tmp_path / "q.onnx", "-o", tmp_path / "floats.onnx")
    assert run(tmp_path / "q.onnx", operator_library) == run(tmp_path / "floats.onnx", operator_library)
    text = bitpress.ok("unpack", tmp_path / "q.onnx", "-o", tmp_path / "plain.onnx", "--drop-quantizers")
    assert "quantizers taken out" in text
    model = onnx.load(tmp_path / "plain.onnx")
    assert not any(node.domain for node in model.graph.node) and not model.functions
    run(tmp_path / "plain.onnx")


def test_external_data_when_asked(odd_path, tmp_path, bitpress):
    packed = quantize(bitpress, odd_path, tmp_path / "packed.onnx", "mx9", "--external-data")
    assert (tmp_path / "packed.onnx.data").stat().st_size > 0
    inline = quantize(bitpress, odd_path, tmp_path / "inline.onnx", "mx9")
    onnx.checker.check_model(packed, full_check=True)
    assert run(packed) == run(inline)
    bitpress.ok("unpack", packed, "-o", tmp_path / "floats.onnx")
    assert run(packed) == run(tmp_path / "floats.onnx")


def test_threads_do_not_matter(odd_path, tmp_path, bitpress):
    for name in ["mx6", "bfp(bits=20, block=16)", "int4 per_block(7) true", "uint16 per_tensor false"]:
        one = quantize(bitpress, odd_path, tmp_path / "one.onnx", name, "--threads", "1")
        three = quantize(bitpress, odd_path, tmp_path / "three.onnx", name, "--threads", "3")
        assert one.read_bytes() == three.read_bytes()


def test_codes_that_mean_infinity_are_refused(tmp_path, bitpress):
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"], "product")], "one",
                              [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 32])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 32])],
                              [numpy_helper.from_array(np.full((32, 32), 3.4e38, np.float32), "w")])
    source = save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "one.onnx")
    plan = json.loads(bitpress.ok("plan", source, "--config", "BF16", "--activations", "none", "--weights", "int8", "--set",
                                  "weight_granularity=per_tensor"))
    (row,) = [row for row in plan["tensors"] if row["format"] == "int8"]
    row.pop("range")
    row |= {"scale": 2e38, "zero_point": 0}
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    message = bitpress.error("quantize", source, "-o", tmp_path / "q.onnx", "--plan", tmp_path / "plan.json")
    assert "'w'" in message and "product" in message and "beyond float32" in message
    assert not (tmp_path / "q.onnx").exists()
