"""Integer models are calibrated, written in QDQ form, and computed by ONNX Runtime's integer kernels."""

import json
from collections import Counter

import numpy as np
import onnx
import onnxruntime
import pytest
from models import QuantizedModels, is_as_measured, save_noise, sqnr_db
from onnx import TensorProto, helper, numpy_helper


def net(opset=17, branch_scale=1.0):
    """Conv-Relu, MaxPool, a residual Add, a Concat, and a classifier."""
    rng = np.random.default_rng(11)
    weights = {}

    def constant(name, *shape, scale=1.0):
        weights[name] = (rng.standard_normal(shape) * scale / np.sqrt(max(1, np.prod(shape[1:])))).astype(np.float32)
        return name

    node = helper.make_node
    nodes = [
        node("Conv", ["x", constant("w1", 16, 3, 3, 3), constant("b1", 16)], ["c1"], "conv1", pads=[1, 1, 1, 1]),
        node("Relu", ["c1"], ["r1"], "relu1"),
        node("MaxPool", ["r1"], ["p1"], "pool", kernel_shape=[2, 2], strides=[2, 2]),
        node("Conv", ["p1", constant("w2", 16, 16, 3, 3), constant("b2", 16)], ["c2"], "conv2", pads=[1, 1, 1, 1]),
        node("Add", ["c2", "p1"], ["a1"], "add"),
        node("Conv", ["a1", constant("w3", 8, 16, 1, 1, scale=branch_scale), constant("b3", 8)], ["c3"], "conv3"),
        node("Concat", ["a1", "c3"], ["k1"], "concat", axis=1),
        node("GlobalAveragePool", ["k1"], ["g1"], "average"),
        node("Flatten", ["g1"], ["f1"], "flatten"),
        node("Gemm", ["f1", constant("w4", 24, 10), constant("b4", 10)], ["y"], "classifier"),
    ]
    graph = helper.make_graph(nodes, "net", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 3, 16, 16])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 10])],
                              [numpy_helper.from_array(value, name) for name, value in weights.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("integer")


@pytest.fixture(scope="module")
def net_path(folder):
    onnx.save(net(), folder / "net.onnx")
    return folder / "net.onnx"


@pytest.fixture(scope="module")
def samples(folder):
    return save_noise(folder / "samples", (1, 3, 16, 16))


@pytest.fixture(scope="module")
def quantized(bitpress, net_path, folder):
    return QuantizedModels(bitpress, net_path, folder)


def inputs():
    return {"x": np.random.default_rng(4).standard_normal((32, 3, 16, 16)).astype(np.float32)}


def run(path, level="ALL", optimized=None, x=None):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, f"ORT_ENABLE_{level}")
    if optimized:
        options.optimized_model_filepath = str(optimized)
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return session.run(None, x or inputs())[0]


@pytest.fixture(scope="module")
def wanted(net_path):
    """The outputs of the float model."""
    return run(net_path)


@pytest.mark.quick
@pytest.mark.integers
def test_int8_runs_on_integer_kernels(quantized, samples, wanted, tmp_path):
    output = quantized.path("--config", "INT8", "--data", samples)
    onnx.checker.check_model(output, full_check=True)
    assert not any(node.domain for node in onnx.load(output).graph.node)
    assert is_as_measured(sqnr_db(wanted, run(output)), 45.0)
    run(output, "EXTENDED", tmp_path / "fused.onnx")
    left = Counter(node.op_type for node in onnx.load(tmp_path / "fused.onnx").graph.node)
    assert left["QLinearConv"] == 3 and left["Conv"] == 0
    assert left["QLinearAdd"] == 1 and left["QLinearConcat"] == 1 and left["QLinearGlobalAveragePool"] == 1
    assert left["Relu"] == 0


def of_integers(*values):
    return pytest.param(*values, marks=pytest.mark.integers)


