"""Moments of parts of the samples, and layers learned by several processes, give the bytes of one process."""

import hashlib
import json
from pathlib import Path

import models
import pytest

NUM_SAMPLES = 32  # the fewest of which some are held back for validation


@pytest.fixture(scope="module")
def conv_path(tmp_path_factory):
    return models.save(models.conv_model(), tmp_path_factory.mktemp("conv") / "conv.onnx")


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    return models.save_arrays(tmp_path_factory.mktemp("photos") / "samples", models.smooth_images(NUM_SAMPLES, 3)[:, None])


def digest(path):
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


# Activations that stay float share moments, INT8 needs statistics and a guard, and finetune_positions chooses by the run's number.
CONFIGURATIONS = {
    "MX6": "--config MX6 --finetune gptq",
    "INT8": "--config INT8 --finetune adaquant",
    "weights": "--config MXFP4E2M1 --activations none --finetune gptq+bias_correction",
    "positions": "--config MX4 --finetune adaquant --set finetune_positions=50 --set finetune_seed=3",
    "passes": "--config MX6 --finetune bias_correction --set finetune_memory=1",
}


def tune_in_parts(bitpress, path, photos, folder, arguments, shards, parts, samples=()):
    folder.mkdir()
    shared = [path, *arguments.split(), "--data", photos, *samples]
    files = [folder / f"part{k}.bpm" for k in range(shards)]
    for k, file in enumerate(files):
        bitpress.ok("moments", *shared, "--shard", f"{k + 1}/{shards}", "-o", file)
    bitpress.ok("merge", *reversed(files), "-o", folder / "all.bpm")
    journals = [folder / f"part{k}.journal" for k in range(parts)]
    for k, journal in enumerate(journals):
        bitpress.ok("tune", *shared, "--moments", folder / "all.bpm", "--layers", f"{k + 1}/{parts}", "-o", journal)
    bitpress.ok("merge", *reversed(journals), "-o", folder / "q.onnx.journal")
    result = bitpress.ok("quantize", *shared, "-o", folder / "q.onnx")
    assert not (folder / "q.onnx.journal").exists()
    return result


@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.quick if name == "MX6" else ()) for name in CONFIGURATIONS])
def test_parts_have_the_bytes_of_one_process(name, conv_path, photos, tmp_path, bitpress):
    arguments = CONFIGURATIONS[name]
    shared = [conv_path, *arguments.split(), "--data", photos]
    bitpress.ok("quantize", *shared, "-o", tmp_path / "one.onnx", "--threads", "1")
    bitpress.ok("moments", *shared, "-o", tmp_path / "one.bpm", "--threads", "2")
    result = tune_in_parts(bitpress, conv_path, photos, tmp_path / "parts", arguments, 3, 2)
    assert digest(tmp_path / "parts" / "all.bpm") == digest(tmp_path / "one.bpm")
    assert digest(tmp_path / "parts" / "q.onnx") == digest(tmp_path / "one.onnx")
    assert "4 were in the journal" in result


# Few samples are divided into halves, and one sample into the halves of its positions.
@pytest.mark.parametrize("count", [1, 5])
def test_few_samples(count, conv_path, photos, tmp_path, bitpress):
    arguments = CONFIGURATIONS["positions"]
    samples = ["--samples", count]
    bitpress.ok("quantize", conv_path, *arguments.split(), "--data", photos, *samples, "-o", tmp_path / "one.onnx")
    tune_in_parts(bitpress, conv_path, photos, tmp_path / "parts", arguments, count, 2, samples)
    assert digest(tmp_path / "parts" / "q.onnx") == digest(tmp_path / "one.onnx")


# Moments do not depend on the formats of weights, nor on the recipe.
def test_moments_serve_other_recipes(conv_path, photos, tmp_path, bitpress):
    bitpress.ok("moments", conv_path, "--config", "MX6", "--finetune", "gptq", "--data", photos, "-o", tmp_path / "all.bpm")
    other = [conv_path, "--config", "MX6", "--weights", "mxfp4_e2m1", "--finetune", "adaquant"]
    bitpress.ok("tune", *other, "--moments", tmp_path / "all.bpm", "-o", tmp_path / "q.onnx.journal")
    bitpress.ok("quantize", *other, "--data", photos, "-o", tmp_path / "q.onnx")
    bitpress.ok("quantize", *other, "--data", photos, "-o", tmp_path / "one.onnx")
    assert digest(tmp_path / "q.onnx") == digest(tmp_path / "one.onnx")


def test_a_journal_goes_on(conv_path, photos, tmp_path, bitpress):
    shared = [conv_path, "--config", "MX6", "--finetune", "gptq"]
    bitpress.ok("moments", *shared, "--data", photos, "-o", tmp_path / "all.bpm")
    journal = tmp_path / "a.journal"
    tune = ["tune", *shared, "--moments", tmp_path / "all.bpm", "-o", journal]
    bitpress.ok(*tune)
    whole = journal.read_bytes()
    journal.write_bytes(whole[: len(whole) - 10])  # as of a process that was killed
    assert "layers were in the journal" in bitpress.ok(*tune)
    assert journal.read_bytes() == whole


def test_what_does_not_fit_is_one_error(conv_path, photos, tmp_path, bitpress):
    shared = ["--config", "MX6", "--finetune", "gptq", "--data", photos]
    part = tmp_path / "part.bpm"
    bitpress.ok("moments", conv_path, *shared, "--shard", "1/2", "-o", part)
    tune = ["tune", conv_path, "--moments", part, "-o", tmp_path / "a.journal"]
    assert "have 16 of 32 samples" in bitpress.error(*tune, *shared)
    assert "another configuration" in bitpress.error(*tune, "--config", "MX9", "--finetune", "gptq")
    assert "both have sample 0" in bitpress.error("merge", part, part, "-o", tmp_path / "sum.bpm")
    awq = ["--config", "MX6", "--activations", "none", "--finetune", "awq", "--data", photos]
    assert "cannot be divided" in bitpress.error("moments", conv_path, *awq, "-o", tmp_path / "x.bpm")
    assert "learns nothing" in bitpress.error("moments", conv_path, "--config", "MX6", "--data", photos, "-o", tmp_path / "x.bpm")
    bitpress.ok("moments", conv_path, *shared, "--samples", "20", "--shard", "2/2", "-o", tmp_path / "other.bpm")
    assert "parts of 32 samples and of 20" in bitpress.error("merge", part, tmp_path / "other.bpm", "-o", tmp_path / "sum.bpm")
    assert not any((tmp_path / name).exists() for name in ("x.bpm", "sum.bpm"))


def test_inspect_shows_moments(conv_path, photos, tmp_path, bitpress):
    bitpress.ok("moments", conv_path, "--config", "MX6", "--finetune", "gptq", "--data", photos, "--shard", "2/4", "-o",
                tmp_path / "part.bpm")
    text = bitpress.ok("inspect", tmp_path / "part.bpm")
    assert "4 layers, 8 of 32 samples" in text and "samples 8 to 15" in text and "Conv" in text
    found = json.loads(bitpress.ok("inspect", tmp_path / "part.bpm", "--json", "-"))
    assert found["samples"] == [[8, 16]] and found["num_samples_of_all"] == 32 and len(found["layers"]) == 4
