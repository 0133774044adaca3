"""Inputs of networks that read: captchas and lines of text, drawn here with the fonts in matplotlib's wheel."""

import itertools

import numpy as np
from packages import wheel
from photos import fit, imagenet, nchw, photos, to_array
from PIL import Image, ImageDraw, ImageFilter, ImageFont
from samples import rng_of

WORDS = ("the quick brown fox jumps over lazy dogs while seven wizards box daft jugglers pack my bag with five dozen jugs of "
         "liquid oxygen invoice number total amount due date street city phone please sign here thank you").split()
LETTERS = list("ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnpqrstuvwxyz23456789")
SIZES = [(100, 40), (120, 40), (160, 60), (90, 32), (140, 50)]


def fonts(cache):
    """DejaVu in all its styles; its "Display" fonts hold only symbols."""
    files = (wheel(cache, "matplotlib") / "matplotlib/mpl-data/fonts/ttf").glob("DejaVu*.ttf")
    return sorted(str(file) for file in files if "Display" not in file.name)


def font_of(rng, files, size):
    return ImageFont.truetype(files[int(rng.integers(len(files)))], size)


def color_of(rng, low, high):
    return tuple(int(value) for value in rng.integers(low, high, 3))


def letter_tile(rng, files, letter, size, angle):
    """The mask of a turned letter."""
    tile = Image.new("L", (size * 2, size * 2), 0)
    ImageDraw.Draw(tile).text((size, size), letter, fill=255, font=font_of(rng, files, size), anchor="mm")
    return tile.rotate(rng.uniform(-angle, angle), Image.BICUBIC)


def captchas(cache, side, salt):
    """Four to six turned letters under lines and dots, drawn at twice the size and blurred."""
    files = fonts(cache)
    for i in itertools.count():
        rng = rng_of(side, i, salt)
        width, height = SIZES[int(rng.integers(len(SIZES)))]
        image = Image.new("RGB", (width * 2, height * 2), color_of(rng, 200, 256))
        draw = ImageDraw.Draw(image)
        text = rng.choice(LETTERS, int(rng.integers(4, 7)))
        step = width * 2 / (len(text) + 0.6)
        for k, letter in enumerate(text):
            size = int(height * 2 * rng.uniform(0.55, 0.8))
            tile = letter_tile(rng, files, str(letter), size, 28)
            place = int(step * (k + 0.8) - size), int(height + rng.uniform(-6, 6) - size)
            image.paste(color_of(rng, 0, 150), place, tile)
        for _ in range(int(rng.integers(1, 6))):
            ends = [int(value) for value in rng.integers(0, [width * 2, height * 2, width * 2, height * 2])]
            draw.line(ends, fill=color_of(rng, 60, 200), width=int(rng.integers(1, 4)))
        for _ in range(int(rng.integers(20, 200))):
            x, y = int(rng.integers(width * 2)), int(rng.integers(height * 2))
            draw.ellipse((x, y, x + 2, y + 2), fill=color_of(rng, 0, 256))
        yield image.filter(ImageFilter.GaussianBlur(rng.uniform(0, 1.2))).resize((width, height), Image.LANCZOS)


def captcha(cache, side):
    """Grey, 0 to 1."""
    for image in captchas(cache, side, 2):
        image = image.resize((int(image.width * 64 / image.height), 64), Image.LANCZOS).convert("L")
        yield {"input1": to_array(image)[None, None] / 255}


def captcha_crnn(cache, side):
    """BGR, 0 to 255."""
    for image in captchas(cache, side, 7):
        yield {"image": nchw(to_array(image.resize((160, 60), Image.BILINEAR))[:, :, ::-1])}


def click_captcha(cache, side):
    """Photos with large turned letters on them; BGR, 0 to 255, filled up with 114."""
    files = fonts(cache)
    for i, image in enumerate(photos(cache, side)):
        rng = rng_of(side, i, 3)
        image = image.resize((344, int(rng.integers(180, 345))), Image.BILINEAR)
        for letter in rng.choice(LETTERS, int(rng.integers(2, 6))):
            size = int(rng.integers(32, 64))
            tile = letter_tile(rng, files, str(letter), size, 45)
            place = int(rng.integers(-10, 344 - size)), int(rng.integers(-10, image.height - size))
            image.paste(color_of(rng, 0, 256), place, tile)
        yield {"images": nchw(to_array(fit(image, 416, (114, 114, 114)))[:, :, ::-1])}


def paper(rng, width, height):
    shade = int(rng.integers(200, 256))
    return Image.new("RGB", (width, height), (shade, shade, int(rng.integers(180, 256))))


