"""Files of every version of the formats are read as what they mean, files of newer versions are refused (docs/versions.md)."""

import json
import re
import struct

import numpy as np
import onnx
import onnxruntime
import pytest

import version_files
from version_files import DATA, FORMAT_KEY

EXPECTED = json.loads((DATA / "expected.json").read_text())
QUICK = ("model_1_packed.onnx", "plan_1_integers.json")
GOLDEN = sorted(path.name for path in DATA.iterdir() if re.match(r"[a-z]+_\d+_", path.name))


@pytest.fixture
def reader(bitpress, operator_library, tmp_path):
    return version_files.Reader(bitpress.ok, operator_library, tmp_path)


@pytest.fixture(scope="module")
def new_files(bitpress, tmp_path_factory):
    return version_files.write_new(bitpress.ok, tmp_path_factory.mktemp("new"))


def test_every_golden_file_is_expected():
    assert GOLDEN == sorted(EXPECTED)
    for name in GOLDEN:
        assert version_files.version_of(DATA / name) == int(name.split("_")[1]), name


def is_close(found, wanted):
    """Returns whether two answers are equal, numbers up to what processors differ in."""
    if isinstance(wanted, dict):
        return found.keys() == wanted.keys() and all(is_close(found[key], wanted[key]) for key in wanted)
    if isinstance(wanted, list):
        return len(found) == len(wanted) and all(map(is_close, found, wanted))
    return found == (wanted if isinstance(wanted, str) else pytest.approx(wanted, rel=1e-4, abs=1e-4))


@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.quick if name in QUICK else ()) for name in GOLDEN])
def test_means_what_it_meant(name, reader):
    wanted = {key: value for key, value in EXPECTED[name].items() if key != "model"}
    found = reader.read(DATA / name, EXPECTED[name]["model"])
    assert is_close(found, wanted), f"{found}\nexpected {wanted}"


def test_current_versions_have_golden_files(new_files):
    """Whoever raises a version adds files of it: tools/testdata/make_versions.py."""
    for (kind, what), (path, _) in new_files.items():
        version = version_files.version_of(path)
        missing = [number for number in range(1, version + 1) if not list(DATA.glob(f"{kind}_{number}_*"))]
        assert not missing, f"{DATA} has no {kind} of version {missing}"
        assert (DATA / f"{kind}_{version}_{what}{path.suffix}").exists(), f"{what} of version {version}"


def test_a_copy_of_the_current_version_has_the_same_bytes(bitpress, new_files, tmp_path):
    version = version_files.version_of(new_files["calibration", "channels"][0])
    for path in DATA.glob(f"calibration_{version}_*"):
        bitpress.ok("merge", path, "-o", tmp_path / "copy.bpc")
        assert (tmp_path / "copy.bpc").read_bytes() == path.read_bytes()


def commands(path, folder):
    """Commands that read a file of this kind."""
    output, model = folder / "out", DATA / "float.onnx"
    kind = path.name.split("_")[0]
    if kind == "plan":
        return [["quantize", model, "--plan", path, "-o", output], ["report", model, "--reference", model, "--plan", path, "-o", output]]
    if kind == "calibration":
        return [["inspect", path], ["merge", path, "-o", output],
                ["quantize", model, "--config", "INT8", "--calibration", path, "-o", output]]
    if kind in ("evaluation", "moments"):
        return [["inspect", path], ["merge", path, "-o", output]]
    if kind == "search":
        return [["report", model, "--reference", model, "--search", path, "-o", output]]
    return [["inspect", path], ["unpack", path, "-o", output], ["check", path], ["optimize", path, "-o", output],
            ["quantize", path, "--config", "MX6", "-o", output], ["report", path, "--reference", model, "-o", output]]


@pytest.mark.parametrize("name", ["plan_1_blocks.json", "calibration_1_channels.bpc", "evaluation_1_outputs.bpe", "moments_1_sums.bpm",
                                  "model_1_integers.onnx",
                                  "model_1_packed.onnx", "search_1_front.json"])
def test_newer_versions_are_refused(name, bitpress, new_files, tmp_path):
    kind = name.split("_")[0]
    current = max(version_files.version_of(path) for (of_kind, _), (path, _) in new_files.items() if of_kind == kind)
    path = version_files.with_version(DATA / name, current + 1, tmp_path / name)
    for command in commands(path, tmp_path):
        error = bitpress.error(*command)
        assert f"version {current + 1} is newer than {current}, the newest that Bitpress" in error and "use a newer" in error
        assert not (tmp_path / "out").exists()
    version_files.with_version(DATA / name, 0, path)
    assert "no version 0" in bitpress.error(*commands(path, tmp_path)[0])


