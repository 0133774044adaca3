"""Tests sensitivity, search and autotune from Python."""

import json
import os

import models
import numpy as np
import onnx
import onnxruntime
import pytest
from package_helpers import Reader, outputs, sqnr_db

import bitpress

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def candidates():
    return ["mx9", "mx6", "mx4"]


@pytest.mark.quick
def test_sensitivity_of_each_layer(tmp_path, conv_path, images, candidates):
    report = bitpress.sensitivity(conv_path, images, candidates, method="both", output=tmp_path / "report.json")
    assert len(report["layers"]) == 4 and all(len(layer["parts"]) == len(candidates) for layer in report["layers"])
    assert json.loads((tmp_path / "report.json").read_text()) == report
    sides = bitpress.sensitivity(conv_path, Reader(images, "image"), weight_candidates="mx6,mx4", activation_candidates=["mx9"])
    assert len(sides["layers"][0]["parts"]) == 3


def test_a_search_reaches_its_target(tmp_path, conv_path, images, candidates):
    found = bitpress.search(conv_path, images, candidates, target="sqnr>=20", picture=tmp_path / "front.svg")
    assert found.is_reached and found.final["sqnr_db"] >= 20
    assert (tmp_path / "front.svg").read_text().startswith("<svg")
    bitpress.quantize(conv_path, tmp_path / "mixed.onnx", plan=found.plan)
    onnx.checker.check_model(str(tmp_path / "mixed.onnx"), full_check=True)
    x = {"image": images}
    assert sqnr_db(outputs(conv_path, x)[0], outputs(tmp_path / "mixed.onnx", x)[0]) == pytest.approx(found.final["sqnr_db"], abs=0.1)
    small = bitpress.search(conv_path.read_bytes(), images, candidates, budget="bits<=12", output=tmp_path / "plan.json",
                            rules=["names=head: exclude"], short_axis="axis")
    assert all(row["format"] == "none" for row in small.plan.tensors for use in row["uses"] if use["node"] == "head")
    assert bitpress.Plan.load(tmp_path / "plan.json").data == small.plan.data and small.data["budget"] == "bits<=12"
    missed = bitpress.search(conv_path, images, ["mx6", "mx4"], target="sqnr>=60", strategy="greedy")
    assert not missed.is_reached and missed.data["why_not"]


def test_a_variant_changes_nothing_but_what_it_names(conv_path, images):
    config = bitpress.Config("A16W8", placement="all", activation_range="min_max", activation_symmetric=False, equalize=False)

    def rows(plan, layers):
        found = {}
        for row in plan.tensors:
            for use in row["uses"]:
                if use["node"] in layers:
                    found[use["node"], use["input"]] = {key: value for key, value in row.items() if key not in ("uses", "reason")}
        return found

    found = bitpress.search(conv_path, images, config=config, variants=[{"activations": "int8"}], target="l2<=1000", strategy="greedy",
                            layer_types=["Conv", "Gemm"], kept_layers="project")
    lowered, kept = ["stem", "depthwise", "head"], ["project", "add", "pool", "clip"]
    everywhere = bitpress.plan(conv_path, bitpress.Config("A16W8", placement="all", activation_range="min_max", activation_symmetric=False,
                                                          equalize=False, activations="int8"))
    assert rows(found.plan, lowered) == rows(everywhere, lowered)
    assert rows(found.plan, kept) == rows(bitpress.plan(conv_path, config), kept)
    nothing = bitpress.search(conv_path, images, config=config, variants={"activations": "int8"}, target="l2<=1e-9", strategy="greedy")
    assert nothing.plan.tensors == bitpress.plan(conv_path, config).tensors and not nothing.is_reached
    for arguments, text in [({"candidates": "mx6", "config": config}, "candidates replace it"), ({}, "there is none"),
                            ({"config": config, "layer_names": ["stemm"]}, "layer_names.*did you mean 'stem'"),
                            ({"config": config, "layer_types": ["Attention"]}, "among the selected layers"),
                            ({"config": config, "output_index": 1}, "no output 1; the model has 1")]:
        with pytest.raises(bitpress.InvalidArgumentError, match=text):
            bitpress.search(conv_path, images, variants=[{"weights": "int4"}], target="l2<=1", **arguments)


