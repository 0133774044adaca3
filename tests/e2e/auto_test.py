"""`bitpress auto` tries what suits a network, keeps the limits, and writes the best file with the command that makes it again."""

import json
import shlex
import sys

import numpy as np
import pytest
from models import conv_model, conv_model_with_a_large_output, make_model, save, save_arrays
from onnx import helper, numpy_helper

IMAGE = "crop=20,mean=0.5,std=0.5"


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """Products of rows large enough that bytes of weights count, with one output of numbers."""
    rng = np.random.default_rng(5)
    constants = {"a": (rng.standard_normal((256, 512)) / 16).astype(np.float32), "b": (rng.standard_normal((512, 1)) / 22).astype(np.float32)}
    nodes = [helper.make_node("MatMul", ["x", "a"], ["h"], name="first"), helper.make_node("Relu", ["h"], ["r"], name="relu"),
             helper.make_node("MatMul", ["r", "b"], ["y"], name="last")]
    return save(make_model(nodes, [("x", ["N", 256])], [("y", ["N", 1])], constants), tmp_path_factory.mktemp("large") / "large.onnx")


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    values = np.random.default_rng(3).standard_normal((40, 256)).astype(np.float32)
    return save_arrays(tmp_path_factory.mktemp("rows") / "samples", [values])


def auto(bitpress, model, out, *options):
    report = out.with_suffix(".json")
    text = bitpress.ok("auto", model, "-o", out, "--json", report, *options)
    return text, json.loads(report.read_text())


@pytest.mark.quick
def test_the_smallest_that_keeps_the_limit_is_written(bitpress, large, rows, tmp_path):
    out = tmp_path / "best.onnx"
    text, report = auto(bitpress, large, out, "--data", rows, "--want", "smaller", "--no-report")
    assert next(iter(report.items())) == ("bitpress_auto", 1)
    assert report["network"] == "tabular" and report["measure"] == "1 - R2" and report["is_tolerable"]
    trials = {trial["config"]: trial for trial in report["trials"]}
    assert list(trials) == ["INT8", "INT8_DYNAMIC", "INT4_WEIGHTS", "MATMUL_NBITS", "INT8_WEIGHTS", "FP16"]
    kept = [trial for trial in trials.values() if trial["loss"] <= 0.01]
    assert 0 < len(kept) and trials[report["chosen"]]["file_bytes"] == min(trial["file_bytes"] for trial in kept)
    assert all(trial["keeps_limits"] == (trial["loss"] <= 0.01) for trial in trials.values())
    assert out.stat().st_size == trials[report["chosen"]]["file_bytes"]
    # The table has a row for each, and the command makes the same bytes.
    assert all(f"+ {trial['config']} " in text for trial in kept)
    command = trials[report["chosen"]]["command"]
    assert f"again: {command}" in text
    again = tmp_path / "again.onnx"
    words = [str(again) if word == str(out) else word for word in shlex.split(command)[1:]]
    bitpress.ok(*words)
    assert again.read_bytes() == out.read_bytes()


def test_the_loss_is_what_evaluate_measures(bitpress, large, rows, tmp_path):
    out = tmp_path / "best.onnx"
    _, report = auto(bitpress, large, out, "--data", rows, "--configs", "INT4_WEIGHTS", "--want", "smaller", "--budget", "loss<=100%", "--no-report")
    bitpress.ok("evaluate", out, "--reference", large, "--data", rows, "--json", tmp_path / "evaluation.json")
    task = json.loads((tmp_path / "evaluation.json").read_text())["task"]
    assert task["task"] == "regression" and task["loss"] == pytest.approx(report["trials"][0]["loss"], rel=1e-4)


def test_wishes_choose_among_the_same_trials(bitpress, large, rows, tmp_path):
    chosen = {}
    for want, budget in [("closest", "loss<=1%"), ("smaller", "loss<=50%"), ("smaller", "loss<=0.01%")]:
        _, report = auto(bitpress, large, tmp_path / "best.onnx", "--data", rows, "--want", want, "--budget", budget, "--no-report")
        chosen[want, budget] = report["chosen"]
        losses = {trial["config"]: trial["loss"] for trial in report["trials"]}
        if want == "closest":
            assert losses[report["chosen"]] == min(losses.values())
    assert chosen["smaller", "loss<=50%"] == "MATMUL_NBITS"
    assert chosen["smaller", "loss<=0.01%"] not in ("INT4_WEIGHTS", "MATMUL_NBITS")


