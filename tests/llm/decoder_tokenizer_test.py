"""The tokenizers that the example makes of GGUF files, in the package `tokenizers` and in onnxruntime-genai."""

import json

import make_decoder
import onnxruntime_genai
import pytest
import tokenizers
from gguf_files import byte_characters, byte_level_tokenizer, save_gguf, sentence_piece_tokenizer
from tiny_decoders import TinyDecoder

TEXTS = ["the hen and then the ant", "it's in 1212  the\n\n\nend", "the<b>the", "t\u00e9a \u65e5\u672c", " the", ""]


def byte_pairs(word, values):
    """Byte-level BPE of a word: the earliest merge first."""
    characters, merges = byte_characters(), [tuple(merge.split(" ")) for merge in values["ggml.merges"]]
    pieces = [characters[byte] for byte in word.encode()]
    while True:
        pairs = [pair for pair in zip(pieces, pieces[1:]) if pair in merges]
        if not pairs:
            return pieces
        best = min(pairs, key=merges.index)
        at = list(zip(pieces, pieces[1:])).index(best)
        pieces[at:at + 2] = ["".join(best)]


def sentence_pieces(text, values):
    """SentencePiece's BPE: symbols of the user stay whole, then the best piece that two neighbours make, until none is left."""
    scores = {t: s for t, s, kind in zip(values["ggml.tokens"], values["ggml.scores"], values["ggml.token_type"]) if kind == 1}
    whole, pieces, rest = ["\n\n", "<b>"], [], text.replace(" ", "\u2581")
    while rest:
        found = next((symbol for symbol in whole if rest.startswith(symbol)), rest[0])
        pieces.append(found)
        rest = rest[len(found):]
    while True:
        joined = [(scores[a + b], -i) for i, (a, b) in enumerate(zip(pieces, pieces[1:])) if a + b in scores and not {a, b} & set(whole)]
        if not joined:
            break
        at = -max(joined)[1]
        pieces[at:at + 2] = [pieces[at] + pieces[at + 1]]
    known = set(values["ggml.tokens"])
    return [token for piece in pieces for token in ([piece] if piece in known else [f"<0x{byte:02X}>" for byte in piece.encode()])]


@pytest.fixture(scope="module", params=["bytes", "pieces"])
def made(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    values = byte_level_tokenizer() if request.param == "bytes" else sentence_piece_tokenizer()
    make_decoder.make(save_gguf(TinyDecoder("llama"), folder / "model.gguf", values), folder / "made", ["genai"])
    return request.param, values, folder / "made"


@pytest.mark.parametrize("text", TEXTS)
def test_tokens(made, text):
    kind, values, folder = made
    tokenizer = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    if kind == "pieces":
        expected = ["<s>", *sentence_pieces(text, values)]
    else:  # words as the expression of GPT-2 cuts these texts, digits alone
        words = {"the hen and then the ant": "the| hen| and| then| the| ant",
                 "it's in 1212  the\n\n\nend": "it|'s| in| |1|2|1|2| | the|\n\n|\n|end"}.get(text, text.replace(" ", "| ").lstrip("|"))
        expected = [piece for word in words.split("|") if word for piece in byte_pairs(word, values)]
    ids = [values["ggml.tokens"].index(token) for token in expected]
    assert tokenizer.encode(text).ids == ids
    assert tokenizer.decode(ids) == text
    client = onnxruntime_genai.Tokenizer(onnxruntime_genai.Model(str(folder)))
    client.update_options(add_special_tokens="true")
    assert [int(i) for i in client.encode(text)] == ids


def test_special_tokens_are_found_in_text(made):
    _, values, folder = made
    tokenizer = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    assert tokenizer.encode("the</s>", add_special_tokens=False).ids[-1] == values["ggml.eos_token_id"]
    config = json.loads((folder / "genai_config.json").read_text())["model"]
    assert (config["bos_token_id"], config["eos_token_id"]) == (values["ggml.bos_token_id"], values["ggml.eos_token_id"])
    template = json.loads((folder / "tokenizer_config.json").read_text()).get("chat_template")
    assert template == values.get("chat_template")
