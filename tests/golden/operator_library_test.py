"""The operator library as a user of ONNX Runtime meets it: names, defaults, float16, symbolic dimensions, clear errors."""

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper

QUARK, OLD_QUARK = "com.amd.quark", "com.vai.quantize"
RANDOM = np.random.default_rng(7)


def make_session(nodes, library, shape=("N", 6, 40), element_type=TensorProto.FLOAT, output_shape=None, constants=()):
    graph = helper.make_graph(nodes, "ops", [helper.make_tensor_value_info("x", element_type, shape)],
                              [helper.make_tensor_value_info("y", element_type, output_shape)], list(constants))
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(QUARK, 1), helper.make_opsetid(OLD_QUARK, 1)]
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.register_custom_ops_library(str(library))
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def quantizer(op, domain=QUARK, **attributes):
    return helper.make_node(op, ["x"], ["y"], name="the_node", domain=domain, **attributes)


def run(session, x):
    return session.run(None, {"x": x})[0]


def sample(shape=(3, 6, 40)):
    return (RANDOM.standard_normal(shape) * 2.0 ** RANDOM.integers(-8, 8, shape)).astype(np.float32)


def to_bits(x):
    return x.view(f"u{x.dtype.itemsize}")


@pytest.mark.parametrize("old, new, attributes", [
    ("MXFixNeuron", "MXQuantizeDequantize", {"element_dtype": "fp8_e4m3", "axis": 1, "block_size": 32, "rounding_mode": 2}),
    ("BFPFixNeuron", "BFPQuantizeDequantize", {"bfp_method": "to_bfp", "axis": 2, "bit_width": 16, "block_size": 8,
                                               "rounding_mode": 2}),
])
def test_old_names_mean_the_same(old, new, attributes, operator_library):
    x = sample()
    first = run(make_session([quantizer(old, OLD_QUARK, **attributes)], operator_library), x)
    second = run(make_session([quantizer(new, **attributes)], operator_library), x)
    assert (to_bits(first) == to_bits(second)).all()
    assert (to_bits(first) != to_bits(x)).any()


@pytest.mark.parametrize("op, defaults", [
    ("MXQuantizeDequantize", {"element_dtype": "int8", "axis": 1, "block_size": 32, "rounding_mode": 0}),
    ("BFPQuantizeDequantize", {"bfp_method": "to_bfp", "axis": 1, "bit_width": 16, "block_size": 8, "rounding_mode": 0,
                               "sub_block_size": 2, "sub_block_shift_bits": 1, "convert_to_bfloat_before_bfp": 0,
                               "use_compiler_version_cpu_kernel": 0}),
])
def test_absent_attributes_take_quarks_defaults(op, defaults, operator_library):
    x = sample()
    bare = run(make_session([quantizer(op)], operator_library), x)
    full = run(make_session([quantizer(op, **defaults)], operator_library), x)
    assert (to_bits(bare) == to_bits(full)).all()


@pytest.mark.quick
def test_the_shared_method_is_an_alias(operator_library):
    x, settings = sample(), {"axis": 2, "bit_width": 13, "block_size": 16, "rounding_mode": 2}
    first = run(make_session([quantizer("BFPQuantizeDequantize", bfp_method="to_bfp_prime", **settings)], operator_library), x)
    second = run(make_session([quantizer("BFPQuantizeDequantize", bfp_method="to_bfp_prime_shared", **settings)],
                              operator_library), x)
    assert (to_bits(first) == to_bits(second)).all()


@pytest.mark.parametrize("op, attributes", [
    ("MXQuantizeDequantize", {"element_dtype": "fp6_e2m3", "axis": -1, "rounding_mode": 2}),
    ("BFPQuantizeDequantize", {"bfp_method": "to_bfp_prime", "bit_width": 13, "block_size": 16, "axis": -1,
                               "rounding_mode": 2}),
])
def test_float16_computes_in_float32(op, attributes, operator_library):
    x = sample().astype(np.float16)
    half = run(make_session([quantizer(op, **attributes)], operator_library, element_type=TensorProto.FLOAT16), x)
    full = run(make_session([quantizer(op, **attributes)], operator_library), x.astype(np.float32))
    assert half.dtype == np.float16
    assert (to_bits(half) == to_bits(full.astype(np.float16))).all()


def test_axes_count_from_the_end_too(operator_library):
    x = sample()
    for axis in range(3):
        first = run(make_session([quantizer("MXQuantizeDequantize", axis=axis)], operator_library), x)
        second = run(make_session([quantizer("MXQuantizeDequantize", axis=axis - 3)], operator_library), x)
        assert (to_bits(first) == to_bits(second)).all()


def test_one_element_passes_unchanged_through_bfp(operator_library):
    x = np.full((1, 1), 1.2345678, np.float32)
    session = make_session([quantizer("BFPQuantizeDequantize", bit_width=10)], operator_library, shape=("N", "M"))
    assert run(session, x) == x


