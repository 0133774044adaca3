"""`quark.onnx.quantizers`."""

from bitpress.compat.quark._names import refusing

__getattr__ = refusing(
    __name__, "create_dynamic_quantizer", "create_matmul_nbits_quantizer", "create_static_quantizer",
    "get_dynamic_op_types", "get_static_op_types", "run_dynamic_quantization", "run_matmul_nbits_quantization",
    "run_static_quantization",
)