def test_losses_are_about_the_output_that_is_asked_for(tmp_path, images):
    """A second output has large values: the loss of all outputs together is its loss."""
    path = models.save(models.conv_model_with_a_large_output(), tmp_path / "two.onnx")

    def found(output_index):
        result = bitpress.search(path, images, config="BF16", variants=[{"activations": "mx6", "weights": "mx6"}], target="l2<=1e9",
                                 strategy="greedy", output_index=output_index)
        bitpress.quantize(path, tmp_path / "mixed.onnx", plan=result.plan)
        wanted, got = outputs(path, {"image": images}), outputs(tmp_path / "mixed.onnx", {"image": images})
        l2 = [np.sqrt(np.square(a - b).reshape(len(images), -1).sum(axis=1)).mean() for a, b in zip(wanted, got)]
        return result.final["l2"], l2

    for index in (0, 1):
        measured, l2 = found(index)
        assert measured == pytest.approx(l2[index], rel=0.02)
    measured, l2 = found(None)
    assert measured > 100 * l2[0]


def test_autotune_takes_the_first_that_is_good_enough(tmp_path, conv_path, images):
    labels = np.argmax(outputs(conv_path, {"image": images})[0], axis=1)
    calls = []
    report = bitpress.autotune(conv_path, tmp_path / "out.onnx", images, configs=["MX4", bitpress.Config("BF16"), "MX9"],
                               labels=labels, tolerable_loss=0, progress=lambda *call: calls.append(call))
    assert report["measure"] == "top-1" and report["is_tolerable"] and calls
    assert [trial["config"] for trial in report["trials"]][-1] == report["chosen"]
    onnx.checker.check_model(str(tmp_path / "out.onnx"), full_check=True)
    held_back = bitpress.autotune(conv_path, tmp_path / "out.onnx", images[:6], configs=["BF16"], validation=images[6:])
    assert held_back["trials"][0]["evaluation"]["num_samples"] == 6


def test_auto_writes_the_smallest_that_keeps_the_limits(tmp_path, conv_path, images):
    page = tmp_path / "page.html"
    report = bitpress.auto(conv_path, tmp_path / "out.onnx", images, want="smaller", budget="loss<=50%,bytes<=1000%", page=page, validation_samples=8)
    assert report["network"] == "convolutional" and report["is_tolerable"]
    trials = {trial["config"]: trial for trial in report["trials"]}
    kept = [trial["file_bytes"] for trial in trials.values() if trial["keeps_limits"]]
    assert trials[report["chosen"]]["file_bytes"] == min(kept) == (tmp_path / "out.onnx").stat().st_size
    assert {trial["evaluation"]["num_samples"] for trial in trials.values()} == {8} and '"bitpress_auto"' in page.read_text()
    alone = bitpress.auto(conv_path, tmp_path / "out.onnx")
    assert all(trial["loss"] is None for trial in alone["trials"]) and "without samples" in alone["notes"][0]
    with pytest.raises(bitpress.InvalidArgumentError, match="did you mean 'smaller'"):
        bitpress.auto(conv_path, tmp_path / "out.onnx", images, want="smaler")


def test_the_task_of_an_evaluation(tmp_path, conv_path, images):
    bitpress.quantize(conv_path, tmp_path / "q.onnx", "MX4")
    report = bitpress.evaluate(tmp_path / "q.onnx", images, conv_path, task="regression")
    wanted, found = (outputs(path, {"image": images})[0].astype(float) for path in (conv_path, tmp_path / "q.onnx"))
    share = np.square(found - wanted).sum() / np.square(wanted - wanted.mean(axis=0)).sum()
    assert report.task is not None and report.task.task == "regression"
    assert report.task.loss == pytest.approx(share, rel=1e-3) and report.task.figures[0].value == pytest.approx(1 - share, rel=1e-3)
    assert bitpress.evaluate(tmp_path / "q.onnx", images, conv_path, task="none").task is None


