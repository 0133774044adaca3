"""bitpress sensitivity and search measure layers and choose a format for each, which `quantize --plan` reproduces."""

import json

import numpy as np
import onnx
import pytest
from models import conv_model, make_model, save, save_arrays, save_photos
from onnx import helper

IMAGE = "crop=20,mean=0.5,std=0.5"


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    values = np.random.default_rng(3).standard_normal((16, 64)).astype(np.float32)
    return save_arrays(tmp_path_factory.mktemp("rows") / "samples", [values])


@pytest.fixture(scope="module")
def chain(tmp_path_factory):
    """Four matrix products, one of them with outliers that narrow formats lose."""
    rng = np.random.default_rng(5)
    constants, nodes, value = {}, [], "x"
    for i in range(4):
        weight = rng.standard_normal((64, 64)).astype(np.float32) / 8
        if i == 2:
            weight[::16] *= 40
        constants[f"w{i}"] = weight
        nodes.append(helper.make_node("MatMul", [value, f"w{i}"], [f"m{i}"], name=f"matmul{i}"))
        nodes.append(helper.make_node("Tanh", [f"m{i}"], [f"t{i}"]))
        value = f"t{i}"
    nodes[-1].output[0] = "y"
    return save(make_model(nodes, [("x", ["N", 64])], [("y", ["N", 64])], constants),
                tmp_path_factory.mktemp("chain") / "chain.onnx")


def evaluate(bitpress, model, reference, data, tmp_path, *options):
    report = tmp_path / "evaluation.json"
    bitpress.ok("evaluate", model, "--reference", reference, "--data", data, "--json", report, *options)
    return json.loads(report.read_text())


def sqnr(reference, found):
    return 10 * np.log10((reference ** 2).sum() / ((reference - found) ** 2).sum())


@pytest.mark.quick
def test_exact_sensitivity_is_what_quantizing_one_layer_loses(bitpress, chain, rows, tmp_path, run_model):
    out = tmp_path / "s.json"
    bitpress.ok("sensitivity", chain, "--candidates", "mx6,mxint8", "--data", rows, "--method", "both", "-o", out)
    report = json.loads(out.read_text())
    assert [layer["node"] for layer in report["layers"]] == [f"matmul{i}" for i in range(4)]
    assert report["num_samples"] == 16 and report["rank_correlation"] > 0.8
    x = np.load(rows / "000.npy")
    wanted = run_model(chain, {"x": x})[0]
    for index, candidate in enumerate(["mx6", "mxint8"]):
        single = tmp_path / "single.onnx"
        bitpress.ok("quantize", chain, "-o", single, "--config", candidate, "--set", "exclude_nodes=matmul[013]")
        found = sqnr(wanted, run_model(single, {"x": x})[0])
        measured = report["layers"][2]["parts"][index]["exact"]
        assert measured["sqnr_db"] == pytest.approx(found, abs=0.01)
        assert measured["noise"] == pytest.approx(10 ** (-found / 10), rel=0.01)
        assert measured["l2"] > 0 and measured["cosine"] <= 1
    # A second run writes the same file, and the journal of the stopped run is gone.
    first = out.read_bytes()
    bitpress.ok("sensitivity", chain, "--candidates", "mx6,mxint8", "--data", rows, "--method", "both", "-o", out,
             "--threads", "1")
    assert out.read_bytes() == first
    assert sorted(path.name for path in tmp_path.glob("s.json*")) == ["s.json"]


def test_sensitivity_of_classes_has_agreement_and_top1(bitpress, tmp_path):
    model = save(conv_model(), tmp_path / "conv.onnx")
    save_photos(tmp_path / "photos", 12, subfolders=3)
    out = tmp_path / "s.json"
    bitpress.ok("sensitivity", model, "--candidates", "mx4,mx9", "--data", tmp_path / "photos", "--image", IMAGE, "--method",
                "exact", "-o", out, "--time")
    layers = json.loads(out.read_text())["layers"]
    assert len(layers) == 4 and all(layer["macs"] > 0 and layer["time_ms"] > 0 for layer in layers)
    for layer in layers:
        coarse, fine = (part["exact"] for part in layer["parts"])
        assert coarse["noise"] > fine["noise"] and coarse["divergence"] > fine["divergence"] >= 0
        assert coarse["reference_top1"] == fine["reference_top1"]
        assert all(0 <= part[key] <= 1 for part in (coarse, fine) for key in ("agreement", "top1"))
    # The stem has 40 outputs of 3 channels and 3 x 3 taps at each place.
    places = layers[0]["macs"] / (40 * 27)
    assert places == int(places) and places > 1


