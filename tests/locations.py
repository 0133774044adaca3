"""The folders of the checkout, the build and the development data."""

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
DEPS = ROOT / ".deps"


def from_environment(name, default):
    return Path(os.environ.get(name) or default)


# tests/run.py names the build folder; by hand build/ is meant.
BUILD = from_environment("BITPRESS_BUILD_DIR", ROOT / "build")
PACKAGE = BUILD / "python"  # the Python package as the build leaves it
# The build's programs with an ONNX Runtime that sees no VNNI.
NO_VNNI = BUILD / "tests" / "no_vnni"
# Tests of integers run a second time with these.
HAS_NO_VNNI = os.environ.get("BITPRESS_NO_VNNI") == "1"


def is_sanitized():
    """Returns whether the build has a sanitizer, which Python does not load and which reserves memory for itself."""
    cache = BUILD / "CMakeCache.txt"
    return cache.is_file() and "-fsanitize" in cache.read_text(encoding="utf-8")


def built(name):
    """Returns the path of a program or library of the build."""
    path = (NO_VNNI if HAS_NO_VNNI and (NO_VNNI / name).is_file() else BUILD) / name
    assert path.is_file(), f"{path} is not built"
    return path


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
