"""Readers of samples as scripts write them: strict ones, ones that begin anew by themselves, and arrays in other forms."""

import models
import numpy as np
import onnx
import onnxruntime
import pytest
from package_helpers import Reader, Rewinding

import bitpress

COUNT = 5
IMAGE = "crop=20,mean=0.5,std=0.25"


class Strict(Reader):
    """Raises if it is asked again behind its end, as a closed file or a data base cursor does."""

    has_ended = False

    def get_next(self):
        assert not self.has_ended, "get_next() was called again after None"
        item = super().get_next()
        self.has_ended = item is None
        return item


class StrictRewinding(Strict):
    def __init__(self, array, name):
        self.array, self.name = array, name
        super().__init__(array, name)

    def rewind(self):
        self.has_ended = False
        Reader.__init__(self, self.array, self.name)


class BeginsAnew(Rewinding):
    """Begins anew by itself behind its end, as the default reader of Neural Compressor's examples does."""

    num_given = 0

    def get_next(self):
        item = super().get_next()
        if item is None:
            self.rewind()
        else:
            self.num_given += 1
            assert self.num_given < 100, "it is read without end"
        return item


class BeginsAnewOnce(BeginsAnew):
    """The same without rewind(): what it gives is kept in a temporary file."""

    rewind = None

    def __init__(self, array, name):
        self.array, self.name, self.num_rewinds = array, name, 0
        Reader.__init__(self, array, name)

    def get_next(self):
        item = Reader.get_next(self)
        if item is None:
            Reader.__init__(self, self.array, self.name)
        else:
            self.num_given += 1
            assert self.num_given < 100, "it is read without end"
        return item

    def __getattribute__(self, name):
        if name == "rewind":
            raise AttributeError(name)
        return super().__getattribute__(name)


@pytest.fixture
def few():
    return np.random.default_rng(4).standard_normal((COUNT, *models.CONV_INPUT)).astype(np.float32)


@pytest.mark.parametrize("samples", [0, 3, 8])
@pytest.mark.parametrize("make", [Strict, StrictRewinding, BeginsAnew, BeginsAnewOnce])
def test_a_reader_is_read_once_to_its_first_none(make, samples, conv_path, tmp_path, few):
    reader = make(few, "image")
    bitpress.calibrate(conv_path, reader, tmp_path / "statistics.calib", samples=samples, progress=False)
    bitpress.calibrate(conv_path, [{"image": row[None]} for row in few], tmp_path / "list.calib", samples=samples, progress=False)
    assert (tmp_path / "statistics.calib").read_bytes() == (tmp_path / "list.calib").read_bytes()
    if isinstance(reader, BeginsAnew):
        assert reader.num_given == min(samples or COUNT, COUNT)


def test_a_reader_that_begins_anew_serves_every_pass(conv_path, tmp_path, few):
    reports = [bitpress.quantize(conv_path, tmp_path / f"{i}.onnx", config="INT8", data=data, samples=8, progress=False)
               for i, data in enumerate([BeginsAnew(few, "image"), BeginsAnewOnce(few, "image"), [{"image": row[None]} for row in few]])]
    assert len(reports) == 3
    assert (tmp_path / "0.onnx").read_bytes() == (tmp_path / "1.onnx").read_bytes() == (tmp_path / "2.onnx").read_bytes()


def test_forms_of_samples_that_numpy_takes(matmul_path, tmp_path, sequences):
    """Arrays of float64 and lists of lists are samples as arrays of float32 are."""
    few = sequences[:3]
    forms = {"float32": few, "float64": few.astype(np.float64), "lists": [{"x": row[None].tolist()} for row in few],
             "lists without names": [row[None].tolist() for row in few], "columns": np.asfortranarray(few)}
    for name, data in forms.items():
        bitpress.calibrate(matmul_path, data, tmp_path / f"{name}.calib", progress=False)
        assert (tmp_path / f"{name}.calib").read_bytes() == (tmp_path / "float32.calib").read_bytes(), name


@pytest.mark.parametrize("order", ["C", "F"])
def test_files_of_doubles(order, matmul_path, tmp_path, sequences):
    (tmp_path / "samples").mkdir()
    np.save(tmp_path / "samples" / "a.npy", np.asarray(sequences[:3], np.float64, order=order))
    bitpress.calibrate(matmul_path, tmp_path / "samples", tmp_path / "files.calib", progress=False)
    bitpress.calibrate(matmul_path, sequences[:3], tmp_path / "arrays.calib", progress=False)
    assert (tmp_path / "files.calib").read_bytes() == (tmp_path / "arrays.calib").read_bytes()


