"""Measures in the terms of a task, against NumPy on the outputs of both models."""

import base64
import io
import json

import numpy as np
import onnxruntime
import pytest
from models import make_model, save, save_arrays, save_photos
from onnx import TensorProto, helper
from PIL import Image

node = helper.make_node


def run(path, inputs):
    return onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"]).run(None, inputs)


def evaluate(bitpress, model, reference, data, *options):
    return json.loads(bitpress.ok("evaluate", model, "--reference", reference, "--data", data, "--json", "-", *options))


def figures(report):
    return {figure["name"]: figure["value"] for figure in report["task"]["figures"]}


@pytest.fixture(scope="module")
def embedder(tmp_path_factory):
    """Embeddings of rows: a product, and its length made 1."""
    rng = np.random.default_rng(5)
    nodes = [node("MatMul", ["x", "w"], ["h"], name="project"), node("LpNormalization", ["h"], ["y"], name="normalize", axis=1, p=2)]
    model = make_model(nodes, [("x", ["N", 64])], [("y", ["N", 32])], {"w": rng.standard_normal((64, 32)).astype(np.float32)})
    return save(model, tmp_path_factory.mktemp("embedder") / "embedder.onnx")


@pytest.mark.quick
def test_embeddings_have_the_ranks_of_numpy(bitpress, embedder, tmp_path):
    x = np.random.default_rng(3).standard_normal((24, 64)).astype(np.float32)
    data = save_arrays(tmp_path / "data", [x])
    bitpress.ok("quantize", embedder, "-o", tmp_path / "q.onnx", "--config", "INT4_WEIGHTS")
    report = evaluate(bitpress, tmp_path / "q.onnx", embedder, data)
    assert report["task"]["task"] == "embedding" and report["task"]["num_samples"] == 24
    found, wanted = (run(path, {"x": x})[0].astype(float) for path in (tmp_path / "q.onnx", embedder))
    found, wanted = (v / np.linalg.norm(v, axis=1, keepdims=True) for v in (found, wanted))
    cosines = (found * wanted).sum(axis=1)
    upper = np.triu_indices(24, 1)
    ranks = [np.argsort(np.argsort((v @ v.T)[upper])) for v in (found, wanted)]
    nearest = [np.argsort(-(v @ v.T) + 9 * np.eye(24), axis=1)[:, :10] for v in (found, wanted)]
    recall = np.mean([len(set(a) & set(b)) / 10 for a, b in zip(*nearest, strict=True)])
    measured = figures(report)
    assert measured["cosine to the float vector, mean"] == pytest.approx(cosines.mean(), abs=1e-6)
    assert measured["cosine to the float vector, least"] == pytest.approx(cosines.min(), abs=1e-6)
    assert measured["rank agreement of similarities"] == pytest.approx(np.corrcoef(*ranks)[0, 1], abs=1e-4)
    assert measured["recall@10"] == pytest.approx(recall, abs=0.01) and recall < 1
    assert "task       embedding" in bitpress.ok("evaluate", tmp_path / "q.onnx", "--reference", embedder, "--data", data)
    orders = [[list(row[:5]) for row in order] for order in nearest]
    changed = report["task"]["neighbours"]["changed"]
    assert report["task"]["neighbours"]["num_same"] == sum(a == b for a, b in zip(*orders, strict=True)) and len(changed) == 6
    for sample in changed:
        row = int(sample["name"].split("[")[1][:-1])
        for side, order, other in (("found", *orders), ("wanted", *orders[::-1])):
            assert [int(near["name"].split("[")[1][:-1]) for near in sample[side]] == order[row]
            assert [near["other_rank"] for near in sample[side] if near["other_rank"] <= 5] == [other[row].index(j) + 1 for j in order[row] if j in other[row]]


