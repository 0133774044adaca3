"""The folders that the example writes: ONNX Runtime GenAI generates from them what a loop in plain ONNX Runtime generates."""

import functools
import json

import clients
import genai_folder
import make_decoder
import numpy as np
import onnx
import onnxruntime_genai
import pytest
from gguf_files import byte_characters
from tiny_decoders import END, TinyDecoder, save_tokenizer

PROMPT, NEW_TOKENS = "What a quantizer loses", 20


@pytest.fixture(scope="module")
def make(tmp_path_factory):
    """make(architecture) returns the folder of a decoder in the form `genai`."""

    @functools.cache
    def make_once(architecture):
        folder = tmp_path_factory.mktemp(architecture)
        source = TinyDecoder(architecture).save_checkpoint(folder / "checkpoint")
        save_tokenizer(source, byte_characters())
        make_decoder.make(source, folder / "made", ["genai"])
        return folder / "made"

    return make_once


@pytest.fixture
def made(make, architecture):
    return make(architecture)


# The two whose graphs differ most: the second one has windows, norms of heads, and one constant for the embedding and the last product.
two_kinds = pytest.mark.parametrize("architecture", ["llama", "gemma3_text"])


def compare(folder, name, operators=None):
    ids = [int(i) for i in onnxruntime_genai.Tokenizer(onnxruntime_genai.Model(str(folder))).encode(PROMPT)]
    assert ids == list(PROMPT.encode())
    theirs = clients.greedy_genai(folder, ids, NEW_TOKENS)
    ours = clients.greedy_plain(folder / name, ids, NEW_TOKENS, {END}, operators)
    assert theirs.tokens == ours.tokens
    np.testing.assert_allclose(theirs.logits, ours.logits, atol=1e-4)


@pytest.mark.parametrize("architecture", ["llama", "qwen2", "qwen3", "gemma3_text"])
def test_float_model(made):
    compare(made, "genai.onnx")


FORMS = {
    "mx6": (["--config", "MX6", "--activations", "none", "--target", "bitpress"], True),
    "mx6-without-operators": (["--config", "MX6", "--activations", "none", "--target", "bitpress"], False),
    "mxfp4": (["--config", "MXFP4E2M1", "--activations", "none"], False),
    "mxint8-both-sides": (["--config", "MXINT8"], True),
    "int4": (["--config", "INT4_WEIGHTS", "--target", "onnxruntime"], False),
    "int8-dynamic": (["--config", "INT8_DYNAMIC"], False),
    "lm-4bit": (["--config", "LM_4BIT", "--target", "onnxruntime"], False),
}


# The biases of qwen2 stand behind products, and the norms of qwen3 in front of the caches.
@pytest.mark.parametrize("architecture, arguments, with_operators", [
    pytest.param(architecture, *FORMS[form], id=f"{architecture}-{form}")
    for architecture, forms in (("llama", FORMS), ("gemma3_text", ("mx6", "mxint8-both-sides", "int4", "lm-4bit")),
                                ("qwen2", ("mx6", "int8-dynamic")), ("qwen3", ("mxfp4",))) for form in forms])
def test_quantized_model(made, arguments, with_operators, bitpress, operator_library, tmp_path):
    bitpress.ok("quantize", made / "genai.onnx", "-o", tmp_path / "model.onnx", *arguments)
    operators = operator_library if with_operators else None
    genai_folder.write_folder(made, tmp_path / "model.onnx", tmp_path / "folder", operators)
    compare(tmp_path / "folder", "model.onnx", operators)


@pytest.mark.parametrize("architecture, arguments", [
    ("llama", ["kv_cache=int8"]), ("llama", ["kv_cache=int8", "kv_cache_granularity=per_tensor"]), ("llama", ["kv_cache=int4"]),
    ("gemma3_text", ["kv_cache=int8"]), ("qwen3", ["kv_cache=int4"]),
], ids=["int8", "int8-per-tensor", "int4", "int8-with-windows", "int4-behind-norms"])
def test_caches_of_integers(made, arguments, bitpress, tmp_path):
    tokens = np.random.default_rng(3).integers(0, 200, (4, 24))
    np.save(tmp_path / "tokens.npy", tokens)
    settings = [word for argument in arguments for word in ("--set", argument)]
    bitpress.ok("quantize", made / "genai.onnx", "-o", tmp_path / "model.onnx", "--config", "none", *settings, "--tokens",
                tmp_path / "tokens.npy")
    genai_folder.write_folder(made, tmp_path / "model.onnx", tmp_path / "folder")
    assert genai_folder.holds_codes(tmp_path / "folder" / "model.onnx")
    compare(tmp_path / "folder", "model.onnx")
    bitpress.ok("evaluate", tmp_path / "folder" / "model.onnx", "--reference", made / "genai.onnx", "--tokens", tmp_path / "tokens.npy",
                "--json", tmp_path / "report.json")
    language = json.loads((tmp_path / "report.json").read_text())["language"]
    assert 0 < language["mean_divergence"] < (0.2 if "int4" in arguments[0] else 0.01)
    assert language["decoding"]["num_tokens"] == 12


@two_kinds
def test_operators_get_no_attributes_of_newer_versions(made, bitpress, tmp_path):
    # ONNX Runtime's optimizer writes all attributes that its version knows, and older versions refuse those that they do not know.
    bitpress.ok("quantize", made / "genai.onnx", "-o", tmp_path / "model.onnx", "--config", "INT8_DYNAMIC")
    given, found = ({node.name: {attribute.name for attribute in node.attribute} for node in onnx.load(path).graph.node
                     if node.op_type == "GroupQueryAttention"} for path in (made / "genai.onnx", tmp_path / "model.onnx"))
    assert found == given and given


@two_kinds
def test_lm_4bit_gives_eight_bits_where_decoders_lose_most(made, bitpress, tmp_path):
    bitpress.ok("plan", made / "genai.onnx", "--config", "LM_4BIT", "-o", tmp_path / "plan.json")
    formats = {}
    for row in json.loads((tmp_path / "plan.json").read_text())["tensors"]:
        if row["role"] == "weight":
            formats.setdefault(row["uses"][0]["role"], set()).add(row["format"])
    eight = {"embedding", "lm_head", "attn_v", "mlp_down"}
    assert formats == {role: {"uint8"} if role in eight else {"uint4"} for role in formats}
    assert set(formats) == eight | {"attn_q", "attn_k", "attn_o", "mlp_gate", "mlp_up"}


@two_kinds
def test_folder_is_complete(made, tmp_path):
    (tmp_path / "model.onnx").write_bytes((made / "genai.onnx").read_bytes())
    genai_folder.write_folder(made, tmp_path / "model.onnx", tmp_path / "folder")
    assert {file.name for file in (tmp_path / "folder").iterdir()} >= {"genai_config.json", "model.onnx", "tokenizer.json",
                                                                       "tokenizer_config.json"}
    config = json.loads((tmp_path / "folder" / "genai_config.json").read_text())
    assert config["model"]["decoder"]["filename"] == "model.onnx"
    assert "custom_ops_library" not in config["model"]["decoder"]["session_options"]
