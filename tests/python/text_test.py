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
from onnx import TensorProto, helper, numpy_helper

import bitpress
from bitpress._text import write_lines

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


def test_lines_are_sentences_of_an_encoder(tokenizer, tmp_path):
    """The samples are the lines with their special tokens, cut where the tokenizer says, and no padding."""
    special = json.loads(tokenizer.read_text())
    special["truncation"] = {"direction": "Right", "max_length": 4, "strategy": "LongestFirst", "stride": 0}
    tokenizer.write_text(json.dumps(special))
    lines = tmp_path / "lines.txt"
    lines.write_text("w1 w2 w3\n\nw4\nw5 w6 w7 w8 w9\n")
    weights = np.random.default_rng(1).standard_normal((decoder.VOCABULARY, 8)).astype(np.float32)
    nodes = [helper.make_node("Gather", ["table", "input_ids"], ["words"]), helper.make_node("ReduceMean", ["words"], ["sentence_embedding"], axes=[1], keepdims=0)]
    inputs = [helper.make_tensor_value_info("input_ids", TensorProto.INT64, ["batch", "length"])]
    outputs = [helper.make_tensor_value_info("sentence_embedding", TensorProto.FLOAT, ["batch", 8])]
    graph = helper.make_graph(nodes, "encoder", inputs, outputs, [numpy_helper.from_array(weights, "table")])
    model = models.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "encoder.onnx")
    command = ["evaluate", model, "--reference", model, "--text", lines, "--lines", "--tokenizer", tokenizer, "--json", tmp_path / "report.json"]
    result = run(*command)
    assert result.returncode == 0, result.stderr
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["num_samples"] == 3 and report["outputs"][0]["num_values"] == 24
    write_lines([lines], tokenizer, "utf-8", tmp_path / "written")
    ids = [np.load(path)["input_ids"].tolist() for path in sorted((tmp_path / "written").glob("*.npz"))]
    assert ids == [[[2, 3, 4]], [[5]], [[6, 7, 8, 9]]]
    assert (tmp_path / "written" / "texts.csv").read_text().split() == ["file,text", "000000.npz,w1", "w2", "w3", "000001.npz,w4", "000002.npz,w5", "w6", "w7", "w8", "w9"]
    result = run(*command, "--sequence", 8)
    assert result.returncode == 1 and "with --lines each line is one" in result.stderr
    lines.write_text("\n \n")
    result = run(*command)
    assert result.returncode == 1 and "no line that is not empty" in result.stderr
