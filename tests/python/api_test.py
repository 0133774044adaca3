"""Tests every function of the Python interface on small models."""

import json
import threading
import time

import models
import numpy as np
import onnx
import pytest
from models import is_as_measured
from locations import built
from package_helpers import Reader, Rewinding, outputs, random_images, sqnr_db

import bitpress
import bitpress.distributed


def quantized(tmp_path, model, *arguments, **keywords):
    path = tmp_path / "out.onnx"
    report = bitpress.quantize(model, path, *arguments, **keywords)
    onnx.checker.check_model(str(path), full_check=True)
    return path, report


def test_the_public_names_are_there():
    assert all(hasattr(bitpress, name) for name in bitpress.__all__)
    assert bitpress.__version__.count(".") == 2
    assert "MX6" in bitpress.presets()
    assert bitpress.settings()["placement"][0] == "default|compute|all|qdq"


@pytest.mark.quick
def test_quantize_gives_the_model_and_a_report(tmp_path, conv_path, images):
    path, report = quantized(tmp_path, conv_path, "MX6", check=True)
    x = {"image": images}
    assert is_as_measured(sqnr_db(outputs(conv_path, x)[0], outputs(path, x)[0]), 27.5)
    assert report.output_bytes == path.stat().st_size
    assert {weight.format for weight in report.weights} == {"mx6"}
    assert all(is_as_measured(weight.sqnr_db, 28) for weight in report.weights)
    assert json.loads(report.plan)["config"]["name"] == "MX6"
    assert report.target.is_run and report.layers == []


def test_four_bits_tell_their_means_and_learn_only_from_samples(tmp_path, conv_path, images):
    _, report = quantized(tmp_path, conv_path, "FOUR_BITS", mean_bits=5.5)
    assert 4.25 < report.mean_bits.activations <= 5.5 and "no samples" in report.why_not_finetuned
    _, report = quantized(tmp_path, conv_path, "FOUR_BITS", images, mean_bits=5.5, finetune_steps=2)
    assert report.why_not_finetuned == "" and report.finetuning.blocks
    assert quantized(tmp_path, conv_path, "MX6")[1].mean_bits is None


def test_a_report_is_its_verdict(tmp_path, conv_path, images):
    _, report = quantized(tmp_path, conv_path, "MX6", images, check=True)
    first, second, third, *_ = str(report).splitlines()
    assert first.startswith(f"{tmp_path}") and "loads and runs it" in first
    assert " on 12 samples; time: " in second and third.startswith("  products: 100 % from codes of weights")


def test_what_a_user_should_know_is_a_warning(tmp_path):
    relu = models.make_model([onnx.helper.make_node("Relu", ["x"], ["y"], "relu")], [("x", ["N", 8])], [("y", ["N", 8])], {})
    with pytest.warns(bitpress.QuantizationWarning) as caught:
        report = bitpress.quantize(relu, tmp_path / "q.onnx", "MX6", check=False)
    assert [(one.message.kind, str(one.message)) for one in caught] == report.warnings
    assert [kind for kind, _ in report.warnings] == ["nothing_quantized"]
    assert "WARNING: nothing was quantized" in str(report) and "option '" not in str(report) and caught[0].filename == __file__


def test_models_come_as_paths_bytes_and_messages(tmp_path, conv_path):
    wanted = quantized(tmp_path, conv_path, "BF16")[0].read_bytes()
    assert quantized(tmp_path, str(conv_path), "BF16")[0].read_bytes() == wanted
    for model in (onnx.load(conv_path), conv_path.read_bytes()):
        content, report = bitpress.quantize_to_bytes(model, "BF16")
        assert content == wanted and report.output_bytes == len(content)


