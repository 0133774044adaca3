"""bitpress.exe writes the bytes that the program for Linux writes: models of every preset, plans, calibrations, pages."""

import re
import shutil

import models
import numpy as np
import onnx
import pytest
import recurrent_test
import rig
import smooth_test

NETWORKS = ("convolutions", "transformer", "recurrent", "external")


def preset_names(bitpress):
    return re.search(r"^Presets: (.*)$", bitpress.ok("quantize", "--help"), re.MULTILINE)[1].split()


@pytest.fixture(scope="module")
def network(tmp_path_factory):
    """network(name) returns a folder with model.onnx and samples/."""
    made = {}

    def make(name):
        if name not in made:
            made[name] = tmp_path_factory.mktemp(name)
            make_network(name, made[name])
        return made[name]
    return make


def make_network(name, folder):
    path = folder / "model.onnx"
    if name == "recurrent":
        onnx.save(recurrent_test.recurrent_model(), path)
        models.save_arrays(folder / "samples", recurrent_test.sequences(8, 3))
    elif name == "transformer":
        onnx.save(smooth_test.transformer(residual=True), path)
        models.save_arrays(folder / "samples", [np.random.default_rng(i).standard_normal((1, 6, smooth_test.WIDTH)).astype(np.float32)
                                                for i in range(8)])
    else:
        is_external = name == "external"
        onnx.save_model(models.conv_model(), path, save_as_external_data=is_external, location="weights.bin", size_threshold=100)
        models.save_arrays(folder / "samples", [image[None] for image in models.smooth_images(8, 3)])


def contents(folder):
    """The files of a folder, without the times and the memory that a page or report tells."""
    measured = rb'"(reference_)?(time_ms|time_ratio|load_ms|memory_bytes)": ?[-+.e0-9]+'
    return {path.name: re.sub(measured, b"", path.read_bytes()) if path.suffix in (".html", ".json") else path.read_bytes()
            for path in folder.iterdir()}


def first_difference(one, other):
    """Where two files differ first, or one of them ends or is missing: a few bytes of each from there."""
    if one is None or other is None:
        return one and "only on Linux", other and "only on Windows"
    position = next((i for i, (a, b) in enumerate(zip(one, other)) if a != b), min(len(one), len(other)))
    return position, one[max(0, position - 40):position + 40], other[max(0, position - 40):position + 40]


class Both:
    """Runs a command with both programs, each in a folder `out` of its own, and compares all that they wrote and printed."""

    def __init__(self, bitpress, folder):
        self._bitpress, self._folder = bitpress, folder

    def __call__(self, *words):
        output, found = self._folder / "out", []
        for run in (self._bitpress.run, lambda *words: rig.run("bitpress.exe", *words)):
            shutil.rmtree(output, ignore_errors=True)
            output.mkdir()
            done = run(*words)
            found.append((done.returncode, contents(output), done.stderr))
        linux, windows = found
        assert windows[0] == linux[0], windows[2]
        different = {name: first_difference(linux[1].get(name), windows[1].get(name))
                     for name in linux[1].keys() | windows[1].keys() if linux[1].get(name) != windows[1].get(name)}
        assert not different, f"{' '.join(map(str, words))}: {different} differ"
        if linux[0]:
            assert windows[2] == linux[2]
        else:
            assert linux[1]


@pytest.fixture
def both(bitpress, tmp_path):
    return Both(bitpress.terse, tmp_path)  # the words are those of the test alone


def test_a_model_of_a_preset(network, both, tmp_path):
    folder = network("convolutions")
    both("quantize", folder / "model.onnx", "-o", tmp_path / "out" / "m.onnx", "--config", "MX6", "--check", "off", "--verbose")


def test_a_calibration_of_the_other_system(network, bitpress, tmp_path):
    model, samples = network("convolutions") / "model.onnx", network("convolutions") / "samples"
    words = ["quantize", model, "--config", "INT8", "--check", "off"]
    done = rig.run("bitpress.exe", "calibrate", model, "-o", tmp_path / "windows.bpc", "--data", samples, "--config", "INT8")
    assert done.returncode == 0, done.stderr
    bitpress.ok(*words, "-o", tmp_path / "linux.onnx", "--calibration", tmp_path / "windows.bpc")
    bitpress.ok("calibrate", model, "-o", tmp_path / "linux.bpc", "--data", samples, "--config", "INT8")
    done = rig.run("bitpress.exe", *words, "-o", tmp_path / "windows.onnx", "--calibration", tmp_path / "linux.bpc")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "linux.onnx").read_bytes() == (tmp_path / "windows.onnx").read_bytes()


