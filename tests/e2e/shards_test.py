"""Parts of the samples, evaluated or calibrated apart and added up: the same bytes as all of them at once."""

import json
import random

import decoder
import models
import numpy as np
import pytest
from locations import ROOT

COUNT = 7
DATA = ROOT / "tests" / "data" / "runtime"


@pytest.fixture(scope="module")
def arguments(request, tmp_path_factory, bitpress):
    """A model and its samples, as arguments of evaluate: photos with labels, arrays of several rows, or tokens."""
    kind = request.param
    folder = tmp_path_factory.mktemp(kind)
    float_path = models.save(decoder.make() if kind == "tokens" else models.conv_model(), folder / "float.onnx")
    if kind == "photos":
        photos = models.save_photos(folder / "photos", COUNT)
        (folder / "labels.csv").write_text("file,class\n" + "".join(f"{path.name},{i % 10}\n" for i, path in enumerate(photos)))
        samples = ["--data", folder / "photos", "--labels", folder / "labels.csv", "--image", "resize=20,crop=20"]
    elif kind == "arrays":
        samples = ["--data", models.save_arrays(folder / "arrays", np.split(models.smooth_images(COUNT, 3), [3, 4]))]
    else:
        np.save(folder / "tokens.npy", decoder.token_ids(COUNT * 16))
        samples = ["--tokens", folder / "tokens.npy", "--sequence", 16]
    quantized = folder / "mx6.onnx"
    bitpress.ok("quantize", float_path, "-o", quantized, "--config", "MX6")
    return {"kind": kind, "evaluate": [quantized, "--reference", float_path, *samples],
            "calibrate": [float_path, *samples[:2], *(samples[-2:] if kind != "arrays" else [])]}


def of_kinds(*kinds):
    return pytest.mark.parametrize("arguments", kinds, indirect=True)


@of_kinds("photos", "arrays", pytest.param("tokens", marks=pytest.mark.quick))
@pytest.mark.parametrize("verb, suffix", [("evaluate", "bpe"), ("calibrate", "bpc")])
def test_shards_add_up_to_the_same_bytes(arguments, verb, suffix, tmp_path, bitpress):
    whole = tmp_path / f"whole.{suffix}"
    bitpress.ok(verb, *arguments[verb], "-o", whole)
    # However samples are read, they are divided in the same way: one part, parts of unequal size, and a part for each sample.
    for count in (1, 3, COUNT) if arguments["kind"] == "arrays" else (3,):
        parts = [tmp_path / f"{count}_{i}.{suffix}" for i in range(count)]
        for i, part in enumerate(parts):
            bitpress.ok(verb, *arguments[verb], "--shard", f"{i + 1}/{count}", "--threads", 1 + i % 2, "-o", part)
        random.Random(count).shuffle(parts)
        merged = tmp_path / f"merged.{suffix}"
        bitpress.ok("merge", *parts, "-o", merged)
        assert merged.read_bytes() == whole.read_bytes(), count


@of_kinds("photos", "tokens")
def test_the_figures_are_those_of_an_evaluation(arguments, tmp_path, bitpress):
    bitpress.ok("evaluate", *arguments["evaluate"], "--batch", 1, "--json", tmp_path / "plain.json")
    bitpress.ok("evaluate", *arguments["evaluate"], "-o", tmp_path / "state.bpe", "--json", tmp_path / "counted.json")
    bitpress.ok("inspect", tmp_path / "state.bpe", "--json", tmp_path / "read.json")
    plain, counted, read = (json.loads((tmp_path / f"{name}.json").read_text()) for name in ("plain", "counted", "read"))
    assert counted == read
    measured = ("time", "load", "memory", "tokens_per_s", "decoding")

    def without_times(report):
        return {key: without_times(value) if isinstance(value, dict) else value for key, value in report.items()
                if not any(word in key for word in measured) and key not in ("model", "reference", "processor")}

    assert without_times(plain) == without_times(counted)
    assert counted["time_ms"] is None and counted["num_samples"] == COUNT