# All of them have weights of 8 bits, and clip inputs beyond the calibrated ranges. So 16 bits for activations gain little. Marked are
# the pairs of signed and unsigned codes that ONNX Runtime has kernels for.
@pytest.mark.parametrize("preset, measured", [
    ("XINT8", 38.7), ("VINT8", 38.7), of_integers("S8S8_AAWS", 42.0), of_integers("U8S8_AAWS", 45.0), of_integers("U8U8_AAWA", 42.1),
    ("A8W8", 42.7), ("U16S8_AAWS", 44.2), ("A16W8", 45.4), ("INT8_CNN_DEFAULT", 44.9), ("INT8_TRANSFORMER_DEFAULT", 33.3),
    ("INT8_CNN_ACCURATE", 44.7), ("INT16_TRANSFORMER_ACCURATE", 49.3), ("S16S16_MIXED_S8S8", 42.7), ("BF16_BFP16", 41.7),
    ("BF16_MXINT8", 40.5), ("MX9_INT8", 45.0), ("BF16_MIXED_BFP16", 38.7), ("BF16_MIXED_MXINT8", 37.5)])
def test_every_integer_preset(preset, measured, quantized, samples, wanted):
    output = quantized.path("--config", preset, "--data", samples)
    onnx.checker.check_model(output, full_check=True)
    assert is_as_measured(sqnr_db(wanted, run(output)), measured)


@pytest.mark.parametrize("names", [["VINT8", "XINT8_QCONFIG", "VINT8_QCONFIG"], ["A8W8", "A8W8_QCONFIG"],
                                   ["A16W8", "A16W8_QCONFIG", "S16S8_ASWS"]], ids=" ".join)
def test_presets_of_several_names(names, net_path, bitpress):
    plans = [json.loads(bitpress.ok("plan", net_path, "--config", name)) for name in names]
    assert [plan["config"].pop("name") for plan in plans] == names
    assert all(plan == plans[0] for plan in plans)


def dequantized_constants(path):
    model = onnx.load(path)
    constants = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
    return {n.output[0]: [constants[i] for i in n.input] for n in model.graph.node
            if n.op_type == "DequantizeLinear" and n.input[0] in constants}


def test_biases_of_eight_bits_have_scales_of_their_own(net_path, quantized, samples, bitpress):
    output = quantized.path("--config", "XINT8", "--data", samples, "--set", "equalize=off")
    floats = {t.name: numpy_helper.to_array(t) for t in onnx.load(net_path).graph.initializer}
    constants = dequantized_constants(output)
    for name in ("b1", "b2", "b3", "b4"):
        codes, scale, zero_point = constants[name]
        assert codes.dtype == np.int8 and scale.shape == () and zero_point == 0 and np.log2(scale) % 1 == 0
        saturates = np.abs(floats[name]) > 127 * scale
        assert (np.abs(codes * scale - floats[name]) <= scale / 2)[~saturates].all() and saturates.mean() < 0.2
    # ONNX Runtime's integer kernels add INT32 biases only, and the check says so.
    assert "its bias, input 2, is INT8; its integer kernels add INT32" in bitpress.ok("check", output)
    output = quantized.path("--config", "XINT8", "--data", samples, "--set", "biases=int32")
    assert dequantized_constants(output)["b1"][0].dtype == np.int32
    assert "its integer kernels add INT32" not in bitpress.ok("check", output)


@pytest.mark.parametrize("method, measured", [("min_max", 44.8), ("moving_average", 33.5), ("percentile(99.9)", 44.6), ("entropy", 41.5),
                                              ("mse", 45.0), ("layerwise_percentile(mse)", 44.4), ("auto", 45.0), ("MinMSE", 45.0)])
def test_every_range_method(method, measured, quantized, samples, wanted):
    output = quantized.path("--config", "INT8", "--data", samples, "--set", f"activation_range={method}")
    assert is_as_measured(sqnr_db(wanted, run(output)), measured)


def test_a_calibration_file_gives_the_same_bytes(net_path, quantized, samples, tmp_path, bitpress):
    bitpress.ok("calibrate", net_path, "--data", samples, "-o", tmp_path / "all.bpc")
    from_file = quantized.path("--config", "INT8", "--calibration", tmp_path / "all.bpc")
    assert from_file.read_bytes() == quantized.path("--config", "INT8", "--data", samples, "--threads", "1").read_bytes()


