"""`onnxruntime.quantization.matmul_nbits_quantizer`."""

from bitpress.compat.onnxruntime._names import refusing
from bitpress.compat.onnxruntime._nbits import (
    DefaultWeightOnlyQuantConfig, GPTQWeightOnlyQuantConfig, HQQWeightOnlyQuantConfig, KQuantWeightOnlyQuantConfig,
    MatMulNBitsQuantizer, RTNWeightOnlyQuantConfig, WeightOnlyQuantConfig,
)

__getattr__ = refusing(
    __name__, "DefaultWeightOnlyQuantizer", "HQQWeightOnlyQuantizer", "NVAWQWeightOnlyQuantConfig", "NVAWQWeightOnlyQuantizer",
    "get_initializer", "is_divisible", "ort_convert_str_to_bool", "parse_args", "parse_key_value_pair",
    "transpose_packed_int4_matrix",
)

__all__ = [
    "DefaultWeightOnlyQuantConfig", "GPTQWeightOnlyQuantConfig", "HQQWeightOnlyQuantConfig", "KQuantWeightOnlyQuantConfig",
    "MatMulNBitsQuantizer", "RTNWeightOnlyQuantConfig", "WeightOnlyQuantConfig",
]
