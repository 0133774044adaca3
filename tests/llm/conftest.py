"""Fixtures of the tests of language models."""

import numpy as np
import pytest
from tiny_decoders import CONTEXT


@pytest.fixture
def tokens(tmp_path):
    path = tmp_path / "tokens.npy"
    np.save(path, np.random.default_rng(3).integers(0, 256, (6, CONTEXT // 2)))
    return path
