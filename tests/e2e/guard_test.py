"""The guard leaves the activations float whose rounding spoils an output, and samples held back say whether the others stand for them."""

import re

import numpy as np
import onnx
import pytest
from models import QuantizedModels, make_model, save, save_arrays, sqnr_db
from onnx import TensorProto, helper, numpy_helper


def spectra_model(first="signal"):
    """A bank of filters, the power of what they give, its logarithm, and three Convs: networks for sound begin like that. Powers lie
    far apart, and a logarithm needs the small ones."""
    rng = np.random.default_rng(5)
    time = np.arange(64) / 64
    filters = np.stack([np.sin(2 * np.pi * (k + 1) * time) * np.hanning(64) for k in range(24)])[:, None, :]
    # Eight bits hold them exactly, so that activations alone are to blame.
    filters = (np.round(127 * filters / np.abs(filters).max(axis=2, keepdims=True)) / 127).astype(np.float32)
    constants = {"filters": filters, "least": np.float32(1e-8), "most": np.float32(1e8)}
    for i, (outputs, inputs) in enumerate([(32, 24), (32, 32), (8, 32)]):
        constants[f"w{i}"] = (rng.standard_normal((outputs, inputs, 3)) / np.sqrt(3 * inputs)).astype(np.float32)
    node = helper.make_node
    nodes = [
        node("Conv", [first, "filters"], ["bands"], "bank", strides=[16]),
        node("Mul", ["bands", "bands"], ["power"], "square"),
        node("Clip", ["power", "least", "most"], ["bounded"], "bound"),
        node("Log", ["bounded"], ["logs"], "log"),
        node("Conv", ["logs", "w0"], ["c0"], "conv0"), node("Relu", ["c0"], ["r0"], "relu0"),
        node("Conv", ["r0", "w1"], ["c1"], "conv1"), node("Relu", ["c1"], ["r1"], "relu1"),
        node("Conv", ["r1", "w2"], ["y"], "conv2"),
    ]
    graph = helper.make_graph(nodes, "spectra", [helper.make_tensor_value_info("signal", TensorProto.FLOAT, ["N", 1, 512])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 8, "T"])],
                              [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def signals(count, seed):
    rng = np.random.default_rng(seed)
    time = np.arange(512) / 64
    for _ in range(count):
        tones = sum(10**rng.uniform(-3, 0) * np.sin(2 * np.pi * rng.uniform(1, 24) * time + rng.uniform(0, 6)) for _ in range(4))
        yield (tones + 1e-4 * rng.standard_normal(512)).astype(np.float32)[None, None]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("spectra")


@pytest.fixture(scope="module")
def model(folder):
    onnx.save(spectra_model(), folder / "spectra.onnx")
    return folder / "spectra.onnx"


@pytest.fixture(scope="module")
def samples(folder):
    return save_arrays(folder / "signals", signals(24, 1))


@pytest.fixture(scope="module")
def quantized(bitpress, model, folder):
    return QuantizedModels(bitpress, model, folder)


def quantized_values(path):
    return {node.input[0] for node in onnx.load(path).graph.node if node.op_type == "QuantizeLinear"}


def closeness(run_model, model, path):
    inputs = {"signal": np.concatenate(list(signals(16, 2)))}
    return sqnr_db(run_model(model, inputs)[0], run_model(path, inputs)[0])


@pytest.mark.quick
def test_repairs_what_spoils_an_output_and_nothing_else(quantized, run_model, model, samples):
    options = ["--config", "INT8", "--data", samples]
    plain, guarded, text = quantized.path(*options, "--set", "guard=off"), quantized.path(*options), quantized.text(*options)
    assert closeness(run_model, model, plain) < 10
    assert closeness(run_model, model, guarded) > 20
    assert quantized_values(plain) - quantized_values(guarded) == {"signal", "bands", "bounded"}
    assert quantized_values(guarded) >= {"logs", "r0", "r1"}
    assert "3 activations stay float" in text
    assert "'bounded': guard: its rounding alone brings the error of output 'y' to" in text
    # The signal is read by nothing but the bank, which computes in float now.
    assert "'signal': guard: no operator around it computes on integers any more" in text


def coarse_weights_model():
    """The same with a last layer whose int8 weights alone bring the output to some 14 dB: a large weight takes its scale, for a channel
    that is always 0."""
    model = spectra_model()
    arrays = {tensor.name: numpy_helper.to_array(tensor).copy() for tensor in model.graph.initializer}
    arrays["w1"][0] = -np.abs(arrays["w1"][0])
    arrays["w2"][:, 0] = 8
    del model.graph.initializer[:]
    model.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in arrays.items())
    return model