@pytest.mark.quick
def test_settings_and_rules_change_the_configuration(tmp_path, conv_path):
    rules = ["op_types=Gemm: exclude", {"names": ["project"], "weights": "mxfp4_e2m1"}]
    report = quantized(tmp_path, conv_path, "MX9", weights="mx6", rules=rules)[1]
    formats = {weight.name: weight.format for weight in report.weights}
    assert formats["project.weight"] == "mxfp4_e2m1" and "head.weight" not in formats
    assert set(formats.values()) == {"mx6", "mxfp4_e2m1"}
    config = bitpress.Config("MX9", weights="mx6", rules=rules)
    assert quantized(tmp_path, conv_path, config)[1].plan == report.plan
    assert config.changed(equalize=True).settings["equalize"] == "on"


def test_configurations_are_values(tmp_path):
    config = bitpress.Config("int8", activation_symmetric=True, exclude_nodes=["a.*", "b"])
    assert config.name.lower() == "int8" and config.settings["exclude_nodes"] == "a.*;b"
    assert bitpress.Config.from_json(config.to_json()) == config
    assert hash(config) == hash(config.changed()) and config != config.changed(weights="int4")
    assert eval(repr(config), {"Config": bitpress.Config}) == config
    path = tmp_path / "mine.json"
    path.write_text('{"preset": "MX6", "weights": "mx4"}')
    assert bitpress.Config(path).settings["weights"] == "mx4"
    with pytest.raises(bitpress.InvalidArgumentError, match="did you mean 'weights'"):
        bitpress.Config("MX6", weight="mx4")
    with pytest.raises(bitpress.ArgumentTypeError, match="setting weights is set"):
        bitpress.Config("MX6", weights={1})


@pytest.fixture(scope="module")
def of_a_folder(tmp_path_factory):
    """Returns the model that learned its scales from a folder with `images`."""
    folder = tmp_path_factory.mktemp("samples")
    np.save(folder / "all.npy", random_images())
    return bitpress.quantize_to_bytes(models.conv_model(), "INT8_CNN_DEFAULT", folder)[0]


@pytest.mark.parametrize("make", [
    lambda x: x, lambda x: {"image": x}, lambda x: [{"image": row[None]} for row in x], lambda x: list(x[:, None]),
    lambda x: ({"image": row[None]} for row in x), lambda x: Reader(x, "image"), lambda x: Rewinding(x, "image"),
    lambda x: x.astype(">f4"), lambda x: np.asfortranarray(x),
], ids=["array", "dict", "dicts", "arrays", "generator", "reader", "rewinding", "big endian", "column-major"])
def test_samples_of_every_kind_give_the_same_model(tmp_path, conv_path, images, of_a_folder, make):
    assert quantized(tmp_path, conv_path, "INT8_CNN_DEFAULT", make(images))[0].read_bytes() == of_a_folder


def test_fine_tuning_reads_samples_again_and_again(tmp_path, conv_path, images):
    reader = Rewinding(images, "image")
    first, report = quantized(tmp_path, conv_path, "MX4_ADAQUANT", reader)
    assert reader.num_rewinds > 1 and any(layer.is_tuned for layer in report.layers)
    assert quantized(tmp_path, conv_path, "MX4_ADAQUANT", Reader(images, "image"))[0].read_bytes() == first.read_bytes()


def test_fine_tuning_says_which_samples_validated(tmp_path, conv_path, images):
    for count, samples in [(40, "held_back"), (7, "halves")]:
        _, report = quantized(tmp_path, conv_path, "MX4_ADAQUANT", np.concatenate([images] * 4)[:count])
        assert report.layers and {layer.validated_on for layer in report.layers} == {samples}


def test_a_number_of_samples_is_enough(tmp_path, conv_path, images):
    wanted = quantized(tmp_path, conv_path, "A8W8", images[:5])[0].read_bytes()
    assert quantized(tmp_path, conv_path, "A8W8", images, samples=5)[0].read_bytes() == wanted


