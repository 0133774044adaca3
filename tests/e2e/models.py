"""Makes small models and photos for the end-to-end tests. The same seed gives the same bytes."""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

CONV_INPUT = (3, 20, 20)
NUM_CLASSES = 10


def make_model(nodes, inputs, outputs, constants, opset=17):
    """Returns a model. `inputs` and `outputs` are (name, shape), `constants` maps names to arrays."""
    graph = helper.make_graph(
        nodes, "test", [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in inputs],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in outputs],
        [numpy_helper.from_array(array, name) for name, array in constants.items()])
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("com.amd.quark", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def save(model, path):
    onnx.checker.check_model(model)
    path.write_bytes(model.SerializeToString(deterministic=True))
    return path


def save_noise(folder, shape, count=16):
    """Makes a folder of samples of normally distributed floats, an .npy file each."""
    folder.mkdir()
    rng = np.random.default_rng(3)
    for i in range(count):
        np.save(folder / f"{i:02}.npy", rng.standard_normal(shape).astype(np.float32))
    return folder


def save_arrays(folder, arrays):
    """Makes a folder of samples, an .npy file each."""
    folder.mkdir()
    for i, array in enumerate(arrays):
        np.save(folder / f"{i:03}.npy", array)
    return folder


class QuantizedModels:
    """What quantizing a model in several ways gives. Each is made once, for the tests that look at it."""

    def __init__(self, bitpress, model, folder):
        self._bitpress, self._model, self._folder, self._made = bitpress, model, folder, {}

    def _make(self, words):
        if words not in self._made:
            path = self._folder / f"quantized_{len(self._made)}.onnx"
            self._made[words] = path, self._bitpress.ok("quantize", self._model, "-o", path, *words)
        return self._made[words]

    def path(self, *arguments):
        """Returns the model that these arguments of `quantize` give. No test may change the file."""
        return self._make(tuple(map(str, arguments)))[0]

    def text(self, *arguments):
        """Returns what `quantize` printed."""
        return self._make(tuple(map(str, arguments)))[1]


def change_attributes(path, output, is_wanted, change):
    """Writes a copy of a model in which the first node that is wanted has other values of some attributes."""
    model = onnx.load(path)
    node = next(filter(is_wanted, model.graph.node))
    for attribute in [attribute for attribute in node.attribute if attribute.name in change]:
        node.attribute.remove(attribute)
    node.attribute.extend(helper.make_attribute(name, value) for name, value in change.items())
    onnx.save(model, output)
    return output


def conv_model():
    """Conv, BatchNormalization, Relu, depthwise Conv, Clip, Conv, Add, pooling, Gemm; batch size symbolic."""
    rng = np.random.default_rng(11)

    def weights(*shape):
        return (rng.standard_normal(shape) * np.sqrt(2 / np.prod(shape[1:]))).astype(np.float32)

    constants = {
        "stem.weight": weights(40, 3, 3, 3), "stem.scale": rng.uniform(0.5, 2, 40).astype(np.float32),
        "stem.bias": weights(40, 1)[:, 0], "stem.mean": weights(40, 1)[:, 0],
        "stem.variance": rng.uniform(0.5, 2, 40).astype(np.float32), "depthwise.weight": weights(40, 1, 3, 3),
        "project.weight": weights(40, 40, 1, 1), "project.bias": weights(40, 1)[:, 0], "zero": np.float32(0),
        "six": np.float32(6), "head.weight": weights(NUM_CLASSES, 40), "head.bias": weights(NUM_CLASSES, 1)[:, 0],
    }
    node = helper.make_node
    nodes = [
        node("Conv", ["image", "stem.weight"], ["stem"], "stem", kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]),
        node("BatchNormalization", ["stem", "stem.scale", "stem.bias", "stem.mean", "stem.variance"], ["normal"], "normalize"),
        node("Relu", ["normal"], ["active"], "relu"),
        node("Conv", ["active", "depthwise.weight"], ["depth"], "depthwise", kernel_shape=[3, 3], group=40, pads=[1, 1, 1, 1]),
        node("Clip", ["depth", "zero", "six"], ["clipped"], "clip"),
        node("Conv", ["clipped", "project.weight", "project.bias"], ["projected"], "project", kernel_shape=[1, 1]),
        node("Add", ["projected", "active"], ["sum"], "add"),
        node("GlobalAveragePool", ["sum"], ["pooled"], "pool"),
        node("Flatten", ["pooled"], ["flat"], "flatten"),
        node("Gemm", ["flat", "head.weight", "head.bias"], ["logits"], "head", transB=1),
    ]
    return make_model(nodes, [("image", ["N", *CONV_INPUT])], [("logits", ["N", NUM_CLASSES])], constants)


def conv_model_with_a_large_output():
    """conv_model with a second output, whose values and errors are large."""
    model = conv_model()
    model.graph.node.append(helper.make_node("Mul", ["sum", "thousand"], ["large"], "enlarge"))
    model.graph.initializer.append(numpy_helper.from_array(np.float32([1000]), "thousand"))
    model.graph.output.append(helper.make_tensor_value_info("large", TensorProto.FLOAT, ["N", 40, 10, 10]))
    return model


def odd_weight(rng, *shape):
    """Returns weights whose rows have different magnitudes, some of them zeros and negative zeros."""
    values = rng.standard_normal(shape) * 2.0 ** rng.integers(-12, 4, (shape[0],) + (1,) * (len(shape) - 1))
    values[rng.random(shape) < 0.05] = 0.0
    values[rng.random(shape) < 0.05] = -0.0
    return values


