"""bitpress evaluate reads photos, arrays, labels and references, and writes a JSON report."""

import csv
import json

import models
import numpy as np
import onnx
import pytest
from onnx import helper
from PIL import Image

IMAGE = "crop=20,mean=0.5,std=0.25"


def report(bitpress, tmp_path, *arguments):
    path = tmp_path / "report.json"
    bitpress.ok("evaluate", *arguments, "--json", path)
    return json.loads(path.read_text())


def load_photo(path):
    """Returns the centre 20x20 of a PNG as the model's input: an independent implementation of IMAGE."""
    pixels = np.asarray(Image.open(path).convert("RGB"), np.float32) / 255
    top, left = (pixels.shape[0] - 20) // 2, (pixels.shape[1] - 20) // 2
    return ((pixels[top : top + 20, left : left + 20] - 0.5) / 0.25).transpose(2, 0, 1)


@pytest.fixture
def photos(tmp_path):
    paths = [path for path in models.save_photos(tmp_path / "photos", 24) if path.suffix == ".png"]
    for path in (tmp_path / "photos").glob("*.jpg"):
        path.unlink()
    return paths


@pytest.fixture
def classes(photos, conv_path, run_model):
    """Returns the classes that the float model finds."""
    return run_model(conv_path, {"image": np.stack([load_photo(path) for path in photos])})[0].argmax(axis=1)


def write_labels(path, rows):
    with open(path, "w", newline="") as file:
        csv.writer(file).writerows([("file", "class"), *rows])
    return path


@pytest.mark.quick
def test_the_photo_pipeline_is_the_stated_one(photos, classes, conv_path, tmp_path, bitpress):
    rows = [(path.name, label) for path, label in zip(photos, classes)]
    labels = write_labels(tmp_path / "labels.csv", rows)
    result = report(bitpress, tmp_path, conv_path, "--data", tmp_path / "photos", "--labels", labels, "--image", IMAGE)
    assert result["num_samples"] == result["num_labelled"] == len(photos)
    assert result["top1"] == 1.0 and result["top5"] == 1.0
    assert len(set(classes)) > 1


def test_only_listed_files_count(photos, classes, conv_path, tmp_path, bitpress):
    wrong = (classes[0] + 1) % models.NUM_CLASSES
    rows = [(photos[0].name, wrong), (photos[1].name, classes[1]), (photos[2].name, classes[2]), (photos[3].name, classes[3])]
    labels = write_labels(tmp_path / "labels.csv", rows)
    result = report(bitpress, tmp_path, conv_path, "--data", tmp_path / "photos", "--labels", labels, "--image", IMAGE)
    assert result["num_samples"] == 4 and result["top1"] == 0.75


def test_folders_are_classes(conv_path, tmp_path, bitpress, run_model):
    paths = models.save_photos(tmp_path / "photos", 12, subfolders=3)
    for path in paths:  # JPEG decoders may differ by a step
        if path.suffix == ".jpg":
            Image.open(path).save(path.with_suffix(".png"))
            path.unlink()
    paths = sorted((tmp_path / "photos").rglob("*.png"))
    found = run_model(conv_path, {"image": np.stack([load_photo(path) for path in paths])})[0].argmax(axis=1)
    expected = np.mean([label == int(path.parent.name[-1]) for path, label in zip(paths, found)])
    result = report(bitpress, tmp_path, conv_path, "--data", tmp_path / "photos", "--image", IMAGE)
    assert result["num_labelled"] == 12 and result["top1"] == pytest.approx(expected)


