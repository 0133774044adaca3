"""Bad input gives one clear line of error, an exit code that is not 0, and no file."""

import json
import os
import resource
import subprocess

import numpy as np
import onnx
import pytest
from locations import is_sanitized

import models


def listing(folder):
    return sorted((str(path.relative_to(folder)), path.is_file() and path.read_bytes()) for path in folder.rglob("*"))


@pytest.fixture
def refused(bitpress, bitpress_process, tmp_path):
    """refused(words, *arguments) checks that the run fails, that its line has the words, and that the folder stays as it was. Files
    that could crash the reader are given to a process of its own."""

    def check(words, *arguments, alone=False):
        before = listing(tmp_path)
        line = (bitpress_process if alone else bitpress).error(*arguments)
        assert listing(tmp_path) == before, "a file was left behind or changed"
        for word in words:
            assert word in line, f"'{word}' is not in: {line}"
        return line

    return check


@pytest.mark.parametrize("command", [["inspect"], ["plan"], ["quantize", "-o", "out.onnx"], ["evaluate", "--data", "."]])
@pytest.mark.parametrize("kind", ["missing", "folder", "empty", "text"])
def test_what_is_no_model(command, kind, tmp_path, refused):
    path = tmp_path / "model.onnx"
    if kind == "folder":
        path.mkdir()
    elif kind != "missing":
        path.write_text("" if kind == "empty" else "This is no model.\n" * 50)
    arguments = [tmp_path / word if word == "out.onnx" else tmp_path if word == "." else word for word in command]
    config = ["--config", "MX6"] if command[0] in ("plan", "quantize") else []
    refused(["model.onnx"], arguments[0], path, *arguments[1:], *config)


@pytest.mark.parametrize("config, nearest", [("MXFP8E4M2", "MXFP8E4M3"), ("MX66", "MX6"), ("bf61", "BF16"), ("mxint9", "MXINT8")])
def test_an_unknown_config_suggests_the_nearest(config, nearest, conv_path, tmp_path, refused):
    for command in (["plan", conv_path], ["quantize", conv_path, "-o", tmp_path / "out.onnx"]):
        line = refused([config], *command, "--config", config)
        assert nearest.lower() in line.lower()


def test_an_unknown_config_without_a_neighbour_lists_them(conv_path, refused):
    refused(["something", "MXFP8E4M3", "BF16"], "plan", conv_path, "--config", "something_else")


@pytest.mark.parametrize("setting, words", [
    ("placment=all", ["placment", "placement"]),
    ("placement=everywhere", ["placement", "everywhere", "compute"]),
    ("activation_scale=ceiling", ["activation_scale", "ceiling", "ceil"]),
    ("placement", ["placement", "key=value"]),
    ("exclude_nodes=(", ["exclude_nodes", "("]),
    ("weights=mx7", ["mx7", "mx6"]),
])
def test_a_wrong_setting(setting, words, conv_path, tmp_path, refused):
    refused(words, "quantize", conv_path, "-o", tmp_path / "out.onnx", "--config", "MX6", "--set", setting)


@pytest.mark.parametrize("side", ["--weights", "--activations"])
def test_a_format_that_does_not_exist(side, conv_path, tmp_path, refused):
    line = refused(["mxfp8_e4m4"], "quantize", conv_path, "-o", tmp_path / "out.onnx", "--config", "MX6", side, "mxfp8_e4m4")
    assert "mxfp8_e4m3" in line


@pytest.mark.parametrize("options", [("--config", "int3"), ("--config", "INT8", "--activations", "uint3")])
def test_activations_in_three_bits(options, conv_path, tmp_path, refused):
    refused(["is for weights", "3 bits", "activations=none"], "quantize", conv_path, "-o", tmp_path / "out.onnx", *options)


