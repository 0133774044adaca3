"""`quark.onnx.calibration`."""

from bitpress.compat.quark._names import refusing
from bitpress.compat.quark._quantizer import RandomDataReader
from bitpress.compat.quark._readers import CachedDataReader, PathDataReader, get_data_reader
from bitpress.compat.quark._types import ExtendedCalibrationMethod, Int16Method, LayerWiseMethod, PowerOfTwoMethod

__getattr__ = refusing(
    __name__, "calibrate_model", "create_calibrator_float_scale", "create_calibrator_power_of_two",
    "fake_calibration", "nearest_non_passthrough_ancestor_mapping", "run_calibration", "save_tensor_hist_fig",
    "update_tensors_range_with_dependencies",
)

__all__ = [
    "CachedDataReader", "ExtendedCalibrationMethod", "Int16Method", "LayerWiseMethod", "PathDataReader",
    "PowerOfTwoMethod", "RandomDataReader", "get_data_reader",
]