@of_kinds("arrays")
def test_wrong_shards_are_one_error(arguments, tmp_path, bitpress):
    state = tmp_path / "state.bpe"

    def error(*more):
        return bitpress.error("evaluate", *arguments["evaluate"], "-o", state, *more)

    assert "'3/2' is no shard" in error("--shard", "3/2")
    assert "'0/2' is no shard" in error("--shard", "0/2") and "'2' is no shard" in error("--shard", "2")
    assert f"{COUNT} samples, too few for {COUNT + 1} shards" in error("--shard", f"{COUNT + 1}/{COUNT + 1}")
    assert "--batch" in error("--batch", 4)
    assert not state.exists()
    bitpress.ok("evaluate", *arguments["evaluate"], "-o", state)
    bitpress.ok("evaluate", *arguments["evaluate"][:1], *arguments["evaluate"][3:], "-o", tmp_path / "alone.bpe")
    assert "of different references" in bitpress.error("merge", state, tmp_path / "alone.bpe", "-o", tmp_path / "sum.bpe")
    bitpress.ok("calibrate", *arguments["calibrate"], "-o", tmp_path / "stats.bpc")
    assert "stats.bpc': this is no evaluation file" in bitpress.error("merge", state, tmp_path / "stats.bpc", "-o", tmp_path / "sum.bpe")
    assert not (tmp_path / "sum.bpe").exists()
    state.write_bytes(state.read_bytes()[:-9])
    assert "damaged" in bitpress.error("inspect", state)


def test_kinds_of_processors_are_not_mixed(conv_path, tmp_path, bitpress):
    arrays = models.save_arrays(tmp_path / "arrays", [models.smooth_images(4, 5)])
    quantized = tmp_path / "int8.onnx"
    bitpress.ok("quantize", conv_path, "-o", quantized, "--config", "INT8", "--data", arrays)
    parts = []
    for kind in ("vnni", "no_vnni"):
        parts.append(tmp_path / f"{kind}.bpe")
        text = bitpress.ok("evaluate", quantized, "--data", arrays, "--processor", kind, "-o", parts[-1])
        assert "can saturate without VNNI" in text
    assert "on processors with VNNI and without" in bitpress.error("merge", *parts, "-o", tmp_path / "sum.bpe")
    for path in (conv_path, quantized):
        bitpress.ok("evaluate", path, "--data", arrays, "-o", tmp_path / "one.bpe", "--json", tmp_path / "one.json")
        assert json.loads((tmp_path / "one.json").read_text())["depends_on_processor"] == (path == quantized)


def test_layers_are_measured_in_parts(conv_path, tmp_path, bitpress):
    arrays = models.save_arrays(tmp_path / "arrays", [models.smooth_images(4, 5)])
    arguments = [conv_path, "--candidates", "mx9,mx6", "--data", arrays]
    bitpress.ok("sensitivity", *arguments, "-o", tmp_path / "one.json")
    bitpress.ok("search", *arguments, "--target", "sqnr>=20", "-o", tmp_path / "one_plan.json")
    parts = [tmp_path / f"{k}.journal" for k in range(1, 6)]  # more than layers
    for part in parts:
        bitpress.ok("sensitivity", *arguments, "--shard", f"{part.stem}/5", "-o", part)
        assert len(part.read_text().splitlines()) <= 2
    for verb, output, more in (("sensitivity", "all.json", []), ("search", "all_plan.json", ["--target", "sqnr>=20"])):
        journal = tmp_path / f"{output}.journal"
        assert ": 4 layers" in bitpress.ok("merge", *reversed(parts), "-o", journal)
        text = bitpress.run(verb, *arguments, *more, "-o", tmp_path / output)
        assert "4 layers were in a journal" in text.stdout and not journal.exists()
        assert (tmp_path / output).read_bytes() == (tmp_path / output.replace("all", "one")).read_bytes()
    bitpress.ok("sensitivity", *arguments[:2], "mx9", *arguments[3:], "--shard", "1/2", "-o", tmp_path / "other.journal")
    error = bitpress.error("merge", parts[0], tmp_path / "other.journal", "-o", tmp_path / "sum.journal")
    assert "other.journal': they are of different models, samples, candidates or options" in error
    assert "is no journal" in bitpress.error("merge", parts[0], tmp_path / "one.json", "-o", tmp_path / "sum.journal")
    assert not (tmp_path / "sum.journal").exists()