@pytest.mark.parametrize("pair", [tuple, list])
def test_pairs_of_inputs_and_labels_are_explained(pair, matmul_path, tmp_path, sequences):
    batches = [pair((sequences[:2], np.array([0, 1]))), pair((sequences[2:4], np.array([1, 0])))]
    with pytest.raises(TypeError, match=r"list of 2 arrays|tuple of 2 arrays") as error:
        bitpress.calibrate(matmul_path, batches, tmp_path / "a.calib", progress=False)
    assert "[x for x, y in batches]" in str(error.value)


def test_uneven_lists_are_explained(matmul_path, tmp_path):
    with pytest.raises(TypeError, match="input 'x' is no array of numbers"):
        bitpress.calibrate(matmul_path, [[[1.0, 2.0], [3.0]]], tmp_path / "a.calib", progress=False)


def test_whole_items(tmp_path):
    """Rows that belong together: found by running the first one, or said by WholeItems."""
    rng = np.random.default_rng(4)
    nodes = [onnx.helper.make_node("Reshape", ["x", "shape"], ["v"]), onnx.helper.make_node("MatMul", ["v", "w"], ["y"])]
    io = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape) for name, shape in (("x", ["N", 16]), ("y", ["M", 8]))]
    constants = {"shape": np.array([-1, 64]), "w": rng.standard_normal((64, 8)).astype(np.float32)}
    graph = onnx.helper.make_graph(nodes, "views", io[:1], io[1:], [onnx.numpy_helper.from_array(value, name) for name, value in constants.items()])
    model = models.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8), tmp_path / "views.onnx")
    items = list(rng.standard_normal((6, 4, 16)).astype(np.float32))

    def made(data):
        bitpress.quantize(model, tmp_path / "out.onnx", "INT8", data)
        return (tmp_path / "out.onnx").read_bytes()

    with pytest.warns(bitpress.QuantizationWarning, match=r"say data=WholeItems\(...\) if that is right"):
        found = made(items)
    assert found == made(bitpress.WholeItems(items)) == made(bitpress.WholeItems(iter(items)))
    with pytest.raises(TypeError, match="WholeItems takes"):
        bitpress.WholeItems(bitpress.WholeItems(items))


def test_texts_are_explained(matmul_path, tmp_path):
    with pytest.raises(TypeError, match="are texts, and samples are numbers"):
        bitpress.quantize(matmul_path, tmp_path / "out.onnx", "INT8", [{"x": np.array(["a", "b"])}])


def test_photos_are_those_that_evaluate_sees(conv_path, tmp_path):
    """Classes, order and pixels: the accuracy in one's own session is that of evaluate()."""
    models.save_photos(tmp_path / "val", 7, subfolders=3)
    batches = list(bitpress.read_photos(tmp_path / "val", IMAGE, batch_size=3, samples=5))
    assert [len(batch.pixels) for batch in batches] == [3, 2] and all(len(batch.labels) == len(batch.files) == len(batch.pixels) for batch in batches)
    session = onnxruntime.InferenceSession(conv_path)
    name = session.get_inputs()[0].name
    right = sum(int((session.run(None, {name: batch.pixels})[0].argmax(axis=1) == batch.labels).sum()) for batch in batches)
    report = bitpress.evaluate(conv_path, tmp_path / "val", image=IMAGE, samples=5)
    assert report.num_labelled == 5 and report.top1 == pytest.approx(right / 5)


def test_wrong_photos_are_named(tmp_path):
    with pytest.raises(bitpress.MissingFileError, match="nowhere"):
        bitpress.read_photos(tmp_path / "nowhere", IMAGE)
    with pytest.raises(bitpress.InvalidArgumentError, match="batch_size=0: expected 1 or more"):
        bitpress.read_photos(tmp_path, IMAGE, batch_size=0)
    with pytest.raises(bitpress.InvalidArgumentError, match="crop"):
        bitpress.read_photos(tmp_path, "crap=3")


def test_a_folder_says_what_it_leaves_out(tmp_path, conv_path, images):
    folder = tmp_path / "samples"
    folder.mkdir()
    np.save(folder / "a.npy", images[:2])
    (folder / "b.gif").write_bytes(b"x")
    (folder / "notes").write_bytes(b"x")
    with pytest.warns(UserWarning, match="2 of 3 files are left out, which are no samples: 1 .gif, 1 without an ending"):
        bitpress.calibrate(conv_path, folder, tmp_path / "x.bpc", config="INT8", guard="off")
