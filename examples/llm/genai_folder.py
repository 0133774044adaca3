"""Writes folders that ONNX Runtime GenAI (`onnxruntime-genai` on PyPI) opens: a model in the form `genai`, its tokenizer's files, and
genai_config.json, which says what inputs and sizes the model has.
"""

import json
import os
import shutil
from pathlib import Path

import onnx
from decoder_tokenizer import COPIED, special_ids
from decoder_weights import Decoder

CONFIG = "genai_config.json"
# GenAI's names of architectures, where they differ.
MODEL_TYPES = {"gemma3": "gemma3_text"}


def write_config(decoder: Decoder, source: Path, out: Path, model_name: str) -> None:
    """Writes OUT/genai_config.json for the decoder that was read from `source`."""
    ids = special_ids(source)
    end = ids.get("eos", 0)
    config = {
        "model": {
            "type": MODEL_TYPES.get(decoder.architecture, decoder.architecture),
            "bos_token_id": ids.get("bos", 0), "eos_token_id": end, "pad_token_id": ids.get("pad", end if isinstance(end, int) else end[0]),
            "context_length": decoder.context, "vocab_size": decoder.vocabulary,
            "decoder": {
                "session_options": {"log_id": "onnxruntime-genai", "provider_options": []},
                "filename": model_name, "head_size": decoder.head_size, "hidden_size": decoder.hidden_size,
                "inputs": {"input_ids": "input_ids", "attention_mask": "attention_mask", "past_key_names": "past_key_values.%d.key",
                           "past_value_names": "past_key_values.%d.value"},
                "outputs": {"logits": "logits", "present_key_names": "present.%d.key", "present_value_names": "present.%d.value"},
                "num_attention_heads": decoder.heads, "num_hidden_layers": decoder.layers, "num_key_value_heads": decoder.kv_heads,
            },
        },
        # The whole cache is allocated for the length that a conversation may have, and grows in place.
        "search": {"do_sample": False, "max_length": decoder.context, "min_length": 0, "num_beams": 1, "num_return_sequences": 1,
                   "past_present_share_buffer": True, "repetition_penalty": 1.0, "temperature": 1.0, "top_k": 50, "top_p": 1.0},
    }
    (out / CONFIG).write_text(json.dumps(config, indent=2), encoding="utf-8")


def holds_codes(model: Path) -> bool:
    """Returns whether the caches of the model are integers."""
    inputs = onnx.load(model, load_external_data=False).graph.input
    return any(entry.name.startswith("past_key_values.") and entry.type.tensor_type.elem_type != onnx.TensorProto.FLOAT
               for entry in inputs)


def write_folder(made: Path, model: Path, out: Path, operators: Path | None = None) -> None:
    """Makes OUT a folder for GenAI with a quantized model: `made` is what make_decoder.py wrote. The model is moved into OUT, unless it
    is there. `operators` is Bitpress's operator library, which GenAI then loads with the model.
    """
    out.mkdir(parents=True, exist_ok=True)
    for name in COPIED:
        if (made / name).is_file():
            shutil.copyfile(made / name, out / name)
    if model.parent.resolve() != out.resolve():
        for file in (model, model.with_name(model.name + ".data")):
            if file.is_file():
                os.replace(file, out / file.name)
    config = json.loads((made / CONFIG).read_text(encoding="utf-8"))
    config["model"]["decoder"]["filename"] = model.name
    if holds_codes(out / model.name):
        # On the CPU, GenAI allocates caches of integers anew for each token, as its own model builder has it.
        config["search"]["past_present_share_buffer"] = False
    if operators:
        shutil.copyfile(operators, out / operators.name)
        config["model"]["decoder"]["session_options"]["custom_ops_library"] = operators.name
    (out / CONFIG).write_text(json.dumps(config, indent=2), encoding="utf-8")
