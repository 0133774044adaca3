#!/usr/bin/env python3
"""A chat in the terminal with a decoder in a folder of ONNX Runtime GenAI.

    chat.py build/llm/smollm2/MX6
    chat.py build/llm/smollm2/MX6 --ask "What is a quantizer?"

An empty line or Ctrl-D ends it. A model without a chat template continues what is typed.
"""

import argparse
import json
import sys
from pathlib import Path

import onnxruntime_genai


class Chat:
    """A conversation, which the model reads again with each question."""

    def __init__(self, folder: Path, longest: int):
        self.model = onnxruntime_genai.Model(str(folder))
        self.tokenizer = onnxruntime_genai.Tokenizer(self.model)
        self.longest = longest
        config = json.loads((folder / "tokenizer_config.json").read_text(encoding="utf-8"))
        self.has_template = "chat_template" in config or (folder / "chat_template.jinja").is_file()
        self.tokenizer.update_options(add_special_tokens="false" if self.has_template else "true")
        self.messages = []

    def answer(self, question: str):
        """Yields the pieces of the answer as they come."""
        if self.has_template:
            self.messages.append({"role": "user", "content": question})
            prompt = self.tokenizer.apply_chat_template(json.dumps(self.messages), add_generation_prompt=True)
        else:
            prompt = question
        ids = self.tokenizer.encode(prompt)
        parameters = onnxruntime_genai.GeneratorParams(self.model)
        parameters.set_search_options(max_length=len(ids) + self.longest, do_sample=False, repetition_penalty=1.1)
        generator = onnxruntime_genai.Generator(self.model, parameters)
        generator.append_tokens(ids)
        stream, pieces = self.tokenizer.create_stream(), []
        while not generator.is_done():
            generator.generate_next_token()
            pieces.append(stream.decode(generator.get_next_tokens()[0]))
            yield pieces[-1]
        self.messages.append({"role": "assistant", "content": "".join(pieces)})


def main() -> int:
    parser = argparse.ArgumentParser(description="Chat with a quantized decoder.")
    parser.add_argument("folder", type=Path, metavar="DIR", help="a folder with genai_config.json")
    parser.add_argument("--ask", metavar="TEXT", help="one question, and no more")
    parser.add_argument("--longest", type=int, default=256, metavar="N", help="tokens of an answer at most (default 256)")
    arguments = parser.parse_args()
    try:
        chat = Chat(arguments.folder, arguments.longest)
        while True:
            question = arguments.ask if arguments.ask is not None else input("> ").strip()
            if not question:
                return 0
            for piece in chat.answer(question):
                print(piece, end="", flush=True)
            print(flush=True)
            if arguments.ask is not None:
                return 0
    except (EOFError, KeyboardInterrupt):
        print()
        return 0
    except (RuntimeError, OSError) as error:
        print(f"chat: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