def test_repairs_activations_although_weights_alone_miss_the_bound(bitpress, run_model, samples, tmp_path):
    """Weights allow some 14 dB where 20 are wanted. Half of them are no reason to accept 7: a few activations in float give the rest back."""
    model = tmp_path / "m.onnx"
    onnx.save(coarse_weights_model(), model)
    found = {}
    for name, words in {"plain": ["--set", "guard=off"], "guarded": [], "weights": ["--set", "activations=none", "--set", "guard=off"]}.items():
        text = bitpress.ok("quantize", model, "-o", tmp_path / f"{name}.onnx", "--config", "INT8", "--data", samples, *words)
        found[name] = closeness(run_model, model, tmp_path / f"{name}.onnx")
        if name == "guarded":
            assert "activations stay float, which gives" in text
    assert found["weights"] < 17 and found["plain"] < found["weights"] - 4, found
    assert found["guarded"] > found["weights"] - 3.5, found
    assert quantized_values(tmp_path / "guarded.onnx") >= {"r0", "r1"}, "what computes most stays on integers"


def test_leaves_a_network_alone_that_needs_no_repair(bitpress, conv_path, photos, tmp_path):
    plain, guarded = tmp_path / "plain.onnx", tmp_path / "guarded.onnx"
    bitpress.ok("quantize", conv_path, "-o", plain, "--config", "INT8", "--set", "guard=off", "--data", photos)
    text = bitpress.ok("quantize", conv_path, "-o", guarded, "--config", "INT8", "--data", photos)
    assert "wanted are 20" in text and "stay float" not in text
    one, other = onnx.load(plain), onnx.load(guarded)
    del one.metadata_props[:], other.metadata_props[:]  # they hold the configuration
    assert one.SerializeToString(deterministic=True) == other.SerializeToString(deterministic=True)


def test_does_not_depend_on_threads_or_on_a_plan_in_between(bitpress, quantized, model, samples, tmp_path):
    plan = tmp_path / "plan.json"
    bitpress.ok("plan", model, "--config", "INT8", "-o", plan)
    first, *others = (quantized.path(*words, "--data", samples).read_bytes()
                      for words in (["--config", "INT8", "--threads", 1], ["--config", "INT8", "--threads", 4], ["--plan", plan]))
    assert others == [first, first]


def test_keeps_within_its_share_of_the_products(quantized, samples):
    options = ["--config", "INT8", "--set", "guard_share=0", "--data", samples]
    assert "no activations within guard_share would repair it" in quantized.text(*options)
    assert {"bands", "bounded", "logs"} <= quantized_values(quantized.path(*options))