@pytest.fixture(scope="module")
def optimal(bitpress, chain, rows, tmp_path_factory):
    """The folder with the plan, the report and the picture of a search, and what it printed."""
    folder = tmp_path_factory.mktemp("optimal")
    text = bitpress.ok("search", chain, "--candidates", "mx9,mx6,mx4", "--data", rows, "--target", "sqnr>=17", "-o",
                       folder / "plan.json", "--json", folder / "report.json", "--svg", folder / "front.svg")
    return folder, text


def test_a_plan_reproduces_the_loss_that_was_reported(bitpress, chain, rows, optimal, tmp_path):
    folder, text = optimal
    plan, found = folder / "plan.json", json.loads((folder / "report.json").read_text())
    assert found["is_reached"] and found["final"]["sqnr_db"] >= 17
    assert "bits = " in text and (folder / "front.svg").read_text().startswith("<svg")
    quantized = tmp_path / "mixed.onnx"
    bitpress.ok("quantize", chain, "--plan", plan, "-o", quantized)
    again = evaluate(bitpress, quantized, chain, rows, tmp_path)
    assert again["sqnr_db"] == pytest.approx(found["final"]["sqnr_db"], abs=1e-6)
    assert quantized.stat().st_size == found["final"]["file_bytes"]
    # The measurements on the way are those of the models with these formats.
    chosen = found["front"][found["chosen"]]
    assert chosen["measured"]["sqnr_db"] == pytest.approx(found["final"]["sqnr_db"], abs=1e-6)
    # The plan has more than one format, since the layers differ.
    assert len(set(chosen["layers"].values())) > 1
    # What was measured and is cheaper misses the target.
    cheaper = [point["measured"] for point in found["front"][:found["chosen"]] if point["measured"]]
    assert cheaper and all(measured["sqnr_db"] < 17 for measured in cheaper)
    costs = [point["cost"] for point in found["front"]]
    assert costs == sorted(costs) and 4 <= costs[0] <= costs[-1] <= 9.01
    onnx.checker.check_model(onnx.load(quantized), full_check=True)


def test_each_side_by_itself_within_a_budget(bitpress, pictures, tmp_path):
    model = save(conv_model(), tmp_path / "conv.onnx")
    plan, report = tmp_path / "plan.json", tmp_path / "report.json"
    bitpress.ok("search", model, "--weight-candidates", "mx9,mx6,mxfp4_e2m1", "--activation-candidates", "mx9,mx6", "--data",
             pictures, "--image", IMAGE, "--budget", "mac_bits<=50", "-o", plan, "--json", report, "--measure", "3")
    found = json.loads(report.read_text())
    assert found["front"][found["chosen"]]["cost"] <= 50
    assert sum(point["measured"] is not None for point in found["front"]) >= 3
    quantized = tmp_path / "q.onnx"
    bitpress.ok("quantize", model, "--plan", plan, "-o", quantized)
    again = evaluate(bitpress, quantized, model, pictures, tmp_path, "--image", IMAGE)
    assert again["sqnr_db"] == pytest.approx(found["final"]["sqnr_db"], abs=1e-6)


def test_integers_and_blocks_are_mixed(bitpress, pictures, tmp_path):
    model = save(conv_model(), tmp_path / "conv.onnx")
    plan, report = tmp_path / "plan.json", tmp_path / "report.json"
    bitpress.ok("search", model, "--candidates", "int16,INT8,mx6", "--data", pictures, "--image", IMAGE, "--target", "sqnr>=22",
             "--cost", "bytes", "-o", plan, "--json", report)
    found = json.loads(report.read_text())
    quantized = tmp_path / "q.onnx"
    bitpress.ok("quantize", model, "--plan", plan, "-o", quantized, "--data", pictures, "--image", IMAGE)
    again = evaluate(bitpress, quantized, model, pictures, tmp_path, "--image", IMAGE)
    assert again["sqnr_db"] == pytest.approx(found["final"]["sqnr_db"], abs=1e-6)


