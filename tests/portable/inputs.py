"""Numbers that make quantizers differ: every float16, every float32 exponent, ties, limits, specials. Same seed, same bytes."""

import numpy as np

ALL_HALVES = np.arange(65536, dtype=np.uint16).view(np.float16)
SPECIALS = np.array([np.nan, np.inf, -np.inf, 0, -0.0, 1e-45, -1e-45, 2.0**-126, -(2.0**-126), 3.4028235e38, -3.4028235e38],
                    np.float32)
LARGEST = float(np.finfo(np.float32).max)


def to_float32(x):
    with np.errstate(over="ignore"):
        return np.asarray(x, np.float64).astype(np.float32)


def near(values, rng):
    """The values and up to two neighbours of each on either side, in float32."""
    bits = np.abs(to_float32(values)).view(np.uint32).astype(np.int64) + rng.integers(-2, 3, np.shape(values))
    return np.clip(bits, 0, 0x7F7FFFFF).astype(np.uint32).view(np.float32)


def with_random_signs(x, rng):
    return np.where(rng.random(x.shape) < 0.5, -x, x)


def sprinkle(x, rng, share=0.03):
    """A copy of x with special values here and there."""
    x = x.copy()
    places = rng.random(x.shape) < share
    x[places] = rng.choice(SPECIALS, places.sum())
    return x


def rows_of_every_exponent(rng, num_rows, width=32):
    exponents = rng.permutation(np.resize(np.arange(-149, 128), num_rows))[:, None].astype(np.float64)
    return exponents, rng.standard_normal((num_rows, width))


def battery(rng, num_rows):
    """Float32 values in an order in which neighbours belong together."""
    exponents, values = rows_of_every_exponent(rng, num_rows)
    shape = values.shape
    every_exponent = to_float32(values * np.exp2(exponents)).ravel()
    # Few mantissa bits: half of them are ties of some format.
    ties = to_float32(rng.integers(-4096, 4096, shape) * np.exp2(exponents - rng.integers(0, 13, (num_rows, 1)))).ravel()
    short_ties = to_float32(rng.integers(-64, 65, shape) * np.exp2(exponents - 5)).ravel()
    powers = with_random_signs(near(np.exp2(rng.integers(-149, 128, shape).astype(np.float64)), rng), rng).ravel()
    # Largest magnitudes around the limits at which ceil and even choose the next scale, for all numbers of mantissa bits.
    limits = rng.choice([2 - 2.0**-k for k in range(1, 24)], (num_rows, 1)) * np.exp2(exponents)
    at_limits = with_random_signs(to_float32(near(limits, rng).astype(np.float64) * rng.uniform(0, 1, shape)), rng)
    at_limits[:, 0] = near(limits, rng)[:, 0]
    # Exponents that small shared exponents (bfp) can store, and just not.
    moderate = to_float32(values * np.exp2(rng.integers(-12, 14, (num_rows, 1)).astype(np.float64))).ravel()
    random_bits = rng.integers(0, 2**32, num_rows * 32, dtype=np.uint32).view(np.float32)
    zeros = np.where(np.arange(128) % 3 == 0, np.float32(-0.0), np.float32(0.0))
    parts = [every_exponent, sprinkle(every_exponent, rng), ties, short_ties, powers, at_limits.ravel(), moderate,
             sprinkle(moderate, rng, 0.005), random_bits, zeros, np.repeat(SPECIALS, 67)]
    return np.concatenate(parts)


def exhaustive(rng):
    halves = ALL_HALVES.astype(np.float32)
    return np.concatenate([halves, rng.permutation(halves), battery(rng, 554)])
