"""The two clients of a decoder: onnxruntime-genai, which opens a folder, and a loop in plain onnxruntime."""

import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnxruntime
import onnxruntime_genai


@dataclass
class Greedy:
    """A client's answer to a prompt."""

    tokens: list[int]  # those that it generated, without the one that ends a text
    logits: np.ndarray  # of the prompt, [tokens, vocabulary]
    tokens_per_s: float  # of generating


def greedy_genai(folder: Path, prompt: list[int], count: int) -> Greedy:
    """At most `count` likeliest tokens, from onnxruntime-genai."""
    parameters = onnxruntime_genai.GeneratorParams(model := onnxruntime_genai.Model(str(folder)))
    parameters.set_search_options(max_length=len(prompt) + count, do_sample=False)
    generator = onnxruntime_genai.Generator(model, parameters)
    generator.append_tokens(prompt)
    logits = np.array(generator.get_output("logits")[0])
    begin = time.perf_counter()
    while not generator.is_done():
        generator.generate_next_token()
    tokens = [int(token) for token in generator.get_sequence(0)[len(prompt):]]
    return Greedy(tokens, logits, len(tokens) / (time.perf_counter() - begin))


def perplexity_genai(folder: Path, rows: np.ndarray) -> float:
    """The perplexity of rows of tokens, from onnxruntime-genai."""
    model = onnxruntime_genai.Model(str(folder))
    losses = []
    for row in rows:
        parameters = onnxruntime_genai.GeneratorParams(model)
        parameters.set_search_options(max_length=len(row) + 1)
        generator = onnxruntime_genai.Generator(model, parameters)
        generator.append_tokens([int(token) for token in row])
        logits = np.array(generator.get_output("logits")[0, :-1], np.float64)
        logits -= logits.max(-1, keepdims=True)
        losses.append(np.log(np.exp(logits).sum(-1)) - logits[np.arange(len(row) - 1), row[1:]])
    return float(np.exp(np.mean(losses)))


def greedy_plain(model: Path, prompt: list[int], count: int, end: set[int], operators: Path | None = None) -> Greedy:
    """At most `count` likeliest tokens up to one of `end`, from a session. `operators` is Bitpress's operator library."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    if operators:
        options.register_custom_ops_library(str(operators))
    session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    inputs = {entry.name: entry for entry in session.get_inputs()}
    outputs = [entry.name for entry in session.get_outputs()]
    types = {"tensor(float)": np.float32, "tensor(int8)": np.int8, "tensor(uint8)": np.uint8}  # the last one: two codes of 4 bits
    caches = {name: np.zeros((1, entry.shape[1], 0, entry.shape[3]), types[entry.type])
              for name, entry in inputs.items() if name.startswith("past_key_values.")}
    tokens, first, ids, length, begin = [], None, np.array([prompt]), 0, 0.0
    while len(tokens) < count:
        total = length + ids.shape[1]
        feeds = {"input_ids": ids, "attention_mask": np.ones((1, total), np.int64)}
        if "position_ids" in inputs:
            feeds["position_ids"] = np.arange(length, total)[None]
        results = dict(zip(outputs, session.run(outputs, feeds | caches)))
        caches = {name: results[name.replace("past_key_values", "present")] for name in caches}
        logits, length = results["logits"][0], total
        if first is None:
            first, begin = logits, time.perf_counter()
        token = int(logits[-1].argmax())
        if token in end:
            break
        tokens.append(token)
        ids = np.array([[token]])
    return Greedy(tokens, first, len(tokens) / (time.perf_counter() - begin))
