"""SmoothQuant, AWQ and equalization see through the operators of decoders, in all forms in which they are exported."""

import re

import make_decoder
import numpy as np
import onnx
import onnxruntime
import pytest
from tiny_decoders import HEAD_SIZE, KV_HEADS, LAYERS, TinyDecoder

FORMS = ("genai", "plain", "attention")


@pytest.fixture(scope="module", params=["llama", "gemma3_text"])
def made(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    make_decoder.make(TinyDecoder(request.param).save_checkpoint(folder / "checkpoint"), folder / "made")
    return folder / "made"


def logits(model):
    session = onnxruntime.InferenceSession(str(model), providers=["CPUExecutionProvider"])
    ids = np.random.default_rng(8).integers(0, 256, (2, 20))
    feeds = {"input_ids": ids, "attention_mask": np.ones_like(ids), "position_ids": np.broadcast_to(np.arange(20), ids.shape)}
    for entry in session.get_inputs():
        if entry.name.startswith("past"):
            feeds[entry.name] = np.zeros((2, KV_HEADS, 0, HEAD_SIZE), np.float32)
    names = {entry.name for entry in session.get_inputs()}
    return session.run(["logits"], {name: value for name, value in feeds.items() if name in names})[0]


def added_products(model):
    return [node.name for node in onnx.load(model).graph.node if node.name.endswith("_smooth")]


@pytest.mark.parametrize("form", FORMS)
def test_smooth_quant_is_folded_into_norms_and_gates(form, made, tokens, tmp_path, bitpress):
    out = tmp_path / "smooth.onnx"
    text = bitpress.ok("quantize", made / f"{form}.onnx", "-o", out, "--config", "none", "--smooth-quant", "0.5", "--tokens", tokens,
                       "--threads", "1")
    # The inputs of q, k and v; of gate and up; of down; of the head. Only what attention gives needs a product.
    assert f"{4 * LAYERS + 1} activations, {3 * LAYERS + 1} folded into what comes before, {LAYERS} by a Mul" in text
    assert len(added_products(out)) == LAYERS
    np.testing.assert_allclose(logits(out), logits(made / f"{form}.onnx"), rtol=1e-3, atol=2e-4)


@pytest.mark.parametrize("form", FORMS)
def test_awq_is_folded_too(form, made, tokens, tmp_path, bitpress):
    out = tmp_path / "awq.onnx"
    text = bitpress.ok("quantize", made / f"{form}.onnx", "-o", out, "--config", "INT4_WEIGHTS", "--finetune", "awq", "--tokens", tokens,
                       "--threads", "1")
    count, folded, inserted = (int(number) for number in re.search(
        r"awq: +(\d+) activations, (\d+) folded into what comes before, (\d+) by a Mul", text).groups())
    assert count == folded + inserted and inserted == len(added_products(out)) <= LAYERS
    assert np.isfinite(logits(out)).all()


@pytest.mark.parametrize("form", FORMS)
def test_both_halves_of_an_mlp_are_equalized(form, made, tmp_path, bitpress):
    out = tmp_path / "equal.onnx"
    text = bitpress.ok("quantize", made / f"{form}.onnx", "-o", out, "--config", "none", "--set", "equalize=on")
    assert f"{LAYERS} pairs of layers" in text
    np.testing.assert_allclose(logits(out), logits(made / f"{form}.onnx"), rtol=1e-3, atol=2e-4)
