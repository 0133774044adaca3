#!/usr/bin/env python3
"""Sorts the photos of ImageNet's validation set by class, and takes one of each class to calibrate with.

A flat folder of photos called ILSVRC2012_val_00000293_n01440764.JPEG becomes one subfolder a class (a synset such as n01440764),
in which it is called ILSVRC2012_val_00000293.JPEG. The class of a photo is then the index of its subfolder in sorted order.

    python prepare_data.py VAL CALIB
"""

import argparse
import re
import shutil
import sys
from pathlib import Path

NAME = re.compile(r"(ILSVRC2012_val_\d+)_(n\d+)(\.jpe?g)", re.IGNORECASE)


def sort_photos(folder: Path) -> int:
    """Moves photos into the subfolder of their synset. Returns how many there were; those that are sorted already stay."""
    moved = 0
    for path in sorted(folder.iterdir()):
        match = NAME.fullmatch(path.name)
        if match and path.is_file():
            target = folder / match.group(2)
            target.mkdir(exist_ok=True)
            path.rename(target / (match.group(1) + match.group(3)))
            moved += 1
    return moved


def copy_one_each(folder: Path, target: Path) -> int:
    """Copies the first photo of each class. Returns the number of classes."""
    classes = sorted(path for path in folder.iterdir() if path.is_dir())
    for synset in classes:
        photos = sorted(path for path in synset.iterdir() if path.is_file())
        if photos:
            (target / synset.name).mkdir(parents=True, exist_ok=True)
            shutil.copyfile(photos[0], target / synset.name / photos[0].name)
    return len(classes)


def main() -> int:
    parser = argparse.ArgumentParser(description="Sort ImageNet's validation photos by class, and copy one of each class.")
    parser.add_argument("val", type=Path, metavar="VAL", help="the folder of photos; they are moved into subfolders")
    parser.add_argument("calib", type=Path, metavar="CALIB", help="the folder for the photos to calibrate with")
    arguments = parser.parse_args()
    if not arguments.val.is_dir():
        print(f"prepare_data: {arguments.val}: no such folder", file=sys.stderr)
        return 1
    moved = sort_photos(arguments.val)
    classes = copy_one_each(arguments.val, arguments.calib)
    if classes == 0:
        print(f"prepare_data: {arguments.val} holds no photo called ILSVRC2012_val_NUMBER_SYNSET.JPEG and no subfolder", file=sys.stderr)
        return 1
    print(f"{moved} photos moved, {classes} classes; one photo of each is in {arguments.calib}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
