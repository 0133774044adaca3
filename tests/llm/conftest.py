"""Fixtures of the tests of language models, and the path of the example's modules, which they import."""

import sys

import numpy as np
import pytest
from locations import ROOT
from tiny_decoders import CONTEXT

# Last, so that no module of the example hides one that other tests import.
sys.path.append(str(ROOT / "examples" / "llm"))


@pytest.fixture
def tokens(tmp_path):
    path = tmp_path / "tokens.npy"
    np.save(path, np.random.default_rng(3).integers(0, 256, (6, CONTEXT // 2)))
    return path
