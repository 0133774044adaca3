#!/usr/bin/env python3
"""Lets Moonshine's decoder write what an encoder makes of speech, and counts wrong words. For docs/guides/tasks/speech_recognition.md.

    python examples/tasks/recognize.py model.onnx    # in the folder that get.py made
"""

import sys
from pathlib import Path

import jiwer
import numpy as np
import onnxruntime

BEGIN, END, WORDS_A_SECOND = 1, 2, 6.5


def tokens(path):
    """The pieces of words: each is stored behind its length, of one byte, or of two if the first one is 128 or more."""
    data, found, i = path.read_bytes(), [], 0
    while i < len(data):
        length, i = data[i], i + 1
        if length >= 128:
            length, i = length - 128 + data[i] * 128, i + 1
        found.append(data[i:i + length])
        i += length
    return found


class Recognizer:
    def __init__(self, encoder, folder=Path(".")):
        self.encoder = onnxruntime.InferenceSession(str(encoder))
        self.decoder = onnxruntime.InferenceSession(str(folder / "decoder.ort"))
        self.pieces = tokens(folder / "tokenizer.bin")
        self.past = [value for value in self.decoder.get_inputs() if value.name.startswith("past")]

    def text_of(self, sample):
        hidden = self.encoder.run(None, sample)[0]
        inputs = {value.name: np.zeros((1, value.shape[1], 0, value.shape[3]), np.float32) for value in self.past}
        inputs |= {"encoder_hidden_states": hidden, "encoder_attention_mask": np.ones(hidden.shape[:2], np.int64)}
        words, token = b"", BEGIN
        for step in range(int(sample["input_values"].size / 16000 * WORDS_A_SECOND) + 5):
            inputs |= {"input_ids": np.array([[token]]), "use_cache_branch": np.array([step > 0])}
            outputs = dict(zip([value.name for value in self.decoder.get_outputs()], self.decoder.run(None, inputs)))
            token = int(outputs["logits"][0, -1].argmax())
            if token == END:
                break
            words += self.pieces[token]
            for value in self.past:
                if step == 0 or ".decoder." in value.name:
                    inputs[value.name] = outputs[value.name.replace("past_key_values", "present")]
        return words.replace("\u2581".encode(), b" ").decode(errors="replace").strip()


def texts(encoder, folder=Path(".")):
    recognizer = Recognizer(encoder, folder)
    return [recognizer.text_of(dict(np.load(path))) for path in sorted((folder / "validation").iterdir())]


def word_accuracy(encoder, folder=Path(".")):
    """The share of the words that are right: a metric for bitpress.auto."""
    plain = jiwer.Compose([jiwer.ToLowerCase(), jiwer.RemovePunctuation(), jiwer.RemoveMultipleSpaces(), jiwer.Strip()])
    wanted = " ".join((folder / "text.txt").read_text(encoding="utf-8").split())
    return 1 - jiwer.wer(plain(wanted), plain(" ".join(texts(encoder, folder))))


if __name__ == "__main__":
    print(*texts(sys.argv[1]), f"words that are right: {100 * word_accuracy(sys.argv[1]):.1f} %", sep="\n")
