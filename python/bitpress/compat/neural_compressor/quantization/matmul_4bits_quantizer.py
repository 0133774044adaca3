"""`onnx_neural_compressor.quantization.matmul_4bits_quantizer`."""

from bitpress.compat.neural_compressor._nbits import (
    AWQWeightOnlyQuantConfig,
    GPTQWeightOnlyQuantConfig,
    MatMul4BitsQuantizer,
    RTNWeightOnlyQuantConfig,
)

__all__ = ["AWQWeightOnlyQuantConfig", "GPTQWeightOnlyQuantConfig", "MatMul4BitsQuantizer", "RTNWeightOnlyQuantConfig"]
