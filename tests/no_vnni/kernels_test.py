"""ONNX Runtime's 8-bit kernels on a processor without VNNI: which products they add in saturating 16 bits. What
src/ops/integer_kernels.h says is tested here on the kernels themselves."""

import numpy as np
import onnxruntime
import pytest
from locations import HAS_NO_VNNI
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.capi.onnxruntime_pybind11_state import NotImplemented  # pylint: disable=no-name-in-module

pytestmark = pytest.mark.integers

TYPES = {np.dtype(np.uint8): TensorProto.UINT8, np.dtype(np.int8): TensorProto.INT8, np.dtype(np.float32): TensorProto.FLOAT}


def run(nodes, feeds, output_type, constants):
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info(k, TYPES[v.dtype], v.shape) for k, v in feeds.items()],
                              [helper.make_tensor_value_info("y", output_type, None)],
                              [numpy_helper.from_array(v, k) for k, v in constants.items()])
    model = helper.make_model(graph, ir_version=8,
                              opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)])
    try:
        session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    except NotImplemented:
        pytest.skip(f"ONNX Runtime {onnxruntime.__version__} has no kernel for {nodes[0].op_type} of these types")
    return session.run(None, feeds)[0]


def saturates():
    product = run([helper.make_node("MatMulInteger", ["a", "b"], ["y"])], {"a": np.full((1, 2), 255, np.uint8)}, TensorProto.INT32,
                  {"b": np.full((2, 1), 127, np.int8)})
    return product.item() != 2 * 255 * 127


def codes(rng, shape, dtype):
    """Half of them at the ends of the type, so that sums saturate."""
    info = np.iinfo(dtype)
    ends = np.where(rng.random(shape) < 0.3, info.min, info.max)
    return np.where(rng.random(shape) < 0.5, ends, rng.integers(info.min, info.max + 1, shape)).astype(dtype)


def sums(a, b, saturating):
    """a [M, K] times b [K, N], with pairs (2i, 2i + 1) along K in 16 bits if asked."""
    products = a.astype(np.int64)[:, :, None] * b.astype(np.int64)[None]
    if a.shape[1] % 2:
        products = np.pad(products, ((0, 0), (0, 1), (0, 0)))
    pairs = products[:, 0::2] + products[:, 1::2]
    return (np.clip(pairs, -32768, 32767) if saturating else pairs).sum(1)


def exact(a, b, a_zero, b_zero):
    return (a.astype(np.int64) - a_zero) @ (b.astype(np.int64) - b_zero)


def test_the_environment_hides_vnni():
    """ONNX Runtime must see a processor without VNNI if the tests run for one (CMakeLists.txt)."""
    if not HAS_NO_VNNI:
        pytest.skip("this is the machine as it is")
    assert saturates()


@pytest.mark.parametrize("a_type", [np.uint8, np.int8])
@pytest.mark.parametrize("b_type", [np.uint8, np.int8])
@pytest.mark.parametrize("shape", [(1, 64, 8), (1, 63, 17), (4, 64, 8), (5, 63, 33), (16, 130, 64), (2, 1000, 20)])
@pytest.mark.parametrize("is_constant", [True, False])
def test_products_pair_along_k(a_type, b_type, shape, is_constant):
    m, k, n = shape
    rng = np.random.default_rng(k)
    a, b = codes(rng, (m, k), a_type), codes(rng, (k, n), b_type)
    feeds, constants = {"a": a}, {"az": np.array(3, a_type), "bz": np.array(0, b_type)}
    (constants if is_constant else feeds)["b"] = b
    found = run([helper.make_node("MatMulInteger", ["a", "b", "az", "bz"], ["y"])], feeds, TensorProto.INT32, constants)
    lost = 0
    if saturates() and a_type == np.uint8 and b_type == np.int8:
        lost = sums(a, b, True) - sums(a, b, False)
        assert np.any(lost)
    assert np.array_equal(found, exact(a, b, 3, 0) + lost)


@pytest.mark.parametrize("type_", [np.uint8, np.int8])
@pytest.mark.parametrize("op", ["Conv", "MatMul"])
def test_int8_activations_between_pairs_are_bytes_in_the_session(op, type_):
    """Sixteen products of 127 by 127: as uint8 the activations are 255 (a zero point of 128 is taken off behind the sum)."""
    shape, weight = ((1, 16, 4, 4), (8, 16, 1, 1)) if op == "Conv" else ((2, 16), (16, 8))
    node = helper.make_node
    nodes = [node("QuantizeLinear", ["x", "one", "zero"], ["q"]), node("DequantizeLinear", ["q", "one", "zero"], ["d"]),
             node("DequantizeLinear", ["w", "one", "w_zero"], ["wd"]), node(op, ["d", "wd"], ["c"]),
             node("QuantizeLinear", ["c", "coarse", "zero"], ["cq"]), node("DequantizeLinear", ["cq", "coarse", "zero"], ["y"])]
    constants = {"one": np.float32(1), "coarse": np.float32(4096), "w": np.full(weight, 127, np.int8), "w_zero": np.int8(0),
                 "zero": type_(0 if type_ == np.int8 else 128)}
    found = run(nodes, {"x": np.full(shape, 127, np.float32)}, TensorProto.FLOAT, constants)
    exact_sum = 16 * 127 * 127
    lossy_sum = 8 * 32767 - 16 * 128 * 127
    assert np.all(found == 4096 * np.round((lossy_sum if saturates() else exact_sum) / 4096))