def test_an_unreachable_target_says_what_holds_it_back(bitpress, chain, rows, tmp_path):
    plan = tmp_path / "plan.json"
    text = bitpress.ok("search", chain, "--candidates", "mx6,mx4", "--data", rows, "--target", "sqnr>=60", "-o", plan)
    assert "sqnr>=60 was not reached" in text
    assert "'matmul2' in mx6" in text
    assert json.loads(plan.read_text())["tensors"]


def test_greedy_lowers_layers_one_by_one(bitpress, chain, rows, optimal, tmp_path):
    report = tmp_path / "report.json"
    bitpress.ok("search", chain, "--candidates", "mx9,mx6,mx4", "--data", rows, "--target", "sqnr>=17", "--strategy", "greedy", "-o",
                tmp_path / "plan.json", "--json", report)
    found, best = json.loads(report.read_text()), json.loads((optimal[0] / "report.json").read_text())
    assert found["strategy"] == "greedy" and found["final"]["sqnr_db"] >= 17
    assert best["front"][best["chosen"]]["cost"] <= found["front"][found["chosen"]]["cost"]


def test_fine_tuning_follows_the_search(bitpress, chain, rows, tmp_path):
    plain, tuned = tmp_path / "plain.json", tmp_path / "tuned.json"
    common = ["search", chain, "--candidates", "mx9,mx4", "--data", rows, "--budget", "bits<=6", "-o", tmp_path / "p.json"]
    bitpress.ok(*common, "--json", plain)
    bitpress.ok(*common, "--json", tuned, "--finetune", "adaquant")
    before, after = (json.loads(path.read_text())["final"]["sqnr_db"] for path in (plain, tuned))
    assert after > before
    out = tmp_path / "q.onnx"
    bitpress.ok("quantize", chain, "--plan", tmp_path / "p.json", "-o", out, "--data", rows)
    assert evaluate(bitpress, out, chain, rows, tmp_path)["sqnr_db"] == pytest.approx(after, abs=1e-6)


def test_a_shared_weight_is_decided_once(bitpress, rows, tmp_path):
    weight = np.random.default_rng(1).standard_normal((64, 64)).astype(np.float32) / 8
    nodes = [helper.make_node("MatMul", ["x", "w"], ["a"], name="first"), helper.make_node("Relu", ["a"], ["b"]),
             helper.make_node("MatMul", ["b", "w"], ["c"], name="second"),
             helper.make_node("MatMul", ["c", "v"], ["y"], name="third")]
    model = save(make_model(nodes, [("x", ["N", 64])], [("y", ["N", 64])], {"w": weight, "v": weight.T.copy()}),
                 tmp_path / "m.onnx")
    report = tmp_path / "r.json"
    bitpress.ok("search", model, "--candidates", "mx9,mx4", "--data", rows, "--budget", "bits<=7", "-o", tmp_path / "p.json",
             "--json", report)
    for point in json.loads(report.read_text())["front"]:
        assert point["layers"]["first"] == point["layers"]["second"]


@pytest.mark.parametrize("options, words", [
    (["--candidates", "mx7", "--target", "sqnr>=10"], ["mx7", "MX6"]),
    (["--candidates", "mx9", "--target", "sqnr>=10"], ["one candidate"]),
    (["--candidates", "mx9,mx6"], ["a target", "a budget"]),
    (["--candidates", "mx9,mx6", "--target", "speed>=10"], ["speed", "sqnr>=15"]),
    (["--candidates", "mx9,mx6", "--target", "top1>=10"], ["labels"]),
    (["--candidates", "mx9,mx6", "--budget", "bits<=2"], ["bits<=2", "cannot be kept"]),
    (["--candidates", "mx9,mx6", "--budget", "bits<=8", "--strategy", "greedy"], ["give a target"]),
])
def test_what_makes_no_sense_is_an_error(bitpress, chain, rows, tmp_path, options, words):
    plan = tmp_path / "plan.json"
    message = bitpress.error("search", chain, "--data", rows, "-o", plan, *options)
    for word in words:
        assert word in message
    assert not plan.exists()


