"""Photos of every kind give the same samples, and a folder says what it leaves out."""

import ctypes.util

import models
import numpy as np
import pytest

Image = pytest.importorskip("PIL.Image")
IMAGE = "resize=20,crop=20"
KINDS = {"bmp": {}, "tiff": {"compression": "tiff_lzw"}, "webp": {"lossless": True}}


def pictures(count=3):
    rng = np.random.default_rng(8)
    return [np.kron(rng.integers(0, 256, (5, 6, 3)), np.ones((5, 5, 1))).astype(np.uint8) for _ in range(count)]


def calibrated(bitpress, model, folder, output):
    bitpress.ok("calibrate", model, "--data", folder, "--image", IMAGE, "-o", output)
    return output.read_bytes()


@pytest.mark.parametrize("kind", KINDS)
def test_photos_of_a_kind_are_those_of_png(bitpress, conv_path, tmp_path, kind):
    library = {"webp": "webp", "tiff": "tiff"}.get(kind)
    if library and not ctypes.util.find_library(library):
        pytest.skip(f"lib{library} is not on this machine")
    for number, picture in enumerate(pictures()):
        for name, options in (("png", {}), (kind, KINDS[kind])):
            (tmp_path / name).mkdir(exist_ok=True)
            Image.fromarray(picture).save(tmp_path / name / f"{number}.{name}", **options)
    assert calibrated(bitpress, conv_path, tmp_path / kind, tmp_path / "a.bpc") == calibrated(bitpress, conv_path, tmp_path / "png", tmp_path / "b.bpc")
    damaged = tmp_path / kind / f"0.{kind}"
    damaged.write_bytes(damaged.read_bytes()[:60])
    error = bitpress.error("calibrate", conv_path, "--data", tmp_path / kind, "--image", IMAGE, "-o", tmp_path / "c.bpc")
    assert f"0.{kind}" in error


def test_a_palette_and_rows_from_the_top(bitpress, conv_path, tmp_path):
    for name in ("png", "bmp"):
        (tmp_path / name).mkdir()
    for number, picture in enumerate(pictures()):
        gray = Image.fromarray(picture).convert("L")
        gray.save(tmp_path / "png" / f"{number}.png")
        gray.save(tmp_path / "bmp" / f"{number}.bmp")
        content = bytearray((tmp_path / "bmp" / f"{number}.bmp").read_bytes())
        first, height = int.from_bytes(content[10:14], "little"), int.from_bytes(content[22:26], "little")
        rows = np.frombuffer(bytes(content[first:]), np.uint8).reshape(height, -1)
        content[22:26] = (-height).to_bytes(4, "little", signed=True)
        (tmp_path / "bmp" / f"{number}.bmp").write_bytes(bytes(content[:first]) + rows[::-1].tobytes())
    assert calibrated(bitpress, conv_path, tmp_path / "bmp", tmp_path / "a.bpc") == calibrated(bitpress, conv_path, tmp_path / "png", tmp_path / "b.bpc")


def test_a_folder_says_what_it_leaves_out(bitpress, conv_path, tmp_path):
    folder = tmp_path / "photos"
    models.save_photos(folder, 4)
    arguments = ("calibrate", conv_path, "--data", folder, "--image", IMAGE, "-o", tmp_path / "a.bpc")
    assert bitpress.run(*arguments).stderr == ""
    for name in ("a.gif", "b.gif", "notes.txt", "README", ".hidden"):
        (folder / name).write_bytes(b"x")
    assert bitpress.run(*arguments).stderr == (
        f"note: folder '{folder}': 4 of 8 files are left out, which are no samples: 2 .gif, 1 .txt, 1 without an ending\n")
