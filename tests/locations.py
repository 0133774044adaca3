"""The folders of the checkout, the build and the development data. CMake names them in the environment; else ./build is meant."""

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


def from_environment(name, default):
    return Path(os.environ.get(name) or default)


def shared_dir():
    """The development data beside the checkout, or None. Tests that need it skip without it."""
    folder = from_environment("BITPRESS_SHARED_DIR", ROOT.parent / "shared")
    return folder if folder.is_dir() else None


def is_ci():
    """Returns whether this is a CI run, in which everything that `./dev test` sets up must be there."""
    return os.environ.get("CI") == "true"


def cannot_run(reason):
    """Skips a test that lacks what `./dev test` sets up, such as a tool or a download. In CI that is a failure."""
    (pytest.fail if is_ci() else pytest.skip)(reason)
