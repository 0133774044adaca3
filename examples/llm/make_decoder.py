#!/usr/bin/env python3
"""Makes ONNX models of a decoder, in the three forms in which decoders are exported, and its tokenizer's files, without PyTorch.

    make_decoder.py SmolLM2-135M-Instruct.Q4_1.gguf OUT
    make_decoder.py CHECKPOINT OUT --forms genai          # a folder with config.json and *.safetensors

OUT then has plain.onnx, genai.onnx and attention.onnx, each with its weights in FORM.onnx.data, and tokenizer.json.
decoder_graph.py says what the forms are, decoder_weights.py which architectures it reads. Needs numpy and onnx, for GGUF files gguf.
"""

import argparse
import dataclasses
import sys
from pathlib import Path

from decoder_forms import FORMS
from decoder_tokenizer import write_tokenizer
from decoder_weights import DecoderError, open_decoder
from genai_folder import write_config


def make(source: Path, out: Path, forms=tuple(FORMS), context: int = 0) -> None:
    """Writes OUT/FORM.onnx for each form, and the tokenizer's files. `context` is the most tokens that the rotary tables are for; 0: those
    that the decoder was trained for. Raises DecoderError.
    """
    decoder = open_decoder(source)
    if context:
        decoder = dataclasses.replace(decoder, context=min(context, decoder.context))
    out.mkdir(parents=True, exist_ok=True)
    write_tokenizer(source, out)
    for form in forms:
        FORMS[form](decoder, out / f"{form}.onnx").write()
    if "genai" in forms:
        write_config(decoder, source, out, "genai.onnx")


def main() -> int:
    parser = argparse.ArgumentParser(description="Make ONNX models of a decoder.")
    parser.add_argument("source", type=Path, metavar="WEIGHTS", help="a .gguf file, or a folder with config.json and *.safetensors")
    parser.add_argument("out", type=Path, metavar="OUT", help="the folder to write")
    parser.add_argument("--forms", nargs="+", choices=FORMS, default=list(FORMS), help="(default: all)")
    parser.add_argument("--context", type=int, default=0, metavar="N",
                        help="tokens at most, which the rotary tables have rows for (default: what the decoder was trained for)")
    arguments = parser.parse_args()
    try:
        make(arguments.source, arguments.out, arguments.forms, arguments.context)
    except (DecoderError, OSError) as error:
        print(f"make_decoder: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
