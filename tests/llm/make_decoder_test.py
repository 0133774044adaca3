"""examples/llm/make_decoder.py: each architecture in each form computes what a forward pass in NumPy computes."""

import sys

import decoder_weights
import make_decoder
import numpy as np
import onnx
import onnxruntime
import pytest
from gguf_files import save_gguf
from tiny_decoders import ARCHITECTURES, HEAD_SIZE, KV_HEADS, LAYERS, VOCABULARY, TinyDecoder

IDS = np.random.default_rng(0).integers(0, 256, 12)  # more than a window


def run(session, ids, past=None, past_length=0):
    """Logits, and the caches of all layers."""
    total = past_length + len(ids)
    feeds = {"input_ids": ids[None], "attention_mask": np.ones((1, total), np.int64), "position_ids": np.arange(past_length, total)[None]}
    names = [f"{i}.{kind}" for i in range(LAYERS) for kind in ("key", "value")]
    for name in names:
        feeds[f"past_key_values.{name}"] = past[name] if past else np.zeros((1, KV_HEADS, 0, HEAD_SIZE), np.float32)
    known = {entry.name for entry in session.get_inputs()}
    logits, *present = session.run(["logits", *(f"present.{name}" for name in names)], {k: v for k, v in feeds.items() if k in known})
    return logits[0], dict(zip(names, present))


@pytest.fixture(scope="module", params=ARCHITECTURES)
def tiny(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    decoder = TinyDecoder(request.param)
    make_decoder.make(decoder.save_checkpoint(folder / "checkpoint"), folder / "made")
    return decoder, folder / "made"


@pytest.mark.parametrize("form", ["plain", "genai", "attention"])
def test_form_computes_the_network(tiny, form):
    decoder, made = tiny
    if form != "genai":  # whose SimplifiedLayerNormalization ONNX Runtime alone knows
        onnx.checker.check_model(str(made / f"{form}.onnx"), full_check=True)
    session = onnxruntime.InferenceSession(str(made / f"{form}.onnx"), providers=["CPUExecutionProvider"])
    expected = decoder.logits(IDS)
    logits, _ = run(session, IDS)
    np.testing.assert_allclose(logits, expected, atol=2e-5)
    # In parts: a prompt, then one token after another from the caches.
    _, past = run(session, IDS[:7])
    for t in range(7, len(IDS)):
        logits, past = run(session, IDS[t:t + 1], past, t)
        np.testing.assert_allclose(logits[0], expected[t], atol=2e-5)


@pytest.mark.parametrize("kind", ARCHITECTURES)
def test_gguf_file_is_read_as_the_checkpoint_is(kind, tmp_path):
    decoder = TinyDecoder(kind)
    checkpoint = decoder_weights.open_decoder(decoder.save_checkpoint(tmp_path / "checkpoint"))
    stored = decoder_weights.open_decoder(save_gguf(decoder, tmp_path / "model.gguf"))
    for field in ("layers", "hidden_size", "feed_forward_size", "heads", "kv_heads", "head_size", "vocabulary", "context", "rope_bases",
                  "windows", "activation", "embedding_scale", "has_attention_bias", "has_head_norms", "has_post_norms", "is_tied"):
        assert getattr(stored, field) == getattr(checkpoint, field), field
    assert stored.vocabulary == VOCABULARY
    for name in decoder.weights:
        np.testing.assert_array_equal(stored.tensor(name), checkpoint.tensor(name), name)


def test_bfloat16_is_read(tmp_path):
    decoder = TinyDecoder("llama")
    checkpoint = decoder_weights.open_decoder(decoder.save_checkpoint(tmp_path / "checkpoint", is_bfloat16=True))
    for name, values in decoder.weights.items():
        np.testing.assert_array_equal(checkpoint.tensor(name), (values.view(np.uint32) & 0xFFFF0000).view(np.float32), name)


def test_rotary_tables_have_as_many_rows_as_asked_for(tmp_path):
    make_decoder.make(TinyDecoder("llama").save_checkpoint(tmp_path / "checkpoint"), tmp_path / "made", ["genai"], context=16)
    model = onnx.load(tmp_path / "made" / "genai.onnx")
    assert {tuple(tensor.dims) for tensor in model.graph.initializer if tensor.name in ("cos_cache", "sin_cache")} == {(16, HEAD_SIZE // 2)}
    session = onnxruntime.InferenceSession(str(tmp_path / "made" / "genai.onnx"), providers=["CPUExecutionProvider"])
    np.testing.assert_allclose(run(session, IDS)[0], TinyDecoder("llama").logits(IDS), atol=2e-5)


@pytest.mark.parametrize("change, message", [
    ({"model_type": "rwkv"}, "the architecture 'rwkv' is not one of"),
    ({"rope_scaling": {"rope_type": "llama3"}}, "scaled rotary frequencies are not implemented"),
])
def test_what_is_not_implemented_is_an_error(change, message, tmp_path, monkeypatch, capsys):
    decoder = TinyDecoder("llama")
    decoder.traits = change
    folder = decoder.save_checkpoint(tmp_path / "checkpoint")
    monkeypatch.setattr(sys, "argv", ["make_decoder.py", str(folder), str(tmp_path / "out")])
    assert make_decoder.main() == 1
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
