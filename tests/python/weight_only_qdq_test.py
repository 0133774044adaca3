"""Weight-only models in the QDQ form: codes in blocks behind a DequantizeLinear, which compilers for other processors look for."""

import onnx
import pytest
from package_helpers import outputs, sqnr_db

import bitpress
from bitpress.compat.neural_compressor import config
from bitpress.compat.neural_compressor.quantization import QuantFormat, quantize

T = onnx.TensorProto


@pytest.mark.filterwarnings("ignore::bitpress.compat.Notice")
@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("bits, symmetric, element", [(4, True, T.INT4), (4, False, T.UINT4), (8, True, T.INT8)])
def test_codes_in_blocks_are_behind_a_dequantize_linear(bits, symmetric, element, tmp_path, matmul_path, sequences):
    path = tmp_path / "out.onnx"
    made = config.RTNConfig(weight_bits=bits, weight_sym=symmetric, weight_group_size=16, quant_format=QuantFormat.QDQ)
    quantize(str(matmul_path), str(path), made)
    model = onnx.load(str(path))
    onnx.checker.check_model(str(path), full_check=True)
    assert next(item.version for item in model.opset_import if not item.domain) >= 21 and not model.functions
    types = {item.name: item.data_type for item in model.graph.initializer}
    pairs = [node for node in model.graph.node if node.op_type == "DequantizeLinear"]
    assert len(pairs) == 2 and {types[node.input[0]] for node in pairs} == {element}
    assert {item.i for node in pairs for item in node.attribute if item.name == "block_size"} == {16}
    wanted = outputs(matmul_path, {"x": sequences})[0]
    packed = tmp_path / "packed.onnx"
    bitpress.quantize(matmul_path, packed, "none", weights=f"{'' if symmetric else 'u'}int{bits}", weight_symmetric=symmetric,
                      weight_granularity="per_block", weight_block_size=16)
    same = sqnr_db(wanted, outputs(packed, {"x": sequences})[0])
    # ONNX Runtime's optimizer makes products of them that round the other side to 8 bits.
    assert abs(sqnr_db(wanted, outputs(path, {"x": sequences}, on_integers=False)[0]) - same) < 0.1
