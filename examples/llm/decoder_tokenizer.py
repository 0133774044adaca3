"""Writes tokenizer.json and tokenizer_config.json of a decoder, for the package `tokenizers` and for onnxruntime-genai.

A folder of safetensors has both, and they are copied. A GGUF file has the vocabulary in llama.cpp's words: byte-level BPE ("gpt2")
or SentencePiece's BPE ("llama"), whose merges follow from the pieces and their scores.
"""

import json
import shutil
from pathlib import Path

from decoder_weights import DecoderError

COPIED = ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "chat_template.jinja")
# llama.cpp's kinds of tokens.
NORMAL, CONTROL, USER_DEFINED, BYTE = 1, 3, 4, 6
SPACE = "\u2581"  # stands for a space in SentencePiece's pieces
DIGITS = {"type": "Digits", "individual_digits": True}
QWEN_WORDS = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")


def _byte_level(use_regex: bool) -> dict:
    return {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": use_regex}


# How text is cut into words before bytes are merged, by llama.cpp's name, and the class that GenAI's client knows such a tokenizer by.
WORDS = {
    "gpt-2": ([_byte_level(True)], "GPT2Tokenizer"),
    "smollm": ([DIGITS, _byte_level(True)], "GPT2Tokenizer"),
    "qwen2": ([{"type": "Split", "pattern": {"Regex": QWEN_WORDS}, "behavior": "Isolated", "invert": False}, _byte_level(False)],
              "Qwen2Tokenizer"),
}


def write_tokenizer(source: Path, out: Path) -> None:
    """Writes the files for a .gguf file, or copies those of a folder. Raises DecoderError."""
    if source.is_dir():
        for name in COPIED:
            if (source / name).is_file():
                shutil.copyfile(source / name, out / name)
        return
    import gguf

    fields = {name.removeprefix("tokenizer."): field for name, field in gguf.GGUFReader(source).fields.items()
              if name.startswith("tokenizer.")}
    if "ggml.model" not in fields:
        return  # weights alone
    values = {name: field.contents() for name, field in fields.items()}
    kind = values["ggml.model"]
    if kind == "gpt2":
        tokenizer, config = _byte_level_bpe(values)
    elif kind == "llama":
        tokenizer, config = _sentence_piece(values)
    else:
        raise DecoderError(f"{source}: the tokenizer '{kind}' is neither gpt2 nor llama")
    if values.get("ggml.add_bos_token"):
        tokenizer["post_processor"] = _begins_with(values["ggml.tokens"][values["ggml.bos_token_id"]], values["ggml.bos_token_id"])
    _write_json(out / "tokenizer.json", tokenizer)
    _write_json(out / "tokenizer_config.json", config | _special_tokens(values))


def special_ids(source: Path) -> dict:
    """The numbers of the tokens `bos`, `eos` (or a list of them) and `pad`, as far as the source says."""
    if source.is_dir():
        ids = {}
        for name in ("config.json", "generation_config.json"):
            if (source / name).is_file():
                ids |= json.loads((source / name).read_text(encoding="utf-8"))
        return {key: ids[f"{key}_token_id"] for key in ("bos", "eos", "pad") if ids.get(f"{key}_token_id") is not None}
    import gguf

    fields = gguf.GGUFReader(source).fields
    names = {"bos": "bos_token_id", "eos": "eos_token_id", "pad": "padding_token_id"}
    ids = {key: fields[f"tokenizer.ggml.{name}"].contents() for key, name in names.items() if f"tokenizer.ggml.{name}" in fields}
    turn = fields.get("tokenizer.ggml.eot_token_id")
    if turn is not None and turn.contents() != ids.get("eos"):
        ids["eos"] = [ids["eos"], turn.contents()]
    return ids


def _write_json(path: Path, content: dict) -> None:
    path.write_text(json.dumps(content, ensure_ascii=False, indent=1), encoding="utf-8")


def _special_tokens(values: dict) -> dict:
    tokens = values["ggml.tokens"]
    config = {"add_bos_token": bool(values.get("ggml.add_bos_token", False)), "clean_up_tokenization_spaces": False,
              "model_max_length": 2**31 - 1}
    for key, name in (("bos", "bos_token_id"), ("eos", "eos_token_id"), ("pad", "padding_token_id"), ("unk", "unknown_token_id")):
        if f"ggml.{name}" in values:
            config[f"{key}_token"] = tokens[values[f"ggml.{name}"]]
    if "chat_template" in values:
        config["chat_template"] = values["chat_template"]
    return config


def _added_tokens(values: dict) -> list[dict]:
    """Tokens that are found in text before anything else is done with it."""
    return [{"id": i, "content": token, "single_word": False, "lstrip": False, "rstrip": False, "normalized": kind == USER_DEFINED,
             "special": kind == CONTROL}
            for i, (token, kind) in enumerate(zip(values["ggml.tokens"], values["ggml.token_type"])) if kind in (CONTROL, USER_DEFINED)]


def _begins_with(token: str, number: int) -> dict:
    special, text = {"SpecialToken": {"id": token, "type_id": 0}}, [{"Sequence": {"id": name, "type_id": 0}} for name in "AB"]
    return {"type": "TemplateProcessing", "single": [special, text[0]], "pair": [special, text[0], special, text[1]],
            "special_tokens": {token: {"id": token, "ids": [number], "tokens": [token]}}}


def _tokenizer(values: dict, model: dict, **parts) -> dict:
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": _added_tokens(values), "normalizer": None,
            "pre_tokenizer": None, "post_processor": None, "decoder": None, **parts,
            "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None, "end_of_word_suffix": None,
                      "fuse_unk": False, "byte_fallback": False, "vocab": {token: i for i, token in enumerate(values["ggml.tokens"])},
                      **model}}


