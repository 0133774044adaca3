"""Inputs of a network that tells the types of files: those of some packages, one of each kind in turn."""

import itertools

import numpy as np
from packages import wheel

PACKAGES = ["matplotlib", "scikit-image", "scikit-learn", "magika", "rapidocr"]
BLOCK, PADDING = 1024, 256


def kinds(cache, side):
    """Lists of files by suffix; those of a kind are shuffled, and the sides take every other one."""
    found = {}
    for package in PACKAGES:
        for path in sorted(wheel(cache, package).rglob("*")):
            if path.is_file() and path.suffix and 100 < path.stat().st_size < 10**7:
                found.setdefault(path.suffix, []).append(path)
    for number, (_, paths) in enumerate(sorted(found.items())):
        order = np.random.default_rng(number).permutation(len(paths))
        yield [paths[k] for k in order[side == "validation"::2]]


def magika(cache, side):
    """Beginning and end of a file, as the package reads them."""
    for row in itertools.zip_longest(*kinds(cache, side)):
        for path in row:
            if path is not None:
                content = path.read_bytes()
                begin, end = content[:4096].lstrip()[:BLOCK], content[-4096:].rstrip()[-BLOCK:]
                values = np.full(2 * BLOCK, PADDING, np.int32)
                values[:len(begin)] = list(begin)
                values[2 * BLOCK - len(end):] = list(end)
                yield {"bytes": values[None]}