def test_the_page_names_samples_by_their_texts(bitpress, embedder, tmp_path):
    data = save_arrays(tmp_path / "data", [np.random.default_rng(3).standard_normal((24, 64)).astype(np.float32)])
    bitpress.ok("quantize", embedder, "-o", tmp_path / "q.onnx", "--config", "INT4_WEIGHTS")
    name = evaluate(bitpress, tmp_path / "q.onnx", embedder, data)["task"]["neighbours"]["changed"][0]["name"].rsplit("/")[-1]
    (data / "texts.csv").write_text(f'file,text\n{name},"a ""first"", sentence"\n')
    report = bitpress.run("report", tmp_path / "q.onnx", "--reference", embedder, "-o", tmp_path / "page.html", "--json", tmp_path / "page.json", "--data", data)
    assert report.returncode == 0 and "left out" not in report.stderr
    assert json.loads((tmp_path / "page.json").read_text())["evaluation"]["task"]["neighbours"]["changed"][0]["name"] == 'a "first", sentence'
    assert '\\"first\\", sentence' in (tmp_path / "page.html").read_text()
    (data / "texts.csv").write_text("file,words\n")
    assert "no column 'text'" in bitpress.error("evaluate", tmp_path / "q.onnx", "--reference", embedder, "--data", data)


def test_masks_have_the_iou_of_numpy(bitpress, tmp_path):
    rng = np.random.default_rng(7)
    nodes = [node("Conv", ["x", "w"], ["c"], name="conv", pads=[1, 1, 1, 1]), node("Softmax", ["c"], ["y"], name="share", axis=1)]
    model = save(make_model(nodes, [("x", ["N", 3, 32, 32])], [("y", ["N", 4, 32, 32])], {"w": rng.standard_normal((4, 3, 3, 3)).astype(np.float32)}),
                 tmp_path / "masks.onnx")
    x = rng.standard_normal((6, 3, 32, 32)).astype(np.float32)
    data = save_arrays(tmp_path / "data", [x])
    bitpress.ok("quantize", model, "-o", tmp_path / "q.onnx", "--config", "MX4", "--target", "portable")
    report = evaluate(bitpress, tmp_path / "q.onnx", model, data)
    found, wanted = (run(path, {"x": x})[0].argmax(axis=1) for path in (tmp_path / "q.onnx", model))
    ious = [((found == i) & (wanted == i)).sum() / ((found == i) | (wanted == i)).sum() for i in range(4)]
    assert report["task"]["task"] == "segmentation"
    assert figures(report)["mIoU with the float masks"] == pytest.approx(np.mean(ious), abs=1e-3) and np.mean(ious) < 0.99


def test_boxes_against_labels_of_coco(bitpress, tmp_path):
    """A "detector" whose boxes are its input: found ones may be put where one wants them."""
    model = save(make_model([node("Identity", ["x"], ["y"], name="pass")], [("x", ["N", 4, 6])], [("y", ["N", 4, 6])], {}), tmp_path / "d.onnx")
    right, moved, unsure, none = [10, 10, 30, 30, 0.9, 0], [100, 100, 120, 120, 0.8, 0], [50, 50, 70, 80, 0.6, 1], [0, 0, 0, 0, 0, 0]
    data = save_arrays(tmp_path / "data", [np.array([[right, moved, unsure, none]], np.float32)])
    labels = tmp_path / "instances.json"
    labels.write_text(json.dumps({
        "images": [{"id": 7, "file_name": "000.npy", "width": 128, "height": 128}],
        "categories": [{"id": 3}, {"id": 90}],
        "annotations": [{"image_id": 7, "category_id": 3, "bbox": [10, 10, 20, 20]}, {"image_id": 7, "category_id": 3, "bbox": [60, 0, 20, 20]},
                        {"image_id": 7, "category_id": 90, "bbox": [50, 50, 20, 30]}]}))
    report = evaluate(bitpress, model, model, data, "--task", f"detection:layout=end2end,labels={labels}")
    measured = figures(report)
    assert measured["boxes"] == 3 and measured["F1 with the float boxes"] == 1 and report["task"]["loss"] == 0
    # Of class 0 one of two labels is found, first of all: precision 1 up to a recall of one half. Class 1 is right.
    assert measured["mAP 50"] == pytest.approx((51 / 101 + 1) / 2) and measured["mAP 50-95"] == pytest.approx((51 / 101 + 1) / 2)
    labels.write_text("{}")
    message = bitpress.error("evaluate", model, "--data", data, "--task", f"detection:layout=end2end,labels={labels}")
    assert "instances.json" in message and "in the form of COCO" in message