def spike_model():
    """The largest value behind a filter, which a single element of the image decides."""
    filters = np.zeros((2, 1, 3, 3), np.float32)
    filters[:, 0, 1, 1] = [1, -0.5]
    nodes = [helper.make_node("Conv", ["image", "filters"], ["filtered"], "filter"),
             helper.make_node("GlobalMaxPool", ["filtered"], ["largest"], "pool")]
    graph = helper.make_graph(nodes, "spike", [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["N", 1, 512, 512])],
                              [helper.make_tensor_value_info("largest", TensorProto.FLOAT, ["N", 2, 1, 1])],
                              [numpy_helper.from_array(filters, "filters")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def test_takes_the_ranges_that_the_outputs_gain_by(bitpress, tmp_path):
    model, samples, path = tmp_path / "spike.onnx", tmp_path / "images", tmp_path / "out.onnx"
    onnx.save(spike_model(), model)
    samples.mkdir()
    rng = np.random.default_rng(3)
    for i in range(8):
        image = rng.uniform(-1, 1, (1, 1, 512, 512)).astype(np.float32)
        image[0, 0, *rng.integers(1, 511, 2)] = rng.uniform(8, 10)  # less than what percentile(99.999) leaves out
        np.save(samples / f"{i}.npy", image)

    def quantize(*words):
        text = bitpress.ok("quantize", model, "-o", path, "--config", "INT8", *words, "--data", samples)
        graph = onnx.load(path).graph
        [scale] = [node.input[1] for node in graph.node if node.op_type == "QuantizeLinear" and node.input[0] == "image"]
        return text, next(float(numpy_helper.to_array(array)) for array in graph.initializer if array.name == scale)

    text, scale = quantize()
    assert "with activation_range=min_max, which is used" in text and "stay float" not in text
    assert scale > 9 / 255
    for words in (["--set", "guard_ranges=none"], ["--set", "activation_range=percentile(99.999)"]):
        text, scale = quantize("--set", "guard_share=0", *words)
        assert "which is used" not in text
        assert scale < 6 / 255
    text, _ = quantize("--set", "guard=off")
    assert "which is used" not in text


def test_needs_samples_besides_statistics(bitpress, run_model, model, samples, tmp_path):
    statistics, path = tmp_path / "statistics.bpc", tmp_path / "out.onnx"
    bitpress.ok("calibrate", model, "-o", statistics, "--config", "INT8", "--data", samples)
    text = bitpress.ok("quantize", model, "-o", path, "--config", "INT8", "--calibration", statistics)
    assert "guard:       not used: it needs samples besides the statistics: give option 'data' too" in text
    bitpress.ok("quantize", model, "-o", path, "--config", "INT8", "--calibration", statistics, "--data", samples)
    assert closeness(run_model, model, path) > 20


def test_is_off_in_presets_of_other_tools(quantized, samples):
    options = ["--config", "U8S8_AAWS", "--data", samples]
    path = quantized.path(*options)
    assert "guard" not in quantized.text(*options)
    assert {"bands", "bounded", "logs"} <= quantized_values(path)
    assert not any("guard" in entry.value for entry in onnx.load(path).metadata_props), "their bytes stay as they were"


@pytest.mark.parametrize("setting, message", [("guard=loud", "'loud' is neither off nor a number of dB from 0 to 100"),
                                              ("guard=-1", "'-1' is neither off nor a number of dB"),
                                              ("guard_share=2", "'2' is no number from 0 to 1"),
                                              ("guard_ranges=dynamic", "'dynamic' gives no ranges before the model runs"),
                                              ("guard_ranges=mse+most", "'most'")])
def test_refuses_wrong_settings(bitpress, model, samples, tmp_path, setting, message):
    text = bitpress.error("quantize", model, "-o", tmp_path / "out.onnx", "--config", "INT8", "--set", setting, "--data", samples)
    assert message in text


def test_tells_when_samples_do_not_represent_each_other(bitpress, conv_path, photos, tmp_path):
    def summary(folder):
        return bitpress.ok("quantize", conv_path, "-o", tmp_path / "out.onnx", "--config", "INT8", "--data", folder)

    assert "held back" not in summary(photos)
    for i, path in enumerate(sorted(photos.iterdir())):
        if i % 8 == 7:
            np.save(path, 30 * np.load(path))
    text = summary(photos)
    assert "6 of 48 were held back" in text and "leave the ranges of the others" in text
    assert "of its elements are outside, its rounding error grows by" in text


def test_files_do_not_grow(bitpress, run_model, tmp_path):
    """Names of 300 letters make quantizers larger than what the small weights save."""
    rng = np.random.default_rng(7)
    nodes, constants, last = [], {}, "signal"
    for i in range(60):
        name = f"layer_{i}_" + "x" * 300
        constants[f"w{i}"] = np.eye(4, dtype=np.float32)[:, :, None] + 0.1 * rng.standard_normal((4, 4, 1)).astype(np.float32)
        nodes.append(helper.make_node("Conv", [last, f"w{i}"], [name], name))
        last = name
    nodes[-1].output[0] = "y"
    graph = helper.make_graph(nodes, "long", [helper.make_tensor_value_info("signal", TensorProto.FLOAT, ["N", 4, 64])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 4, 64])],
                              [numpy_helper.from_array(value, name) for name, value in constants.items()])
    model, plain, guarded = (tmp_path / f"{name}.onnx" for name in ("long", "plain", "guarded"))
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), model)
    folder = tmp_path / "samples"
    folder.mkdir()
    for i in range(4):
        np.save(folder / f"{i}.npy", rng.standard_normal((1, 4, 64)).astype(np.float32))
    bitpress.ok("quantize", model, "-o", plain, "--config", "INT8", "--set", "guard=off", "--data", folder)
    # Nothing is left float but for the size: 0 dB are always reached.
    text = bitpress.ok("quantize", model, "-o", guarded, "--config", "INT8", "--set", "guard=0", "--data", folder)
    assert plain.stat().st_size > 1.5 * max(model.stat().st_size, 100_000)
    assert guarded.stat().st_size <= max(model.stat().st_size, 100_000)
    assert "file size: its quantizers take more bytes than the file of the float model has room for" in text
    inputs = {"signal": rng.standard_normal((1, 4, 64)).astype(np.float32)}
    assert sqnr_db(run_model(model, inputs)[0], run_model(guarded, inputs)[0]) > 10