def test_what_takes_long_is_tried_only_if_nothing_else_keeps_the_limits(bitpress, large, rows, tmp_path):
    text, report = auto(bitpress, large, tmp_path / "best.onnx", "--data", rows, "--want", "smaller", "--budget", "bytes<=1%", "--no-report")
    names = [trial["config"] for trial in report["trials"]]
    assert names[-3:] == ["INT8_ADAROUND", "INT8, activations of 16 bits", "FP16_WEIGHTS"]
    assert not report["is_tolerable"] and "this is the best" in text
    assert "--config INT8 --set activations=uint16" in report["trials"][-2]["command"]


def test_without_samples_nothing_is_measured_and_it_says_so(bitpress, large, tmp_path):
    text, report = auto(bitpress, large, tmp_path / "best.onnx", "--no-report")
    assert [trial["config"] for trial in report["trials"]] == ["INT8_DYNAMIC", "INT8_WEIGHTS", "FP16"]
    assert all(trial["loss"] is None for trial in report["trials"])
    assert "without samples no loss is measured" in text


def test_a_convolutional_network_with_photos_has_a_page(bitpress, pictures, tmp_path):
    model = save(conv_model(), tmp_path / "conv.onnx")
    text, report = auto(bitpress, model, tmp_path / "best.onnx", "--data", pictures, "--image", IMAGE)
    assert report["network"] == "convolutional" and "convolutional network" in text
    page = (tmp_path / "best.html").read_text()
    assert '"trials":{"bitpress_auto":1' in page and 'id="trials-section"' in page
    assert report["trials"][0]["command"].count("--data") == 1
    measured = report["trials"][0]["evaluation"]
    assert report["measure"] == "expected top-1"
    assert report["trials"][0]["loss"] == pytest.approx(1 - measured["expected_top1"] / measured["reference_expected_top1"])


def test_classes_of_a_network_that_is_unsure_are_counted(bitpress, pictures, tmp_path):
    network = conv_model()
    for tensor in network.graph.initializer:
        if tensor.name.startswith("head."):
            tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor) / 1000, tensor.name))
    model = save(network, tmp_path / "conv.onnx")
    text, report = auto(bitpress, model, tmp_path / "best.onnx", "--data", pictures, "--image", IMAGE, "--no-report")
    # Twelve photos cannot show a loss of one percent, which is said.
    assert report["measure"] == "agreement" and "one of 12 samples is 8.3 %" in report["notes"][0] and report["notes"][0] in text


def test_standard_output_may_have_the_json_alone(bitpress, large, rows, tmp_path):
    text = bitpress.ok("auto", large, "-o", tmp_path / "best.onnx", "--data", rows, "--configs", "INT8", "--json", "-", "--no-report")
    assert json.loads(text)["trials"][0]["config"] == "INT8"


@pytest.mark.parametrize("budget, message", [("size<=3", "there is no limit 'size'"), ("bytes=3", "is no bound"), ("time<=0", "above 0"),
                                             ("loss<=x", "the bound"), ("loss<=1%,loss<=2%", "'loss<=2%': this limit is given twice")])
def test_wrong_limits_are_said(bitpress, large, rows, tmp_path, budget, message):
    assert message in bitpress.error("auto", large, "-o", tmp_path / "best.onnx", "--data", rows, "--budget", budget)
    assert not (tmp_path / "best.onnx").exists()


def test_a_page_that_would_replace_a_model_is_refused(bitpress, large, tmp_path):
    message = bitpress.error("auto", large, "-o", tmp_path / "best.html")
    assert "another name" in message and not (tmp_path / "best.html").exists()


def test_the_model_itself_is_no_output(bitpress, large, tmp_path):
    model = tmp_path / "model.onnx"
    model.write_bytes(large.read_bytes())
    for config in ([], ["--configs", "INT8_WEIGHTS"]):
        assert "the output is the model itself" in bitpress.error("auto", model, "-o", model, *config)
    assert model.read_bytes() == large.read_bytes()


def test_samples_that_do_not_fit_are_one_error_before_any_trial(bitpress, large, rows, tmp_path):
    wide = save_arrays(tmp_path / "wide", [np.zeros((3, 200), np.float32)])
    for words in (["--data", wide], ["--data", rows, "--validation", wide]):
        message = bitpress.error("auto", large, "-o", tmp_path / "best.onnx", *words)
        assert f"the first sample does not fit '{large}': input 'x' has shape [1, 200], expected [?, 256]" in message
    message = bitpress.error("auto", large, "-o", tmp_path / "best.onnx", "--data", rows, "--task", "regression:labels=none.csv")
    assert message.strip().endswith("cannot read 'none.csv': No such file or directory")


