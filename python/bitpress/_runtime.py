"""Finds the installed onnxruntime package without importing it, and our own files."""

import importlib.util
import sys
from pathlib import Path
from typing import Optional

from bitpress import _native
from bitpress._files import PathLike, existing

PACKAGE = Path(_native.__file__).resolve().parent
IS_WINDOWS = sys.platform == "win32"
# In the package `onnxruntime`, whose file names its version where the system's libraries do.
ONNXRUNTIME = {"win32": "onnxruntime.dll", "darwin": "libonnxruntime.*.dylib"}.get(sys.platform, "libonnxruntime.so.*")


def find_onnxruntime() -> Optional[Path]:
    """The library in the installed package; None if there is none."""
    spec = importlib.util.find_spec("onnxruntime")
    for folder in (spec.submodule_search_locations or []) if spec else []:
        for library in sorted((Path(folder) / "capi").glob(ONNXRUNTIME)):
            return library
    return None


def use_onnxruntime() -> None:
    """Says which library to open. Without the package it is the system's, if there is one."""
    library = find_onnxruntime()
    if library is not None:
        _native.set_onnxruntime(library)


def use_operator_library(library: PathLike) -> None:
    """Makes models with operators of this library run, in all later work of this process and of the workers that it starts.

    Name only a library that you trust. Workers on other machines find it at the same path.

    Args:
        library: a shared library that exports RegisterCustomOps, as for `onnxruntime.SessionOptions.register_custom_ops_library`.
    """
    _native.use_operator_library(existing(library, "operator library"))


def get_library_path() -> str:
    """The operator library, for `onnxruntime.SessionOptions.register_custom_ops_library`."""
    return str(PACKAGE / ("bitpress_ops.dll" if IS_WINDOWS else "libbitpress_ops.so"))


def get_program_path() -> str:
    """The command-line program."""
    return str(PACKAGE / ("bitpress.exe" if IS_WINDOWS else "bitpress"))
