"""Masks of boxes against labels in the form of COCO: NumPy makes the masks, and pycocotools measures them where it is installed.

The detector is made by hand: its head and its prototypes are inputs, so that a test may find what it likes. Networks of this form, such as
YOLO11-seg, end as it does. The figures of pycocotools are kept here, for machines without it.
"""

import json

import numpy as np
import pytest
from models import make_model, save
from onnx import helper

node = helper.make_node
SIDE, PROTOTYPES, OBJECTS = 64, 8, 6  # pixels that the model sees, prototypes, rows of the head
# pycocotools 2.0.11 on what `scenes` makes.
COCO_FIGURES = {"bbox": (0.4854928349977855, 0.9444158701584445), "segm": (0.2111271484291286, 0.5981162401954482)}


def runs(mask):
    """The run lengths of a mask, column after column, the first of nothing."""
    pixels = np.concatenate([[0], mask.flatten(order="F").astype(int)])
    edges = np.flatnonzero(np.diff(pixels))
    return [int(count) for count in np.diff(np.concatenate([[0], edges, [mask.size]]))]


def text_of(counts):
    """Run lengths in the six bits a character of COCO."""
    text = ""
    for i, count in enumerate(counts):
        number = count - counts[i - 2] if i > 2 else count
        while True:
            bits, number = number & 31, number >> 5
            is_last = number == (-1 if bits & 16 else 0)
            text += chr(48 + (bits if is_last else bits | 32))
            if is_last:
                break
    return text


def ellipse(x, y, centre, radii):
    return 1 - ((x - centre[0]) / radii[0]) ** 2 - ((y - centre[1]) / radii[1]) ** 2