NUM_GOOD = 5


@pytest.fixture
def fragile(tmp_path):
    """A model and 6 arrays. Number 1 and row 1 of number 3 are wrong for it, number 4 is damaged. Returns also the names of these."""
    (tmp_path / "arrays").mkdir()
    for i in range(6):
        rows = np.arange(4 * 3, dtype=np.float32).reshape(3, 4) % 7 if i == 3 else np.full((1, 4), i / 2, np.float32)
        if i in (1, 3):
            rows[len(rows) // 2] = 9
        np.save(tmp_path / "arrays" / f"{i:02}.npy", rows)
    (tmp_path / "arrays" / "04.npy").write_bytes(b"damaged")
    return [DATA / "fragile.onnx", "--data", tmp_path / "arrays"], ["01.npy", "03.npy[1]", "04.npy"]


@pytest.mark.parametrize("verb, suffix", [("evaluate", "bpe"), ("calibrate", "bpc")])
def test_samples_that_fail_are_left_out_whatever_the_division(fragile, verb, suffix, tmp_path, bitpress):
    arguments, names = fragile
    whole, merged, report = (tmp_path / name for name in (f"whole.{suffix}", f"merged.{suffix}", "report.json"))
    assert "04.npy" in bitpress.error(verb, *arguments, "-o", whole)
    (tmp_path / "arrays" / "04.npy").rename(tmp_path / "damaged.npy")
    error = bitpress.error(verb, *arguments, "-o", whole)  # the first failure: sample and node
    assert "01.npy: " in error and "Gather" in error
    (tmp_path / "damaged.npy").rename(tmp_path / "arrays" / "04.npy")
    error = bitpress.error(verb, *arguments, "--most-failures", 2, "-o", whole)
    assert "3 samples failed, but at most 2 may: '01.npy', '03.npy[1]', '04.npy'" in error and not whole.exists()

    text = bitpress.ok(verb, *arguments, "--most-failures", 3, "-o", whole, "--json", report)
    assert "left out: 3 samples that failed" in text and "'01.npy': " in text
    assert json.loads(report.read_text())["left_out"] == names and json.loads(report.read_text())["num_samples"] == NUM_GOOD
    assert "03.npy[1]" in bitpress.ok("inspect", whole)
    for count in (3, NUM_GOOD + 3):  # some of as many as samples have nothing but a sample that fails
        parts = [tmp_path / f"{count}_{i}.{suffix}" for i in range(count)]
        for i, part in enumerate(parts):
            bitpress.ok(verb, *arguments, "--most-failures", 3, "--shard", f"{i + 1}/{count}", "-o", part)
        random.Random(count).shuffle(parts)
        bitpress.ok("merge", *parts, "-o", merged, "--most-failures", 3)
        assert merged.read_bytes() == whole.read_bytes(), count
    assert "3 samples failed, but at most 2 may" in bitpress.error("merge", *parts, "-o", tmp_path / "no", "--most-failures", 2)
    assert not (tmp_path / "no").exists()


def test_nothing_is_left_of_samples_that_all_fail(fragile, tmp_path, bitpress):
    arguments, _ = fragile
    for path in (tmp_path / "arrays").iterdir():
        np.save(path, np.full((1, 4), 9, np.float32))
    for verb in ("calibrate", "evaluate"):
        assert "all samples failed" in bitpress.error(verb, *arguments, "--most-failures", 20, "-o", tmp_path / "out")
    assert "no samples" in bitpress.error("evaluate", *arguments, "--most-failures", 20)


def test_a_timed_evaluation_leaves_samples_out_of_its_batches(fragile, tmp_path, bitpress):
    arguments, names = fragile
    bitpress.ok("evaluate", *arguments, "--most-failures", 3, "--batch", 3, "--json", tmp_path / "report.json")
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["left_out"] == names and report["num_samples"] == NUM_GOOD and report["time_ms"] > 0
