"""Packed models are as small as their formats say, give the outputs of simulated ones, and need no library for weights."""

import json
import re

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

FORMATS = ["fp16", "bf16", "fp8_e4m3", "fp8_e5m2", "bfp16", "mx4", "mx6", "mx9", "mxfp8_e5m2", "mxfp8_e4m3",
           "mxfp6_e3m2", "mxfp6_e2m3", "mxfp4_e2m1", "mxint8", "bfp(bits=13, block=32)", "bfp(bits=11, block=7)",
           "bfp(bits=20, block=16)", "bfp(bits=24, block=8)", "bfp(bits=10, block=32, exponent_bits=5)"]
# Integers with the settings of their scales. 7 and 32 do not divide the sizes of the model of these tests.
INTEGERS = [f"{name} {granularity} {symmetric}" for name in
            ("int2", "uint2", "int4", "uint4", "int8", "uint8", "int16", "uint16", "int32", "uint32")
            for granularity in ("per_tensor", "per_axis", "per_block(7)", "per_block(32)") for symmetric in ("true", "false")]
SOME_INTEGERS = ["int2 per_block(32) false", "uint4 per_axis true", "int4 per_block(7) true", "int8 per_axis true",
                 "uint16 per_tensor false", "int32 per_block(32) false"]
# Bits of codes, scales and micro-exponents for each element of a full block.
BITS = {"fp16": 16, "bf16": 16, "fp8_e4m3": 8, "fp8_e5m2": 8, "bfp16": 9, "mx4": 4, "mx6": 6, "mx9": 9,
        "mxfp8_e5m2": 8.25, "mxfp8_e4m3": 8.25, "mxfp6_e3m2": 6.25, "mxfp6_e2m3": 6.25, "mxfp4_e2m1": 4.25,
        "mxint8": 8.25}


def weight(rng, *shape, dtype=np.float32):
    # The weights have rows of different magnitudes, some zeros and negative zeros.
    values = rng.standard_normal(shape) * 2.0 ** rng.integers(-12, 4, (shape[0],) + (1,) * (len(shape) - 1))
    values[rng.random(shape) < 0.05] = 0.0
    values[rng.random(shape) < 0.05] = -0.0
    return values.astype(dtype)


