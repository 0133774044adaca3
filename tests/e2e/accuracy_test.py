"""The accuracy of a real network on photos, through the command line, must not fall below these bars.

EfficientNet-Lite0 on the 200 validation photos with class index % 5 == 1, where the float model has top-1 84.0. Runs where
the development data is. The preset that loses most is always measured, the others where time does not matter.
"""

import csv
import json

import onnx
import pytest

IMAGE = "crop=224,mean=0.498,std=0.502"  # the photos are 256x256 already
FLOAT_TOP1 = 0.84
# Lowest top-1 that each configuration may have with the default settings.
BARS = {"MXFP8E4M3": 0.73, "MX9": FLOAT_TOP1 - 0.01, "BFP16": FLOAT_TOP1 - 0.01, "BF16": FLOAT_TOP1 - 0.01,
        "FP16": FLOAT_TOP1 - 0.005, "MXINT8": FLOAT_TOP1 - 0.02}


@pytest.fixture(scope="module")
def evaluate(shared, bitpress, tmp_path_factory):
    folder = tmp_path_factory.mktemp("accuracy")
    photos = shared / "data" / "imagenet-sample"
    with open(photos / "validation.csv", newline="") as file:
        rows = [row for row in csv.DictReader(file) if int(row["class"]) % 5 == 1]
    assert len(rows) == 200
    with open(folder / "labels.csv", "w", newline="") as file:
        csv.writer(file).writerows([("file", "class"), *((row["file"], row["class"]) for row in rows)])

    def run(model, *options):
        path = folder / "report.json"
        bitpress.ok("evaluate", model, "--data", photos / "validation", "--labels", folder / "labels.csv", "--image", IMAGE,
                    "--json", path, *options)
        return json.loads(path.read_text())

    return run


@pytest.mark.corpus
@pytest.mark.parametrize("name", ["efficientnet_lite0", "efficientnet_lite0_unsimplified"])
def test_the_float_model_has_its_known_accuracy(name, shared, evaluate):
    result = evaluate(shared / "models" / f"{name}.onnx")
    assert result["num_samples"] == 200
    assert result["top1"] == pytest.approx(FLOAT_TOP1, abs=0.006)
    assert result["top5"] == pytest.approx(0.95, abs=0.006)


@pytest.mark.parametrize("preset", [pytest.param(preset, marks=() if preset == "MXFP8E4M3" else pytest.mark.corpus) for preset in BARS])
def test_top1_of_each_preset(preset, shared, evaluate, bitpress, tmp_path):
    output = tmp_path / "out.onnx"
    bitpress.ok("quantize", shared / "models" / "efficientnet_lite0.onnx", "-o", output, "--config", preset)
    assert evaluate(output)["top1"] >= BARS[preset] - 1e-9


def test_the_exporters_own_file_gives_the_same(shared, bitpress, tmp_path):
    """The unsimplified model, with its shape arithmetic and Pad nodes, gets the quantizers of the simplified one."""
    counts = []
    for name in ("efficientnet_lite0", "efficientnet_lite0_unsimplified"):
        output = tmp_path / f"{name}.onnx"
        bitpress.ok("quantize", shared / "models" / f"{name}.onnx", "-o", output, "--config", "MX6")
        counts.append(sum(node.domain == "bitpress" for node in onnx.load(output).graph.node))
    assert counts[0] == counts[1] > 0