@pytest.mark.quick
def test_scales_are_shared_where_elements_only_move(quantized, samples):
    scales = {tensor.name: numpy_helper.to_array(tensor)
              for tensor in onnx.load(quantized.path("--config", "INT8", "--data", samples)).graph.initializer
              if tensor.name.endswith("_scale")}
    assert scales["r1_scale"] == scales["p1_scale"]
    assert scales["a1_scale"] == scales["c3_scale"] == scales["k1_scale"]
    assert "c1_scale" not in scales and "y_scale" not in scales
    assert scales["w1_scale"].shape == (16,) and scales["b1_scale"].shape == (16,)
    assert np.array_equal(scales["b1_scale"], scales["x_scale"] * scales["w1_scale"])


@pytest.mark.integers
def test_a_plan_may_fix_scales(net_path, quantized, wanted, tmp_path, bitpress):
    plan = json.loads(bitpress.ok("plan", net_path, "--config", "INT8"))
    for row in plan["tensors"]:
        if row["role"] == "activation" and row["format"] != "none":
            row.pop("range", None), row.pop("shares", None)
            row |= {"scale": 0.0625, "zero_point": 128}
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    assert is_as_measured(sqnr_db(wanted, run(quantized.path("--plan", tmp_path / "plan.json"))), 39.9)


def test_a_plan_may_fix_the_scales_of_channels(net_path, quantized, tmp_path, bitpress):
    def with_numbers(name, **numbers):
        plan = json.loads(bitpress.ok("plan", net_path, "--config", "int8", "--set", "activations=none"))
        row = next(row for row in plan["tensors"] if row["value"] == "w1")
        row.pop("range"), row.pop("pair_safe", None), row.pop("may_be_uint8", None)
        row |= numbers
        path = tmp_path / f"{name}.json"
        path.write_text(json.dumps(plan))
        return path

    scales = [2.0**-(5 + channel % 3) for channel in range(16)]
    made = quantized.path("--plan", with_numbers("given", granularity="per_axis", axis=0, scale=scales, zero_point=[0] * 16))
    tensors = {tensor.name: numpy_helper.to_array(tensor) for tensor in onnx.load(made).graph.initializer}
    assert np.array_equal(tensors["w1_scales"].ravel(), np.array(scales, np.float32))
    for name, numbers, text in [
            ("few", {"granularity": "per_axis", "axis": 0, "scale": scales[:3]}, "takes 16 scales, not the 3"),
            ("whole", {"granularity": "per_tensor", "scale": scales}, "a weight per_axis has one of both"),
            ("texts", {"scale": ["a"]}, "a number or a list of numbers"),
            ("zero", {"granularity": "per_axis", "axis": 0, "scale": scales, "zero_point": [1] * 16}, "of a symmetric weight"),
            ("fraction", {"granularity": "per_axis", "axis": 0, "scale": scales, "zero_point": [0.5] * 16}, "none of int8")]:
        assert text in bitpress.error("quantize", net_path, "-o", tmp_path / "q.onnx", "--plan", with_numbers(name, **numbers)), name


def test_without_samples_there_is_one_clear_error(net_path, tmp_path, bitpress):
    message = bitpress.error("quantize", net_path, "-o", tmp_path / "q.onnx", "--config", "INT8")
    assert "(--data;" in message and "(--calibration)" in message
    assert not (tmp_path / "q.onnx").exists()


def test_nan_activations_stay_float(net_path, tmp_path, bitpress):
    samples = save_noise(tmp_path / "samples", (1, 3, 16, 16), count=2)
    bad = np.load(samples / "00.npy")
    bad[0, 0, 0, 0] = np.nan
    np.save(samples / "00.npy", bad)
    text = bitpress.ok("quantize", net_path, "-o", tmp_path / "q.onnx", "--config", "INT8", "--data", samples)
    assert "left float: 'x': NaN" in text
    assert np.isfinite(run(tmp_path / "q.onnx")).all()