def odd_model(opset=17, dtype=np.float32):
    """Weights of awkward sizes: short last blocks, odd counts, strided axes, and both orientations of Gemm."""
    rng = np.random.default_rng(5)
    element = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    weights = {
        "stem": weight(rng, 33, 3, 3, 3, dtype=dtype), "point": weight(rng, 45, 33, 1, 1, dtype=dtype),
        "depth": weight(rng, 45, 1, 5, 5, dtype=dtype), "square": weight(rng, 21, 45, 3, 3, dtype=dtype),
        "up": weight(rng, 21, 13, 2, 2, dtype=dtype), "mat": weight(rng, 13, 77, dtype=dtype),
        "rows": weight(rng, 50, 77, dtype=dtype), "columns": weight(rng, 50, 31, dtype=dtype),
    }
    node = helper.make_node
    nodes = [
        node("Conv", ["x", "stem"], ["a"], "stem_conv", pads=[1, 1, 1, 1]), node("Conv", ["a", "point"], ["b"], "point_conv"),
        node("Conv", ["b", "depth"], ["c"], "depth_conv", group=45, pads=[2, 2, 2, 2]),
        node("Conv", ["c", "square"], ["d"], "square_conv"), node("ConvTranspose", ["d", "up"], ["e"], "up_conv", strides=[2, 2]),
        node("GlobalAveragePool", ["e"], ["f"], "pool"), node("Flatten", ["f"], ["g"], "flat"),
        node("MatMul", ["g", "mat"], ["h"], "mat_mul"), node("Gemm", ["h", "rows"], ["i"], "rows_gemm", transB=1),
        node("Gemm", ["i", "columns"], ["y"], "columns_gemm"),
    ]
    graph = helper.make_graph(nodes, "odd", [helper.make_tensor_value_info("x", element, ["N", 3, 8, 8])],
                              [helper.make_tensor_value_info("y", element, ["N", 31])],
                              [numpy_helper.from_array(value, name) for name, value in weights.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def run(path, library=None, dtype=np.float32, **options):
    settings = onnxruntime.SessionOptions()
    settings.log_severity_level = 3
    for name, value in options.items():
        setattr(settings, name, value)
    if library:
        settings.register_custom_ops_library(str(library))
    session = onnxruntime.InferenceSession(str(path), settings, providers=["CPUExecutionProvider"])
    x = np.random.default_rng(7).standard_normal((2, 3, 8, 8)).astype(dtype)
    return session.run(None, {"x": x})[0]


def bits(array):
    return array.view(np.uint16 if array.dtype == np.float16 else np.uint32)


def save(model, path):
    onnx.save(model, path)
    return path


@pytest.fixture
def odd_path(tmp_path):
    return save(odd_model(), tmp_path / "odd.onnx")


def quantize(bitpress, source, target, weights, *options):
    """`weights` is a format, or for integers also granularity and symmetry, as in "int4 per_block(7) true"."""
    weights, *scales = weights.split(" ") if weights in INTEGERS else [weights]
    if scales:
        granularity, _, block_size = scales[0].partition("(")
        options += ("--set", f"weight_granularity={granularity}", "--set", f"weight_symmetric={scales[1]}")
        if block_size:
            options += ("--set", f"weight_block_size={block_size[:-1]}")
    bitpress.ok("quantize", source, "-o", target, "--config", "BF16", "--activations", "none", "--weights", weights,
                "--target", "portable", "--check", "off", *options)  # the tests load it themselves
    return target


@pytest.mark.parametrize("name", FORMATS + INTEGERS)
def test_packed_gives_what_simulated_gives_without_any_library(name, odd_path, tmp_path, bitpress, operator_library):
    packed = quantize(bitpress, odd_path, tmp_path / "packed.onnx", name)
    simulated = quantize(bitpress, odd_path, tmp_path / "simulated.onnx", name, "--storage", "simulated")
    onnx.checker.check_model(packed, full_check=True)
    wanted = run(simulated)
    if "16 per" not in name and "32 per" not in name:  # may be as good as the floats
        assert not np.array_equal(wanted, run(odd_path))
    assert np.array_equal(bits(run(packed)), bits(wanted))
    assert np.array_equal(bits(run(packed, operator_library)), bits(wanted))
    no_folding = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    assert np.array_equal(bits(run(packed, graph_optimization_level=no_folding)),
                          bits(run(simulated, graph_optimization_level=no_folding)))
    nodes = [node.op_type for node in onnx.load(packed).graph.node]
    assert sum(node.startswith("Unpack_") for node in nodes) == 8


@pytest.mark.parametrize("name", FORMATS + INTEGERS)
def test_unpack_gives_the_simulated_weights(name, odd_path, tmp_path, bitpress):
    packed = quantize(bitpress, odd_path, tmp_path / "packed.onnx", name)
    simulated = quantize(bitpress, odd_path, tmp_path / "simulated.onnx", name, "--storage", "simulated")
    bitpress.ok("unpack", packed, "-o", tmp_path / "floats.onnx")
    unpacked = onnx.load(tmp_path / "floats.onnx")
    onnx.checker.check_model(unpacked, full_check=True)
    assert not unpacked.functions and not any(node.domain for node in unpacked.graph.node)
    found = {tensor.name: numpy_helper.to_array(tensor) for tensor in unpacked.graph.initializer}
    for tensor in onnx.load(simulated).graph.initializer:
        assert np.array_equal(bits(found[tensor.name]), bits(numpy_helper.to_array(tensor))), tensor.name


@pytest.mark.parametrize("opset", [11, 12, 13, 16, 18, 19, 21, 23])
@pytest.mark.parametrize("name", ["mxfp8_e4m3", "mx6", "mxfp4_e2m1", "fp8_e5m2", "bf16", *SOME_INTEGERS])
def test_operator_sets(opset, name, tmp_path, bitpress):
    source = save(odd_model(opset), tmp_path / "odd.onnx")
    packed = quantize(bitpress, source, tmp_path / "packed.onnx", name)
    simulated = quantize(bitpress, source, tmp_path / "simulated.onnx", name, "--storage", "simulated")
    onnx.checker.check_model(packed, full_check=True)
    assert np.array_equal(bits(run(packed)), bits(run(simulated)))
    assert any(node.op_type.startswith("Unpack_") for node in onnx.load(packed).graph.node)


@pytest.mark.parametrize("name", ["mxfp8_e4m3", "mx6", "bfp16", "bf16", *SOME_INTEGERS])
def test_half_weights_keep_their_type(name, tmp_path, bitpress):
    source = save(odd_model(dtype=np.float16), tmp_path / "odd.onnx")
    packed = quantize(bitpress, source, tmp_path / "packed.onnx", name)
    simulated = quantize(bitpress, source, tmp_path / "simulated.onnx", name, "--storage", "simulated")
    onnx.checker.check_model(packed, full_check=True)
    wanted = run(simulated, dtype=np.float16)
    assert wanted.dtype == np.float16
    assert np.array_equal(bits(run(packed, dtype=np.float16)), bits(wanted))
    bitpress.ok("unpack", packed, "-o", tmp_path / "floats.onnx")
    assert np.array_equal(bits(run(tmp_path / "floats.onnx", dtype=np.float16)), bits(wanted))
    types = {tensor.data_type for tensor in onnx.load(tmp_path / "floats.onnx").graph.initializer}
    assert types == {TensorProto.FLOAT16}


# Each block or column has a scale of 32 bits and, if codes are asymmetric, a zero point.
INTEGER_BITS = {"int4 per_block(32) true": 5, "uint4 per_block(32) false": 5.125, "int2 per_block(32) true": 3,
                "uint2 per_block(32) false": 3.0625, "int8 per_axis true": 8.0625, "uint8 per_axis false": 8.078125,
                "int8 per_block(32) true": 9, "int16 per_axis true": 16.0625}


@pytest.mark.parametrize("name", [*BITS, *INTEGER_BITS])
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


def test_types_of_codes_follow_the_operator_set(tmp_path, bitpress):
    source = save(odd_model(), tmp_path / "odd.onnx")
    types = {}
    for name in ["mxfp8_e4m3", "fp8_e5m2", "mxint8", "bf16", "fp16", "mx9"]:
        model = onnx.load(quantize(bitpress, source, tmp_path / "packed.onnx", name))
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
    assert np.array_equal(bits(run(packed)), bits(run(tmp_path / "again.onnx")))
    plan = json.loads(bitpress.ok("plan", packed, "--config", "MX6", "--as-is"))
    reasons = {row["reason"] for row in plan["tensors"] if row["role"] == "weight"}
    assert reasons == {"already quantized: stored as codes"}


def test_unpack_takes_quantizers_out_when_asked(odd_path, tmp_path, bitpress, operator_library):
    bitpress.ok("quantize", odd_path, "-o", tmp_path / "q.onnx", "--config", "MX9", "--set", "placement=all")
    bitpress.ok("unpack", tmp_path / "q.onnx", "-o", tmp_path / "floats.onnx")
    assert np.array_equal(bits(run(tmp_path / "q.onnx", operator_library)),
                          bits(run(tmp_path / "floats.onnx", operator_library)))
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
    assert np.array_equal(bits(run(packed)), bits(run(inline)))
    bitpress.ok("unpack", packed, "-o", tmp_path / "floats.onnx")
    assert np.array_equal(bits(run(packed)), bits(run(tmp_path / "floats.onnx")))


def test_threads_do_not_matter(odd_path, tmp_path, bitpress):
    for name in ["mx6", "bfp(bits=20, block=16)", *SOME_INTEGERS]:
        one = quantize(bitpress, odd_path, tmp_path / "one.onnx", name, "--threads", "1")
        three = quantize(bitpress, odd_path, tmp_path / "three.onnx", name, "--threads", "3")
        assert one.read_bytes() == three.read_bytes()


@pytest.mark.parametrize("name", FORMATS + SOME_INTEGERS)
def test_nothing_is_decoded_at_inference(name, odd_path, tmp_path, bitpress):
    """ONNX Runtime folds the decoders when it loads the model. Only the operators of the simulated model are left."""
    left = []
    for storage in ("packed", "simulated"):
        path = quantize(bitpress, odd_path, tmp_path / f"{storage}.onnx", name, "--storage", storage)
        run(path, graph_optimization_level=onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC,
            optimized_model_filepath=str(tmp_path / "left.onnx"))
        left.append(sorted(node.op_type for node in onnx.load(tmp_path / "left.onnx").graph.node))
    assert left[0] == left[1]


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
