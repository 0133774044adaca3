"""The folders that the example writes: ONNX Runtime GenAI generates from them what a loop in plain ONNX Runtime generates."""

import json
import sys

import numpy as np
import onnxruntime
import onnxruntime_genai as og
import pytest
from locations import ROOT
from tiny_decoders import HEAD_SIZE, KV_HEADS, LAYERS, TinyDecoder, save_tokenizer

sys.path.insert(0, str(ROOT / "examples" / "llm"))
import genai_folder  # noqa: E402
import make_decoder  # noqa: E402

PROMPT, NEW_TOKENS = "What a quantizer loses", 20


def greedy_genai(folder):
    """The tokens of the prompt and those that the client generates, and the logits of the prompt."""
    model = og.Model(str(folder))
    ids = [int(i) for i in og.Tokenizer(model).encode(PROMPT)]
    parameters = og.GeneratorParams(model)
    parameters.set_search_options(max_length=len(ids) + NEW_TOKENS, do_sample=False)
    generator = og.Generator(model, parameters)
    generator.append_tokens(ids)
    logits = generator.get_output("logits")[0]
    while not generator.is_done():
        generator.generate_next_token()
    return ids, [int(i) for i in generator.get_sequence(0)[len(ids):]], logits


def greedy_plain(path, ids, operators, end):
    """The same with nothing but a session."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    if operators:
        options.register_custom_ops_library(str(operators))
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    names = [f"{i}.{kind}" for i in range(LAYERS) for kind in ("key", "value")]
    past = {name: np.zeros((1, KV_HEADS, 0, HEAD_SIZE), np.float32) for name in names}
    ids, new = np.array(ids), []
    first = None
    while len(new) < NEW_TOKENS:
        total = past["0.key"].shape[2] + len(ids)
        logits, *present = session.run(["logits", *(f"present.{name}" for name in names)], {
            "input_ids": ids[None], "attention_mask": np.ones((1, total), np.int64), **{f"past_key_values.{k}": v for k, v in past.items()}})
        first = logits[0] if first is None else first
        past = dict(zip(names, present))
        ids = logits[0, -1:].argmax(-1)
        if ids[0] == end:  # which the client leaves out
            break
        new.append(int(ids[0]))
    return new, first


@pytest.fixture(scope="module", params=["llama", "qwen2", "qwen3", "gemma3_text"])
def made(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    source = TinyDecoder(request.param).save_checkpoint(folder / "checkpoint")
    save_tokenizer(source)
    make_decoder.make(source, folder / "made", ["genai"])
    return folder / "made"


def compare(folder, name, operators=None):
    ids, text, logits = greedy_genai(folder)
    assert ids == list(PROMPT.encode())
    expected, expected_logits = greedy_plain(folder / name, ids, operators, end=257)
    assert text == expected
    np.testing.assert_allclose(logits, expected_logits, atol=1e-4)


def test_float_model(made):
    compare(made, "genai.onnx")


@pytest.mark.parametrize("arguments, with_operators", [
    (["--config", "MX6", "--activations", "none", "--target", "bitpress"], True),
    (["--config", "MX6", "--activations", "none", "--target", "bitpress"], False),
    (["--config", "MXFP4E2M1", "--activations", "none"], False),
    (["--config", "MXINT8"], True),
    (["--config", "INT4_WEIGHTS", "--target", "onnxruntime"], False),
    (["--config", "INT8_DYNAMIC"], False),
], ids=["mx6", "mx6-without-operators", "mxfp4", "mxint8-both-sides", "int4", "int8-dynamic"])
def test_quantized_model(made, arguments, with_operators, bitpress, operator_library, tmp_path):
    bitpress.ok("quantize", made / "genai.onnx", "-o", tmp_path / "model.onnx", *arguments)
    operators = operator_library if with_operators else None
    genai_folder.write_folder(made, tmp_path / "model.onnx", tmp_path / "folder", operators)
    compare(tmp_path / "folder", "model.onnx", operators)


def test_folder_is_complete(made, tmp_path):
    (tmp_path / "model.onnx").write_bytes((made / "genai.onnx").read_bytes())
    genai_folder.write_folder(made, tmp_path / "model.onnx", tmp_path / "folder")
    assert {file.name for file in (tmp_path / "folder").iterdir()} >= {"genai_config.json", "model.onnx", "tokenizer.json",
                                                                       "tokenizer_config.json"}
    config = json.loads((tmp_path / "folder" / "genai_config.json").read_text())
    assert config["model"]["decoder"]["filename"] == "model.onnx"
    assert "custom_ops_library" not in config["model"]["decoder"]["session_options"]