@pytest.mark.parametrize("target", ["missing/out.onnx", "folder", "file/out.onnx", "/proc/out.onnx"])
def test_an_output_that_cannot_be_written(target, conv_path, tmp_path, refused):
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("a file")
    refused([target.split("/")[-1]], "quantize", conv_path, "-o", tmp_path / target, "--config", "MX6")
    refused([target.split("/")[-1]], "plan", conv_path, "-o", tmp_path / target, "--config", "MX6")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_permission(conv_path, tmp_path, refused):
    (tmp_path / "locked").mkdir(mode=0o500)
    refused(["locked"], "quantize", conv_path, "-o", tmp_path / "locked" / "out.onnx", "--config", "MX6")


@pytest.fixture
def plan(conv_path, bitpress):
    return json.loads(bitpress.ok("plan", conv_path, "--config", "MX6"))


def edit_row(plan, value, **fields):
    (row,) = [row for row in plan["tensors"] if row["value"] == value]
    row.update(fields)


@pytest.mark.parametrize("fields, words", [
    ({"axis": 4}, ["image", "axis", "4"]),
    ({"axis": -5}, ["image", "axis", "-5"]),
    ({"axis": "one"}, ["image", "axis"]),
    ({"format": "mx7"}, ["image", "mx7", "mx6"]),
    ({"scale_choice": "up"}, ["image", "up", "ceil"]),
    ({"role": "wait"}, ["image", "wait", "weight"]),
    ({"colour": "red"}, ["image", "colour"]),
    ({"uses": [{"node": "nowhere", "op_type": "Conv", "input": 0}]}, ["image", "nowhere"]),
    ({"uses": [{"node": "stem", "op_type": "Conv", "input": 9}]}, ["image", "stem", "9"]),
])
def test_a_plan_that_does_not_fit(fields, words, plan, conv_path, tmp_path, refused):
    edit_row(plan, "image", **fields)
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(plan))
    refused(words, "quantize", conv_path, "-o", tmp_path / "out.onnx", "--plan", path)


@pytest.mark.quick
def test_a_plan_of_another_model(plan, matmul_path, tmp_path, refused):
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(plan))
    refused(["plan.json"], "quantize", matmul_path, "-o", tmp_path / "out.onnx", "--plan", path)


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"bitpress_plan": 99, "tensors": []}', '{"tensors": []}',
                                  "[" * 100000, "\x00\xff"])
def test_a_broken_plan(text, conv_path, tmp_path, refused):
    path = tmp_path / "plan.json"
    path.write_text(text, encoding="latin-1")
    refused(["plan"], "quantize", conv_path, "-o", tmp_path / "out.onnx", "--plan", path, alone=True)


def test_a_plan_that_is_not_there(conv_path, tmp_path, refused):
    refused(["nowhere.json"], "quantize", conv_path, "-o", tmp_path / "out.onnx", "--plan", tmp_path / "nowhere.json")


@pytest.fixture
def samples(tmp_path):
    folder = tmp_path / "samples"
    folder.mkdir()
    for index in range(3):
        np.save(folder / f"{index}.npy", np.full((1, 4), index, np.float32))
    return folder


@pytest.mark.parametrize("attributes, words", [
    ({"element_dtype": "fp8_e4m4"}, ["fp8_e4m4"]),
    ({"element_dtype": "int9"}, ["int9"]),
    ({"axis": 7}, ["axis", "7"]),
    ({"block_size": 0}, ["block_size", "0"]),
])
def test_an_operator_with_a_wrong_attribute(attributes, words, samples, tmp_path, refused):
    path = tmp_path / "quark.onnx"
    path.write_bytes(models.quark_model(**attributes).SerializeToString())
    refused(["quark.onnx", "quark_node", *words], "evaluate", path, "--data", samples)


def test_an_operator_that_does_not_exist(samples, tmp_path, refused):
    model = models.quark_model()
    model.graph.node[0].op_type = "MXQuantizeDequantise"
    path = tmp_path / "quark.onnx"
    path.write_bytes(model.SerializeToString())
    refused(["quark.onnx", "MXQuantizeDequantise"], "evaluate", path, "--data", samples)