def test_a_model_without_weights_grows_by_its_configuration_only(bitpress, tmp_path):
    """Preparing infers the shapes of 500 values, which the given model does not describe."""
    names = ["x", *(f"value_{i}_" + "x" * 100 for i in range(500)), "y"]
    nodes = [helper.make_node("Sin", [names[i]], [names[i + 1]], f"node_{i}_" + "x" * 100) for i in range(501)]
    graph = helper.make_graph(nodes, "waves", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 8])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 8])])
    model, path = tmp_path / "waves.onnx", tmp_path / "out.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), model)
    text = bitpress.ok("quantize", model, "-o", path, "--config", "INT8_DYNAMIC")
    assert "nothing was quantized" in text
    assert model.stat().st_size > 150_000
    assert path.stat().st_size < model.stat().st_size + 4000


def test_one_loud_sample_does_not_silence_the_others(bitpress, run_model, tmp_path):
    """One value of 1e9 in one of eight samples takes the whole scale: the other seven would be zeros."""
    rng = np.random.default_rng(1)
    weights = {"w": (0.3 * rng.standard_normal((16, 3, 3, 3))).astype(np.float32), "v": (0.4 * rng.standard_normal((16, 8))).astype(np.float32)}
    node = helper.make_node
    nodes = [node("Conv", ["x", "w"], ["c"], "stem", pads=[1] * 4), node("Relu", ["c"], ["r"], "relu"),
             node("GlobalAveragePool", ["r"], ["p"], "pool"), node("Flatten", ["p"], ["f"], "flat"), node("MatMul", ["f", "v"], ["y"], "head")]
    model = save(make_model(nodes, [("x", ["N", 3, 8, 8])], [("y", ["N", 8])], weights), tmp_path / "m.onnx")
    arrays = [rng.standard_normal((1, 3, 8, 8)).astype(np.float32) for _ in range(8)]
    arrays[2][0, 0, 0, 0] = 1e9
    text = bitpress.ok("quantize", model, "-o", tmp_path / "q.onnx", "--config", "INT8", "--data", save_arrays(tmp_path / "samples", arrays))
    assert "stay float" in text or "which is used" in text
    for i, array in enumerate(arrays):
        if i != 2:
            assert sqnr_db(run_model(model, {"x": array})[0], run_model(tmp_path / "q.onnx", {"x": array})[0]) > 15


@pytest.mark.parametrize("kinds", ["samples", "rows"])
def test_large_values_choose_the_scale_of_small_ones(kinds, tmp_path, bitpress):
    # Every other sample is so large that the others are all zeros in its scale, or every other row of each sample. The guard must not look
    # at the former alone, though the model is so large that it searches with half of the samples.
    weight = np.random.default_rng(3).standard_normal((2048, 2048)).astype(np.float32)
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["h"]),
                               helper.make_node("LayerNormalization", ["h", "scale"], ["y"], axis=-1)],
                              "kinds", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 200, 2048])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 200, 2048])],
                              [numpy_helper.from_array(weight, "w"), numpy_helper.from_array(np.ones(2048, np.float32), "scale")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "kinds.onnx")
    rng = np.random.default_rng(4)
    values = rng.standard_normal((8, 1, 200, 2048)).astype(np.float32)
    (values[::2] if kinds == "samples" else values[..., ::2, :])[:] *= 1e4
    samples = save_arrays(tmp_path / "samples", values)
    text = bitpress.checking.ok("quantize", tmp_path / "kinds.onnx", "-o", tmp_path / "q.onnx", "--config", "INT8", "--data", samples)
    assert "the guard leaves 1 activations float, 100 % of the products" in text
    assert float(re.search(r"closeness: ([\d.]+) dB", text)[1]) > 30
