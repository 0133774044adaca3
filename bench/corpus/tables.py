"""Inputs of networks that read the rows of a table: settings of learning methods, whose accuracy the networks foretell."""

import itertools

import numpy as np
from samples import rng_of


def rows(side, salt, ranges):
    """One row a sample, of whole numbers from the ranges, which end before their last number."""
    for i in itertools.count():
        rng = rng_of(side, i, salt)
        yield {"input": np.array([[rng.integers(*each) for each in ranges]], np.float32)}


def neighbors(cache, side):
    """Number of neighbours, algorithm, number of folds, data set."""
    del cache  # the samples need no file
    return rows(side, 30, [(3, 150), (0, 4), (2, 11), (0, 3)])


def boosting(cache, side):
    """Number of folds, data set, depth, number of trees."""
    del cache
    return rows(side, 31, [(2, 11), (0, 1), (2, 25), (5, 200)])