def windows(image, kernel, pad, value):
    """[positions, kernel, kernel, channels] of an image [channels, h, w]."""
    padded = np.pad(image, ((0, 0), (pad, pad), (pad, pad)), constant_values=value)
    out = padded.shape[1] - kernel + 1
    return np.stack([padded[:, y:y + kernel, x:x + kernel].transpose(1, 2, 0) for y in range(out) for x in range(out)])


@pytest.mark.parametrize("x_type, w_type", [(np.uint8, np.int8), (np.uint8, np.uint8), (np.int8, np.int8)])
@pytest.mark.parametrize("channels, outputs, kernel, groups", [
    (16, 16, 1, 1), (16, 32, 3, 1), (3, 8, 3, 1), (5, 8, 3, 1), (7, 24, 1, 1), (32, 32, 3, 2), (24, 48, 3, 8), (20, 20, 3, 4), (18, 9, 2, 3),
    (1, 16, 3, 1), (8, 16, 3, 8), (32, 32, 3, 32), (6, 6, 5, 6)])
@pytest.mark.parametrize("op", ["QLinearConv", "ConvInteger"])
def test_convolutions_pair_channels_first(x_type, w_type, channels, outputs, kernel, groups, op):
    rng = np.random.default_rng(channels * kernel)
    x, w = codes(rng, (1, channels, 9, 9), x_type), codes(rng, (outputs, channels // groups, kernel, kernel), w_type)
    x_zero, w_zero, pad = 100 if x_type == np.uint8 else 5, 128 if w_type == np.uint8 else 0, kernel // 2
    is_depthwise = channels == groups == outputs
    lossy = op == "QLinearConv" and saturates() and x_type == np.uint8 and w_type == np.int8 and not is_depthwise
    wanted = []
    for group in range(groups):
        image = x[0].reshape(groups, -1, 9, 9)[group]
        places = windows(image, kernel, pad, x_zero)
        places = places.reshape(len(places), -1)
        weight = w.reshape(groups, -1, *w.shape[1:])[group].transpose(2, 3, 1, 0).reshape(places.shape[1], -1)
        result = exact(places, weight, x_zero, w_zero)
        wanted.append((result + (sums(places, weight, True) - sums(places, weight, False) if lossy else 0)).T)
    wanted = np.concatenate(wanted)
    attributes = {"group": groups, "kernel_shape": [kernel] * 2, "pads": [pad] * 4}
    constants = {"w": w, "xz": np.array(x_zero, x_type)}
    if op == "ConvInteger":
        constants["wz"] = np.array(w_zero, w_type)
        found = run([helper.make_node(op, ["x", "w", "xz", "wz"], ["y"], **attributes)], {"x": x}, TensorProto.INT32, constants)
    else:
        scale = np.float32(2.0 ** np.ceil(np.log2(np.abs(wanted).max() / 127)))
        zero = 128 if x_type == np.uint8 else 0
        constants |= {"xs": np.float32(1), "ws": np.ones(outputs, np.float32), "wz": np.full(outputs, w_zero, w_type),
                      "ys": scale, "yz": np.array(zero, x_type)}
        found = run([helper.make_node(op, ["x", "xs", "xz", "w", "ws", "wz", "ys", "yz"], ["y"], **attributes)], {"x": x},
                    TYPES[np.dtype(x_type)], constants)
        info = np.iinfo(x_type)
        wanted = np.clip(np.rint(wanted / scale) + zero, info.min, info.max)
    assert np.array_equal(found.reshape(outputs, -1), wanted)


@pytest.mark.parametrize("directions", [1, 2])
def test_lstm_pairs_inputs(directions):
    """With one step and no state, the gates see the product of x and W alone; safe codes give the same as exact sums do."""
    rng = np.random.default_rng(9)
    hidden, inputs = 8, 32
    x = np.abs(rng.standard_normal((1, 1, inputs))).astype(np.float32)
    w = np.full((directions, inputs, 4 * hidden), 127, np.int8)
    r = np.zeros((directions, hidden, 4 * hidden), np.int8)
    scale = np.full((directions, 4 * hidden), 1e-4, np.float32)
    zero = np.zeros((directions, 4 * hidden), np.int8)
    feeds = {"x": x}

    def lstm(weight, weight_scale):
        constants = {"w": weight, "r": r, "ws": weight_scale, "wz": zero, "rs": scale, "rz": zero}
        node = helper.make_node("DynamicQuantizeLSTM", ["x", "w", "r", "", "", "", "", "", "ws", "wz", "rs", "rz"], ["y"],
                                domain="com.microsoft", hidden_size=hidden, direction="bidirectional" if directions == 2 else "forward")
        return run([node], feeds, TensorProto.FLOAT, constants)

    # 63 fits wherever it stands; 127 at twice the value does not.
    differ = not np.array_equal(lstm(w, scale), lstm(np.full_like(w, 63), scale * np.float32(127 / 63)))
    half = w.copy()
    half[:, 1::2] = 1  # neighbours of which one is small fit
    kept = lstm(half, scale)
    exact_gates = (np.rint(x / (x.max() / 255)) * (x.max() / 255)) @ (half[0].astype(np.float32) * 1e-4)
    gate = 1 / (1 + np.exp(-exact_gates[0, 0, 0]))
    cell = gate * np.tanh(exact_gates[0, 0, 0])
    assert np.allclose(kept[0, 0, 0, 0], gate * np.tanh(cell), rtol=1e-3)
    if saturates():
        assert differ