ODD_INPUTS = {"image": (3, 8, 8), "x": (45, 8, 8), "v": (77,)}
ODD_WEIGHTS = {"stem": (33, 3, 3, 3), "full": (21, 45, 3, 3), "point": (33, 45, 1, 1), "depth": (45, 1, 5, 5), "up": (45, 13, 2, 2),
               "mat": (77, 13), "rows": (50, 77), "columns": (77, 31)}


def odd_model(opset=17, dtype=np.float32):
    """Layers side by side, so that an output shows one layer's error. Their weights have awkward sizes: short last blocks, odd counts,
    strided axes, and both orientations of Gemm."""
    rng = np.random.default_rng(5)
    element = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    constants = {name: odd_weight(rng, *shape) for name, shape in ODD_WEIGHTS.items()}
    constants["bias"] = rng.standard_normal(50)
    node = helper.make_node
    nodes = [
        node("Conv", ["image", "stem"], ["stem_out"], "stem_conv", pads=[1, 1, 1, 1]),
        node("Conv", ["x", "full"], ["full_out"], "full_conv"), node("Conv", ["x", "point"], ["point_out"], "point_conv"),
        node("Conv", ["x", "depth"], ["depth_out"], "depth_conv", group=45, pads=[2, 2, 2, 2]),
        node("ConvTranspose", ["x", "up"], ["up_out"], "up_conv", strides=[2, 2]),
        node("MatMul", ["v", "mat"], ["mat_out"], "mat_mul"), node("Gemm", ["v", "rows", "bias"], ["rows_out"], "rows_gemm", transB=1),
        node("Gemm", ["v", "columns"], ["columns_sum"], "columns_gemm"), node("Relu", ["columns_sum"], ["columns_out"], "relu"),
    ]
    info = helper.make_tensor_value_info
    graph = helper.make_graph(nodes, "odd", [info(name, element, ["N", *shape]) for name, shape in ODD_INPUTS.items()],
                              [info(f"{name}_out", element, None) for name in ODD_WEIGHTS],
                              [numpy_helper.from_array(value.astype(dtype), name) for name, value in constants.items()])
    return onnx.shape_inference.infer_shapes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8))


def odd_inputs(dtype=np.float32):
    rng = np.random.default_rng(7)
    return {name: rng.standard_normal((2, *shape)).astype(dtype) for name, shape in ODD_INPUTS.items()}


def matmul_model():
    """Two MatMul by constants and one of two activations: sequence in, sequence out."""
    rng = np.random.default_rng(12)
    constants = {name: (rng.standard_normal((48, 48)) / 7).astype(np.float32) for name in ("query", "key")}
    node = helper.make_node
    nodes = [
        node("MatMul", ["x", "query"], ["q"], "make_query"),
        node("MatMul", ["x", "key"], ["k"], "make_key"),
        node("Transpose", ["k"], ["k_t"], "transpose", perm=[0, 2, 1]),
        node("MatMul", ["q", "k_t"], ["scores"], "score"),
        node("Softmax", ["scores"], ["weights"], "softmax", axis=-1),
        node("MatMul", ["weights", "x"], ["y"], "mix"),
    ]
    return make_model(nodes, [("x", ["N", 12, 48])], [("y", ["N", 12, 48])], constants)


def quark_model(**attributes):
    """A model with one of Quark's operators, whose attributes may be wrong."""
    node = helper.make_node("MXQuantizeDequantize", ["x"], ["y"], "quark_node", domain="com.amd.quark", **attributes)
    return make_model([node], [("x", ["N", 4])], [("y", ["N", 4])], {})


def save_photos(folder, count, size=(30, 24), subfolders=0):
    """Writes PNG and JPEG pictures of smooth random colours. If `subfolders` is not 0, they are spread over as many folders."""
    from PIL import Image

    rng = np.random.default_rng(13)
    paths = []
    for index in range(count):
        pixels = rng.integers(0, 256, (4, 4, 3), dtype=np.uint8)
        path = folder / (f"class_{index % subfolders}" if subfolders else "") / f"photo_{index}.{'jpg' if index % 2 else 'png'}"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).resize(size, Image.BICUBIC).save(path)
        paths.append(path)
    return paths


def smooth_images(count, seed, shape=CONV_INPUT):
    """Returns samples whose neighbouring pixels and channels depend on each other, as in photos."""
    rng = np.random.default_rng(seed)
    noise = rng.standard_normal((count, *shape)).astype(np.float32)
    smooth = sum(np.roll(noise, (dy, dx), (2, 3)) for dy in range(4) for dx in range(4)) / 4
    return smooth + smooth.mean(axis=1, keepdims=True)


def sqnr_db(wanted, found):
    """Returns the signal-to-noise ratio of all elements together, in dB. It is very large if they are the same."""
    wanted = np.asarray(wanted, np.float64)
    return 10 * np.log10((wanted**2).sum() / max(1e-300, ((wanted - np.asarray(found, np.float64))**2).sum()))


def is_as_measured(found_db, measured_db):
    """Returns whether an SQNR is close to the one that was measured on 2026-11-22. It may be 3 dB lower, which is twice the noise
    power. With and without VNNI no measurement differed by more than 0.15 dB. It may be 6 dB higher, which is the gain of one more
    bit. So a tensor that was not quantized at all is noticed, too."""
    return measured_db - 3 < found_db < measured_db + 6
