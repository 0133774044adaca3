"""Texts and token ids as samples: bitpress.Text, bitpress.Tokens, and --text of the package's command."""

import json
import os
import subprocess
import sys

import decoder
import models
import numpy as np
import pytest
from locations import PACKAGE

import bitpress

WORDS = [f"w{i}" for i in range(decoder.VOCABULARY - 3)]


@pytest.fixture
def float_path(tmp_path):
    return models.save(decoder.make(), tmp_path / "decoder.onnx")


@pytest.fixture
def tokenizer(tmp_path):
    """A tokenizer.json of words; id 0 is for other words."""
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps({
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None,
        "pre_tokenizer": {"type": "Whitespace"}, "post_processor": None, "decoder": None,
        "model": {"type": "WordLevel", "unk_token": "?", "vocab": {"?": 0, **{word: i + 1 for i, word in enumerate(WORDS)}}}}))
    return path


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text(" ".join(WORDS[i % len(WORDS)] for i in range(100)) + " caf\u00e9", encoding="latin-1")
    return path


@pytest.mark.quick
def test_a_text_is_its_tokens(float_path, text, tokenizer):
    ids = np.array([i % len(WORDS) + 1 for i in range(100)] + [0])
    by_text = bitpress.evaluate(float_path, bitpress.Text(text, tokenizer, sequence=20, encoding="latin-1"))
    by_tokens = bitpress.evaluate(float_path, bitpress.Tokens(ids, sequence=20))
    assert by_text.num_samples == 5
    assert by_text.language.perplexity == by_tokens.language.perplexity > 1
    assert by_text.language.reference_perplexity is None
    assert by_text.language.decoding.num_tokens == 10  # no position beyond those of a sample


def test_special_tokens_stand_around_each_sample(float_path, text, tokenizer):
    special = json.loads(tokenizer.read_text())
    special["added_tokens"] = [{"id": i, "content": word, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
                                "special": True} for i, word in ((59, "<s>"), (60, "</s>"))]
    special["post_processor"] = {
        "type": "TemplateProcessing", "pair": [],
        "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
                   {"SpecialToken": {"id": "</s>", "type_id": 0}}],
        "special_tokens": {word: {"id": word, "ids": [i], "tokens": [word]} for i, word in ((59, "<s>"), (60, "</s>"))}}
    tokenizer.write_text(json.dumps(special))
    data = bitpress.Text(text, tokenizer, sequence=22, encoding="latin-1")
    assert (data.prefix, data.suffix) == ([59], [60])
    rows = np.array([i % len(WORDS) + 1 for i in range(100)]).reshape(5, 20)
    rows = np.concatenate([np.full((5, 1), 59), rows, np.full((5, 1), 60)], axis=1)
    wanted = bitpress.evaluate(float_path, bitpress.Tokens(rows))
    assert bitpress.evaluate(float_path, data).language.perplexity == wanted.language.perplexity
    result = run("evaluate", float_path, "--text", text, "--tokenizer", tokenizer, "--encoding", "latin-1", "--sequence", 22)
    assert f"{wanted.language.perplexity:.2f} of 105 tokens" in result.stdout


def test_functions_take_tokens(float_path, tmp_path):
    np.save(tmp_path / "ids.npy", decoder.token_ids(200).astype(np.int32))
    data = bitpress.Tokens(tmp_path / "ids.npy", sequence=25)
    path = tmp_path / "int8.onnx"
    bitpress.quantize(float_path, path, "INT8", data)
    report = bitpress.evaluate(path, data, float_path)
    assert 0 < report.language.mean_divergence < 1 and report.num_samples == 8
    assert json.loads(report.to_json())["language"]["agreement"] == report.language.agreement
    assert bitpress.evaluate(float_path, data, samples=3).num_samples == 3
    assert bitpress.check(path, data).is_run


def test_wrong_texts_are_named(float_path, text, tokenizer, tmp_path):
    with pytest.raises(bitpress.InvalidArgumentError, match="byte .* is not utf-8; say which encoding"):
        bitpress.Text([text], tokenizer)
    with pytest.raises(bitpress.InvalidArgumentError, match="there is no encoding 'utf-99'"):
        bitpress.Text([text], tokenizer, encoding="utf-99")
    with pytest.raises(bitpress.MissingFileError, match="tokenizer"):
        bitpress.Text([text], tmp_path / "missing.json")
    with pytest.raises(bitpress.InvalidArgumentError, match="no tokenizer.json"):
        bitpress.Text([text], text)
    with pytest.raises(bitpress.ArgumentTypeError, match="paths of files"):
        bitpress.Text([1], tokenizer)
    with pytest.raises(bitpress.InvalidArgumentError, match="token ids are integers"):
        bitpress.Tokens(np.zeros(4, np.float32))
    with pytest.raises(bitpress.InvalidArgumentError, match="sequence=1"):
        bitpress.Tokens([1, 2], sequence=1)
    with pytest.raises(bitpress.ArgumentTypeError, match="tokens and texts have no labels"):
        bitpress.evaluate(float_path, bitpress.Tokens([1, 2]), labels=[1])


def run(*arguments):
    environment = {**os.environ, "PYTHONPATH": str(PACKAGE)}
    return subprocess.run([sys.executable, "-m", "bitpress", *map(str, arguments)], env=environment, capture_output=True, text=True, check=False)


def test_the_command_reads_texts(float_path, text, tokenizer, tmp_path):
    result = run("evaluate", float_path, "--text", text, text, "--tokenizer", tokenizer, "--encoding", "latin-1", "--sequence", 20,
                 "--json", tmp_path / "report.json")
    assert result.returncode == 0, result.stderr
    assert json.loads((tmp_path / "report.json").read_text())["num_samples"] == 10
    result = run("evaluate", float_path, "--text", text, "--tokenizer", tokenizer)
    assert result.returncode == 1 and "is not utf-8; say which encoding" in result.stderr and len(result.stderr.splitlines()) == 1