@pytest.mark.quick
def test_against_a_reference(photos, conv_path, tmp_path, bitpress, run_model):
    quantized = tmp_path / "quantized.onnx"
    bitpress.ok("quantize", conv_path, "-o", quantized, "--config", "MX6")
    result = report(bitpress, tmp_path, quantized, "--data", tmp_path / "photos", "--image", IMAGE, "--reference", conv_path)
    inputs = {"image": np.stack([load_photo(path) for path in photos])}
    wanted, found = (run_model(path, inputs)[0].astype(np.float64) for path in (conv_path, quantized))
    noise = 10 * np.log10((wanted**2).sum() / ((wanted - found) ** 2).sum())
    cosine = np.mean((wanted * found).sum(1) / np.linalg.norm(wanted, axis=1) / np.linalg.norm(found, axis=1))
    assert result["sqnr_db"] == pytest.approx(noise, abs=0.01)
    assert result["cosine"] == pytest.approx(cosine, abs=1e-5)
    assert result["l2"] == pytest.approx(np.linalg.norm(wanted - found, axis=1).mean(), rel=1e-5)
    assert result["agreement"] == pytest.approx((wanted.argmax(1) == found.argmax(1)).mean())
    probabilities = np.exp(wanted) / np.exp(wanted).sum(1, keepdims=True)
    for key, classes in (("expected_top1", found.argmax(1)), ("reference_expected_top1", wanted.argmax(1))):
        assert result[key] == pytest.approx(np.take_along_axis(probabilities, classes[:, None], 1).mean())
    assert result["top1"] is None
    assert result["time_ratio"] > 0 and result["reference_time_ms"] > 0
    assert result["file_bytes"] == quantized.stat().st_size
    assert result["reference_file_bytes"] == conv_path.stat().st_size


def test_a_model_is_identical_to_itself(photos, conv_path, tmp_path, bitpress):
    result = report(bitpress, tmp_path, conv_path, "--data", tmp_path / "photos", "--image", IMAGE, "--reference", conv_path)
    assert result["outputs_identical"] and result["agreement"] == 1.0 and result["sqnr_db"] is None


def test_arrays(matmul_path, tmp_path, bitpress):
    rng = np.random.default_rng(5)
    (tmp_path / "arrays").mkdir()
    for index, num_samples in enumerate((1, 4, 2)):
        np.save(tmp_path / "arrays" / f"{index}.npy", rng.standard_normal((num_samples, 12, 48)).astype(np.float32))
    quantized = tmp_path / "quantized.onnx"
    bitpress.ok("quantize", matmul_path, "-o", quantized, "--config", "MX9")
    result = report(bitpress, tmp_path, quantized, "--data", tmp_path / "arrays", "--reference", matmul_path)
    assert result["num_samples"] == 7
    assert result["class_output"] is None and result["agreement"] is None
    assert models.is_as_measured(result["sqnr_db"], 32.8)


def test_the_text_report_names_the_figures(photos, conv_path, tmp_path, bitpress):
    text = bitpress.ok("evaluate", conv_path, "--data", tmp_path / "photos", "--image", IMAGE, "--reference", conv_path)
    for word in ("agree", "SQNR", "cosine"):
        assert word.lower() in text.lower()


@pytest.mark.parametrize("num_classes", [5, 6])
def test_five_of_five_classes_are_no_figure(tmp_path, bitpress, num_classes):
    rng = np.random.default_rng(num_classes)
    weights = {"w": rng.standard_normal((16, num_classes)).astype(np.float32)}
    node = helper.make_node("MatMul", ["x", "w"], ["y"], name="classes")
    model = models.save(models.make_model([node], [("x", ["N", 16])], [("y", ["N", num_classes])], weights), tmp_path / "classes.onnx")
    data = models.save_arrays(tmp_path / "samples", list(rng.standard_normal((4, 1, 16)).astype(np.float32)))
    labels = write_labels(tmp_path / "labels.csv", [(f"{i:03}.npy", i) for i in range(4)])
    text = bitpress.ok("evaluate", model, "--reference", model, "--data", data, "--labels", labels)
    assert "top-1" in text and ("top-5" in text) == (num_classes > 5)