def test_labels_follow_the_fit_of_photos(bitpress, tmp_path):
    """A "detector" that finds the same box in every photo of 16 by 16 pixels."""
    constants = {"box": np.array([[[4, 6, 8, 10, 0.9, 0]] + [[0] * 6] * 3], np.float32), "zero": np.float32(0)}
    nodes = [node("ReduceMean", ["x"], ["m"], name="mean", axes=[1, 2, 3], keepdims=0), node("Mul", ["m", "zero"], ["z"], name="nothing"),
             node("Add", ["box", "z"], ["y"], name="find")]
    model = make_model(nodes, [("x", [1, 3, 16, 16])], [("y", [1, 4, 6])], constants)
    model = save(model, tmp_path / "detector.onnx")
    photos = save_photos(tmp_path / "photos", 1, size=(32, 16))
    labels = tmp_path / "labels.json"
    labels.write_text(json.dumps({"images": [{"id": 0, "file_name": photos[0].name, "width": 32, "height": 16}], "categories": [{"id": 0}],
                                  "annotations": [{"image_id": 0, "category_id": 0, "bbox": [8, 4, 8, 8]}]}))
    words = ("--task", f"detection:layout=end2end,labels={labels}")
    # Half of the size, with four rows of grey above; stretched, the label covers twice the box.
    for fit, wanted in [("letterbox", 1), ("stretch", 0.1)]:
        report = evaluate(bitpress, model, model, photos[0].parent, "--image", f"resize=16,fit={fit}", *words)
        assert figures(report)["mAP 50-95"] == pytest.approx(wanted)
    message = bitpress.error("evaluate", model, "--data", photos[0].parent, "--image", "crop=16", *words)
    assert "labels are for 32x16 pixels, and the model saw 16x16" in message


def pictures_of(bitpress, model, data, tmp_path, *options):
    bitpress.ok("report", model, "--reference", model, "-o", tmp_path / "page.html", "--json", tmp_path / "page.json", "--data", data, *options)
    pictures = json.loads((tmp_path / "page.json").read_text())["pictures"]
    images = [Image.open(io.BytesIO(base64.b64decode(picture["image"].removeprefix("data:image/jpeg;base64,")))) for picture in pictures]
    return pictures, images


def test_the_page_has_photos_with_boxes(bitpress, tmp_path):
    """A "detector" that finds the same box in every photo."""
    constants = {"box": np.array([[[4, 6, 8, 10, 0.9, 0]] + [[0] * 6] * 3], np.float32), "zero": np.float32(0)}
    nodes = [node("ReduceMean", ["x"], ["m"], name="mean", axes=[1, 2, 3], keepdims=1), node("Squeeze", ["m", "axes"], ["s"], name="flat"),
             node("Mul", ["s", "zero"], ["z"], name="nothing"), node("Add", ["box", "z"], ["y"], name="find")]
    model = make_model(nodes, [("x", ["N", 3, 16, 32])], [("y", ["N", 4, 6])], {**constants, "axes": np.array([3])})
    model = save(model, tmp_path / "detector.onnx")
    shades = np.linspace(-2, 2, 8)[:, None, None, None] * np.ones((8, 3, 16, 32)) + np.array([1, 0, -1])[:, None, None]
    shades[:, :, 8:] = 0
    data = save_arrays(tmp_path / "data", [shades.astype(np.float32)])
    pictures, images = pictures_of(bitpress, model, data, tmp_path, "--task", "detection:layout=end2end")
    assert len(pictures) == 6 and [(image.width, image.height) for image in images] == [(32, 16)] * 6
    box = {"left": 4, "top": 6, "right": 8, "bottom": 10, "label": 0, "is_paired": True}
    for picture in pictures:
        assert [b["is_reference"] for b in picture["boxes"]] == [True, False] and picture["width"] == 32 and not picture["has_mask"]
        assert all(box.items() <= b.items() for b in picture["boxes"])
    red, _, blue = images[0].getpixel((10, 2))
    assert red > blue + 40


def test_the_page_has_photos_with_masks(bitpress, tmp_path):
    nodes = [node("ReduceMean", ["x"], ["m"], name="mean", axes=[1], keepdims=1), node("Sigmoid", ["m"], ["y"], name="share")]
    model = save(make_model(nodes, [("x", ["N", 3, 32, 32])], [("y", ["N", 1, 32, 32])], {}), tmp_path / "mask.onnx")
    x = np.full((2, 3, 32, 32), -1, np.float32)
    x[:, :, :, 16:] = 1
    pictures, images = pictures_of(bitpress, model, save_arrays(tmp_path / "data", [x]), tmp_path)
    assert [picture["has_mask"] for picture in pictures] == [True, True]
    plain, masked = images[0].getpixel((2, 10)), images[0].getpixel((28, 10))
    assert max(plain) < 30 and masked[1] > masked[0] > 150  # white under green


