#!/usr/bin/env python3
"""Writes src/evaluate/test_coco_masks_golden.h: the masks that pycocotools makes of polygons.

Run it with a Python that has NumPy and pycocotools:

    python tools/golden/coco_masks_golden.py
"""

import importlib.metadata
import pathlib

import numpy as np
from pycocotools import mask as coco


def polygons():
    """Pairs of an image's size and polygons: usual ones, and the corners of the algorithm."""
    rng = np.random.default_rng(6)
    yield (10, 8), [[1, 1, 6, 1, 6, 5, 1, 5]]
    yield (10, 8), [[0.5, 0.5, 7.5, 0.5, 7.5, 9.5, 0.5, 9.5]]
    yield (10, 8), [[0, 0, 8, 0, 8, 10, 0, 10]]
    yield (10, 8), [[-3, -3, 20, -3, 20, 30, -3, 30]]
    yield (10, 8), [[-5, 2, -1, 2, -1, 6]]  # beside the image
    yield (10, 8), [[2, 2, 2, 2, 6, 2, 6, 7, 6, 7, 2, 7]]  # corners twice
    yield (10, 8), [[3, 3, 3, 3, 3, 3]]
    yield (10, 8), [[1, 1, 6, 8, 6, 1, 1, 8]]  # crosses itself
    yield (10, 8), [[0, 0, 3, 0, 3, 3, 0, 3], [2, 2, 6, 2, 6, 8, 2, 8]]
    yield (1, 1), [[0, 0, 1, 0, 1, 1, 0, 1]]
    yield (5, 4), [[3.9, 4.9, 3.9, 0.1, 0.1, 4.9]]
    for _ in range(24):
        height, width = (int(side) for side in rng.integers(3, 24, 2))
        shapes = []
        for _ in range(int(rng.integers(1, 3))):
            points = rng.uniform(-0.3, 1.3, (int(rng.integers(3, 9)), 2)) * (width, height)
            shapes.append(points.round(int(rng.integers(0, 4))).flatten().tolist())
        yield (height, width), shapes


def counts_of(text):
    """The run lengths of a text in the six bits a character of COCO."""
    counts, number, shift = [], 0, 0
    for byte in text:
        number |= (byte - 48 & 31) << shift
        shift += 5
        if byte - 48 & 32:
            continue
        if byte - 48 & 16:
            number -= 1 << shift
        counts.append(number + (counts[-2] if len(counts) > 2 else 0))
        number = shift = 0
    return counts


def braces(numbers):
    return "{" + ", ".join(f"{number!r}" for number in numbers) + "}"


def main():
    rows = []
    for (height, width), shapes in polygons():
        text = coco.merge(coco.frPyObjects(shapes, height, width))["counts"]
        rows.append(f"    {{{height}, {width}, {{{', '.join(map(braces, shapes))}}},\n     {braces(counts_of(text))},\n     R\"({text.decode()})\"}},\n")
    version = importlib.metadata.version("pycocotools")
    path = pathlib.Path(__file__).parents[2] / "src/evaluate/test_coco_masks_golden.h"
    path.write_text(f"""// Masks of polygons by pycocotools {version}, written by tools/golden/coco_masks_golden.py.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace bitpress::evaluate {{

struct GoldenMask {{
  int64_t height, width;
  std::vector<std::vector<double>> polygons;
  std::vector<uint32_t> counts;
  std::string_view text;
}};

// clang-format off
inline const std::vector<GoldenMask> kGoldenMasks = {{
{''.join(rows)}}};
// clang-format on

}}  // namespace bitpress::evaluate
""")


if __name__ == "__main__":
    main()