@pytest.mark.parametrize("weights, measured", [("int8", (43.7, 43.7, 46.1)), ("int4", (23.0, 23.0, 18.7)), ("uint4", (25.0, 22.9, 21.1))])
def test_weight_only_integers(weights, measured, quantized, wanted):
    for granularity, closeness in zip(["per_axis", "per_block", "per_tensor"], measured):
        output = quantized.path("--config", "BF16", "--activations", "none", "--weights", weights, "--set",
                                f"weight_granularity={granularity}")
        assert is_as_measured(sqnr_db(wanted, run(output)), closeness), granularity


def test_a_bias_too_large_for_its_scale_raises_it(tmp_path, samples, bitpress):
    model = net()
    bias = next(tensor for tensor in model.graph.initializer if tensor.name == "b3")
    values = numpy_helper.to_array(bias).copy()
    values[0] = 3e6
    bias.CopyFrom(numpy_helper.from_array(values, "b3"))
    weight = next(tensor for tensor in model.graph.initializer if tensor.name == "w3")
    tiny = numpy_helper.to_array(weight).copy()
    tiny[0] *= 1e-6
    weight.CopyFrom(numpy_helper.from_array(tiny, "w3"))
    onnx.save(model, tmp_path / "big.onnx")
    bitpress.ok("quantize", tmp_path / "big.onnx", "-o", tmp_path / "q.onnx", "--config", "INT8", "--data", samples)
    initializers = {t.name: numpy_helper.to_array(t) for t in onnx.load(tmp_path / "q.onnx").graph.initializer}
    restored = initializers["b3_codes"][0] * float(initializers["b3_scale"][0])
    assert abs(restored - 3e6) < 1


def test_rules_change_some_nodes(quantized, samples, wanted):
    output = quantized.path("--config", "INT8", "--data", samples, "--rule", "op_types=Gemm: weights=int4, activations=uint16",
                            "--rule", "from=p1 to=c2: exclude", "--rule", "tensors=x: activation_range=min_max")
    onnx.checker.check_model(output, full_check=True)
    initializers = {t.name: t for t in onnx.load(output).graph.initializer}
    assert initializers["w4_codes"].data_type == TensorProto.INT4
    assert initializers["f1_zero_point"].data_type == TensorProto.UINT16
    assert initializers["x_zero_point"].data_type == TensorProto.UINT8
    assert "w2" in initializers and "w2_codes" not in initializers
    assert is_as_measured(sqnr_db(wanted, run(output)), 23.9)


@pytest.mark.parametrize("preset, wide", [("A8W8", "int16"), ("INT8", "uint16")])
def test_a_value_in_two_integer_formats_has_two_scales(preset, wide, quantized, samples, wanted):
    """With one scale for both, outputs were at 9.6 dB."""
    output = quantized.path("--config", preset, "--set", "placement=all", "--rule", f"op_types=Add: activations={wide}", "--data",
                            samples)
    scales = {t.name: numpy_helper.to_array(t) for t in onnx.load(output).graph.initializer if t.name.startswith("p1_scale")}
    assert len(scales) == 2 and len({float(scale) for scale in scales.values()}) == 2
    assert is_as_measured(sqnr_db(wanted, run(output)), 41.0)


def test_a_configuration_file_gives_the_same_bytes(net_path, samples, tmp_path, bitpress):
    config = {"preset": "INT8", "name": "mine", "weight_range": "mse",
              "rules": [{"op_types": ["Gemm"], "weights": "int4"}, {"nodes": "conv[12]", "exclude": True}]}
    (tmp_path / "mine.json").write_text(json.dumps(config))
    bitpress.ok("plan", net_path, "--config", tmp_path / "mine.json", "-o", tmp_path / "a.json")
    bitpress.ok("plan", net_path, "--config", "INT8", "--set", "weight_range=mse", "--rule", "op_types=Gemm: weights=int4",
                "--rule", "nodes=conv[12]: exclude", "-o", tmp_path / "b.json")
    file, options = [json.loads((tmp_path / name).read_text()) for name in ("a.json", "b.json")]
    assert file["config"].pop("name") == "mine" and options["config"].pop("name") == "INT8"
    assert file == options and len(file["config"]["rules"]) == 2
    bitpress.ok("quantize", net_path, "-o", tmp_path / "q.onnx", "--plan", tmp_path / "a.json", "--data", samples)


