"""Photos as the arrays that every tool reads: the same samples for all."""

import csv
from pathlib import Path

import numpy as np
from PIL import Image


def parse_spec(text: str) -> dict:
    """The keys of bitpress's --image that are used here."""
    spec = {"resize": 0, "crop": 0, "mean": [0.0], "std": [1.0]}
    for part in text.split(","):
        key, _, value = part.partition("=")
        if key not in spec:
            raise ValueError(f"--image: '{key}' is not one of {', '.join(spec)}")
        spec[key] = [float(number) for number in value.split("/")] if key in ("mean", "std") else int(value)
    return spec


def to_array(path: Path, spec: dict) -> np.ndarray:
    """[1, 3, H, W]: the shorter side scaled, the centre cut out, normalized."""
    picture = Image.open(path).convert("RGB")
    if spec["resize"]:
        scale = spec["resize"] / min(picture.size)
        picture = picture.resize([round(side * scale) for side in picture.size], Image.Resampling.BICUBIC)
    if spec["crop"]:
        left, top = ((side - spec["crop"]) // 2 for side in picture.size)
        picture = picture.crop((left, top, left + spec["crop"], top + spec["crop"]))
    pixels = np.asarray(picture, np.float32) / 255
    pixels = (pixels - np.float32(spec["mean"])) / np.float32(spec["std"])
    return np.ascontiguousarray(pixels.transpose(2, 0, 1)[None], np.float32)


def write_arrays(photos: Path, labels, spec: dict, count: int, folder: Path) -> None:
    """The first `count` photos as .npy files, in the order of their names or of the CSV."""
    if labels is not None:
        with open(labels, newline="", encoding="utf-8") as file:
            paths = [photos / row["file"] for row in csv.DictReader(file)]
    else:
        paths = sorted(path for path in photos.rglob("*") if path.suffix.lower() in (".jpg", ".jpeg", ".png"))
    folder.mkdir(parents=True, exist_ok=True)
    for number, path in enumerate(paths[:count]):
        np.save(folder / f"{number:05}.npy", to_array(path, spec))