def test_what_the_float_model_reaches_is_shown(bitpress, large, rows, tmp_path):
    labels = tmp_path / "labels.csv"
    labels.write_text("file,value\n" + "".join(f"000.npy[{i}],{i}\n" for i in range(40)))
    text, report = auto(bitpress, large, tmp_path / "best.onnx", "--data", rows, "--no-report", "--configs", "INT8", "--task", f"regression:labels={labels}")
    figure = next(figure for figure in report["trials"][0]["evaluation"]["task"]["figures"] if figure["reference"] is not None)
    assert text.splitlines()[0].endswith(f"measured on 40 samples by {report['measure']} (regression)")
    assert text.splitlines()[1] == f"float model: {figure['name']} {figure['reference']:.4g}"
    assert text.splitlines()[2] == "times of batches of 1"


def test_times_of_one_thread_are_of_a_processor(bitpress, large, rows, tmp_path):
    text, report = auto(bitpress, large, tmp_path / "best.onnx", "--data", rows, "--no-report", "--configs", "INT8", "--threads", "1")
    assert report["trials"][0]["evaluation"]["is_processor_time"] == sys.platform.startswith(("linux", "darwin"))
    assert "times of batches of 1 on one thread" in text and not any("busy" in note for note in report["notes"])


def test_labels_of_samples_that_are_not_measured_are_an_error(bitpress, large, rows, tmp_path):
    message = bitpress.error("auto", large, "-o", tmp_path / "best.onnx", "--data", rows, "--validation", rows, "--labels", tmp_path / "labels.csv")
    assert "--validation-labels" in message


def test_a_limit_that_none_keeps_is_named(bitpress, large, rows, tmp_path):
    text, report = auto(bitpress, large, tmp_path / "best.onnx", "--data", rows, "--configs", "INT8,FP16", "--budget", "time<=0.0001,loss<=100%", "--no-report")
    assert [trial["limits_missed"] for trial in report["trials"]] == ["time", "time"]
    assert text.count("   misses: time\n") == 2 and "this is the best, it misses: time" in text


def test_what_a_smaller_or_faster_file_would_be_is_said(bitpress, large, rows, tmp_path):
    # The times of a busy machine decide which note there is; every note is about a trial, and true.
    text, report = auto(bitpress, large, tmp_path / "best.onnx", "--data", rows, "--no-report")
    trials = {trial["config"]: trial for trial in report["trials"]}
    chosen = trials[report["chosen"]]
    for note in (note for note in report["notes"] if "--want" in note):
        other = trials[note.split(" takes ")[0]]
        assert note in text and f"takes {other['time_ratio']:.2f} of the float model's time" in note
        if "--want faster" in note:
            assert other["time_ratio"] < chosen["time_ratio"]
        else:
            assert "--want smaller" in note and other["file_bytes"] < chosen["file_bytes"] and other["limits_missed"] == "time"


def test_a_network_without_anything_to_quantize_is_told(bitpress, rows, tmp_path):
    nodes = [helper.make_node("ReduceSum", ["x", "axis"], ["y"], name="sum")]
    model = save(make_model(nodes, [("x", ["N", 256])], [("y", ["N", 1])], {"axis": np.array([1])}), tmp_path / "sum.onnx")
    text, report = auto(bitpress, model, tmp_path / "best.onnx", "--data", rows, "--no-report", "--configs", "INT8,INT8_WEIGHTS")
    assert any("nothing was quantized" in note and "deploy the given model" in note and note in text for note in report["notes"])


def test_the_output_that_loses_most_decides(bitpress, pictures, tmp_path):
    model = save(conv_model_with_a_large_output(), tmp_path / "two.onnx")
    words = ("--data", pictures, "--image", IMAGE, "--no-report", "--configs", "INT8", "--budget", "loss<=0.0001%")
    text, report = auto(bitpress, model, tmp_path / "best.onnx", *words)
    trial = report["trials"][0]
    evaluation = trial["evaluation"]
    noise = {output["name"]: 10**(-output["sqnr_db"] / 10) for output in evaluation["outputs"]}
    assert [(head["output"], head["loss_name"]) for head in evaluation["heads"]] == [("large", "noise")]
    assert trial["loss"] == pytest.approx(noise["large"]) and trial["worst_output"] == "large" and "loss" in trial["limits_missed"]
    assert "by expected top-1, and 1 other output by what it loses" in text and report["measure"] == "expected top-1"
    assert any(note.startswith("the loss is that of output 'large' (the energy of its error), more than") and note in text for note in report["notes"])
    # Who names a task says which output counts.
    _, report = auto(bitpress, model, tmp_path / "best.onnx", *words, "--task", f"classes:output={evaluation['class_output']}")
    assert report["trials"][0]["evaluation"]["heads"] == [] and "worst_output" not in report["trials"][0]
    assert report["trials"][0]["loss"] == pytest.approx(1 - evaluation["expected_top1"] / evaluation["reference_expected_top1"])


