"""Models that hear and speak, and samples of what goes into them."""

import shutil
import wave
from pathlib import Path

import numpy as np
import onnx
import phonemes
import samples
import speech
from networks import model_of
from packages import wheel

RATE = 16000
ASSETS = "moonshine_voice/assets"
# The recording two_cities.wav of the package says this: the beginning of "A Tale of Two Cities" by Charles Dickens.
BOOK = """It was the best of times, it was the worst of times, it was the age of wisdom, it was the age of foolishness, it was the epoch of
belief, it was the epoch of incredulity, it was the season of Light, it was the season of Darkness, it was the spring of hope, it was the
winter of despair, we had everything before us, we had nothing before us, we were all going direct to Heaven, we were all going direct the
other way - in short, the period was so far like the present period, that some of its noisiest authorities insisted on its being received,
for good or for evil, in the superlative degree of comparison only."""


def with_float_weights(source: Path, target: Path) -> None:
    """The package's encoder has products of dynamic integers. Writes it with the same weights as floats, as it was before that."""
    model = onnx.load(source)
    graph, constants = model.graph, {constant.name: onnx.numpy_helper.to_array(constant) for constant in model.graph.initializer}
    floats = {node.output[0]: node.input[0] for node in graph.node if node.op_type == "DynamicQuantizeLinear"}
    kept = []
    for node in graph.node:
        if node.op_type == "DynamicQuantizeLinear":
            continue
        if node.op_type not in ("DynamicQuantizeMatMul", "MatMulIntegerToFloat"):
            kept.append(node)
            continue
        is_dynamic = node.op_type == "DynamicQuantizeMatMul"
        codes, scale, zero, bias = (*(node.input[i] for i in ((1, 2, 3) if is_dynamic else (1, 3, 5))), (*node.input, "", "")[4 if is_dynamic else 6])
        values = (constants[codes].astype(np.float32) - constants[zero].astype(np.float32)) * constants[scale]
        graph.initializer.append(onnx.numpy_helper.from_array(values, f"{codes}.float"))
        product = f"{node.output[0]}.product" if bias else node.output[0]
        kept.append(onnx.helper.make_node("MatMul", [floats.get(node.input[0], node.input[0]), f"{codes}.float"], [product], node.name))
        if bias:
            kept.append(onnx.helper.make_node("Add", [product, bias], [node.output[0]], f"{node.name}.bias"))
    del graph.node[:]
    graph.node.extend(kept)
    read = {name for node in kept for name in node.input}
    needed = [constant for constant in graph.initializer if constant.name in read]
    del graph.initializer[:]
    graph.initializer.extend(needed)
    onnx.save(model, target)


def recording(path: Path) -> np.ndarray:
    """A recording at 16 kHz, or at a multiple of that, from -1 to 1."""
    with wave.open(str(path)) as file:
        sound = np.frombuffer(file.readframes(file.getnframes()), "<i2").astype(np.float32) / 32768
        step = file.getframerate() // RATE
    return sound[:len(sound) // step * step].reshape(-1, step).mean(axis=1)


def speech_recognition(cache: Path, folder: Path) -> None:
    """Moonshine's encoder, its decoder, which is for measuring here, and eight seconds of speech a sample."""
    assets = wheel(cache, "moonshine-voice") / ASSETS
    with_float_weights(model_of(cache, "moonshine_encoder"), folder / "model.onnx")
    shutil.copy(assets / "tiny-en/decoder_model_merged.ort", folder / "decoder.ort")
    shutil.copy(assets / "tiny-en/tokenizer.bin", folder / "tokenizer.bin")
    samples.write(folder / "samples", speech.moonshine_encoder(cache, "calibration"), 24)
    sound = recording(assets / "two_cities.wav")
    pieces = [sound[i:i + 8 * RATE] for i in range(0, len(sound), 8 * RATE)]
    samples.write(folder / "validation", ({"input_values": piece[None], "attention_mask": np.ones((1, len(piece)), np.int64)} for piece in pieces),
                  len(pieces))
    (folder / "text.txt").write_text(BOOK, encoding="utf-8")


def speech_synthesis(cache: Path, folder: Path) -> None:
    """A voice of Piper, and phonemes of sentences."""
    shutil.copy(model_of(cache, "piper"), folder / "model.onnx")
    shutil.copy(wheel(cache, "speechmos") / "speechmos/dnsmos_models/sig_bak_ovr.onnx", folder / "dnsmos.onnx")
    for name, side in (("samples", "calibration"), ("validation", "validation")):
        samples.write(folder / name, phonemes.piper(cache, side), 12)