@pytest.mark.parametrize("version", ["", "one", "1.0", "99999999999999999999"])
def test_a_version_of_a_model_is_a_number(version, bitpress, tmp_path):
    path = version_files.with_version(DATA / "model_1_integers.onnx", version, tmp_path / "model.onnx")
    assert FORMAT_KEY in bitpress.error("inspect", path)


def test_files_without_a_version(bitpress, tmp_path):
    for name, words in (("plan_1_blocks.json", "'bitpress_plan' is missing"), ("search_1_front.json", "no result of a search")):
        path = tmp_path / name
        path.write_text(re.sub(r' *"bitpress_(plan|search)": *\d+,', "", (DATA / name).read_text()))
        assert words in bitpress.error(*commands(path, tmp_path)[0])
    path = tmp_path / "calibration_1.bpc"
    path.write_bytes((DATA / "calibration_1_channels.bpc").read_bytes()[:len("BITPCALB")])
    assert "ends too early" in bitpress.error("inspect", path)
    path.write_bytes(b"BITPCALB" + struct.pack("<I", 1))
    assert "ends too early" in bitpress.error("inspect", path)


def test_new_models_have_the_version_in_their_metadata(new_files):
    for (kind, _), (path, _) in new_files.items():
        if kind == "model":
            metadata = {entry.key: entry.value for entry in onnx.load(path).metadata_props}
            assert metadata[FORMAT_KEY] == "1" and "bitpress.version" in metadata


def test_weights_are_added_to_a_packed_model(bitpress, tmp_path):
    """The model has one function of each name."""
    old, source, plan = tmp_path / "old.onnx", DATA / "float.onnx", tmp_path / "plan.json"
    bitpress.ok("quantize", source, "-o", old, "--config", "MXINT8", "--activations", "none", "--set", "weight_scale=floor",
                "--target", "portable", "--rule", "nodes=first: exclude")
    bitpress.ok("plan", source, "--config", "MXINT8", "--activations", "none", "--set", "weight_scale=floor", "-o", plan)
    bitpress.ok("quantize", old, "--plan", plan, "--target", "portable", "-o", tmp_path / "more.onnx")
    bitpress.ok("quantize", source, "--plan", plan, "--target", "portable", "-o", tmp_path / "at_once.onnx")
    more, at_once = (onnx.load(tmp_path / name) for name in ("more.onnx", "at_once.onnx"))
    assert sum(node.op_type.startswith("Unpack_mxint8") for node in onnx.load(old).graph.node) == 1
    nodes = [sorted(node.SerializeToString(deterministic=True) for node in model.graph.node) for model in (more, at_once)]
    assert nodes[0] == nodes[1]
    wanted, found = (onnxruntime.InferenceSession(str(tmp_path / name)).run(None, version_files.INPUTS["float.onnx"])[0]
                     for name in ("at_once.onnx", "more.onnx"))
    assert np.array_equal(wanted, found)


def test_files_for_scripts_have_a_version(bitpress, tmp_path):
    """Bitpress reads none of them again, but scripts do."""
    model, source = DATA / "model_1_integers.onnx", DATA / "float.onnx"
    version_files.make_samples(tmp_path / "samples", "float.onnx")
    data, path = ["--data", tmp_path / "samples"], tmp_path / "out.json"
    for name, arguments in {
            "check": ["check", model, "--json", path],
            "evaluation": ["evaluate", model, *data, "--json", path],
            "report": ["report", model, "--reference", source, "-o", tmp_path / "page.html", "--json", path],
            "sensitivity": ["sensitivity", source, "--candidates", "mx6", *data, "-o", path],
            "auto": ["auto", source, "--configs", "MX9", *data, "-o", tmp_path / "best.onnx", "--no-report", "--json", path],
            "autotune": ["autotune", source, "--configs", "MX9", *data, "-o", tmp_path / "best.onnx", "--json", path],
            "doctor": ["doctor", "--json", path]}.items():
        bitpress.ok(*arguments)
        assert next(iter(json.loads(path.read_text()).items())) == (f"bitpress_{name}", 1)