def test_both_quantizers_stand_in_a_row_where_formats_meet(bitpress, tmp_path, run_model):
    """AMD Quark's DualQuantNodes: a value computed in bf16 and read in bfp16 is rounded to both."""
    model = save(conv_model(), tmp_path / "conv.onnx")
    out = tmp_path / "dual.onnx"
    bitpress.ok("quantize", model, "-o", out, "--config", "BF16_MIXED_BFP16")
    graph = onnx.load(out).graph
    producers = {output: node for node in graph.node for output in node.output}
    pairs = [(producers[node.input[0]].op_type, node.op_type) for node in graph.node
             if node.op_type == "QuantizeDequantize_bfp16" and node.input[0] in producers]
    assert ("QuantizeDequantize_bf16", "QuantizeDequantize_bfp16") in pairs
    x = np.random.default_rng(0).uniform(-1, 1, (2, 3, 20, 20)).astype(np.float32)
    wanted = run_model(model, {graph.input[0].name: x})[0]
    assert sqnr(wanted, run_model(out, {graph.input[0].name: x})[0]) > 38  # 41.6 dB on 2026-11-22
    # The plan holds both formats, and carrying it out gives the same model.
    plan = tmp_path / "plan.json"
    bitpress.ok("plan", model, "--config", "BF16_MIXED_BFP16", "-o", plan)
    assert '"through":"bf16"' in plan.read_text()
    again = tmp_path / "again.onnx"
    bitpress.ok("quantize", model, "--plan", plan, "-o", again)
    assert [node.op_type for node in onnx.load(again).graph.node] == [node.op_type for node in graph.node]
    # Without this option each reader has its own quantizer.
    single = tmp_path / "single.onnx"
    bitpress.ok("quantize", model, "-o", single, "--config", "BF16_MIXED_BFP16", "--set", "dual_quant=false")
    assert len(onnx.load(single).graph.node) < len(graph.node)


def test_five_formats_tensor_by_tensor(bitpress, rows, tmp_path, run_model):
    """Models with a format for each tensor load and run, and a plan file gives the same model."""
    rng = np.random.default_rng(2)
    formats = ["bf16", "bfp16", "mxint8", "int8", "uint16"]
    constants, nodes, value = {}, [], "x"
    for i, _ in enumerate(formats):
        constants[f"w{i}"] = rng.standard_normal((64, 64)).astype(np.float32) / 8
        nodes.append(helper.make_node("MatMul", [value, f"w{i}"], [f"m{i}"], name=f"matmul{i}"))
        nodes.append(helper.make_node("Relu", [f"m{i}"], [f"r{i}"], name=f"relu{i}"))
        value = f"r{i}"
    model = save(make_model(nodes, [("x", ["N", 64])], [(value, ["N", 64])], constants), tmp_path / "m.onnx")
    names = ["x"] + [f"r{i}" for i in range(4)]
    rules = [word for name, format_ in zip(names, formats)
             for word in ("--rule", f"tensors={name}: activations={format_}")]
    rules += [word for i, format_ in enumerate(reversed(formats))
              for word in ("--rule", f"tensors=w{i}: weights={format_}")]
    direct, planned, plan = tmp_path / "direct.onnx", tmp_path / "planned.onnx", tmp_path / "plan.json"
    options = ["--config", "BF16", "--set", "placement=qdq", *rules]
    bitpress.ok("plan", model, "-o", plan, *options)
    rows_of_plan = {row["value"]: row["format"] for row in json.loads(plan.read_text())["tensors"]}
    assert [rows_of_plan[name] for name in names] == formats
    assert [rows_of_plan[f"w{i}"] for i in range(5)] == formats[::-1]
    bitpress.ok("quantize", model, "-o", direct, "--data", rows, *options)
    bitpress.ok("quantize", model, "-o", planned, "--data", rows, "--plan", plan)
    x = np.load(rows / "000.npy")
    results = [run_model(path, {"x": x})[0] for path in (direct, planned)]
    np.testing.assert_array_equal(*results)
    assert sqnr(run_model(model, {"x": x})[0], results[0]) > 33  # 36.4 dB on 2026-11-22


