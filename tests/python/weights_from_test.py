"""quantize(weights_from=...): the codes of a GGUF file from Python, without a configuration."""

import gguf
import numpy as np
import onnxruntime
import pytest
from import_weights_test import LLAMA_NAMES, NAMES, SHAPES, WORDS, forward, random_blocks, save_gguf, save_model

import bitpress


@pytest.mark.parametrize("kind", [gguf.GGMLQuantizationType.Q4_K, gguf.GGMLQuantizationType.MXFP4], ids=lambda kind: kind.name)
def test_weights_of_a_file_are_taken_and_reported(tmp_path, kind):
    rng = np.random.default_rng(1)
    blocks = {name: random_blocks(kind, *shape, rng) for name, shape in SHAPES.items()}
    floats = {name: gguf.quants.dequantize(values, kind) for name, values in blocks.items()}
    source = save_gguf({f"{LLAMA_NAMES[name]}.weight": (values, kind) for name, values in blocks.items()}, tmp_path / "model.gguf")
    output = tmp_path / "quantized.onnx"
    report = bitpress.quantize(save_model(floats, tmp_path / "model.onnx"), output, weights_from=source, target="portable")
    assert report.imported.num_kept == 4 and not report.imported.not_in_file and not report.imported.unused
    assert {weight.name: weight.source for weight in report.imported.weights} == {
        f"{NAMES[name]}.weight": f"{LLAMA_NAMES[name]}.weight" for name in SHAPES}
    assert all(weight.is_kept and weight.type == kind.name for weight in report.imported.weights)
    ids = rng.integers(0, WORDS, (2, 5))
    expected = forward(floats, ids)
    [logits] = onnxruntime.InferenceSession(str(output)).run(None, {"ids": ids})
    assert np.abs(logits - expected).max() < 1e-4 * np.abs(expected).max()


def test_other_models_have_no_import(tmp_path, conv_path):
    assert bitpress.quantize(conv_path, tmp_path / "out.onnx", "MX6").imported is None
    with pytest.raises(bitpress.MissingFileError, match="there is no weights_from"):
        bitpress.quantize(conv_path, tmp_path / "out.onnx", weights_from=tmp_path / "none.gguf")