def scene(rng, image_id, width, height):
    """One photo: what the model gives for it, and its labels, of which the last is a crowd."""
    scale = SIDE / max(width, height)
    left, top = (SIDE - scale * width) / 2, (SIDE - scale * height) / 2
    y, x = (np.mgrid[:SIDE // 4, :SIDE // 4] + 0.5) * 4
    prototypes = rng.normal(0, 0.2, (PROTOTYPES, SIDE // 4, SIDE // 4))
    head = np.zeros((OBJECTS + 2, 6 + PROTOTYPES))
    annotations = []
    for i in range(OBJECTS):
        centre, radii = rng.uniform((0.2 * width, 0.2 * height), (0.8 * width, 0.8 * height)), rng.uniform(7, 16, 2)
        found = centre + rng.normal(0, 1.5, 2)
        prototypes[i] += ellipse(x, y, (found[0] * scale + left, found[1] * scale + top), radii * scale)
        corners = np.concatenate([found - radii, found + radii]) * scale + [left, top, left, top]
        label = int(rng.integers(2))
        head[i, :6] = [*(corners + rng.normal(0, 1, 4)), rng.uniform(0.05, 1), label]
        head[i, 6:] = rng.normal(0, 0.1, PROTOTYPES)
        head[i, 6 + i] += 2
        angles = np.linspace(0, 2 * np.pi, 14)[:-1]
        polygon = (centre + radii * np.stack([np.cos(angles), np.sin(angles)], axis=1)).round(2)
        box = [*polygon.min(axis=0), *(polygon.max(axis=0) - polygon.min(axis=0))]
        annotation = {"id": 10 * image_id + i + 1, "image_id": image_id, "category_id": [3, 7][label], "bbox": box, "area": box[2] * box[3], "iscrowd": 0,
                      "segmentation": [polygon.flatten().tolist()]}
        if i >= OBJECTS - 2:  # runs, of a crowd as numbers, else as text
            mask = ellipse(*np.mgrid[:height, :width][::-1] + 0.5, centre, 1.4 * radii) > 0
            counts = runs(mask)
            annotation["iscrowd"] = int(i == OBJECTS - 1)
            annotation["segmentation"] = {"size": [height, width], "counts": counts if annotation["iscrowd"] else text_of(counts)}
        if i > 0:  # the first object has no label
            annotations.append(annotation)
    order = np.argsort(-head[:, 4], kind="stable")
    return head[order].astype(np.float32), prototypes.astype(np.float32), annotations, (scale, left, top)


def scenes(folder):
    """Samples and labels of photos of several sizes, letterboxed, and what was found in them."""
    rng = np.random.default_rng(8)
    labels = {"images": [], "categories": [{"id": 3, "name": "a"}, {"id": 7, "name": "b"}], "annotations": []}
    found = []
    folder.mkdir()
    for image_id, (width, height) in enumerate([(64, 64), (96, 64), (50, 80), (128, 77)], 1):
        head, prototypes, annotations, fit = scene(rng, image_id, width, height)
        np.savez(folder / f"{image_id}.npz", image=rng.normal(size=(1, 3, SIDE, SIDE)).astype(np.float32), head=head[None], prototypes=prototypes[None])
        labels["images"].append({"id": image_id, "file_name": f"{image_id}.npz", "width": width, "height": height})
        labels["annotations"] += annotations
        found.append((image_id, head.astype(float), prototypes.astype(float), (height, width), fit))
    path = folder.parent / "instances.json"
    path.write_text(json.dumps(labels))
    return path, labels, found


def masks_of(head, prototypes, size, fit):
    """The masks of all rows in pixels of the photo, interpolated between prototypes."""
    scale, left, top = fit
    columns, rows = ((np.arange(count) + 0.5) * scale + offset for count, offset in zip(size[::-1], (left, top), strict=True))

    def interpolated(values, at, axis):
        at = np.clip(at / 4 - 0.5, 0, SIDE // 4 - 1)
        first = np.floor(at).astype(int)
        weight = (at - first).reshape([-1 if i == axis else 1 for i in range(2)])
        second = np.minimum(first + 1, SIDE // 4 - 1)
        return values.take(first, axis) * (1 - weight) + values.take(second, axis) * weight

    for row in head:
        sums = np.tensordot(row[6:], prototypes, 1)
        inside = ((columns >= row[0]) & (columns < row[2]))[None] & ((rows >= row[1]) & (rows < row[3]))[:, None]
        yield (interpolated(interpolated(sums, rows, 0), columns, 1) > 0) & inside


def coco_figures(labels, found):
    """mAP 50-95 and 50 of boxes and masks, by pycocotools."""
    mask_tools = pytest.importorskip("pycocotools.mask")
    from pycocotools.coco import COCO
    from pycocotools.cocoeval import COCOeval

    results = []
    for image_id, head, prototypes, size, (scale, left, top) in found:
        for row, mask in zip(head, masks_of(head, prototypes, size, (scale, left, top)), strict=True):
            if row[4] < 0.001:
                continue
            corners = (row[:4] - [left, top, left, top]) / scale
            results.append({"image_id": image_id, "category_id": [3, 7][int(row[5])], "score": row[4], "bbox": [*corners[:2], *(corners[2:] - corners[:2])],
                            "segmentation": mask_tools.encode(np.asfortranarray(mask.astype(np.uint8)))})
    wanted = COCO()
    wanted.dataset = {"info": {}, **labels}
    wanted.createIndex()
    figures = {}
    for kind in ("bbox", "segm"):
        boxes_only = [{key: value for key, value in result.items() if kind == "segm" or key != "segmentation"} for result in results]
        evaluation = COCOeval(wanted, wanted.loadRes(boxes_only), kind)
        evaluation.evaluate()
        evaluation.accumulate()
        evaluation.summarize()
        figures[kind] = tuple(evaluation.stats[:2])
    return figures


@pytest.fixture
def detector(tmp_path):
    nodes = [node("ReduceMean", ["image"], ["mean"], name="mean", axes=[1, 2, 3], keepdims=0), node("Mul", ["mean", "zero"], ["nothing"], name="nothing"),
             node("Add", ["head", "nothing"], ["boxes"], name="find"), node("Identity", ["prototypes"], ["masks"], name="show")]
    rows, side = OBJECTS + 2, SIDE // 4
    model = make_model(nodes, [("image", [1, 3, SIDE, SIDE]), ("head", [1, rows, 6 + PROTOTYPES]), ("prototypes", [1, PROTOTYPES, side, side])],
                       [("boxes", [1, rows, 6 + PROTOTYPES]), ("masks", [1, PROTOTYPES, side, side])], {"zero": np.float32(0)})
    return save(model, tmp_path / "detector.onnx")


def evaluate(bitpress, detector, folder, labels):
    words = ("--task", f"detection:layout=end2end,fit=letterbox,iou=1,labels={labels}")
    return json.loads(bitpress.ok("evaluate", detector, "--reference", detector, "--data", folder, "--json", "-", *words))["task"]


def test_masks_have_the_precision_of_pycocotools(bitpress, detector, tmp_path):
    path, labels, found = scenes(tmp_path / "data")
    task = evaluate(bitpress, detector, tmp_path / "data", path)
    figures = {figure["name"]: figure["value"] for figure in task["figures"]}
    measured = {"bbox": (figures["mAP 50-95"], figures["mAP 50"]), "segm": (figures["mAP 50-95 of masks"], figures["mAP 50 of masks"])}
    assert task["loss_name"] == "drop of mAP of masks" and task["loss"] == 0
    for kind, values in COCO_FIGURES.items():
        assert measured[kind] == pytest.approx(values, abs=1e-12), (kind, measured)
    for kind, values in coco_figures(labels, found).items():
        assert measured[kind] == pytest.approx(values, abs=1e-12), (kind, measured)


def test_wrong_masks_of_labels_are_errors(bitpress, detector, tmp_path):
    path, labels, _ = scenes(tmp_path / "data")
    for segmentation, message in [([[1, 2, 3, 4]], "a polygon has 4 numbers"), ([[1, 2, 3, 4, 5, 1e9]], "the coordinate 1e+09"),
                                  ({"size": [64, 64], "counts": [7]}, "runs of 7 pixels do not make a mask of 64 times 64"),
                                  ({"size": [64, 63], "counts": [7]}, "its mask has 63x64 pixels, its image 64x64"),
                                  ({"size": [64, 64], "counts": "P"}, "ends within a number"), ({"size": [64, 64], "counts": "~"}, "is damaged")]:
        labels["annotations"][0]["segmentation"] = segmentation
        path.write_text(json.dumps(labels))
        found = bitpress.error("evaluate", detector, "--data", tmp_path / "data", "--task", f"detection:layout=end2end,fit=letterbox,labels={path}")
        assert message in found and "instances.json" in found and "annotation 12" in found, found
    # Boxes are measured alone if a label has no mask, which is said, and if none has.
    labels["annotations"][0]["segmentation"] = []
    path.write_text(json.dumps(labels))
    found = evaluate(bitpress, detector, tmp_path / "data", path)
    assert found["loss_name"] == "drop of mAP" and "masks are not compared with the labels: 1 annotation has no segmentation" in found["how"]
    for annotation in labels["annotations"]:
        annotation["segmentation"] = []
    path.write_text(json.dumps(labels))
    found = evaluate(bitpress, detector, tmp_path / "data", path)
    assert found["loss_name"] == "drop of mAP" and "not compared" not in found["how"]
