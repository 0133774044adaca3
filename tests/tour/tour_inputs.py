"""Makes what the tour of the documentation starts from: two models, photos with labels, arrays, texts and a tokenizer.

usage: tour_inputs.py FOLDER
"""

import json
import sys
from pathlib import Path

import numpy as np
from onnx import helper

sys.path.append(str(Path(__file__).resolve().parents[1] / "e2e"))
import decoder  # pylint: disable=wrong-import-position
import models  # pylint: disable=wrong-import-position

NUM_PHOTOS, NUM_CLASSES = 24, 10


def network():
    """A network of convolutions for photos of 224 by 224 points; a tensor in its middle is called `features`."""
    rng = np.random.default_rng(17)
    constants = {}

    def convolution(data, output, channels, filters, stride, size, group=1):
        weight = rng.standard_normal((filters, channels // group, size, size)) * np.sqrt(2 / (channels // group * size * size))
        constants[f"{output}.weight"] = weight.astype(np.float32)
        return [helper.make_node("Conv", [data, f"{output}.weight"], [f"{output}.sum"], output, kernel_shape=[size, size],
                                 strides=[stride, stride], pads=[size // 2] * 4, group=group),
                helper.make_node("Relu", [f"{output}.sum"], [output], f"{output}.relu")]

    nodes = [*convolution("image", "stem", 3, 16, 4, 7), *convolution("stem", "depthwise", 16, 16, 2, 3, 16),
             *convolution("depthwise", "features", 16, 32, 1, 1), *convolution("features", "wide", 32, 64, 2, 3),
             helper.make_node("GlobalAveragePool", ["wide"], ["pooled"], "pool"), helper.make_node("Flatten", ["pooled"], ["flat"], "flatten"),
             helper.make_node("MatMul", ["flat", "head.weight"], ["logits"], "head")]
    constants["head.weight"] = rng.standard_normal((64, NUM_CLASSES)).astype(np.float32)
    return models.make_model(nodes, [("image", ["N", 3, 224, 224])], [("logits", ["N", NUM_CLASSES])], constants)


def save_texts(folder):
    """Words are the tokens of the decoder: a tokenizer that knows them, a text to learn from and one to measure with."""
    words = ["?", *(f"w{i}" for i in range(1, decoder.VOCABULARY))]
    (folder / "tokenizer.json").write_text(json.dumps({
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None,
        "pre_tokenizer": {"type": "Whitespace"}, "post_processor": None, "decoder": None,
        "model": {"type": "WordLevel", "unk_token": "?", "vocab": {word: i for i, word in enumerate(words)}}}))
    for name, count, seed in (("learn.txt", 32 * 256, 3), ("validation.txt", 4 * 256, 4)):
        (folder / name).write_text(" ".join(words[i] for i in decoder.token_ids(count, seed)))


def make(folder):
    folder.mkdir(parents=True, exist_ok=True)
    models.save(network(), folder / "model.onnx")
    models.save(decoder.make(), folder / "decoder.onnx")
    photos = models.save_photos(folder / "photos", NUM_PHOTOS, size=(280, 260))
    (folder / "labels.csv").write_text("file,class\n" + "".join(f"{path.name},{i % NUM_CLASSES}\n" for i, path in enumerate(photos)))
    (folder / "samples").mkdir(exist_ok=True)
    for i, image in enumerate(models.smooth_images(8, seed=19, shape=(3, 224, 224))):
        np.save(folder / "samples" / f"{i}.npy", image[None])
    save_texts(folder)


if __name__ == "__main__":
    make(Path(sys.argv[1]))
