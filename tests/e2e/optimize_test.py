"""bitpress optimize keeps the outputs, removes layout conversions, and names its machine in the file."""

import functools
import shutil

import models
import numpy as np
import onnx
import pytest

BLOCKED = "com.microsoft.nchwc"
ELEMENTWISE = ["BF16", "FP16_SIMULATED"]


def conv_inputs(num_samples):
    return {"image": np.random.default_rng(3).standard_normal((num_samples, *models.CONV_INPUT)).astype(np.float32)}


def metadata(path):
    return {entry.key: entry.value for entry in onnx.load(path).metadata_props}


def detours(path):
    """Returns our quantizers between a ReorderOutput and a ReorderInput, and whether there is a blocked layout at all."""
    nodes = onnx.load(path).graph.node
    producer = {name: node.op_type for node in nodes for name in node.output}
    readers = {}
    for node in nodes:
        for name in node.input:
            readers.setdefault(name, set()).add(node.op_type)
    found = [node.name for node in nodes if node.domain == "bitpress" and producer.get(node.input[0]) == "ReorderOutput"
             and "ReorderInput" in readers.get(node.output[0], ())]
    return found, any(node.domain == BLOCKED for node in nodes)


@pytest.fixture(scope="module")
def optimized(tmp_path_factory, bitpress):
    """optimized(preset, settings...) returns the quantized model, the optimized one, and the text of the program, made once."""

    @functools.cache
    def make(preset, *settings):
        folder = tmp_path_factory.mktemp("made")
        source = models.save(models.conv_model(), folder / "conv.onnx")
        quantized, output = folder / "quantized.onnx", folder / "optimized.onnx"
        bitpress.ok("quantize", source, "-o", quantized, "--config", preset, *settings)
        result = bitpress.run("optimize", quantized, "-o", output)
        assert result.returncode == 0 and result.stderr == "", result.stderr  # ONNX Runtime's warning is our own line
        return quantized, output, result.stdout

    return make


@pytest.mark.parametrize("placement", ["compute", "all"])
@pytest.mark.parametrize("preset", ["BF16", "FP16", "MX6", "MXFP8E4M3", "BFP16"])
def test_the_outputs_are_the_same_bit_for_bit(preset, placement, optimized, run_model):
    quantized, output, _ = optimized(preset, "--set", f"placement={placement}")
    for num_samples in (1, 5):
        wanted, found = (run_model(path, conv_inputs(num_samples))[0] for path in (quantized, output))
        assert wanted.tobytes() == found.tobytes()


@pytest.mark.parametrize("activations", ["fp8_e4m3", "fp8_e5m2"])
def test_fp8_too(activations, optimized, run_model):
    quantized, output, _ = optimized("BF16", "--activations", activations)
    wanted, found = (run_model(path, conv_inputs(3))[0] for path in (quantized, output))
    assert wanted.tobytes() == found.tobytes()
    assert detours(output)[0] == []


@pytest.mark.parametrize("preset", ELEMENTWISE)
def test_no_conversions_are_left_around_quantizers(preset, optimized):
    # Convolutions from codes, by default those of some processors, have no blocked layout.
    _, output, text = optimized(preset, "--target", "portable")
    found, is_blocked = detours(output)
    if not is_blocked:
        pytest.skip("ONNX Runtime has no blocked layout on this machine")
    assert found == []
    # They stand before the depthwise and before the last convolution.
    assert "around 2 quantizers" in text


def test_formats_with_blocks_keep_theirs(optimized):
    # Convolutions from codes, the default, have no blocked layout.
    _, output, text = optimized("MX6", "--target", "portable")
    found, is_blocked = detours(output)
    if not is_blocked:
        pytest.skip("ONNX Runtime has no blocked layout on this machine")
    assert len(found) == 2
    assert "removed 0" in text and "2 quantizers keep theirs" in text


