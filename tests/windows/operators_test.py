"""All operators in ONNX Runtime for Windows give the bits that they give on Linux, and those of other tools."""

import format_table_test
import golden_outputs_test
import models
import numpy as np
import onnx
import onnxruntime
import pytest
import quark_models_test
import rig

windows = pytest.mark.windows
FORMATS = sorted(set(format_table_test.FORMATS) - format_table_test.HAVE_NO_OPERATORS)


@pytest.mark.parametrize("cases, arrays", golden_outputs_test.load_groups("block_formats"))
def test_block_formats_of_quark(cases, arrays, operator_dll, on_windows):
    on_windows(golden_outputs_test)
    golden_outputs_test.test_block_formats(cases, arrays, operator_dll)


@pytest.mark.parametrize("cases, arrays", golden_outputs_test.load_groups("extended_qdq"))
def test_integers_of_quark(cases, arrays, operator_dll, on_windows):
    on_windows(golden_outputs_test)
    golden_outputs_test.test_extended_qdq(cases, arrays, operator_dll)


@windows
@pytest.mark.parametrize("name", ["efficientnet_lite0_mxfp8e4m3", "efficientnet_lite0_bf16"])
def test_models_of_quark(name, shared, operator_dll, on_windows):
    on_windows(quark_models_test)
    quark_models_test.test_logits(name, shared, operator_dll)


def bits(array):
    return array.shape, array.dtype, array.tobytes()


@pytest.fixture(scope="module")
def odd(tmp_path_factory):
    path = tmp_path_factory.mktemp("odd") / "odd.onnx"
    onnx.save(models.odd_model(), path)
    return path


def assert_same_on_both(path, inputs, operator_library, operator_dll):
    """Several sessions at a time, with several threads each, on Windows, and one of one thread on Linux."""
    linux = onnxruntime.SessionOptions()
    linux.intra_op_num_threads, linux.log_severity_level = 1, 3
    linux.register_custom_ops_library(str(operator_library))
    wanted = onnxruntime.InferenceSession(str(path), linux, providers=["CPUExecutionProvider"]).run(None, inputs)
    options = rig.SessionOptions()
    options.intra_op_num_threads, options.sessions = 3, 2
    options.register_custom_ops_library(operator_dll)
    found = rig.InferenceSession(path, options).run(None, inputs, runs=2)
    assert [bits(array) for array in found] == [bits(array) for array in wanted]


@pytest.mark.parametrize("name", [name if name in format_table_test.QUICK else pytest.param(name, marks=windows) for name in FORMATS])
def test_a_format_on_both_sides(name, odd, bitpress, operator_library, operator_dll, tmp_path):
    output = tmp_path / "out.onnx"
    bitpress.ok("quantize", odd, "-o", output, "--config", "BF16", "--activations", name, "--weights", name)
    assert any(node.domain not in ("", "ai.onnx") for node in onnx.load(output).graph.node)
    assert_same_on_both(output, models.odd_inputs(), operator_library, operator_dll)


@windows
@pytest.mark.parametrize("words", ["--target bitpress", "--target portable", "--storage simulated", "--set operators=quark"])
def test_each_kind_of_operators(words, odd, bitpress, operator_library, operator_dll, tmp_path):
    output = tmp_path / "out.onnx"
    bitpress.ok("quantize", odd, "-o", output, "--config", "MXFP8E4M3", *words.split())
    assert_same_on_both(output, models.odd_inputs(), operator_library, operator_dll)


def test_a_model_that_needs_no_operators_of_ours(operator_library, operator_dll, tmp_path):
    path = models.save(models.conv_model(), tmp_path / "conv.onnx")
    image = np.random.default_rng(0).standard_normal((4, *models.CONV_INPUT)).astype(np.float32)
    assert_same_on_both(path, {"image": image}, operator_library, operator_dll)