def test_autotune_takes_the_first_that_is_good_enough(bitpress, chain, rows, tmp_path):
    out, report = tmp_path / "best.onnx", tmp_path / "ladder.json"
    text = bitpress.ok("autotune", chain, "-o", out, "--data", rows, "--configs", "MXFP4E2M1,MX6,MX9,BF16", "--tolerable-loss",
                       "0.001", "--json", report)
    ladder = json.loads(report.read_text())
    losses = [trial["loss"] for trial in ladder["trials"]]
    assert ladder["is_tolerable"] and ladder["trials"][-1]["config"] == ladder["chosen"]
    assert losses[-1] <= 0.001 and all(loss > 0.001 for loss in losses[:-1])
    assert ladder["chosen"] in text
    # The written model is the one of that configuration.
    direct = tmp_path / "direct.onnx"
    bitpress.ok("quantize", chain, "-o", direct, "--config", ladder["chosen"])
    assert out.read_bytes() == direct.read_bytes()
    assert sorted(path.name for path in tmp_path.glob("best.onnx*")) == ["best.onnx"]


def test_autotune_writes_where_a_link_leads(bitpress, chain, rows, tmp_path):
    """The link stays, and the model lies at its target, as with every other command."""
    (tmp_path / "store").mkdir()
    target, link = tmp_path / "store" / "best.onnx", tmp_path / "link.onnx"
    target.write_bytes(b"old")
    link.symlink_to(target)
    bitpress.ok("autotune", chain, "-o", link, "--data", rows, "--configs", "MX9", "--tolerable-loss", "1")
    assert link.is_symlink()
    direct = tmp_path / "direct.onnx"
    bitpress.ok("quantize", chain, "-o", direct, "--config", "MX9")
    assert target.read_bytes() == direct.read_bytes()
    assert [path.name for path in target.parent.iterdir()] == ["best.onnx"]
    assert sorted(path.name for path in tmp_path.glob("link.onnx*")) == ["link.onnx"]


def test_autotune_leaves_files_beside_its_output_alone(bitpress, chain, rows, tmp_path):
    """No file has a name that a user's own could have, and the report does not tell what they were called."""
    mine = [tmp_path / f"best.onnx{suffix}" for suffix in (".trial", ".trial.data", ".best", ".best.data", ".data")]
    for path in mine:
        path.write_text("mine")
    reports = [tmp_path / f"{i}.json" for i in range(2)]
    for report in reports:
        bitpress.ok("autotune", chain, "-o", tmp_path / "best.onnx", "--data", rows, "--configs", "MXFP4E2M1,MX9", "--tolerable-loss",
                    "0.001", "--json", report)
    assert [path.read_text() for path in mine] == ["mine"] * len(mine)
    assert {path.name for path in tmp_path.glob("best.onnx*")} == {"best.onnx", *(path.name for path in mine)}
    first, second = (json.loads(report.read_text()) for report in reports)
    assert [trial["evaluation"]["model"] for trial in first["trials"]] == [str(tmp_path / "best.onnx")] * len(first["trials"])
    assert [trial["loss"] for trial in first["trials"]] == [trial["loss"] for trial in second["trials"]]


def test_autotune_begins_with_int8(bitpress, pictures, tmp_path):
    model = save(conv_model(), tmp_path / "conv.onnx")
    text = bitpress.ok("autotune", model, "-o", tmp_path / "best.onnx", "--data", pictures, "--image", IMAGE, "--max-trials", "1")
    assert "INT8" in text and "INT8_ADAROUND" not in text and (tmp_path / "best.onnx").exists()


def test_autotune_gives_the_best_if_none_is(bitpress, pictures, tmp_path):
    model = save(conv_model(), tmp_path / "conv.onnx")
    text = bitpress.ok("autotune", model, "-o", tmp_path / "best.onnx", "--data", pictures, "--image", IMAGE, "--configs",
                       "MX4,MXFP4E2M1", "--tolerable-loss", "0")
    assert "this is the best" in text or "loss 0.00 %" in text
    message = bitpress.error("autotune", model, "-o", tmp_path / "none.onnx", "--data", pictures, "--image", IMAGE,
                             "--configs", "INT7")
    assert "INT7" in message and not (tmp_path / "none.onnx").exists()
