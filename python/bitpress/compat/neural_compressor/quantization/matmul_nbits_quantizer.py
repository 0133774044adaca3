"""`onnx_neural_compressor.quantization.matmul_nbits_quantizer`."""

from bitpress.compat.neural_compressor._nbits import (
    AWQWeightOnlyQuantConfig,
    DefaultWeightOnlyQuantConfig,
    GPTQWeightOnlyQuantConfig,
    MatMulNBitsQuantizer,
    RTNWeightOnlyQuantConfig,
    WeightOnlyQuantConfig,
    algorithm_config_mapping,
)

__all__ = [
    "AWQWeightOnlyQuantConfig", "DefaultWeightOnlyQuantConfig", "GPTQWeightOnlyQuantConfig", "MatMulNBitsQuantizer",
    "RTNWeightOnlyQuantConfig", "WeightOnlyQuantConfig", "algorithm_config_mapping",
]