def test_texts_against_labels(bitpress, tmp_path):
    """Scores of 4 steps are the input: blank, a, b."""
    model = save(make_model([node("Identity", ["x"], ["y"], name="pass")], [("x", ["N", 4, 3])], [("y", ["N", 4, 3])], {}), tmp_path / "t.onnx")
    data = save_arrays(tmp_path / "data", [np.eye(3, dtype=np.float32)[[[1, 1, 0, 2]]], np.eye(3, dtype=np.float32)[[[1, 0, 1, 2]]]])
    (tmp_path / "words.txt").write_text("-\na\nb\n")
    (tmp_path / "labels.csv").write_text("file,text\n000.npy,ab\n001.npy,ab\n")
    report = evaluate(bitpress, model, model, data, "--task", f"text:blank=0,vocabulary={tmp_path / 'words.txt'},labels={tmp_path / 'labels.csv'}")
    measured = figures(report)
    assert measured["character errors"] == pytest.approx(1 / 4) and measured["word errors"] == pytest.approx(1 / 2)
    assert measured["character errors against the float texts"] == 0


@pytest.mark.parametrize("batch", ["1", "6"])
def test_texts_of_steps_before_samples_need_no_task(bitpress, tmp_path, batch):
    """Scores as recurrent networks give them. A batch may have as many samples as steps."""
    classes = np.array([[0, 3 + i, 0, 0, 9, 0] for i in range(6)])
    scores = np.where(np.arange(30) == classes[..., None], 9, -2).astype(np.float32)
    worse = np.zeros((6, 30), np.float32)
    worse[4, 0] = 20  # the second character becomes a blank
    paths = [save(make_model([node("Add", ["x", "w"], ["s"]), node("Transpose", ["s"], ["y"], perm=[1, 0, 2])], [("x", ["N", 6, 30])],
                             [("y", [6, "N", 30])], {"w": add}), tmp_path / f"{name}.onnx") for name, add in (("float", 0 * worse), ("worse", worse))]
    report = evaluate(bitpress, paths[1], paths[0], save_arrays(tmp_path / "data", scores[:, None]), "--batch", batch)
    assert report["task"]["task"] == "text" and report["task"]["num_items"] == 12 and report["task"]["loss"] == 0.5


def test_tokens_have_classes(bitpress, tmp_path):
    """As taggers give them. One of four tokens changes in each text."""
    table = np.full((8, 5), -2, np.float32)
    table[np.arange(8), np.arange(8) % 5] = 9
    other = table.copy()
    other[7] = table[1]
    paths = []
    for name, weight in (("float", table), ("other", other)):
        model = make_model([node("Gather", ["w", "x"], ["y"])], [("x", ["N", "T"])], [("y", ["N", "T", 5])], {"w": weight})
        model.graph.input[0].type.tensor_type.elem_type = TensorProto.INT64
        paths.append(save(model, tmp_path / f"{name}.onnx"))
    data = save_arrays(tmp_path / "data", np.array([[[0, 3, i, 7]] for i in range(1, 7)]))
    report = evaluate(bitpress, paths[1], paths[0], data)
    assert report["task"]["task"] == "classes" and report["task"]["num_items"] == 24 and figures(report)["agreement of first classes"] == 0.75


def test_a_search_reaches_a_loss_of_the_task(bitpress, embedder, tmp_path):
    x = np.random.default_rng(3).standard_normal((24, 64)).astype(np.float32)
    data = save_arrays(tmp_path / "data", [x])
    bitpress.ok("search", embedder, "--candidates", "mx6,mxfp4_e2m1", "--data", data, "--target", "task_loss<=1", "-o", tmp_path / "plan.json",
                "--json", tmp_path / "search.json")
    found = json.loads((tmp_path / "search.json").read_text())
    assert found["is_reached"] and 0 < found["final"]["task_loss"] <= 0.01
    assert "no task that is known" in bitpress.error("search", embedder, "--candidates", "mx6,mx9", "--data", data, "--target", "task_loss<=1",
                                                     "--task", "none", "-o", tmp_path / "plan.json")