def _byte_level_bpe(values: dict) -> tuple[dict, dict]:
    words = values.get("ggml.pre", "gpt-2")
    if words not in WORDS:
        raise DecoderError(f"the tokenizer cuts words like '{words}', which is not one of {', '.join(WORDS)}")
    steps, name = WORDS[words]
    merges = [merge.split(" ") for merge in values["ggml.merges"]]
    tokenizer = _tokenizer(values, {"merges": merges}, pre_tokenizer={"type": "Sequence", "pretokenizers": steps},
                           decoder=_byte_level(True))
    return tokenizer, {"tokenizer_class": name}


def _sentence_piece(values: dict) -> tuple[dict, dict]:
    has_prefix = values.get("ggml.add_space_prefix", True)
    replace = {"type": "Replace", "pattern": {"String": " "}, "content": SPACE}
    steps = [{"type": "Prepend", "prepend": SPACE}, replace] if has_prefix else [replace]
    decoder = [{"type": "Replace", "pattern": {"String": SPACE}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"}]
    if has_prefix:
        decoder.append({"type": "Strip", "content": " ", "start": 1, "stop": 0})
    unknown = values["ggml.tokens"][values.get("ggml.unknown_token_id", 0)]
    tokenizer = _tokenizer(
        values, {"merges": merges_of_pieces(values), "unk_token": unknown, "fuse_unk": True, "byte_fallback": True},
        normalizer={"type": "Sequence", "normalizers": steps}, decoder={"type": "Sequence", "decoders": decoder})
    return tokenizer, {"tokenizer_class": "LlamaTokenizer" if has_prefix else "GemmaTokenizer"}


def merges_of_pieces(values: dict) -> list[list[str]]:
    """All pairs of pieces that make up a piece, the best pieces first, as SentencePiece joins them."""
    scores = {token: score for token, score, kind in zip(values["ggml.tokens"], values["ggml.scores"], values["ggml.token_type"])
              if kind == NORMAL}
    merges = []
    for token, score in scores.items():
        for cut in range(1, len(token)):
            left, right = token[:cut], token[cut:]
            if left in scores and right in scores:
                merges.append((-score, cut, left, right))
    merges.sort(key=lambda merge: merge[:2])
    return [[left, right] for _, _, left, right in merges]