def test_of_outputs_without_a_task_the_worst_counts(bitpress, rows, tmp_path):
    rng = np.random.default_rng(5)
    # The second output is small, so that its error is nothing beside the energy of both.
    constants = {"a": rng.standard_normal((256, 96)).astype(np.float32), "b": rng.standard_normal((256, 96)).astype(np.float32),
                 "ten": np.full((1, 1, 1), 100, np.float32), "axis": np.array([2])}
    nodes = [helper.make_node("MatMul", ["x", "a"], ["h"], name="first"), helper.make_node("Unsqueeze", ["h", "axis"], ["u"], name="map"),
             helper.make_node("Mul", ["u", "ten"], ["large"], name="enlarge"), helper.make_node("MatMul", ["x", "b"], ["i"], name="second"),
             helper.make_node("Unsqueeze", ["i", "axis"], ["v"], name="other"), helper.make_node("Exp", ["v"], ["small"], name="steep")]
    model = save(make_model(nodes, [("x", ["N", 256])], [("large", ["N", 96, 1]), ("small", ["N", 96, 1])], constants), tmp_path / "two.onnx")
    text, report = auto(bitpress, model, tmp_path / "best.onnx", "--data", rows, "--no-report", "--configs", "INT8", "--task", "none")
    trial = report["trials"][0]
    noise = {output["name"]: 10**(-output["sqnr_db"] / 10) for output in trial["evaluation"]["outputs"]}
    assert report["measure"] == "noise" and trial["loss"] == pytest.approx(max(noise.values()))
    assert trial["worst_output"] == max(noise, key=noise.get) and "energy of the error of the worst of 2 outputs" in text


def test_a_task_without_anything_to_measure_is_said(bitpress, large, tmp_path):
    same = save_arrays(tmp_path / "same", [np.ones((8, 256), np.float32)])
    text, report = auto(bitpress, large, tmp_path / "best.onnx", "--data", same, "--no-report", "--configs", "INT8_WEIGHTS")
    assert report["measure"] == "noise" and "by energy of the error" in text
    assert any(note.startswith("nothing is known of the task regression: the float model's numbers do not vary") for note in report["notes"])


def test_maps_of_scikit_learn_are_named(bitpress, tmp_path):
    nodes = [helper.make_node("MatMul", ["x", "w"], ["h"], name="product"), helper.make_node("ArgMax", ["h"], ["y"], name="best", axis=1)]
    model = make_model(nodes, [("x", ["N", 8])], [], {"w": np.eye(8, dtype=np.float32)})
    model.graph.output.append(helper.make_tensor_value_info("y", 7, ["N", 1]))
    save(model, tmp_path / "classes.onnx")
    data = save_arrays(tmp_path / "data", [np.random.default_rng(2).standard_normal((4, 8)).astype(np.float32)])
    assert "'zipmap': False" in bitpress.error("auto", tmp_path / "classes.onnx", "-o", tmp_path / "best.onnx", "--data", data)


def test_tries_the_fastest_order_of_sums_where_tiles_take_it(bitpress, tmp_path):
    rng = np.random.default_rng(2)
    constants = {"w": rng.standard_normal((64, 96)).astype(np.float32), "v": rng.standard_normal((96, 64)).astype(np.float32)}
    nodes = [helper.make_node("MatMul", ["x", "w"], ["h"], "first"), helper.make_node("Tanh", ["h"], ["t"], "bend"), helper.make_node("MatMul", ["t", "v"], ["y"], "last")]
    model = save(make_model(nodes, [("x", ["N", "length", 64])], [("y", ["N", "length", 64])], constants), tmp_path / "m.onnx")
    data = save_arrays(tmp_path / "data", [rng.standard_normal((16, 32, 64)).astype(np.float32)])
    has_tiles = "AMX" in bitpress.ok("doctor")
    _, report = auto(bitpress, model, tmp_path / "best.onnx", "--data", data, "--no-report", "--target", "bitpress", "--budget", "loss<=5%", "--want", "faster")
    tried = {trial["config"]: trial for trial in report["trials"]}
    assert ("MXINT8, fastest sums" in tried) == has_tiles
    if has_tiles:
        fixed, fastest = tried["MXINT8"], tried["MXINT8, fastest sums"]
        assert fastest["command"] == fixed["command"].replace(" --data", " --fastest-sums --data") and fastest["loss"] == pytest.approx(fixed["loss"], rel=0.01)
    text = bitpress.ok("quantize", model, "-o", tmp_path / "q.onnx", "--config", "MXINT8", "--target", "bitpress")
    assert ("2 products of many rows would take less time with --fastest-sums" in text) == has_tiles
    _, report = auto(bitpress, model, tmp_path / "best.onnx", "--data", data, "--no-report", "--target", "bitpress", "--want", "smaller")
    assert not any("fastest sums" in trial["config"] for trial in report["trials"])
