"""The operator library in ONNX Runtime against outputs of AMD Quark's own operators, bit for bit.

Two sets: ours (tests/data/golden, see its README) and, where it is on this machine, the full one it was taken from.
"""

import json
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper

from locations import ROOT, shared_dir

FOLDERS = {"own": ROOT / "tests" / "data" / "golden", "full": (shared_dir() or Path("missing")) / "golden"}
DOMAIN = "com.amd.quark"


def load_cases(kind):
    """(name, case, arrays) of every set that is there."""
    cases = []
    for label, folder in FOLDERS.items():
        if not (folder / f"{kind}.json").is_file():
            assert label == "full", f"{folder} is part of the repository"
            reason = "the full set (BITPRESS_SHARED_DIR) is not on this machine"
            cases.append(pytest.param(None, None, id=label, marks=pytest.mark.skip(reason=reason)))
            continue
        arrays = np.load(folder / f"{kind}.npz")
        arrays = {name: arrays[name] for name in arrays.files}
        for index, case in enumerate(json.loads((folder / f"{kind}.json").read_text())):
            cases.append(pytest.param(case, arrays, id=f"{label}-{index}"))
    return cases


def make_session(nodes, inputs, outputs, constants, operator_library):
    """`inputs` and `outputs`: (name, element type, shape)."""
    graph = helper.make_graph(nodes, "golden", [helper.make_tensor_value_info(*i) for i in inputs],
                              [helper.make_tensor_value_info(*o) for o in outputs], constants)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(DOMAIN, 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 2
    options.log_severity_level = 3
    options.register_custom_ops_library(str(operator_library))
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def assert_same_bits(found, wanted):
    """Equal bit patterns; any NaN equals any other."""
    assert found.shape == wanted.shape and found.dtype == wanted.dtype
    bits = np.dtype(f"u{found.dtype.itemsize}")
    different = np.ascontiguousarray(found).view(bits) != np.ascontiguousarray(wanted).view(bits)
    if found.dtype.kind == "f":
        different &= ~(np.isnan(found) & np.isnan(wanted))
    if different.any():
        where = tuple(np.argwhere(different)[0])
        pytest.fail(f"{different.sum()} of {found.size} values differ; at {where}: {found[where]!r}, wanted {wanted[where]!r}")


@pytest.mark.parametrize("case, arrays", load_cases("block_formats"))
def test_block_formats(case, arrays, operator_library):
    x, wanted = arrays[case["input"]], arrays[case["output"]]
    node = helper.make_node(case["op"], ["x"], ["y"], name="node", domain=DOMAIN, **case["attrs"])
    session = make_session([node], [("x", TensorProto.FLOAT, x.shape)], [("y", TensorProto.FLOAT, x.shape)], [],
                           operator_library)
    assert_same_bits(session.run(None, {"x": x})[0], wanted)


@pytest.mark.parametrize("case, arrays", load_cases("extended_qdq"))
def test_extended_qdq(case, arrays, operator_library):
    x, scale = arrays[case["input"]], arrays[case["scale"]]
    code_type = getattr(TensorProto, case["type"].upper())
    # Zero points of float types are always 0, whose bits are 0 in all of them.
    raw = np.full(scale.shape, case["zero_point"], case["type"]).tobytes() if case["codes"] else bytes(2 * scale.size)
    constants = [helper.make_tensor("scale", TensorProto.FLOAT, scale.shape, scale.tobytes(), raw=True),
                 helper.make_tensor("zero_point", code_type, scale.shape, raw, raw=True)]
    attributes = {} if case["axis"] is None else {"axis": case["axis"]}
    nodes = [helper.make_node(f"Extended{verb}Linear", [source, "scale", "zero_point"], [target], domain=DOMAIN, **attributes)
             for verb, source, target in (("Quantize", "x", "codes"), ("Dequantize", "codes", "y"))]
    outputs = [("y", TensorProto.FLOAT, x.shape)] + ([("codes", code_type, x.shape)] if case["codes"] else [])
    session = make_session(nodes, [("x", TensorProto.FLOAT, x.shape)], outputs, constants, operator_library)
    results = session.run(None, {"x": x})
    assert_same_bits(results[0], arrays[case["dequantized"]])
    if case["codes"]:
        assert_same_bits(results[1], arrays[case["codes"]])