@pytest.mark.parametrize("rule, words", [("op_type=Conv: exclude", ["did you mean 'op_types'"]),
                                         ("op_types=Cov: exclude", ["op_types=Cov", "did you mean 'Conv'"]),
                                         ("op_types=Conv: activaton_range=mse", ["did you mean 'activation_range'"]),
                                         ("op_types=Conv: activation_range=perzentile", ["did you mean 'percentile'"]),
                                         ("from=x to=nowhere: exclude", ["'nowhere'"]), ("conv1", ["WHO: WHAT"])])
def test_wrong_rules_are_one_clear_error(rule, words, net_path, bitpress):
    message = bitpress.error("plan", net_path, "--config", "INT8", "--rule", rule)
    assert all(word in message for word in words), message


def test_a_wrong_configuration_file(net_path, tmp_path, bitpress):
    (tmp_path / "c.json").write_text('{"preset": "INT8", "rules": [{"op_types": "Conv", "exlude": true}]}')
    message = bitpress.error("plan", net_path, "--config", tmp_path / "c.json")
    assert "c.json" in message and "rules[0]" in message and "did you mean 'exclude'" in message


SCALED = ["--set", "activation_scaled=true", "--set", "weight_scaled=true"]


# Any format with any operators: the operators differ in what is written, the formats in how a scale is chosen.
@pytest.mark.parametrize("operators, format, measured", [
    ("bitpress", "bf16", 54.8), ("bitpress", "fp16", 55.6), ("bitpress", "fp8_e4m3", 27.5), ("bitpress", "fp8_e5m2", 28.0),
    ("bitpress", "nvfp4", 18.9),
    ("cast", "bf16", 54.8), ("cast", "fp8_e4m3", 27.5), ("quark", "bf16", 54.8)])
def test_scaled_floats(operators, format, measured, quantized, samples, wanted, run_model):
    config = "FP16_SIMULATED" if format == "fp16" else format  # fp16 is a preset, too
    output = quantized.path("--data", samples, "--config", config, *SCALED, "--set", f"operators={operators}")
    onnx.checker.check_model(output, full_check=True)
    found = run_model(output, inputs())[0]
    assert is_as_measured(sqnr_db(wanted, found), measured)
    if operators != "quark":  # without the library
        assert np.array_equal(run(output), found)
    stored = onnx.load(output).graph.initializer
    scale = next(numpy_helper.to_array(tensor) for tensor in stored if tensor.name == "x_scale")
    largest = max(abs(np.load(path)).max() for path in samples.iterdir())
    if format == "bf16":
        assert np.isclose(scale, largest / 2)
    elif format in ("fp16", "nvfp4"):
        assert np.isclose(scale, largest / {"fp16": 65504, "nvfp4": 6 * 448}[format])
    elif format == "fp8_e4m3":
        assert 0.9 * largest / 448 < scale <= largest / 448
        zero_points = [tensor.data_type for tensor in stored if tensor.name == "x_zero_point"]
        assert zero_points == ([TensorProto.FLOAT8E4M3FN] if operators == "cast" else [])


def test_quark_has_no_scaled_floats_of_eight_bits(net_path, samples, tmp_path, bitpress):
    for format in ("fp8_e4m3", "fp8_e5m2"):
        options = ["--data", samples, "--config", format, *SCALED, "--set", "operators=quark"]
        assert "operators=bitpress" in bitpress.error("quantize", net_path, "-o", tmp_path / "q.onnx", *options)


def test_scaled_halves_saturate(quantized, samples, bitpress, run_model):
    """Values beyond the calibrated range saturate, whichever operators round them. Running the plan again changes nothing."""
    far = {"x": inputs()["x"] * np.float32(1e4)}
    found = []
    for operators in ("bitpress", "cast", "quark"):
        output = quantized.path("--data", samples, "--config", "FP16_SIMULATED", *SCALED, "--set", f"operators={operators}")
        found.append(run_model(output, far)[0])
        assert "already quantized" in bitpress.ok("plan", output, "--config", "FP16_SIMULATED")
    assert np.isfinite(found[0]).all()
    assert np.array_equal(found[0], found[1]) and np.array_equal(found[0], found[2])