def test_a_measure_of_ones_own(tmp_path, conv_path, images, candidates):
    """The metric gets the float model first and then each tried model. All of them run without our library."""
    wanted = outputs(conv_path, {"image": images})[0]
    paths = []

    def closeness(path):
        paths.append(path)
        session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        return np.float32(10 - np.abs(session.run(None, {"image": images})[0] - wanted).max())

    found = bitpress.search(conv_path, images, candidates, target="metric_drop<=0.2", metric=closeness)
    assert found.is_reached and found.final["reference_metric"] == 10 and 9.8 <= found.final["metric"] < 10
    assert len(paths) == found.data["num_measured"] + 2 and paths[0] == str(conv_path)
    fine = bitpress.search(conv_path, images, candidates, target=f"metric>={found.final['metric'] + 1e-3}", metric=closeness)
    point = [result.data["front"][result.data["chosen"]]["cost"] for result in (found, fine)]
    assert fine.is_reached and point[1] > point[0]
    report = bitpress.autotune(conv_path, tmp_path / "out.onnx", images, configs=["MX4", "MX9"], tolerable_loss=0.02, metric=closeness)
    assert report["measure"] == "metric" and report["chosen"] == "MX9" and report["reference_metric"] == 10
    assert [trial["loss"] for trial in report["trials"]] == pytest.approx([1 - trial["metric"] / 10 for trial in report["trials"]])


def test_a_measure_that_fails_is_said(tmp_path, conv_path, images, candidates):
    def search(target="metric>=1", **arguments):
        return bitpress.search(conv_path, images, candidates, target=target, **arguments)

    with pytest.raises(bitpress.InvalidArgumentError, match="metric gives nan for .*conv.onnx"):
        search(metric=lambda path: float("nan"))
    with pytest.raises(ZeroDivisionError):
        search(metric=lambda path: 1 / 0)
    with pytest.raises(TypeError):
        search(metric=lambda path: None)
    with pytest.raises(bitpress.InvalidArgumentError, match="no measure of your own"):
        search()
    with pytest.raises(bitpress.InvalidArgumentError, match="the float model is 0"):
        bitpress.autotune(conv_path, tmp_path / "out.onnx", images, configs=["MX9"], metric=lambda path: 0)
    assert not (tmp_path / "out.onnx").exists()


def test_an_output_that_became_a_folder_is_said(tmp_path, conv_path, images):
    """While the candidates were tried: the best of them cannot be moved there."""
    output = tmp_path / "out.onnx"

    def measure(path):
        (output / "busy").mkdir(parents=True, exist_ok=True)
        return 1

    with pytest.raises(bitpress.FileError, match="cannot write '.*out.onnx': "):
        bitpress.autotune(conv_path, output, images, configs=["MX9"], metric=measure)
    assert [path.name for path in tmp_path.glob("out.onnx*")] == ["out.onnx"]


def test_wrong_arguments_are_said(tmp_path, conv_path, images):
    for arguments, text in [({"target": "sqnr=20"}, "sqnr"), ({"target": "sqnr>=20", "strategy": "best"}, r"optimal\|greedy"),
                            ({}, "target"), ({"target": "sqnr>=20", "candidates": ["mx66"]}, "did you mean"),
                            ({"target": "sqnr>=20", "sensitivity_samples": 0}, "sensitivity_samples=0")]:
        with pytest.raises(bitpress.InvalidArgumentError, match=text):
            bitpress.search(conv_path, images, **{"candidates": ["mx6", "mx4"], **arguments})
    with pytest.raises(bitpress.InvalidArgumentError, match="about validation"):
        bitpress.autotune(conv_path, tmp_path / "out.onnx", images, validation_samples=3)


def test_the_report_of_what_was_found(tmp_path, conv_path, images):
    found = bitpress.search(conv_path, images, ["mx9", "mx6"], target="sqnr>=20")
    bitpress.quantize(conv_path, tmp_path / "mixed.onnx", plan=found.plan)
    stages = []
    shown = bitpress.report(tmp_path / "mixed.onnx", tmp_path / "page.html", conv_path, images, plan=found.plan, search=found, layer_samples=2,
                            progress=lambda stage, done, total: stages.append(stage))
    assert (tmp_path / "page.html").read_text().startswith("<!doctype html>")
    assert shown["num_layer_samples"] == 2 and shown["evaluation"]["num_samples"] == len(images)
    assert [point["cost"] for point in shown["search"]["front"]] == [point["cost"] for point in found.data["front"]]
    assert {"evaluate", "compare layers", "read weights"} <= set(stages)
    learned = bitpress.quantize(conv_path, tmp_path / "tuned.onnx", "MX6_ADAQUANT", images)
    tuned = bitpress.report(tmp_path / "tuned.onnx", tmp_path / "page.html", conv_path, quantized=learned)
    assert any(layer["learned"] for layer in tuned["layers"]) and not any(layer["learned"] for layer in shown["layers"])
    without = bitpress.report(tmp_path / "mixed.onnx", tmp_path / "page.html", conv_path)
    assert without["evaluation"] is None and all(layer["weights"][0]["sqnr_db"] for layer in without["layers"])
    with pytest.raises(bitpress.MissingFileError, match="calibration"):
        bitpress.report(tmp_path / "mixed.onnx", tmp_path / "page.html", conv_path, calibration=tmp_path / "none.bpc")
    with pytest.raises(bitpress.InvalidArgumentError, match="layer_samples"):
        bitpress.report(tmp_path / "mixed.onnx", tmp_path / "page.html", conv_path, images, layer_samples=0)


