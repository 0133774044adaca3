#!/usr/bin/env python3
"""Races decoders in ONNX Runtime and in llama.cpp on one machine (docs/benchmarks/language_models.md).

    tools/measure/language_models.py NAME=MODEL.onnx... --library LIBRARY --gguf MODEL.gguf

The models are in the form `genai` of examples/llm, and LIBRARY is Bitpress's operator library. The matrices of the GGUF file, its table of
embeddings too, are rounded to each of --kinds first. Every contender has a prompt of 256 tokens, and decodes 48 behind it into a cache that
stays in its place. All take turns: times are medians of processor time with one thread, and the least of wall time with more, where other
programs only make a run slower. Prints a Markdown table, whose cells have a figure for each of --threads.

needs: onnxruntime, numpy, onnx, gguf, llama-cpp-python (compiled for this processor, as pip does without a wheel)
"""
import argparse
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

import gguf
import llama_cpp
import numpy as np
import onnxruntime
from imported_weights import write_gguf

PROMPT, DECODED = 256, 48
CAPACITY = 512  # positions of a cache
IDLE_S = 0.3  # until the threads of the contender before no longer wait actively


class OnnxDecoder:
    """A session whose caches are inputs and outputs in the same memory."""

    def __init__(self, model, library, threads):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.log_severity_level = threads, 3
        options.register_custom_ops_library(str(library))
        self.session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
        entries = [entry for entry in self.session.get_inputs() if entry.name.startswith("past_key_values.")]
        self.caches = {entry.name: np.zeros((1, entry.shape[1], CAPACITY, entry.shape[3]), np.float32) for entry in entries}
        self.vocabulary = self.session.get_outputs()[0].shape[-1]
        self.bindings = {rows: self.bind(rows) for rows in (PROMPT, 1)}
        self.length = 0

    def bind(self, rows):
        """A run of so many tokens, and its logits."""
        binding, logits = self.session.io_binding(), np.empty((1, rows, self.vocabulary), np.float32)
        for name, cache in self.caches.items():
            binding.bind_input(name, "cpu", 0, np.float32, cache.shape, cache.ctypes.data)
            binding.bind_output(name.replace("past_key_values", "present"), "cpu", 0, np.float32, cache.shape, cache.ctypes.data)
        binding.bind_output("logits", "cpu", 0, np.float32, logits.shape, logits.ctypes.data)
        return binding, logits

    def begin(self):
        self.length = 0

    def next(self, tokens):
        """The likeliest token behind these."""
        self.length += len(tokens)
        binding, logits = self.bindings[len(tokens)]
        binding.bind_cpu_input("input_ids", np.array([tokens], np.int64))
        binding.bind_cpu_input("attention_mask", np.ones((1, self.length), np.int64))
        self.session.run_with_iobinding(binding)
        return int(logits[0, -1].argmax())


class LlamaDecoder:
    """llama.cpp with its defaults."""

    def __init__(self, path, threads):
        self.llama = llama_cpp.Llama(str(path), n_ctx=CAPACITY, n_batch=CAPACITY, n_threads=threads, n_threads_batch=threads, verbose=False)

    def begin(self):
        self.llama.reset()

    def next(self, tokens):
        self.llama.eval(tokens)
        logits = llama_cpp.llama_get_logits_ith(self.llama.ctx, -1)
        return int(np.ctypeslib.as_array(logits, (self.llama.n_vocab(),)).argmax())


def race(contenders, threads, rounds):
    """Tokens per second of prompts and of decoding, by the contender's name."""
    clock, chosen = (time.process_time, statistics.median) if threads == 1 else (time.perf_counter, min)
    prompt = np.random.default_rng(0).integers(1000, 40000, PROMPT).tolist()  # how long a run takes does not depend on the tokens
    seconds = {name: ([], []) for name in contenders}
    for turn in range(rounds + 1):
        for name, contender in contenders.items():
            time.sleep(IDLE_S)
            contender.begin()
            begin = clock()
            token = contender.next(prompt)
            middle = clock()
            for _ in range(DECODED):
                token = contender.next([token])
            if turn > 0:  # memory is still cold in the first one
                seconds[name][0].append(middle - begin)
                seconds[name][1].append(clock() - middle)
    return {name: (PROMPT / chosen(prompts), DECODED / chosen(decoding)) for name, (prompts, decoding) in seconds.items()}


def megabytes(model):
    model = Path(model).resolve()  # data lie beside the file that a link names
    data = Path(f"{model}.data")
    return (model.stat().st_size + (data.stat().st_size if data.exists() else 0)) / 1e6


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", metavar="NAME=MODEL.onnx")
    parser.add_argument("--library", type=Path, required=True, help="libbitpress_ops.so")
    parser.add_argument("--gguf", type=Path, required=True)
    parser.add_argument("--kinds", nargs="+", default=["Q4_0", "Q8_0", "MXFP4", "BF16"], help="types of GGUF (default: Q4_0 Q8_0 MXFP4 BF16)")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=7, help="turns of which the median or the least counts (default: 7)")
    arguments = parser.parse_args()
    models = dict(model.split("=", 1) for model in arguments.models)
    print(f"ONNX Runtime {onnxruntime.__version__}, llama-cpp-python {llama_cpp.__version__}:", llama_cpp.llama_print_system_info().decode())
    with tempfile.TemporaryDirectory() as folder:
        files = {f"llama.cpp, {kind}": Path(folder) / f"{kind}.gguf" for kind in arguments.kinds}
        for kind, file in zip(arguments.kinds, files.values()):
            write_gguf(arguments.gguf, file, gguf.GGMLQuantizationType[kind])
        rates = []
        for threads in arguments.threads:
            contenders = {name: OnnxDecoder(model, arguments.library, threads) for name, model in models.items()}
            contenders |= {name: LlamaDecoder(file, threads) for name, file in files.items()}
            rates.append(race(contenders, threads, arguments.rounds))
            print(f"{threads} threads, load of the machine {os.getloadavg()[0]:.1f}: {rates[-1]}", file=sys.stderr, flush=True)
        print("\n| decoder | MB | prompt, tokens/s | decoding, tokens/s |\n|---|---|---|---|")
        for name, path in {**models, **files}.items():
            prompts, decoding = (", ".join(f"{rate[name][i]:.0f}" for rate in rates) for i in (0, 1))
            print(f"| {name} | {megabytes(path):.0f} | {prompts} | {decoding} |")


if __name__ == "__main__":
    main()