@pytest.mark.parametrize("element_type", [0, 77, -1])
def test_a_tensor_with_an_element_type_that_does_not_exist(element_type, tmp_path, refused):
    model = models.conv_model()
    model.graph.initializer[0].data_type = element_type
    path = tmp_path / "wrong.onnx"
    path.write_bytes(model.SerializeToString())
    refused(["wrong.onnx", "stem.weight"], "quantize", path, "-o", tmp_path / "out.onnx", "--config", "MX6", alone=True)


@pytest.mark.parametrize("dims", [[40, 3, 3, 4], [1 << 40, 1 << 40], [-1, 3]])
def test_a_tensor_whose_size_is_wrong(dims, tmp_path, refused):
    model = models.conv_model()
    del model.graph.initializer[0].dims[:]
    model.graph.initializer[0].dims.extend(dims)
    path = tmp_path / "wrong.onnx"
    path.write_bytes(model.SerializeToString())
    refused(["wrong.onnx", "stem.weight"], "quantize", path, "-o", tmp_path / "out.onnx", "--config", "MX6", alone=True)


@pytest.mark.parametrize("location", ["../secret.bin", "/etc/passwd", "missing.bin"])
def test_external_data_outside_or_missing(location, tmp_path, refused):
    (tmp_path / "secret.bin").write_bytes(bytes(1 << 16))
    folder = tmp_path / "inside"
    folder.mkdir()
    onnx.save(models.conv_model(), folder / "model.onnx", save_as_external_data=True, location="data.bin", size_threshold=0)
    model = onnx.load(folder / "model.onnx", load_external_data=False)
    for tensor in model.graph.initializer:
        for entry in tensor.external_data:
            if entry.key == "location":
                entry.value = location
    (folder / "model.onnx").write_bytes(model.SerializeToString())
    refused(["model.onnx", location], "quantize", folder / "model.onnx", "-o", tmp_path / "out.onnx", "--config", "MX6", alone=True)


IMAGE = "crop=20,mean=0.5,std=0.5"


@pytest.mark.parametrize("image, words", [
    ("crpo=20", ["crpo", "crop"]), ("crop=twenty", ["crop", "twenty"]), ("crop=-4", ["crop", "-4"]),
    ("mean=0.1/0.2", ["mean"]), ("std=0", ["std"]), ("layout=chw", ["layout", "chw", "nchw"]), ("crop", ["crop"]),
])
def test_a_wrong_image_spec(image, words, conv_path, tmp_path, refused):
    models.save_photos(tmp_path / "photos", 2)
    refused(words, "evaluate", conv_path, "--data", tmp_path / "photos", "--image", image)


def test_data_that_is_not_there(conv_path, tmp_path, refused):
    refused(["nowhere"], "evaluate", conv_path, "--data", tmp_path / "nowhere", "--image", IMAGE)
    (tmp_path / "hollow").mkdir()
    refused(["hollow"], "evaluate", conv_path, "--data", tmp_path / "hollow", "--image", IMAGE)


def test_photos_of_the_wrong_size(conv_path, tmp_path, refused):
    models.save_photos(tmp_path / "photos", 2)
    refused(["image", "20"], "evaluate", conv_path, "--data", tmp_path / "photos", "--image", "crop=16")


def test_a_photo_that_is_damaged(conv_path, tmp_path, refused):
    for path in models.save_photos(tmp_path / "photos", 2):
        path.write_bytes(path.read_bytes()[:60])
    refused(["photo_0.png"], "evaluate", conv_path, "--data", tmp_path / "photos", "--image", IMAGE, alone=True)