class Stopped(Exception):
    pass


def stop_at(wanted, number):
    def progress(stage, done, total):
        if stage == wanted and done == number:
            raise Stopped

    return progress


MARK = 12345.0


@pytest.fixture
def stopped_run(tmp_path, conv_path, images):
    """A folder of samples, and go_on(), which returns the report of a run that finds the journal of a stopped one. The journal's
    first layer has MARK multiplications, written by hand, so that a run that continues can be recognized."""
    folder, output = tmp_path / "samples", tmp_path / "sensitivity.json"
    folder.mkdir()
    np.save(folder / "images.npy", images)

    def go_on(change=lambda header: header, **arguments):
        with pytest.raises(Stopped):
            bitpress.sensitivity(conv_path, folder, ["mx9", "mx6"], output=output, progress=stop_at("sensitivity", 2))
        journal = tmp_path / "sensitivity.json.journal"
        header, first, *rest = journal.read_text().splitlines()
        record = json.loads(first)
        record[1]["macs"] = MARK
        journal.write_text("\n".join([change(header), json.dumps(record), *rest]) + "\n")
        return lambda: bitpress.sensitivity(conv_path, folder, ["mx9", "mx6"], output=output, **arguments)["layers"][0]["macs"]

    return folder, go_on


def test_a_stopped_run_goes_on_with_the_same_samples(stopped_run):
    folder, go_on = stopped_run
    assert go_on()() == MARK
    # Threads, progress and the time of a file change no result, so the run continues.
    again = go_on(threads=1, progress=lambda *call: None)
    os.utime(folder / "images.npy", (1, 1))
    assert again() == MARK


def test_a_stopped_run_does_not_go_on_with_other_samples_of_the_same_path(stopped_run):
    folder, go_on = stopped_run
    again = go_on()
    path = folder / "images.npy"
    before = path.stat()
    changed = np.load(path)
    changed[-1] *= 2
    np.save(path, changed)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert path.stat().st_size == before.st_size and again() != MARK


@pytest.mark.parametrize("version", [bitpress.__version__, onnxruntime.__version__], ids=["bitpress", "onnxruntime"])
def test_a_stopped_run_does_not_go_on_with_another_version(stopped_run, version):
    _, go_on = stopped_run

    def change(header):
        assert version in header
        return header.replace(version, "0.0.0")

    assert go_on(change)() != MARK


def test_a_stopped_fine_tuning_learns_anew_from_other_samples(tmp_path, matmul_path, sequences):
    """The first sample stays the same, and another one changes."""
    folder = tmp_path / "samples"
    folder.mkdir()
    np.save(folder / "rows.npy", sequences)
    stages = []

    def stop(stage, done, total):
        if stage.startswith("tune layers"):
            raise Stopped

    def tune(output):
        stages.clear()
        bitpress.quantize(matmul_path, output, "MX6_ADAQUANT", folder, progress=lambda stage, *_: stages.append(stage))
        return any(stage.startswith("observe layers") for stage in stages), output.read_bytes()

    def stopped(output):
        with pytest.raises(Stopped):
            bitpress.quantize(matmul_path, output, "MX6_ADAQUANT", folder, progress=stop)
        assert output.with_name(output.name + ".journal").exists() and not output.exists()

    output = tmp_path / "tuned.onnx"
    stopped(output)
    np.save(folder / "rows.npy", np.concatenate([sequences[:1], sequences[1:, :, ::-1]]))
    has_observed, found = tune(output)
    assert has_observed and found == tune(tmp_path / "whole.onnx")[1]
