#!/usr/bin/env python3
"""Writes src/formats/test_ml_dtypes_golden.h: what ml_dtypes makes of the floating-point element types.

Run it with the project's virtual environment (ml_dtypes comes with onnx):

    .deps/venv/bin/python tools/golden/float_types_golden.py

The header holds, for every type of at most 8 bits, the float32 value of each code, and for every type inputs with the
code that ml_dtypes rounds them to. Inputs stay within the largest finite value: beyond it ml_dtypes gives infinity or
NaN where Bitpress saturates, which float_types_test.cc checks against the definition instead.
"""

import pathlib
import struct

import ml_dtypes
import numpy as np

# Bitpress name, ml_dtypes name, bits of a code, mantissa bits.
TYPES = [
    ("kFloat16", None, 16, 10),
    ("kBFloat16", "bfloat16", 16, 7),
    ("kFloat8E4M3", "float8_e4m3fn", 8, 3),
    ("kFloat8E5M2", "float8_e5m2", 8, 2),
    ("kFloat6E2M3", "float6_e2m3fn", 6, 3),
    ("kFloat6E3M2", "float6_e3m2fn", 6, 2),
    ("kFloat4E2M1", "float4_e2m1fn", 4, 1),
]
SEED = 20240607
NUM_INPUTS = 120


def as_dtype(name):
    return np.dtype(np.float16) if name is None else np.dtype(getattr(ml_dtypes, name))


def decode_all(dtype, bits):
    codes = np.arange(1 << bits, dtype=np.uint8 if bits <= 8 else np.uint16)
    return codes.view(dtype).astype(np.float32)


def inputs_of(dtype, bits, generator):
    """Half of them midpoints of neighbouring codes or one float32 step beside, half arbitrary; some negative."""
    values = decode_all(dtype, bits)
    finite = np.unique(np.abs(values[np.isfinite(values)]).astype(np.float64))
    index = generator.integers(0, len(finite) - 1, NUM_INPUTS // 2)
    middle = ((finite[index] + finite[index + 1]) / 2).astype(np.float32)
    step = generator.integers(-1, 2, len(middle))
    beside = np.nextafter(middle, np.where(step > 0, np.float32(np.inf), np.float32(0)), dtype=np.float32)
    middle = np.where(step == 0, middle, beside)
    low, high = np.log2(finite[1]) - 2, np.log2(finite[-1])
    other = np.exp2(generator.uniform(low, high, NUM_INPUTS - len(middle))).astype(np.float32)
    both = np.concatenate([middle, np.minimum(other, np.float32(finite[-1]))])
    return np.where(generator.integers(0, 2, len(both)) == 1, -both, both).astype(np.float32)


def hexes(numbers, width, per_line):
    words = [f"0x{int(n):0{width}X}" for n in numbers]
    lines = [", ".join(words[i:i + per_line]) for i in range(0, len(words), per_line)]
    return ",\n    ".join(lines)


def main():
    generator = np.random.default_rng(SEED)
    text = [
        "// clang-format off",
        f"// TEST ONLY. Written by tools/golden/float_types_golden.py with ml_dtypes {ml_dtypes.__version__} and numpy"
        f" {np.__version__};",
        "// do not edit. Float32 values stand as bit patterns; NaN as 0x7FC00000 whatever its sign.",
        "#pragma once",
        "",
        "#include <cstdint>",
        "#include <span>",
        "",
        '#include "formats/format_spec.h"',
        "",
        "namespace bitpress::formats::golden {",
        "",
        "struct EncodeCase {",
        "  uint32_t input;",
        "  uint32_t code;",
        "};",
        "struct FloatType {",
        "  ElementType type;",
        "  std::span<const uint32_t> values;  // of code 0, 1, ...; empty for types of 16 bits",
        "  std::span<const EncodeCase> encoded;",
        "};",
        "",
    ]
    rows = []
    for name, ml_name, bits, _ in TYPES:
        dtype = as_dtype(ml_name)
        values = f"{name}Values"
        if bits <= 8:
            patterns = [
                0x7FC00000 if np.isnan(v) else struct.unpack("<I", struct.pack("<f", v))[0]
                for v in decode_all(dtype, bits)
            ]
            text += [f"inline constexpr uint32_t {values}[] = {{", "    " + hexes(patterns, 8, 8) + ",", "};", ""]
        else:
            values = ""
        inputs = inputs_of(dtype, bits, generator)
        codes = inputs.astype(dtype).view(np.uint8 if bits <= 8 else np.uint16)
        pairs = [f"{{0x{x:08X}, 0x{c:04X}}}" for x, c in zip(inputs.view(np.uint32), codes)]
        lines = [", ".join(pairs[i:i + 5]) for i in range(0, len(pairs), 5)]
        text += [f"inline constexpr EncodeCase {name}Encoded[] = {{", "    " + ",\n    ".join(lines) + ",", "};", ""]
        rows.append(f"    {{ElementType::{name}, {values or '{}'}, {name}Encoded}},")
    text += ["inline constexpr FloatType kFloatTypes[] = {", *rows, "};", "", "}  // namespace bitpress::formats::golden"]
    out = pathlib.Path(__file__).resolve().parents[2] / "src" / "formats" / "test_ml_dtypes_golden.h"
    out.write_text("\n".join(text) + "\n")


if __name__ == "__main__":
    main()