@pytest.mark.parametrize("shape", [(0, 6, 40), (3, 0, 40)])
def test_empty_tensors_stay_empty(shape, operator_library):
    session = make_session([quantizer("MXQuantizeDequantize")], operator_library, shape=("N", "M", 40))
    assert run(session, np.zeros(shape, np.float32)).shape == shape


def test_symbolic_dimensions_survive(operator_library):
    nodes = [helper.make_node("MXQuantizeDequantize", ["x"], ["q"], domain=QUARK),
             helper.make_node("Transpose", ["q"], ["y"], perm=[0, 2, 1])]
    session = make_session(nodes, operator_library)
    assert session.get_outputs()[0].shape == ["N", 40, 6]
    assert run(session, sample()).shape == (3, 40, 6)


def test_an_unknown_rank_is_no_scalar(operator_library):
    nodes = [helper.make_node("Reshape", ["x", "shape"], ["r"]),
             helper.make_node("MXQuantizeDequantize", ["r"], ["q"], domain=QUARK),
             helper.make_node("Transpose", ["q"], ["y"], perm=[1, 0])]
    graph = helper.make_graph(nodes, "rank", [helper.make_tensor_value_info("x", TensorProto.FLOAT, None),
                                              helper.make_tensor_value_info("shape", TensorProto.INT64, ["R"])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(QUARK, 1)]
    options = onnxruntime.SessionOptions()
    options.register_custom_ops_library(str(operator_library))
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    result = session.run(None, {"x": sample((4, 8)), "shape": np.array([8, 4])})[0]
    assert result.shape == (4, 8)


def test_the_number_of_threads_does_not_matter(operator_library):
    graph = helper.make_graph([quantizer("MXQuantizeDequantize", element_dtype="fp4_e2m1", rounding_mode=2)], "threads",
                              [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 70, 33, 31])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid(QUARK, 1), helper.make_opsetid("", 17)], ir_version=8)
    x, results = sample((2, 70, 33, 31)), []
    for num_threads in (1, 2, 4):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = num_threads
        options.register_custom_ops_library(str(operator_library))
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        results.append(run(session, x))
    assert all((to_bits(result) == to_bits(results[0])).all() for result in results)


@pytest.mark.parametrize("op, attributes, words", [
    ("MXQuantizeDequantize", {"element_dtype": "fp9_e4m4"}, ["the_node", "element_dtype", "fp9_e4m4"]),
    ("MXQuantizeDequantize", {"element_dtype": 8}, ["the_node", "element_dtype"]),
    ("MXQuantizeDequantize", {"block_size": 0}, ["the_node", "block_size", "0"]),
    ("MXQuantizeDequantize", {"block_size": -32}, ["the_node", "block_size", "-32"]),
    ("MXQuantizeDequantize", {"rounding_mode": 3}, ["the_node", "rounding_mode", "3"]),
    ("MXQuantizeDequantize", {"axis": "one"}, ["the_node", "axis"]),
    ("BFPQuantizeDequantize", {"bfp_method": "to_bfq"}, ["the_node", "bfp_method", "to_bfq"]),
    ("BFPQuantizeDequantize", {"bit_width": 8}, ["the_node", "bit_width", "8"]),
    ("BFPQuantizeDequantize", {"bfp_method": "to_bfp_prime", "sub_block_size": 0}, ["the_node", "sub_block_size"]),
    ("BFPQuantizeDequantize", {"convert_to_bfloat_before_bfp": 1}, ["the_node", "convert_to_bfloat_before_bfp"]),
    ("BFPQuantizeDequantize", {"use_compiler_version_cpu_kernel": 1}, ["the_node", "use_compiler_version_cpu_kernel"]),
])
def test_a_wrong_attribute_is_an_error_at_load_naming_the_node(op, attributes, words, operator_library):
    with pytest.raises(Exception) as info:
        make_session([quantizer(op, **attributes)], operator_library)
    for word in words:
        assert word in str(info.value)


@pytest.mark.parametrize("op", ["ExtendedLSTM", "ExtendedInstanceNormalization"])
def test_what_is_not_there_yet_says_so_at_load(op, operator_library):
    count = {"ExtendedLSTM": 3, "ExtendedInstanceNormalization": 3}[op]
    constants = [helper.make_tensor(f"c{i}", TensorProto.FLOAT, [6], [1.0] * 6) for i in range(count - 1)]
    node = helper.make_node(op, ["x", *(c.name for c in constants)], ["y"], name="the_node", domain=QUARK)
    with pytest.raises(Exception) as info:
        make_session([node], operator_library, constants=constants)
    assert op in str(info.value)


def test_an_axis_out_of_range_is_an_error_naming_the_node(operator_library):
    with pytest.raises(Exception) as info:
        session = make_session([quantizer("MXQuantizeDequantize", axis=5)], operator_library)
        run(session, sample())
    assert "the_node" in str(info.value) and "axis" in str(info.value) and "5" in str(info.value)