def test_plans_are_made_edited_and_used(tmp_path, conv_path):
    plan = bitpress.plan(conv_path, "MX6", rules=["op_types=Gemm: exclude"])
    row = next(row for row in plan.tensors if row["value"] == "project.weight")
    row["format"] = "mx4"
    report = quantized(tmp_path, conv_path, plan=plan)[1]
    assert {weight.name: weight.format for weight in report.weights}["project.weight"] == "mx4"
    plan.save(tmp_path / "plan.json")
    assert quantized(tmp_path, conv_path, plan=tmp_path / "plan.json")[1].plan == report.plan
    assert bitpress.Plan.load(tmp_path / "plan.json").data == plan.data
    with pytest.raises(bitpress.InvalidArgumentError, match="weights cannot change"):
        quantized(tmp_path, conv_path, plan=plan, weights="mx4")


def test_a_plan_is_fine_tuned(tmp_path, conv_path, images):
    path, _ = quantized(tmp_path, conv_path, "MXFP4E2M1", data=images, finetune="gptq")
    wanted = path.read_bytes()
    plan = bitpress.plan(conv_path, "MXFP4E2M1")
    assert quantized(tmp_path, conv_path, plan=plan)[0].read_bytes() != wanted
    assert quantized(tmp_path, conv_path, plan=plan, data=images, finetune="gptq")[0].read_bytes() == wanted


@pytest.mark.quick
def test_calibrations_are_kept_and_added_up(tmp_path, conv_path, images):
    paths = [tmp_path / "a.bpc", tmp_path / "b.bpc"]
    for path, part in zip(paths, (images[:4], images[4:])):
        assert bitpress.calibrate(conv_path, part, path).num_samples == len(part)
    total = bitpress.merge(paths, tmp_path / "all.bpc")
    assert total.num_samples == len(images)
    statistics = bitpress.read_calibration(tmp_path / "all.bpc").tensors["image"]
    assert statistics.min == images.min() and statistics.max == images.max()
    assert statistics.mean == pytest.approx(images.mean(), abs=1e-6) and statistics.num_nan == 0
    kept = quantized(tmp_path, conv_path, "U8S8_AAWS", equalize=False, calibration=tmp_path / "all.bpc")[0].read_bytes()
    assert quantized(tmp_path, conv_path, "U8S8_AAWS", images, equalize=False)[0].read_bytes() == kept
    with pytest.raises(bitpress.InvalidArgumentError, match="weights changes a configuration"):
        bitpress.calibrate(conv_path, images, paths[0], weights="int4")


def test_calibration_by_channel_smooths(tmp_path, matmul_path, sequences):
    plain = bitpress.calibrate(matmul_path, sequences, tmp_path / "plain.bpc")
    assert max(statistics.num_channels for statistics in plain.tensors.values()) == 48  # of inputs of constant weights
    table = bitpress.calibrate(matmul_path, sequences, tmp_path / "channels.bpc", per_channel=True)
    assert max(statistics.num_channels for statistics in table.tensors.values()) == 48
    smooth = {"config": "BF16", "smooth_quant": 0.5}
    bitpress.quantize(matmul_path, tmp_path / "a.onnx", calibration=tmp_path / "channels.bpc", **smooth)
    bitpress.quantize(matmul_path, tmp_path / "b.onnx", data=sequences, **smooth)
    assert (tmp_path / "a.onnx").read_bytes() == (tmp_path / "b.onnx").read_bytes()
    bitpress.quantize(matmul_path, tmp_path / "c.onnx", calibration=tmp_path / "plain.bpc", **smooth)
    assert (tmp_path / "a.onnx").read_bytes() == (tmp_path / "c.onnx").read_bytes()
    few = bitpress.calibrate(matmul_path, sequences, tmp_path / "few.bpc", config="BF16", activation_scaled=True)
    assert not any(statistics.num_channels for statistics in few.tensors.values())
    with pytest.raises(bitpress.InvalidArgumentError, match="knows no channels"):
        bitpress.quantize(matmul_path, tmp_path / "c.onnx", calibration=tmp_path / "few.bpc", **smooth)


