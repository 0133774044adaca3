"""Cross-layer equalization keeps the outputs of the float model, makes ranges of channels equal, and makes per-tensor weights
more accurate."""

import json
import re

import numpy as np
import onnx
import pytest
from models import QuantizedModels, save_arrays, sqnr_db
from onnx import TensorProto, helper, numpy_helper

FLOAT = ["--config", "MX6", "--activations", "none", "--weights", "none", "--set", "equalize=on"]


class Net:
    """A chain of layers whose channels differ by orders of magnitude."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.nodes, self.constants, self.value = [], {}, "x"

    def constant(self, array):
        name = f"k{len(self.constants)}"
        self.constants[name] = np.asarray(array, np.float32)
        return name

    def spread(self, *shape, axis=0):
        """Returns normal numbers, times a different factor for each index of the axis."""
        factors = np.exp(self.rng.normal(0, 1.5, shape[axis]))
        return self.rng.normal(0, 1, shape) * factors.reshape([-1 if i == axis else 1 for i in range(len(shape))])

    def add(self, op_type, *inputs, **attributes):
        output = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op_type, [self.value, *inputs], [output], f"{op_type}_{len(self.nodes)}", **attributes))
        self.value = output
        return self

    def conv(self, inputs, outputs, group=1, kernel=3, transposed=False):
        pads = [kernel // 2] * 4
        if transposed:
            weight = self.spread(inputs, outputs // group, kernel, kernel) / np.sqrt(inputs)
            return self.add("ConvTranspose", self.constant(weight), self.bias(outputs), group=group, pads=pads)
        weight = self.spread(outputs, inputs // group, kernel, kernel) / np.sqrt(inputs // group)
        return self.add("Conv", self.constant(weight), self.bias(outputs), group=group, pads=pads)

    def bias(self, channels):
        return self.constant(self.rng.normal(0, 0.5, channels))

    def clip(self, limit=6.0):
        return self.add("Clip", self.constant(0.0), self.constant(limit))

    def save(self, path, shape, outputs=()):
        info = helper.make_tensor_value_info
        graph = helper.make_graph(
            self.nodes, "net", [info("x", TensorProto.FLOAT, ["N", *shape])],
            [info(name, TensorProto.FLOAT, None) for name in [self.value, *outputs]],
            [numpy_helper.from_array(array, name) for name, array in self.constants.items()])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        onnx.save(onnx.shape_inference.infer_shapes(model), path)
        return path


def image_net(seed):
    net = Net(seed)
    net.conv(3, 16).clip().conv(16, 16, group=16).clip(2.0).conv(16, 24, kernel=1)
    net.conv(24, 24, group=4).add("Relu").conv(24, 12, group=2, transposed=True)
    net.add("PRelu", net.constant(net.rng.uniform(0.1, 0.5, (12, 1, 1)))).conv(12, 12, group=3)
    net.add("MaxPool", kernel_shape=[2, 2]).add("LeakyRelu", alpha=0.2).conv(12, 8, transposed=True)
    net.add("Add", net.constant(net.rng.normal(0, 1, (1, 8, 1, 1)))).add("GlobalAveragePool").conv(8, 6, kernel=1)
    return net


def matrix_net(seed):
    net = Net(seed)
    net.add("MatMul", net.constant(net.spread(12, 20, axis=1))).add("Add", net.bias(20)).add("Relu")
    net.add("MatMul", net.constant(net.spread(20, 16, axis=1) / 4)).add("Add", net.bias(16)).clip(3.0)
    net.add("MatMul", net.constant(net.spread(16, 10, axis=1) / 4))
    return net


def gemm_net(seed):
    net = Net(seed)
    net.add("Gemm", net.constant(net.spread(20, 12)), net.bias(20), transB=1, alpha=0.5).add("Relu")
    net.add("Gemm", net.constant(net.spread(20, 16, axis=1) / 4), net.bias(16), beta=2.0).clip(3.0)
    net.add("Gemm", net.constant(net.spread(10, 16) / 4), net.bias(10), transB=1)
    return net


NETS = {"image": (image_net, (3, 9, 9), 6), "matrix": (matrix_net, (5, 12), 2), "gemm": (gemm_net, (12,), 2)}


def inputs(shape):
    return {"x": np.random.default_rng(5).standard_normal((3, *shape)).astype(np.float32)}


def num_pairs(output):
    return int(re.search(r"equalized: +(\d+) pairs", output).group(1))


@pytest.mark.parametrize("seed", [pytest.param(0, marks=pytest.mark.quick), 1])
@pytest.mark.parametrize("name", NETS)
def test_the_float_model_stays_what_it_is(name, seed, tmp_path, bitpress, run_model):
    make, shape, wanted_pairs = NETS[name]
    path = make(seed).save(tmp_path / "net.onnx", shape)
    output = tmp_path / "equalized.onnx"
    # With a least gain of 0 bits, every Clip gets a limit for each channel.
    result = bitpress.ok("quantize", path, "-o", output, *FLOAT, "--set", "equalize_clip_gain=0")
    assert num_pairs(result) >= wanted_pairs, result
    onnx.checker.check_model(output, full_check=True)
    found = run_model(output, inputs(shape))[0]
    assert sqnr_db(run_model(path, inputs(shape))[0], found) > 100
    again = tmp_path / "again.onnx"
    bitpress.ok("quantize", path, "-o", again, *FLOAT, "--set", "equalize_clip_gain=0", "--threads", "1")
    assert again.read_bytes() == output.read_bytes()


def channel_ranges(model, node, axis):
    weights = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    weight = weights[next(n for n in model.graph.node if n.name == node).input[1]]
    return np.abs(np.moveaxis(weight, axis, 0).reshape(weight.shape[axis], -1)).max(axis=1)


@pytest.mark.quick
def test_ranges_become_equal(tmp_path, bitpress):
    net = Net(1).conv(3, 16).add("Relu").conv(16, 16, group=16).add("Relu").conv(16, 8, kernel=1)
    path = net.save(tmp_path / "net.onnx", (3, 9, 9))
    before = onnx.load(path)
    bitpress.ok("quantize", path, "-o", tmp_path / "out.onnx", *FLOAT, "--set", "equalize_bias=false")
    after = onnx.load(tmp_path / "out.onnx")

    def mismatch(model):
        first = channel_ranges(model, "Conv_0", 0) / channel_ranges(model, "Conv_2", 0)
        second = channel_ranges(model, "Conv_2", 0) / channel_ranges(model, "Conv_4", 1)
        return max(np.abs(np.log(first)).max(), np.abs(np.log(second)).max())

    assert mismatch(before) > 2
    assert mismatch(after) < 0.01
    # After one round, the second pair of the chain has moved the ranges of the first.
    bitpress.ok("quantize", path, "-o", tmp_path / "one.onnx", *FLOAT, "--set", "equalize_bias=false", "--set", "equalize_steps=1")
    assert 0.01 < mismatch(onnx.load(tmp_path / "one.onnx")) < mismatch(before)


def test_clips_that_are_kept(tmp_path, bitpress):
    path = Net(2).conv(3, 16).clip().conv(16, 8).save(tmp_path / "net.onnx", (3, 9, 9))
    output = tmp_path / "out.onnx"
    result = bitpress.ok("quantize", path, "-o", output, *FLOAT, "--set", "equalize_clips=keep")
    assert num_pairs(result) == 0
    assert "one limit for all channels" in result
    assert not any(node.op_type == "Min" for node in onnx.load(output).graph.node)
    result = bitpress.ok("quantize", path, "-o", output, *FLOAT, "--set", "equalize_clip_gain=30")
    assert "too few for a limit a channel" in result


def left_alone(tmp_path, bitpress, net, shape=(3, 9, 9), **options):
    path = net.save(tmp_path / "net.onnx", shape, **options)
    result = bitpress.ok("quantize", path, "-o", tmp_path / "out.onnx", *FLOAT)
    assert num_pairs(result) == 0
    return result


def test_what_is_left_alone_and_why(tmp_path, bitpress):
    net = Net(3).conv(3, 4).conv(4, 4)
    assert "'v0' is an output of the model" in left_alone(tmp_path, bitpress, net, outputs=["v0"])
    assert "Sigmoid 'Sigmoid_1' behind it: not homogeneous" in left_alone(
        tmp_path, bitpress, Net(3).conv(3, 4).add("Sigmoid").conv(4, 4))
    net = Net(3).conv(3, 4)
    net.conv(4, 4).add("Add", "v0")
    assert "'v0' has 2 readers" in left_alone(tmp_path, bitpress, net)
    net = Net(3).conv(3, 4).add("Clip", "low", "high").conv(4, 4)
    net.constants |= {"low": np.float32(-1), "high": np.float32(1)}
    assert "its lower limit is not 0" in left_alone(tmp_path, bitpress, net)
    net = Net(3).conv(3, 4).conv(4, 4)
    net.constants["k0"][0, 0, 0, 0] = np.nan
    assert "NaN or infinity in the weight of Conv 'Conv_0'" in left_alone(tmp_path, bitpress, net)


def test_dead_channels_stay(tmp_path, bitpress, run_model):
    net = Net(4).conv(3, 8).add("Relu").conv(8, 8)
    net.constants["k0"][2] = 0  # nothing but its bias comes out
    net.constants["k2"][:, 5] = 0  # nobody reads it
    path = net.save(tmp_path / "net.onnx", (3, 9, 9))
    output = tmp_path / "out.onnx"
    bitpress.ok("quantize", path, "-o", output, *FLOAT)
    assert sqnr_db(run_model(path, inputs((3, 9, 9)))[0], run_model(output, inputs((3, 9, 9)))[0]) > 100
    before, after = (channel_ranges(onnx.load(name), "Conv_0", 0) for name in (path, output))
    assert after[2] == 0 and after[5] == before[5]


def test_a_constant_of_two_layers_is_copied(tmp_path, bitpress, run_model):
    net = Net(6)
    weight, bias = net.constant(net.spread(4, 4, 3, 3)), net.bias(4)
    for _ in range(3):
        net.add("Conv", weight, bias, pads=[1, 1, 1, 1]).add("Relu")
    path = net.save(tmp_path / "net.onnx", (4, 9, 9))
    output = tmp_path / "out.onnx"
    assert num_pairs(bitpress.ok("quantize", path, "-o", output, *FLOAT)) == 2
    assert sqnr_db(run_model(path, inputs((4, 9, 9)))[0], run_model(output, inputs((4, 9, 9)))[0]) > 100
    assert len({node.input[1] for node in onnx.load(output).graph.node if node.op_type == "Conv"}) == 3


@pytest.fixture(scope="module")
def image_path(tmp_path_factory):
    return image_net(0).save(tmp_path_factory.mktemp("image") / "net.onnx", (3, 9, 9))


@pytest.fixture(scope="module")
def samples(tmp_path_factory):
    arrays = [np.random.default_rng(i).standard_normal((1, 3, 9, 9)).astype(np.float32) for i in range(8)]
    return save_arrays(tmp_path_factory.mktemp("noise") / "samples", arrays)


@pytest.mark.integers
def test_per_tensor_weights_gain(image_path, tmp_path, samples, bitpress, run_model):
    quantized = QuantizedModels(bitpress, image_path, tmp_path)
    wanted = run_model(image_path, inputs((3, 9, 9)))[0]
    quality = {}
    for switch in ("on", "off", "default"):
        output = quantized.path("--config", "INT8_CNN_DEFAULT", "--data", samples, "--set", f"equalize={switch}")
        onnx.checker.check_model(output, full_check=True)
        quality[switch] = sqnr_db(wanted, run_model(output, inputs((3, 9, 9)))[0])
    assert quality["on"] > quality["off"] + 2
    assert quality["default"] == quality["on"]


def test_plans_and_calibrations_are_of_the_equalized_model(image_path, tmp_path, samples, bitpress):
    path = image_path
    at_once, output = tmp_path / "at_once.onnx", tmp_path / "out.onnx"
    stats, plan = tmp_path / "stats.bpc", tmp_path / "plan.json"
    bitpress.ok("quantize", path, "-o", at_once, "--config", "XINT8", "--data", samples)
    bitpress.ok("calibrate", path, "-o", stats, "--config", "XINT8", "--data", samples)
    bitpress.ok("plan", path, "-o", plan, "--config", "XINT8")
    bitpress.ok("quantize", path, "-o", output, "--plan", plan, "--calibration", stats)
    assert output.read_bytes() == at_once.read_bytes()
    # Equalization changes activations, so the statistics of the model without it would be wrong.
    bitpress.ok("calibrate", path, "-o", stats, "--data", samples)
    message = bitpress.error("quantize", path, "-o", output, "--plan", plan, "--calibration", stats)
    assert "layers are equalized first" in message
    edited = json.loads(plan.read_text())
    edited["equalize"]["clips"] = "kept"
    plan.write_text(json.dumps(edited))
    assert "bound|keep" in bitpress.error("quantize", path, "-o", output, "--plan", plan, "--calibration", stats)


def test_wrong_words(tmp_path, bitpress, conv_path):
    for setting, wanted in {"equalize=yes": "on|off", "equalize_clips=relu": "bound|keep", "equalize_steps=-2": "-2 is less than -1",
                            "equalize_clip_gain=-1": "bits", "equalize_bias=2": "true|false|SHARE"}.items():
        assert wanted in bitpress.error("quantize", conv_path, "-o", tmp_path / "o.onnx", "--config", "XINT8", "--set", setting)