@pytest.mark.parametrize("text, words", [
    ("name,class\nphoto_0.png,1\n", ["labels.csv", "file"]),
    ("file,class\nphoto_9.png,1\n", ["photo_9.png"]),
    ("file,class\nphoto_0.png,cat\n", ["labels.csv", "cat"]),
    ("file,class\nphoto_0.png,10\n", ["photo_0.png", "10"]),
    ("file,class\n", ["labels.csv"]),
])
def test_wrong_labels(text, words, conv_path, tmp_path, refused):
    models.save_photos(tmp_path / "photos", 2)
    labels = tmp_path / "labels.csv"
    labels.write_text(text)
    refused(words, "evaluate", conv_path, "--data", tmp_path / "photos", "--image", IMAGE, "--labels", labels)


def test_a_reference_of_another_network(conv_path, matmul_path, tmp_path, refused):
    models.save_photos(tmp_path / "photos", 2)
    words = ["matmul.onnx", "input 'x'", "[2, 3, 20, 20]", "[?, 12, 48]"]
    refused(words, "evaluate", conv_path, "--data", tmp_path / "photos", "--image", IMAGE, "--reference", matmul_path)


@pytest.mark.parametrize("arguments, words", [
    (["quantise"], ["'quantise'", "did you mean 'quantize'"]), (["quantize"], ["model is required"]), (["inspect", "a", "b"], ["b"]),
    (["plan", "x.onnx", "--confg", "MX6"], ["'plan' has no option '--confg'", "did you mean '--config'"]),
    (["plan", "--confg=MX6", "x.onnx"], ["'--confg'", "did you mean '--config'"]), (["plan", "x.onnx", "-x"], ["no option '-x'"]),
    (["--versoin"], ["bitpress has no option '--versoin'", "did you mean '--version'"]), (["plan", "x.onnx"], ["--config is required"]),
    (["plan", "x.onnx", "--config", "MX6", "--colour"], ["'plan' has no option '--colour'"]),
    (["quantize", "x.onnx", "-o", "y.onnx", "--config", "MX6", "--threads", "many"], ["--threads", "many", "0 to 1024"])])
def test_a_wrong_command_line(arguments, words, bitpress):
    line = bitpress.error(*arguments)
    assert all(word in line for word in words), line
    assert bitpress.run(*arguments).returncode == 2


def test_the_program_alone_prints_its_help(program):
    text = subprocess.run([str(program)], capture_output=True, text=True, timeout=60, check=True).stdout
    assert text.startswith("Presses ONNX models") and "quantize" in text


@pytest.mark.skipif(is_sanitized(), reason="a sanitizer reserves more memory than the limit here")
@pytest.mark.parametrize("count", ["-2", "18446744073709551614", "1000000"])
def test_a_senseless_number_of_threads(count, conv_path, tmp_path, program):
    # With these limits, a program that does try harms nobody else.
    limit = lambda: resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
    command = [str(program), "quantize", str(conv_path), "-o", str(tmp_path / "out.onnx"), "--config", "MX6", "--threads", count]
    result = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False, preexec_fn=limit)
    assert result.returncode > 0
    assert "threads" in result.stderr and len(result.stderr.strip().splitlines()) == 1
    assert not (tmp_path / "out.onnx").exists()


@pytest.mark.parametrize("command, option, word, suggestion", [
    ("quantize", "--storage", "pack", "packed"), ("quantize", "--form", "qoperators", "qoperator"),
    ("quantize", "--check", "offf", "off"), ("search", "--strategy", "greedi", "greedy"),
    ("sensitivity", "--method", "exakt", "exact"), ("evaluate", "--processor", "novnni", "no_vnni"),
])
def test_an_unknown_word_is_told_with_the_nearest(command, option, word, suggestion, bitpress, conv_path):
    result = bitpress.run(command, conv_path, option, word)
    assert result.returncode == 2
    assert option in result.stderr and f"'{word}' is not one of" in result.stderr
    assert f"did you mean '{suggestion}'" in result.stderr