def test_evaluation_compares_and_counts(tmp_path, conv_path, images):
    path = quantized(tmp_path, conv_path, "MX9")[0]
    labels = np.argmax(outputs(conv_path, {"image": images})[0], axis=1)
    report = bitpress.evaluate(path, images, conv_path, labels=labels, batch_size=5)
    assert report.num_samples == report.num_labelled == len(images)
    assert report.reference_top1 == 1 and 0.5 < report.top1 <= 1 and report.agreement == report.top1
    assert is_as_measured(report.sqnr_db, 46.3) and json.loads(report.to_json())["num_samples"] == len(images)
    assert report.processor.nodes == [] and report.processor.num_samples == 0  # no integers in it
    with pytest.raises(ValueError, match=r"here\|vnni\|no_vnni"):
        bitpress.evaluate(path, images, conv_path, processor="avx2")
    same = bitpress.evaluate(conv_path.read_bytes(), [{"image": images}], conv_path)
    assert same.outputs_identical and same.sqnr_db == np.inf and same.top1 is None
    with pytest.raises(bitpress.InvalidArgumentError, match="only 3 labels"):
        bitpress.evaluate(path, images, labels=[1, 2, 3])


def test_inspect_check_unpack_and_optimize(tmp_path, conv_path, images):
    path = quantized(tmp_path, conv_path, "INT8", images)[0]
    assert bitpress.inspect(conv_path).input_shapes == {"image": [-1, *models.CONV_INPUT]}
    assert bitpress.inspect(path).operators["DequantizeLinear"] > 3
    assert bitpress.check(path, images).integer_operators["QLinearConv"] == 3
    assert any("has a size that is not fixed" in rule for rule in bitpress.check(path, target="qnn").broken_rules)
    assert not bitpress.check(path).broken_rules
    with pytest.raises(bitpress.InvalidArgumentError, match="did you mean 'qnn'"):
        bitpress.check(path, target="qnnn")
    missing = bitpress.check(models.quark_model(axis="no number").SerializeToString())
    assert not missing.is_loaded and "axis" in missing.error
    packed = quantized(tmp_path, conv_path, "MX6", target="portable")[0]
    floats = tmp_path / "floats.onnx"
    assert bitpress.unpack(packed, floats).num_weights > 0
    assert bitpress.inspect(floats).quantizers == bitpress.inspect(packed).quantizers
    assert "mx6" not in {constant.format for constant in bitpress.inspect(floats).constants}
    half = quantized(tmp_path, conv_path, "BF16")[0]
    assert bitpress.optimize(half, tmp_path / "here.onnx").machine.startswith("ONNX Runtime ")
    x = {"image": images}
    np.testing.assert_array_equal(outputs(tmp_path / "here.onnx", x)[0], outputs(half, x)[0])


def test_the_bar_says_what_is_left(monkeypatch, capfd):
    from bitpress import _progress
    clock = iter([100.0, 101.0, 104.0, 104.5])
    monkeypatch.setattr(_progress.time, "monotonic", lambda: next(clock))
    bar = _progress._Bar()
    for stage, done in (("calibrate: a", 0), ("calibrate: b", 1), ("calibrate: c", 4), ("check", 4)):
        bar(stage, done, 10)
    texts = capfd.readouterr().err.split("\r")
    assert ["left" in text for text in texts] == [False, False, False, True, False]
    assert "6 s left" in texts[3]


def test_progress_is_reported(tmp_path, conv_path, images, capfd):
    calls = []
    quantized(tmp_path, conv_path, "A8W8", images, progress=lambda stage, done, total: calls.append((stage, done, total)))
    assert ("calibrate", 12, 12) in calls and any(stage == "quantize weights" for stage, *_ in calls)
    assert capfd.readouterr().err == ""
    quantized(tmp_path, conv_path, "A8W8", images, progress=True)
    assert "12/12" in capfd.readouterr().err


