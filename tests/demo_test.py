"""The demo's parts that need no network: reading weight files safely, the network's shape, clear errors."""

import io
import pickle
import subprocess
import sys
import types
import zipfile
from collections import OrderedDict

import numpy as np
import pytest
from locations import ROOT

DEMO = ROOT / "examples" / "demo"
sys.path.append(str(DEMO))  # last, so that its modules hide none that other tests import
import convert_efficientnet_lite0 as convert  # noqa: E402
import photos  # noqa: E402

VALUES = np.arange(24, dtype="<f4")


class FloatStorage:
    pass


def rebuild(*arguments):
    raise AssertionError("only written, never called")


class TensorPickler(pickle.Pickler):
    """Writes what PyTorch writes for a tensor of a storage, without PyTorch."""

    def persistent_id(self, obj):
        return ("storage", FloatStorage, "7", "cpu", VALUES.size, None) if isinstance(obj, np.ndarray) else None


class Tensor:
    def __init__(self, offset, shape, strides):
        self.arguments = (VALUES, offset, shape, strides, False, OrderedDict())

    def __reduce__(self):
        return rebuild, self.arguments


@pytest.fixture
def torch_names(monkeypatch):
    """Our stand-ins under PyTorch's names, so that pickles mention those."""
    for name, attribute, value in (("torch", "FloatStorage", FloatStorage), ("torch._utils", "_rebuild_tensor_v2", rebuild)):
        module = types.ModuleType(name)
        setattr(module, attribute, value)
        monkeypatch.setitem(sys.modules, name, module)
        value.__module__, value.__qualname__ = name, attribute
    return None


def dump(obj):
    stream = io.BytesIO()
    TensorPickler(stream, protocol=2).dump(obj)
    return stream.getvalue()


def write_stream(path, tensors, data=None):
    data = VALUES.tobytes() if data is None else data
    system = {"protocol_version": 1001, "little_endian": True}
    parts = [0x1950A86A20F9469CFC6C, 1001, system, OrderedDict(tensors), ["7"]]
    path.write_bytes(b"".join(dump(part) for part in parts) + VALUES.size.to_bytes(8, "little") + data)
    return path


def write_zip(path, tensors):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", dump(OrderedDict(tensors)))
        archive.writestr("archive/data/7", VALUES.tobytes())
    return path


@pytest.mark.parametrize("write", [write_stream, write_zip])
def test_both_weight_formats_are_read(write, tmp_path, torch_names):
    tensors = {"plain": Tensor(0, (4, 6), (6, 1)), "transposed": Tensor(0, (6, 4), (1, 6)), "part": Tensor(20, (2, 2), (2, 1))}
    weights = convert.read_weights(write(tmp_path / "w.pth", tensors))
    assert (weights["plain"] == VALUES.reshape(4, 6)).all()
    assert (weights["transposed"] == VALUES.reshape(4, 6).T).all()
    assert (weights["part"] == VALUES[20:].reshape(2, 2)).all()


@pytest.mark.parametrize("tensor", [Tensor(0, (5, 6), (6, 1)), Tensor(-1, (2,), (1,)), Tensor(23, (2,), (-1,)),
                                    Tensor(0, (2, 2), (1,)), Tensor(0, (1 << 60,), (0,)), Tensor(30, (1,), (1,))])
def test_a_tensor_outside_its_storage_is_refused(tensor, tmp_path, torch_names):
    with pytest.raises(convert.WeightsError):
        convert.read_weights(write_stream(tmp_path / "w.pth", {"w": tensor}))


def test_a_pickle_that_runs_code_is_refused(tmp_path):
    class Attack:
        def __reduce__(self):
            return (exec, ("open('attacked', 'w')",))

    path = tmp_path / "w.pth"
    path.write_bytes(pickle.dumps(Attack(), protocol=2))
    with pytest.raises(convert.WeightsError, match="exec"):
        convert.read_weights(path)


@pytest.mark.parametrize("content", [b"", b"not a weight file", b"\x80\x02", pickle.dumps(3), b"PK\x03\x04"])
def test_what_is_no_weight_file_is_refused(content, tmp_path):
    path = tmp_path / "w.pth"
    path.write_bytes(content)
    with pytest.raises(convert.WeightsError):
        convert.read_weights(path)


def test_a_truncated_weight_file_is_refused(tmp_path, torch_names):
    with pytest.raises(convert.WeightsError):
        convert.read_weights(write_stream(tmp_path / "w.pth", {"w": Tensor(0, (24,), (1,))}, VALUES.tobytes()[:-4]))


def test_the_network_has_49_convolutions_and_asymmetric_padding(monkeypatch):
    def weight(self, name, shape):
        if name not in self.used:
            self.used.add(name)
            self.initializers.append(convert.numpy_helper.from_array(np.zeros(shape, np.float32), name))
        return name

    monkeypatch.setattr(convert.Builder, "weight", weight)
    model = convert.build_model({})
    convolutions = [node for node in model.graph.node if node.op_type == "Conv"]
    pads = {node.name: list(convert.helper.get_node_attr_value(node, "pads")) for node in convolutions}
    assert len(convolutions) == 49
    assert pads["_conv_stem"] == [0, 0, 1, 1]
    assert pads["_blocks.0._depthwise_conv"] == [1, 1, 1, 1]
    assert pads["_blocks.3._depthwise_conv"] == [1, 1, 2, 2]
    assert sum(node.op_type == "Add" for node in model.graph.node) == 9


def test_missing_and_extra_tensors_are_named():
    with pytest.raises(convert.WeightsError, match="_conv_stem.weight"):
        convert.build_model({})
    with pytest.raises(convert.WeightsError, match="shape"):
        convert.build_model({"_conv_stem.weight": np.zeros((1, 2), np.float32)})


def test_pieces_lie_inside_the_picture():
    for width, height in ((451, 300), (512, 512), (300, 640)):
        boxes = photos.piece_boxes(width, height)
        assert len(boxes) == (5 if width == height else 7)
        for left, top, right, bottom in boxes:
            assert 0 <= left < right <= width and 0 <= top < bottom <= height and right - left == bottom - top


@pytest.mark.parametrize("arguments, word", [
    ([], "is missing"), (["--data", "/nowhere"], "is missing"), (["--labels", "x.csv"], "--data"),
])
def test_expected_failures_are_one_line(arguments, word, tmp_path):
    command = [sys.executable, "-B", str(DEMO / "demo.py"), "--build-dir", str(tmp_path), *arguments]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode != 0
    assert word in result.stderr and "Traceback" not in result.stderr


def test_the_converter_names_a_missing_file(tmp_path):
    command = [sys.executable, "-B", str(DEMO / "convert_efficientnet_lite0.py"), str(tmp_path / "o.onnx"), "--weights",
               str(tmp_path / "nowhere.pth")]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 1 and "nowhere.pth" in result.stderr and "Traceback" not in result.stderr
    assert list(tmp_path.iterdir()) == []
