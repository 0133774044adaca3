"""bench/peers/suites runs a peer's test suite with our package in the peer's place, and sorts its tests. The suites here are small ones of ours."""

import json
import subprocess
import sys
import textwrap

import pytest
from locations import PACKAGE, ROOT

RUN = ROOT / "bench" / "peers" / "suites" / "run.py"
MODEL = """
    import numpy as np
    import onnx
    import unittest

    def model(path):
        weight = onnx.numpy_helper.from_array(np.arange(1024, dtype=np.float32).reshape(32, 32) / 1024, "w")
        io = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1, 32]) for name in ("x", "y")]
        graph = onnx.helper.make_graph([onnx.helper.make_node("MatMul", ["x", "w"], ["y"], name="product")], "one", io[:1], io[1:], [weight])
        onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)]), path)
        return path
"""
COMPRESSOR = {
    "quantization/test_rtn.py": MODEL + """
    from optimum.exporters.onnx import main_export
    from onnx_neural_compressor import logger, utility
    from onnx_neural_compressor.quantization import algorithm_entry as algos
    from onnx_neural_compressor.quantization import config, matmul_nbits_quantizer, quantize, tuning

    class TestRTN(unittest.TestCase):
        @classmethod
        def setUpClass(cls):
            main_export("hub/tiny", output="tiny")
            cls.tiny = "tiny/model.onnx"

        def test_passes(self):
            logger.info("once")
            quantizer = matmul_nbits_quantizer.MatMulNBitsQuantizer(self.tiny, block_size=32)
            quantizer.process()
            self.assertEqual(sum(node.op_type == "MatMulNBits" for node in quantizer.model.graph.node), 30)
            quantize(model("m.onnx"), "q.onnx", config.RTNConfig())

        def test_private_function(self):
            algos.rtn.apply(self.tiny)

        def test_private_class(self):
            class Mine(tuning.TuningMonitor):
                pass
            Mine(1)

        def test_names(self):
            made = quantize(self.tiny, None, config.RTNConfig())
            self.assertIn("product_Q4", [node.name for node in made.graph.node])

        def test_calls_nothing(self):
            self.assertEqual(1, 1)

        @unittest.skip("not here")
        def test_skipped(self):
            pass

        def test_documented(self):
            config.RTNConfig(weight_bits=3)
            self.assertEqual("three bits", "a model")

        def test_unknown(self):
            self.assertEqual(config.RTNConfig().weight_bits, 5)
    """,
    "utils/test_import.py": """
    import a_package_that_is_nowhere
    def test_first(): pass
    def test_second(): pass
    """,
}
RUNTIME = {
    "helpers_of_tests.py": MODEL,
    "test_op.py": """
    import unittest
    import numpy as np
    import onnx
    from helpers_of_tests import model
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_dynamic, quantize_static
    from onnxruntime.quantization import matmul_4bits_quantizer

    class Feeds(CalibrationDataReader):
        def __init__(self):
            self.items = iter([{"x": np.ones((1, 32), np.float32)}])
        def get_next(self):
            return next(self.items, None)

    class TestOp(unittest.TestCase):
        def test_static(self):
            quantize_static(model("m.onnx"), "q.onnx", Feeds(), quant_format=QuantFormat.QOperator, activation_type=QuantType.QUInt8)
            self.assertIn("bitpress", {item.key.split(".")[0] for item in onnx.load("q.onnx").metadata_props})
        def test_dynamic(self):
            quantize_dynamic(model("m.onnx"), "q.onnx", nodes_to_exclude=["product"])
            self.assertEqual([node.op_type for node in onnx.load("q.onnx").graph.node], ["MatMul"])
        def test_products(self):
            quantizer = matmul_4bits_quantizer.MatMul4BitsQuantizer(onnx.load(model("m.onnx")), 32, True)
            quantizer.process()
            self.assertEqual([node.op_type for node in quantizer.model.model.graph.node], ["MatMulNBits"])
        def test_private(self):
            from onnxruntime.quantization.quant_utils import compute_scale_zp
            self.assertTrue(callable(compute_scale_zp))
    """,
}
REASONS = {"neural_compressor": [{"error": "product_Q4", "kind": "not applicable", "why": "names"},
                                 {"test": "test_documented", "error": "three bits", "kind": "documented difference", "why": "three bits"},
                                 {"error": "No module named", "kind": "not applicable", "why": "packages"}], "onnxruntime": []}


def run(peer, files, folder):
    for name, text in files.items():
        (folder / "suite" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "suite" / name).write_text(textwrap.dedent(text), encoding="utf-8")
    (folder / "reasons.json").write_text(json.dumps(REASONS), encoding="utf-8")
    command = [sys.executable, str(RUN), peer, str(folder / "suite"), "--package", str(PACKAGE), "--reasons", str(folder / "reasons.json"),
               "--json", str(folder / "out.json")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (folder / "out.json").is_file(), done.stdout + done.stderr
    found = {item["test"].rsplit("::", 1)[-1]: (item["kind"], item["why"]) for item in json.loads((folder / "out.json").read_text(encoding="utf-8"))}
    return done, found


def test_a_suite_of_neural_compressor(tmp_path):
    done, found = run("neural_compressor", COMPRESSOR, tmp_path)
    kinds = {name: kind for name, (kind, _) in found.items()}
    assert kinds == {
        "test_passes": "passed", "test_private_function": "not applicable", "test_private_class": "not applicable", "test_names": "not applicable",
        "test_calls_nothing": "not applicable", "test_skipped": "not applicable", "test_documented": "documented difference",
        "test_unknown": "undocumented difference", "test_first": "not applicable", "test_second": "not applicable"}
    assert found["test_private_class"][1] == found["test_private_function"][1] == "it is about private functions"
    assert found["test_calls_nothing"][1] == "it never calls the package" and found["test_documented"][1] == "three bits"
    assert found["test_unknown"][1] == "self.assertEqual(config.RTNConfig().weight_bits, 5) | AssertionError: 4 != 5"
    assert done.returncode == 1 and "    1 passed" in done.stdout and "   10 tests" in done.stdout and "test_rtn.py::TestRTN::test_unknown" in done.stdout
    assert not [path for path in (tmp_path / "suite").rglob("*") if path.suffix not in ("", ".py")]  # written elsewhere


def test_a_suite_of_onnxruntime(tmp_path):
    done, found = run("onnxruntime", RUNTIME, tmp_path)
    assert {name: kind for name, (kind, _) in found.items()} == {
        "test_static": "passed", "test_dynamic": "passed", "test_products": "passed", "test_private": "not applicable"}, done.stdout
    assert done.returncode == 0


@pytest.mark.quick
def test_reasons_are_of_known_kinds():
    reasons = json.loads((RUN.parent / "reasons.json").read_text(encoding="utf-8"))
    assert set(reasons) == set(REASONS)
    for peer in reasons.values():
        assert all(reason["kind"] in ("not applicable", "documented difference") and reason["why"] and reason["error"] for reason in peer)