@pytest.mark.parametrize("arguments, error, also, text", [
    (("nowhere.onnx", "MX6"), bitpress.MissingFileError, FileNotFoundError, "no model 'nowhere.onnx'"),
    ((b"no model", "MX6"), bitpress.InvalidModelError, ValueError, "ONNX"),
    ((17, "MX6"), bitpress.ArgumentTypeError, TypeError, "not int"),
    (("MODEL", "MX5"), bitpress.InvalidArgumentError, ValueError, "did you mean"),
    (("MODEL", 5), bitpress.ArgumentTypeError, TypeError, "config is int"),
    (("MODEL", None), bitpress.InvalidArgumentError, ValueError, "neither config nor plan"),
    (("MODEL", "nowhere.json"), bitpress.MissingFileError, FileNotFoundError, "configuration"),
    (("MODEL", "INT8"), bitpress.InvalidArgumentError, ValueError, "samples"),
    (("MODEL", "INT8", "nowhere"), bitpress.MissingFileError, FileNotFoundError, "folder of samples"),
    (("MODEL", "INT8", 5), bitpress.ArgumentTypeError, TypeError, "data is a folder"),
    (("MODEL", "INT8", []), bitpress.InvalidArgumentError, ValueError, "sample"),
    (("MODEL", "INT8", {"picture": np.zeros((1, 3, 20, 20))}), bitpress.InvalidArgumentError, ValueError, "lacks the input 'image'"),
    (("MODEL", "INT8", np.zeros((1, 3, 20, 20), "c8")), bitpress.ArgumentTypeError, TypeError, "complex64"),
], ids=lambda value: None if isinstance(value, type) else str(value)[:20])
def test_errors_are_typed(tmp_path, conv_path, arguments, error, also, text):
    model, *others = arguments
    with pytest.raises(error, match=text) as caught:
        bitpress.quantize(conv_path if model == "MODEL" else model, tmp_path / "out.onnx", *others)
    assert isinstance(caught.value, also) and isinstance(caught.value, bitpress.Error)
    assert not (tmp_path / "out.onnx").exists()


def test_wrong_words_and_numbers_are_said(tmp_path, conv_path, images):
    for keywords, text in [({"storage": "pack"}, "storage 'pack' is not one of packed.simulated.qdq .did you mean 'packed'"),
                           ({"accuracy_level": 2}, "accuracy_level '2' is not one of 1.4"),
                           ({"threads": -1}, "threads=-1"), ({"samples": -1}, "samples=-1")]:
        with pytest.raises(bitpress.InvalidArgumentError, match=text):
            quantized(tmp_path, conv_path, "A8W8", images, **keywords)
    for keywords, text in [({"check": "off"}, "check='off': expected bool"), ({"samples": "all"}, "samples='all': expected int"),
                           ({"target": 5}, "target=5: expected str")]:
        with pytest.raises(bitpress.ArgumentTypeError, match=text):
            quantized(tmp_path, conv_path, "A8W8", images, **keywords)
    with pytest.raises(bitpress.FileError, match="nowhere"):
        bitpress.quantize(conv_path, tmp_path / "nowhere" / "out.onnx", "MX6")


def test_what_a_reader_raises_comes_out(tmp_path, conv_path, images):
    def broken():
        yield {"image": images[:2]}
        raise ZeroDivisionError("the reader's own")

    with pytest.raises(ZeroDivisionError, match="the reader's own"):
        quantized(tmp_path, conv_path, "A8W8", broken())
    with pytest.raises(RuntimeError, match="enough"):
        quantized(tmp_path, conv_path, "MX6", progress=lambda *_: (_ for _ in ()).throw(RuntimeError("enough")))
    assert not (tmp_path / "out.onnx").exists()