@pytest.mark.windows
@pytest.mark.parametrize("name", NETWORKS)
def test_models_of_every_preset(name, network, both, bitpress, tmp_path):
    folder, output = network(name), tmp_path / "out" / "m.onnx"
    for preset in preset_names(bitpress):
        more = ["--external-data"] if name == "external" else []
        both("quantize", folder / "model.onnx", "-o", output, "--config", preset, "--data", folder / "samples", "--check", "off",
             "--verbose", *more)


@pytest.mark.windows
@pytest.mark.parametrize("name", NETWORKS)
def test_plans_calibrations_and_pages(name, network, both, tmp_path):
    model, samples, output = network(name) / "model.onnx", network(name) / "samples", tmp_path / "out"
    both("plan", model, "-o", output / "plan.json", "--config", "MXFP8E4M3")
    for method in ("min_max", "percentile", "entropy", "mse"):
        both("calibrate", model, "-o", output / "c.json", "--data", samples, "--config", "INT8", "--set", f"activation_range={method}")
    both("quantize", model, "-o", output / "m.onnx", "--config", "INT8", "--data", samples, "--check", "off", "--verbose",
         "--report", output / "page.html", "--json", output / "report.json")


@pytest.mark.windows
@pytest.mark.parametrize("recipe, config", [("adaquant", "INT8"), ("adaround", "XINT8"), ("gptq", "INT4_WEIGHTS"), ("awq", "INT4_WEIGHTS")])
def test_what_is_learned(recipe, config, network, both, tmp_path):
    folder = network("transformer")
    both("quantize", folder / "model.onnx", "-o", tmp_path / "out" / "m.onnx", "--config", config, "--data", folder / "samples",
         "--finetune", recipe, "--check", "off", "--verbose")


@pytest.mark.windows
def test_commands_that_measure_and_work_in_parts(network, both, tmp_path):
    model, samples = network("transformer") / "model.onnx", network("transformer") / "samples"
    output, parts = tmp_path / "out", tmp_path / "parts"
    parts.mkdir()

    def kept(name):
        return shutil.copy(output / name, parts / name)
    both("quantize", model, "-o", output / "m.onnx", "--config", "INT8", "--data", samples, "--check", "off")
    quantized = kept("m.onnx")
    measured = [quantized, "--reference", model, "--data", samples]
    both("report", *measured, "-o", output / "page.html", "--json", output / "page.json")
    both("sensitivity", model, "--candidates", "mx6,mxint8", "--data", samples, "--method", "both", "-o", output / "s.json")
    both("search", model, "--candidates", "mx9,mx6,mx4", "--data", samples, "--target", "sqnr>=20", "-o", output / "plan.json")
    both("autotune", model, "-o", output / "a.onnx", "--data", samples)
    tuning = [model, "--config", "MX6", "--finetune", "gptq"]
    for part in ("1", "2"):
        both("evaluate", *measured, "--shard", f"{part}/2", "-o", output / f"{part}.bpe")
        kept(f"{part}.bpe")
        both("moments", *tuning, "--data", samples, "--shard", f"{part}/2", "-o", output / f"{part}.bpm")
        kept(f"{part}.bpm")
    both("merge", parts / "1.bpe", parts / "2.bpe", "-o", output / "all.bpe", "--json", output / "all.json")
    both("merge", parts / "1.bpm", parts / "2.bpm", "-o", output / "all.bpm")
    moments = kept("all.bpm")
    for part in ("1", "2"):
        both("tune", *tuning, "--moments", moments, "--layers", f"{part}/2", "-o", output / f"{part}.journal")
        kept(f"{part}.journal")
    both("merge", parts / "1.journal", parts / "2.journal", "-o", output / "q.onnx.journal")
    both("quantize", model, "-o", output / "m.onnx", "--config", "INT8", "--finetune", "adaquant", "--set", "finetune_memory=1",
         "--data", samples, "--check", "off")
    both("unpack", quantized, "-o", output / "float.onnx", "--check", "off")
