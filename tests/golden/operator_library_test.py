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


LSTM = {"hidden_size": 3, **{f"{tensor}_scale": 2e-5 for tensor in "xwrby"}, **{f"{tensor}_zero_point": 32768 for tensor in "xwrby"}}
LSTM_SHAPES = {"w": [2, 12, 4], "r": [2, 12, 3], "b": [2, 24]}
NORM_SHAPES = {"scale": [6], "bias": [6]}


def make_layer(op, library, attributes, shapes, x_shape, old=False):
    constants = [helper.make_tensor(name, TensorProto.FLOAT, shape, np.zeros(shape, np.float32).tobytes(), raw=True)
                 for name, shape in shapes.items()]
    node = helper.make_node(op, ["x", *shapes], ["y"], name="the_node", domain=OLD_QUARK if old else QUARK, **attributes)
    return make_session([node], library, shape=x_shape, constants=constants)


@pytest.mark.parametrize("new, old, attributes, shapes, x_shape", [
    ("ExtendedInstanceNormalization", "VitisInstanceNormalization", {"epsilon": 0.1}, NORM_SHAPES, (3, 6, 40)),
    ("ExtendedLSTM", "VitisLSTM", LSTM, LSTM_SHAPES, (5, 1, 4)),
])
def test_layers_have_old_names_too(new, old, attributes, shapes, x_shape, operator_library):
    x = sample(x_shape)
    first = run(make_layer(old, operator_library, attributes, shapes, x_shape, old=True), x)
    second = run(make_layer(new, operator_library, attributes, shapes, x_shape), x)
    assert (to_bits(first) == to_bits(second)).all()


@pytest.mark.parametrize("attribute, value, words", [
    ("x_scale", None, ["x_scale"]), ("y_zero_point", None, ["y_zero_point"]), ("hidden_size", None, ["hidden_size", "0"]),
    ("w_scale", 0.0, ["w_scale", "0"]), ("r_scale", float("inf"), ["r_scale", "inf"]), ("b_scale", 1, ["b_scale"]),
    ("x_zero_point", 65536, ["x_zero_point", "65536"]), ("x_zero_point", -1, ["x_zero_point", "-1"]),
    ("hidden_size", -3, ["hidden_size", "-3"]), ("hidden_size", 2**62, ["hidden_size", str(2**62)]),
    ("direction", "forward", ["direction", "forward"]), ("layout", 1, ["layout", "1"]), ("input_forget", 1, ["input_forget", "1"]),
    ("x_scale", 1e30, ["x_scale * w_scale", "not defined"]), ("y_scale", 0.01, ["y_scale", "0.01", "not defined"]),
])
def test_a_wrong_attribute_of_an_lstm_is_an_error_at_load(attribute, value, words, operator_library):
    attributes = {name: number for name, number in {**LSTM, attribute: value}.items() if number is not None}
    with pytest.raises(Exception) as info:
        make_layer("ExtendedLSTM", operator_library, attributes, LSTM_SHAPES, (5, 1, 4))
    for word in ["the_node", *words]:
        assert word in str(info.value)


@pytest.mark.parametrize("op, attributes, shapes, x_shape, words", [
    ("ExtendedLSTM", LSTM, LSTM_SHAPES, (5, 2, 4), ["5, 2, 4", "[steps, 1, input size]"]),
    ("ExtendedLSTM", LSTM, LSTM_SHAPES, (5, 4), ["5, 4"]),
    ("ExtendedLSTM", LSTM, LSTM_SHAPES, (5, 1, 0), ["5, 1, 0"]),
    ("ExtendedLSTM", LSTM, LSTM_SHAPES, (5, 1, 6), ["input w", "[2, 12, 4]", "[2, 12, 6]"]),
    ("ExtendedLSTM", LSTM, {**LSTM_SHAPES, "r": [1, 12, 3]}, (5, 1, 4), ["input r", "[1, 12, 3]", "[2, 12, 3]"]),
    ("ExtendedLSTM", LSTM, {**LSTM_SHAPES, "b": [24]}, (5, 1, 4), ["input b", "[24]", "[2, 24]"]),
    ("ExtendedInstanceNormalization", {}, NORM_SHAPES, (6,), ["1 dimensions"]),
    ("ExtendedInstanceNormalization", {}, {**NORM_SHAPES, "bias": [5]}, (2, 6, 3), ["input bias", "[5]", "[6]"]),
    ("ExtendedInstanceNormalization", {}, NORM_SHAPES, (2, 7, 3), ["input scale", "[6]", "[7]"]),
])
def test_a_wrong_shape_is_an_error_naming_the_node(op, attributes, shapes, x_shape, words, operator_library):
    session = make_layer(op, operator_library, attributes, shapes, [None] * len(x_shape))
    with pytest.raises(Exception) as info:
        run(session, np.zeros(x_shape, np.float32))
    for word in ["the_node", *words]:
        assert word in str(info.value)


def test_layers_take_empty_tensors(operator_library):
    session = make_layer("ExtendedLSTM", operator_library, LSTM, LSTM_SHAPES, ("T", 1, 4))
    assert run(session, np.zeros((0, 1, 4), np.float32)).shape == (0, 2, 1, 3)
    session = make_layer("ExtendedInstanceNormalization", operator_library, {}, NORM_SHAPES, ("N", 6, "W"))
    for shape in ((0, 6, 4), (2, 6, 0)):
        assert run(session, np.zeros(shape, np.float32)).shape == shape


def test_an_axis_out_of_range_is_an_error_naming_the_node(operator_library):
    with pytest.raises(Exception) as info:
        session = make_session([quantizer("MXQuantizeDequantize", axis=5)], operator_library)
        run(session, sample())
    assert "the_node" in str(info.value) and "axis" in str(info.value) and "5" in str(info.value)
