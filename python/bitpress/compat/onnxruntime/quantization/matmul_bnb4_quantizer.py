"""`onnxruntime.quantization.matmul_bnb4_quantizer`."""

from bitpress.compat.onnxruntime._names import refusing

__getattr__ = refusing(
    __name__, "MatMulBnb4Quantizer", "parse_args",
)

__all__ = []
