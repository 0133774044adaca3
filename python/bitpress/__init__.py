"""Bitpress presses ONNX models into fewer bits.

>>> import bitpress
>>> bitpress.quantize("model.onnx", "model_mx6.onnx", config="MX6")
>>> bitpress.evaluate("model_mx6.onnx", data="photos", reference="model.onnx", image="resize=256,crop=224")

Every function of the command line is here under its name; `bitpress.compat` has the interfaces of other tools.
"""

from bitpress import formats
from bitpress._api import (
    Config,
    Plan,
    calibrate,
    check,
    evaluate,
    hub,
    inspect,
    merge,
    optimize,
    presets,
    read_calibration,
    read_evaluation,
    settings,
    unpack,
)
from bitpress._errors import (
    ArgumentTypeError,
    Error,
    ExecutionError,
    FileError,
    InvalidArgumentError,
    InvalidModelError,
    MissingFileError,
    QuantizationWarning,
    UnsupportedError,
)
from bitpress._native import (
    Calibration,
    EvaluationReport,
    HubChoice,
    HubFile,
    HubReport,
    InspectReport,
    MomentsReport,
    OptimizeReport,
    QuantizeReport,
    TargetReport,
    TuneReport,
    UnpackReport,
)
from bitpress._native import version as _version
from bitpress._photos import read_photos
from bitpress._quantize import moments, plan, quantize, quantize_to_bytes, tune
from bitpress._report import report
from bitpress._runtime import get_library_path, get_program_path, use_operator_library
from bitpress._samples import WholeItems
from bitpress._search import SearchResult, auto, autotune, search, sensitivity
from bitpress._text import Text, Tokens

__version__ = _version()

__all__ = [
    "ArgumentTypeError", "Calibration", "Config", "Error", "EvaluationReport", "ExecutionError", "FileError",
    "HubChoice", "HubFile", "HubReport", "InspectReport", "InvalidArgumentError", "InvalidModelError", "MissingFileError", "MomentsReport",
    "OptimizeReport", "Plan", "QuantizationWarning", "QuantizeReport", "SearchResult", "TargetReport", "Text", "Tokens", "TuneReport", "UnpackReport",
    "UnsupportedError", "auto", "autotune", "calibrate", "check",
    "evaluate", "formats", "get_library_path", "get_program_path", "hub", "inspect", "merge", "moments", "optimize", "plan", "presets", "quantize",
    "quantize_to_bytes", "read_calibration", "read_evaluation", "read_photos", "report", "search", "sensitivity", "settings", "tune", "unpack",
    "use_operator_library", "WholeItems",
]