def test_other_threads_run_meanwhile():
    """A long call does not hold the interpreter's lock: another thread reads the clock in the middle of it. On a busy machine that thread
    may sleep meanwhile, so there are many calls. With the lock held, none of them would have such a moment."""
    array = np.zeros((100, 1 << 16), np.float32)
    times, stop = [], threading.Event()

    def watch():
        while not stop.wait(0.0005):
            times.append(time.perf_counter())

    def is_seen():
        begin = time.perf_counter()
        bitpress.formats.quantize_dequantize(array, "int8", threads=1)
        end = time.perf_counter()
        margin = (end - begin) / 10
        return any(begin + margin < moment < end - margin for moment in times)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        assert any(is_seen() for _ in range(100))
    finally:
        stop.set()
        thread.join()


def test_two_inputs_by_name(tmp_path):
    node = onnx.helper.make_node("MatMul", ["a", "b"], ["y"], "product")
    model = models.make_model([node], [("a", ["N", 8]), ("b", [8, 4])], [("y", ["N", 4])], {})
    rng = np.random.default_rng(1)
    data = [{"b": rng.random((8, 4), np.float32), "a": rng.random((3, 8), np.float32)} for _ in range(4)]
    path, report = quantized(tmp_path, model, "INT8", data, check=True)
    assert report.target.is_run
    wanted = data[0]["a"] @ data[0]["b"]
    assert is_as_measured(sqnr_db(wanted, outputs(path, data[0])[0]), 57.0)
    with pytest.raises(bitpress.InvalidArgumentError, match="2 inputs"):
        quantized(tmp_path, model, "INT8", data[0]["a"])


def test_operators_of_another_library(tmp_path):
    nodes = [onnx.helper.make_node("MatMul", ["x", "w"], ["p"]), onnx.helper.make_node("Twice", ["p"], ["y"], domain="test.operators")]
    io = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape) for name, shape in (("x", ["N", 32]), ("y", ["N", 8]))]
    weight = np.random.default_rng(4).standard_normal((32, 8)).astype(np.float32)
    graph = onnx.helper.make_graph(nodes, "other", io[:1], io[1:], [onnx.numpy_helper.from_array(weight, "w")])
    opsets = [onnx.helper.make_opsetid("", 17), onnx.helper.make_opsetid("test.operators", 1)]
    model = models.save(onnx.helper.make_model(graph, opset_imports=opsets, ir_version=8), tmp_path / "other.onnx")
    data = np.random.default_rng(5).standard_normal((8, 32)).astype(np.float32)
    with pytest.raises(bitpress.Error, match=r"name the library that has it with use_operator_library\(\)"):
        bitpress.quantize(model, tmp_path / "out.onnx", "INT8", data)
    with pytest.raises(FileNotFoundError, match="there is no operator library"):
        bitpress.use_operator_library(tmp_path / "no.so")
    bitpress.use_operator_library(built("libbitpress_test_operators.so"))
    assert bitpress.quantize(model, tmp_path / "out.onnx", "INT8", data, check=True).target is not None
    assert bitpress.evaluate(tmp_path / "out.onnx", data, reference=model).sqnr_db > 30
    # Workers know it, too.
    found = bitpress.distributed.calibrate(model, data, tmp_path / "all.bpc", where=bitpress.distributed.Processes(2))
    assert found.num_samples == 8


def test_what_quantizing_in_place_removes_is_said(tmp_path):
    path = models.save(models.matmul_model(), tmp_path / "m.onnx")
    bitpress.quantize(path, path, "MX6", external_data=True)
    assert (tmp_path / "m.onnx.data").is_file()
    bitpress.unpack(path, tmp_path / "float.onnx")
    with pytest.warns(bitpress.QuantizationWarning, match="m.onnx.data', the data of the model that .* holds now, is removed"):
        bitpress.quantize(tmp_path / "float.onnx", path, "MX6")
    assert not (tmp_path / "m.onnx.data").exists()