def test_wrong_tasks_are_said(bitpress, embedder, tmp_path):
    data = save_arrays(tmp_path / "data", [np.zeros((4, 64), np.float32)])
    for task, message in [("embeding", "did you mean 'embedding'"), ("embedding:q=1", "no setting 'q'"),
                          ("detection", "it is not clear how the outputs hold boxes"), ("embedding:output=z", "no output 'z'"),
                          ("detection:layout=yolo9", "is not one of yolo5|yolo8"), ("embedding:k=3,k=4", "task setting k is given twice"),
                          ("embedding:k=0", "task setting k is 0, expected an integer from 1"),
                          ("detection:layout=yolo8,score=2", "task setting score is 2, expected a number from 0 to 1")]:
        assert message in bitpress.error("evaluate", embedder, "--reference", embedder, "--data", data, "--task", task)


def attention(tmp_path):
    """Token vectors of an attention with a mask, as a sentence encoder has them, and no more."""
    rng = np.random.default_rng(11)
    weights = {name: (rng.standard_normal((32, 32)) / 6).astype(np.float32) for name in ("wq", "wk", "wv", "wo")}
    weights |= {"table": rng.standard_normal((50, 32)).astype(np.float32), "scale": np.float32(1 / np.sqrt(32)), "one": np.float32(1),
                "much": np.float32(-1e4), "axes": np.array([1])}
    nodes = [node("Gather", ["table", "input_ids"], ["x"], "look"), node("MatMul", ["x", "wq"], ["q"], "mq"), node("MatMul", ["x", "wk"], ["k"], "mk"),
             node("MatMul", ["x", "wv"], ["v"], "mv"), node("Transpose", ["k"], ["kt"], "turn", perm=[0, 2, 1]), node("MatMul", ["q", "kt"], ["s"], "scores"),
             node("Mul", ["s", "scale"], ["scaled"], "shrink"), node("Cast", ["attention_mask"], ["m"], "to_float", to=TensorProto.FLOAT),
             node("Sub", ["one", "m"], ["away"], "invert"), node("Mul", ["away", "much"], ["low"], "lower"), node("Unsqueeze", ["low", "axes"], ["bias"], "row"),
             node("Add", ["scaled", "bias"], ["masked"], "mask"), node("Softmax", ["masked"], ["p"], "soft", axis=-1), node("MatMul", ["p", "v"], ["o"], "mix"),
             node("MatMul", ["o", "wo"], ["last_hidden_state"], "project")]
    model = make_model(nodes, [], [("last_hidden_state", ["N", "S", 32])], weights)
    for name in ("input_ids", "attention_mask"):
        model.graph.input.append(helper.make_tensor_value_info(name, TensorProto.INT64, ["N", "S"]))
    return save(model, tmp_path / "encoder.onnx")


@pytest.mark.parametrize("config", ["INT8", "INT8_DYNAMIC"])
def test_a_text_has_one_vector_whatever_the_batch_and_the_padding(bitpress, run_model, tmp_path, config):
    model = attention(tmp_path)
    rng = np.random.default_rng(2)
    texts = [rng.integers(1, 50, size) for size in (3, 9, 16, 5, 7, 12)]
    folder = tmp_path / "samples"
    folder.mkdir()
    for i, ids in enumerate(texts):
        np.savez(folder / f"{i}.npz", input_ids=ids[None], attention_mask=np.ones((1, len(ids)), np.int64))
    bitpress.ok("quantize", model, "-o", tmp_path / "q.onnx", "--config", config, "--data", folder)
    ids, mask = np.zeros((len(texts), 20), np.int64), np.zeros((len(texts), 20), np.int64)
    for i, text in enumerate(texts):
        ids[i, :len(text)], mask[i, :len(text)] = text, 1
    together = run_model(tmp_path / "q.onnx", {"input_ids": ids, "attention_mask": mask})[0]
    floats = run_model(model, {"input_ids": ids, "attention_mask": mask})[0]
    for i, text in enumerate(texts):
        alone = run_model(tmp_path / "q.onnx", {"input_ids": text[None], "attention_mask": np.ones((1, len(text)), np.int64)})[0][0]
        float_alone = run_model(model, {"input_ids": text[None], "attention_mask": np.ones((1, len(text)), np.int64)})[0][0]
        own = np.abs(floats[i, :len(text)] - float_alone).max()
        assert np.abs(together[i, :len(text)] - alone).max() <= max(1e-5, 2 * own)
        assert np.abs(alone - float_alone).max() > 1e-4  # it is quantized