def write_lines(rng, files, image, count):
    """Writes lines of words on the image, dark on light or light on dark."""
    draw = ImageDraw.Draw(image)
    for k in range(count):
        size = int(image.height / count * rng.uniform(0.5, 0.75))
        is_light = to_array(image).mean() > 110
        color = color_of(rng, 0, 110) if is_light else color_of(rng, 170, 256)
        line = " ".join(rng.choice(WORDS, 8)).title()[:image.width * 2 // size]
        draw.text((int(rng.integers(2, 12)), int((k + 0.12) * image.height / count)), line, fill=color, font=font_of(rng, files, size))
    return image


def ocr_detection(cache, side):
    """Lines on photos and on paper, in turn."""
    files = fonts(cache)
    for i, image in enumerate(photos(cache, side)):
        rng = rng_of(side, i, 4)
        canvas = image.resize((320, 320), Image.BILINEAR) if i % 2 else paper(rng, 320, 320)
        written = write_lines(rng, files, canvas, int(rng.integers(3, 9)))
        yield {"x": nchw(imagenet(to_array(written)[:, :, ::-1]))}


def ocr_recognition(cache, side):
    files = fonts(cache)
    for i in itertools.count():
        rng = rng_of(side, i, 5)
        image = write_lines(rng, files, paper(rng, 32 * int(rng.integers(5, 11)), 48), 1)
        yield {"x": nchw(to_array(image)[:, :, ::-1] / 127.5 - 1)}


def ocr_direction(cache, side):
    """Half of the lines stand on their heads."""
    files = fonts(cache)
    for i in itertools.count():
        rng = rng_of(side, i, 6)
        image = write_lines(rng, files, paper(rng, 192, 48), 1)
        if rng.random() < 0.5:
            image = image.rotate(180)
        yield {"x": nchw(to_array(image)[:, :, ::-1] / 127.5 - 1)}


def page(rng, files, width, height):
    """A sheet of some lines of words."""
    return write_lines(rng, files, paper(rng, width, height), int(rng.integers(8, 24)))


def orientation(cache, side):
    """Pages that lie in one of four ways, as PaddleOCR's classifier takes them."""
    files = fonts(cache)
    for i in itertools.count():
        rng = rng_of(side, i, 31)
        image = page(rng, files, 400, 400).rotate(90 * int(rng.integers(4)))
        yield {"x": nchw(imagenet(to_array(image.resize((224, 224), Image.BILINEAR))))}


def bent_page(cache, side):
    """Pages seen from an angle on a photo, in FLOAT16."""
    files = fonts(cache)
    for i, photo in enumerate(photos(cache, side)):
        rng = rng_of(side, i, 32)
        image = photo.resize((488, 712), Image.BILINEAR)
        sheet = page(rng, files, 380, 560).convert("RGBA").rotate(rng.uniform(-8, 8), Image.BICUBIC, expand=True)
        image.paste(sheet, (int(rng.integers(10, 60)), int(rng.integers(10, 60))), sheet)
        yield {"input": nchw(to_array(image) / 255).astype(np.float16)}


def write_book_number(rng, files, image):
    """The number of a book as a line of text, two times in three above the stripes of its code."""
    digits = "".join(str(digit) for digit in rng.integers(0, 10, 10))
    number = f"ISBN 978-{digits[0]}-{digits[1:5]}-{digits[5:9]}-{digits[9]}"
    size = int(rng.integers(14, 22))
    left, top = int(rng.integers(20, 600 - 13 * size)), int(rng.integers(10, 100))
    draw, font = ImageDraw.Draw(image), font_of(rng, files, size)
    draw.text((left, top), number, fill=color_of(rng, 0, 60), font=font)
    if rng.random() < 2 / 3:
        x = left + 10
        while x < left + 210:
            width = int(rng.integers(1, 4))
            draw.rectangle((x, top + 24, x + width, top + 104), fill=(0, 0, 0))
            x += width + int(rng.integers(1, 4))
        draw.text((left + 10, top + 106), f"9 78{digits[:4]} {digits[4:]}", fill=(0, 0, 0), font=font)


def book_number(cache, side):
    """Pages of a book, of which a detector looks for the number and its code; every fourth has none."""
    files = fonts(cache)
    for i in itertools.count():
        rng = rng_of(side, i, 33)
        image = write_lines(rng, files, paper(rng, 640, 640), int(rng.integers(14, 30)))
        if i % 4:
            sheet = paper(rng, 640, 240)
            write_book_number(rng, files, sheet)
            image.paste(sheet, (0, int(rng.integers(0, 400))))
        yield {"images": nchw(to_array(image) / 255)}