def test_the_file_says_what_it_is(optimized, bitpress):
    quantized, output, text = optimized("BF16")
    machine = metadata(output)["bitpress.optimized_for"]
    assert machine.startswith("ONNX Runtime ") and machine in text
    assert machine in bitpress.ok("inspect", output)
    assert {**metadata(quantized), "bitpress.optimized_for": machine} == metadata(output)


def test_the_same_input_gives_the_same_bytes(optimized, tmp_path, bitpress):
    quantized, output, _ = optimized("BF16")
    bitpress.ok("optimize", quantized, "-o", tmp_path / "again.onnx")
    assert (tmp_path / "again.onnx").read_bytes() == output.read_bytes()


def test_a_float_model(conv_path, tmp_path, bitpress, run_model):
    output = tmp_path / "optimized.onnx"
    assert "around 0 quantizers" in bitpress.ok("optimize", conv_path, "-o", output)
    assert run_model(conv_path, conv_inputs(2))[0].tobytes() == run_model(output, conv_inputs(2))[0].tobytes()


def test_external_data(conv_path, tmp_path, bitpress, run_model):
    folder = tmp_path / "model"
    folder.mkdir()
    onnx.save(onnx.load(conv_path), folder / "model.onnx", save_as_external_data=True, location="data.bin", size_threshold=0)
    output = tmp_path / "optimized.onnx"
    bitpress.ok("optimize", folder / "model.onnx", "-o", output)
    assert run_model(conv_path, conv_inputs(2))[0].tobytes() == run_model(output, conv_inputs(2))[0].tobytes()


def test_an_optimized_model_is_the_end(optimized, tmp_path, bitpress):
    _, output, _ = optimized("BF16")
    before = sorted(tmp_path.iterdir())
    for command in (["quantize", output, "-o", tmp_path / "no.onnx", "--config", "MX6"], ["plan", output, "--config", "MX6"],
                    ["optimize", output, "-o", tmp_path / "no.onnx"]):
        line = bitpress.error(*command)
        assert "optimized.onnx" in line and "optimized for" in line
    assert sorted(tmp_path.iterdir()) == before


def test_it_is_evaluated_only_on_its_machine(optimized, tmp_path, bitpress):
    quantized, output, _ = optimized("BF16")
    output = shutil.copy(output, tmp_path)
    (tmp_path / "samples").mkdir()
    np.save(tmp_path / "samples" / "0.npy", conv_inputs(2)["image"])
    text = bitpress.ok("evaluate", output, "--reference", quantized, "--data", tmp_path / "samples")
    assert "the outputs are identical" in text
    model = onnx.load(output)
    for entry in model.metadata_props:
        if entry.key == "bitpress.optimized_for":
            entry.value = "ONNX Runtime 9.9.9, another processor"
    onnx.save(model, output)
    for arguments in ([output], [quantized, "--reference", output]):
        line = bitpress.error("evaluate", *arguments, "--data", tmp_path / "samples")
        assert "optimized.onnx" in line and "another processor" in line


@pytest.mark.parametrize("kind", ["missing", "folder", "empty", "text"])
def test_what_is_no_model(kind, tmp_path, bitpress):
    path = tmp_path / "model.onnx"
    if kind == "folder":
        path.mkdir()
    elif kind != "missing":
        path.write_text("" if kind == "empty" else "This is no model.\n" * 50)
    assert "model.onnx" in bitpress.error("optimize", path, "-o", tmp_path / "out.onnx")
    assert not [name for name in tmp_path.iterdir() if name != path]


@pytest.mark.parametrize("target", ["missing/out.onnx", "folder", "conv.onnx"])
def test_an_output_that_cannot_be_written(target, conv_path, tmp_path, bitpress):
    (tmp_path / "folder").mkdir()
    before = conv_path.read_bytes()
    assert target.rsplit("/", 1)[-1] in bitpress.error("optimize", conv_path, "-o", tmp_path / target)
    assert conv_path.read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["conv.onnx", "folder"]
