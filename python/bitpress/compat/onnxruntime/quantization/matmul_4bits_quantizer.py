"""`onnxruntime.quantization.matmul_4bits_quantizer` of versions before 1.22."""

from typing import Any, Optional, Sequence, Tuple

from bitpress._files import Model
from bitpress.compat._enums import QuantFormat
from bitpress.compat.onnxruntime._nbits import (
    DefaultWeightOnlyQuantConfig, GPTQWeightOnlyQuantConfig, HQQWeightOnlyQuantConfig, MatMulNBitsQuantizer, RTNWeightOnlyQuantConfig,
    WeightOnlyQuantConfig,
)


class MatMul4BitsQuantizer(MatMulNBitsQuantizer):
    """MatMulNBitsQuantizer with four bits."""

    def __init__(self, model: Model, block_size: int = 128, is_symmetric: bool = False, accuracy_level: Optional[int] = None,
                 nodes_to_exclude: Optional[Sequence[str]] = None, quant_format: Any = QuantFormat.QOperator,
                 op_types_to_quantize: Optional[Sequence[str]] = None, quant_axes: Optional[Sequence[Tuple[str, int]]] = None,
                 algo_config: Any = None) -> None:
        super().__init__(model, 4, block_size, is_symmetric, accuracy_level, nodes_to_exclude, None, quant_format, op_types_to_quantize, quant_axes,
                         False, algo_config)


__all__ = [
    "DefaultWeightOnlyQuantConfig", "GPTQWeightOnlyQuantConfig", "HQQWeightOnlyQuantConfig", "MatMul4BitsQuantizer", "RTNWeightOnlyQuantConfig",
    "WeightOnlyQuantConfig",
]
