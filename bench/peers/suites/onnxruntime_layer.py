"""Puts bitpress.compat.onnxruntime in the place of ONNX Runtime's quantization tool, for that tool's own test suite.

Its tests import many of the tool's insides, which stay: only the names that the dialect has are replaced.
"""

import importlib
import sys

THEIRS = "onnxruntime.quantization"
# The suite's tests bring these along and compare with them.
_KEPT = ("CalibrationDataReader", "CalibrationMethod", "QuantFormat", "QuantType", "QuantizationMode")


def install():
    for name in ("", ".quantize", ".shape_inference", ".qdq_loss_debug"):
        theirs, ours = importlib.import_module(THEIRS + name), importlib.import_module(f"bitpress.compat.{THEIRS}{name}")
        for word in ours.__all__:
            if word not in _KEPT:
                setattr(theirs, word, getattr(ours, word))
    # The versions before 1.22 have the one, later ones the other. One of them is not there in either version, and the other imports more than the suite has.
    for name in ("matmul_4bits_quantizer", "matmul_nbits_quantizer"):
        sys.modules[f"{THEIRS}.{name}"] = importlib.import_module(f"bitpress.compat.{THEIRS}.{name}")
        setattr(sys.modules[THEIRS], name, sys.modules[f"{THEIRS}.{name}"])
