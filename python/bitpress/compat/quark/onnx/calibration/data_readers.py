"""`quark.onnx.calibration.data_readers`."""

from bitpress.compat.quark._quantizer import RandomDataReader
from bitpress.compat.quark._readers import CachedDataReader, PathDataReader, get_data_reader

__all__ = [
    "CachedDataReader", "PathDataReader", "RandomDataReader", "get_data_reader",
]