def test_scales_keep_large_values_from_overflowing(net_path, samples, tmp_path, bitpress):
    (tmp_path / "large").mkdir()
    for path in samples.iterdir():
        np.save(tmp_path / "large" / path.name, np.load(path) * np.float32(1e5))
    x = {"x": inputs()["x"] * np.float32(1e5)}
    close = {}
    for name, more in [("plain", []), ("scaled", SCALED)]:
        bitpress.ok("quantize", net_path, "-o", tmp_path / "q.onnx", "--config", "FP16_SIMULATED", "--data", tmp_path / "large", *more)
        close[name] = sqnr_db(run(net_path, x=x), run(tmp_path / "q.onnx", x=x))
    assert close["plain"] < 6  # half precision ends at 65504
    assert is_as_measured(close["scaled"], 49.9)


def test_cast_pairs_are_standard_operators(net_path, quantized, tmp_path, bitpress, run_model):
    for config in ["BF16", "FP16_SIMULATED", "fp8_e4m3"]:
        cast, own = (quantized.path("--config", config, "--set", f"operators={operators}") for operators in ("cast", "bitpress"))
        onnx.checker.check_model(cast, full_check=True)
        nodes = onnx.load(cast).graph.node
        assert not any(node.op_type.startswith("QuantizeDequantize") for node in nodes)
        assert sum(node.op_type == "Cast" for node in nodes) == 8
        assert np.array_equal(run_model(cast, inputs())[0], run_model(own, inputs())[0])
    assert "operators=bitpress" in bitpress.error("quantize", net_path, "-o", tmp_path / "q.onnx", "--config", "MX6", "--set",
                                                  "operators=cast")


def test_plans_of_scaled_floats_round_trip(net_path, quantized, wanted, tmp_path, bitpress):
    bitpress.ok("plan", net_path, "--config", "fp8_e4m3", *SCALED, "-o", tmp_path / "plan.json")
    plan = json.loads((tmp_path / "plan.json").read_text())
    row = next(row for row in plan["tensors"] if row["value"] == "x")
    assert row["scaled"] is True and row["range"] == "percentile(99.999)"
    for row in plan["tensors"]:
        if row["role"] == "activation" and row.get("scaled"):
            row.pop("range")
            row["scale"] = 0.04
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    assert is_as_measured(sqnr_db(wanted, run(quantized.path("--plan", tmp_path / "plan.json"))), 27.5)


# Rounding to 32 bits cannot be seen. The loss is from inputs beyond the calibrated ranges.
@pytest.mark.parametrize("format, measured", [("int32", 55.9), ("uint32", 49.8)])
def test_integers_of_32_bits(format, measured, net_path, samples, wanted, tmp_path, bitpress, run_model):
    output = tmp_path / "q.onnx"
    text = bitpress.checking.ok("quantize", net_path, "-o", output, "--config", format, "--data", samples)
    onnx.checker.check_model(output, full_check=True)
    assert "com.amd.quark.ExtendedQuantizeLinear" in text
    assert is_as_measured(sqnr_db(wanted, run_model(output, inputs())[0]), measured)


@pytest.mark.parametrize("options", [["MXINT8"], ["INT8", "--set", "weight_granularity=per_block"], ["INT8", "--weights", "bf16"]], ids=" ".join)
def test_an_int32_bias_needs_products_of_integers(options, conv_path, bitpress):
    plan = json.loads(bitpress.ok("plan", conv_path, "--config", *options, "--set", "biases=int32"))
    biases = [row for row in plan["tensors"] if row["role"] == "bias"]
    assert len(biases) == 3
    assert all(row["format"] == "none" and "products of integers" in row["reason"] for row in biases)
    plan = json.loads(bitpress.ok("plan", conv_path, "--config", "INT8", "--set", "biases=int32"))
    assert [row["format"] for row in plan["tensors"] if row["role"] == "bias"] == ["int32"] * 3