def test_a_state_whose_first_dimension_is_no_batch(tmp_path, bitpress):
    """The states of two layers have the shape [2, 1, 8], and one sample has [1, 8]. No copies make two samples of it."""
    node = helper.make_node
    nodes = [node("ReduceSum", ["state", "axes"], ["sum"], "sum", keepdims=0), node("Add", ["x", "sum"], ["added"], "add"),
             node("MatMul", ["added", "w"], ["y"], "product")]
    constants = {"axes": np.array([0]), "w": np.random.default_rng(1).standard_normal((8, 8)).astype(np.float32)}
    model = models.make_model(nodes, [("x", ["N", 8]), ("state", [2, "N", 8])], [("y", ["N", 8])], constants)
    path = models.save(model, tmp_path / "model.onnx")
    (tmp_path / "data").mkdir()
    for i in range(3):
        rng = np.random.default_rng(i)
        np.savez(tmp_path / "data" / f"{i}.npz", x=rng.standard_normal((1, 8)).astype(np.float32),
                 state=rng.standard_normal((2, 1, 8)).astype(np.float32))
    bitpress.ok("quantize", path, "-o", tmp_path / "mx6.onnx", "--config", "MX6")
    result = report(bitpress, tmp_path, tmp_path / "mx6.onnx", "--reference", path, "--data", tmp_path / "data")
    assert result["num_samples"] == 3 and models.is_as_measured(result["sqnr_db"], 29.2)
    assert result["outputs"][0]["num_values"] == 3 * 8


@pytest.mark.parametrize("kind", ["vnni", "no_vnni"])
def test_a_product_with_scales_of_float16_is_not_simulated(kind, tmp_path, bitpress):
    """One of these is another kind of processor than this one. The scales are FLOAT16, and not FLOAT as in earlier opsets."""
    node = helper.make_node
    nodes = [node("QuantizeLinear", ["x", "x_scale", "zero"], ["codes"]),
             node("QLinearMatMul", ["codes", "x_scale", "zero", "w", "w_scale", "w_zero", "y_scale", "zero"], ["product"]),
             node("DequantizeLinear", ["product", "y_scale", "zero"], ["y"])]
    scales = {name: np.array(value, np.float16) for name, value in (("x_scale", 0.02), ("w_scale", 0.01), ("y_scale", 0.5))}
    constants = {**scales, "zero": np.array(3, np.uint8), "w_zero": np.array(0, np.int8), "w": np.full((8, 4), 127, np.int8)}
    half = onnx.TensorProto.FLOAT16
    graph = helper.make_graph(nodes, "net", [helper.make_tensor_value_info("x", half, ["N", 8])],
                              [helper.make_tensor_value_info("y", half, ["N", 4])],
                              [onnx.numpy_helper.from_array(value, name) for name, value in constants.items()])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    path = models.save(model, tmp_path / "model.onnx")
    (tmp_path / "data").mkdir()
    np.save(tmp_path / "data" / "0.npy", np.ones((1, 8), np.float16))
    processor = report(bitpress, tmp_path, path, "--data", tmp_path / "data", "--processor", kind)["processor"]
    assert len(processor["not_simulated"]) == 1 and "QLinearMatMul" in processor["not_simulated"][0]


def test_steps_of_time_are_no_classes(tmp_path, bitpress):
    """The outputs have a number for each step, and the samples have different numbers of steps."""
    node = helper.make_node("Mul", ["x", "half"], ["y"], name="half")
    model = models.save(models.make_model([node], [("x", ["N", "T"])], [("y", ["N", "T"])], {"half": np.float32(0.5)}), tmp_path / "steps.onnx")
    rng = np.random.default_rng(2)
    data = models.save_arrays(tmp_path / "samples", [rng.standard_normal((1, length)).astype(np.float32) for length in (6, 6, 7)])
    result = report(bitpress, tmp_path, model, "--reference", model, "--data", data)
    assert result["num_samples"] == 3 and result["class_output"] is None and result["agreement"] is None and result["expected_top1"] is None
