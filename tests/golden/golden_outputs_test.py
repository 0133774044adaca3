"""The operator library in ONNX Runtime against outputs of AMD Quark's own operators, bit for bit.

Two sets: ours (tests/data/golden, see its README) and, where it is on this machine, the full one it was taken from.
"""

import json
import platform
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper

from locations import ROOT, shared_dir

FOLDERS = {"own": ROOT / "tests" / "data" / "golden", "full": (shared_dir() or Path("missing")) / "golden"}
DOMAIN = "com.amd.quark"


GROUP_SIZE = 30  # cases that are nodes of one model, because the library takes a while to register


def load_groups(kind):
    """(cases, arrays) of every set that is there."""
    groups = []
    for label, folder in FOLDERS.items():
        if not (folder / f"{kind}.json").is_file():
            assert label == "full", f"{folder} is part of the repository"
            reason = "the full set (BITPRESS_SHARED_DIR) is not on this machine"
            groups.append(pytest.param(None, None, id=label, marks=pytest.mark.skip(reason=reason)))
            continue
        arrays = np.load(folder / f"{kind}.npz")
        arrays = {name: arrays[name] for name in arrays.files}
        cases = json.loads((folder / f"{kind}.json").read_text())
        for first in range(0, len(cases), GROUP_SIZE):
            marks = pytest.mark.quick if label == "own" else ()
            groups.append(pytest.param(cases[first:first + GROUP_SIZE], arrays, id=f"{label}-{first}", marks=marks))
    return groups


def run_nodes(nodes, inputs, outputs, constants, feeds, operator_library):
    """Returns {output: array}. `inputs` and `outputs`: (name, element type, shape)."""
    graph = helper.make_graph(nodes, "golden", [helper.make_tensor_value_info(*i) for i in inputs],
                              [helper.make_tensor_value_info(*o) for o in outputs], constants)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(DOMAIN, 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 2
    options.log_severity_level = 3
    options.register_custom_ops_library(str(operator_library))
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return dict(zip((name for name, *_ in outputs), session.run(None, feeds), strict=True))


def assert_same_bits(found, wanted, case):
    """Equal bit patterns; any NaN equals any other."""
    assert found.shape == wanted.shape and found.dtype == wanted.dtype
    bits = np.dtype(f"u{found.dtype.itemsize}")
    different = np.ascontiguousarray(found).view(bits) != np.ascontiguousarray(wanted).view(bits)
    if found.dtype.kind == "f":
        different &= ~(np.isnan(found) & np.isnan(wanted))
    if different.any():
        where = tuple(np.argwhere(different)[0])
        pytest.fail(f"{case}: {different.sum()} of {found.size} values differ; at {where}: {found[where]!r}, wanted {wanted[where]!r}")


@pytest.mark.parametrize("cases, arrays", load_groups("block_formats"))
def test_block_formats(cases, arrays, operator_library):
    nodes = [helper.make_node(case["op"], [f"x{i}"], [f"y{i}"], name=f"node{i}", domain=DOMAIN, **case["attrs"])
             for i, case in enumerate(cases)]
    x = {f"x{i}": arrays[case["input"]] for i, case in enumerate(cases)}
    found = run_nodes(nodes, [(name, TensorProto.FLOAT, array.shape) for name, array in x.items()],
                      [(f"y{i}", TensorProto.FLOAT, array.shape) for i, array in enumerate(x.values())], [], x, operator_library)
    for i, case in enumerate(cases):
        assert_same_bits(found[f"y{i}"], arrays[case["output"]], case)


@pytest.mark.parametrize("cases, arrays", load_groups("extended_qdq"))
def test_extended_qdq(cases, arrays, operator_library):
    nodes, inputs, outputs, constants, feeds = [], [], [], [], {}
    for i, case in enumerate(cases):
        x, scale = arrays[case["input"]], arrays[case["scale"]]
        code_type = getattr(TensorProto, case["type"].upper())
        # Zero points of float types are always 0, whose bits are 0 in all of them.
        raw = np.full(scale.shape, case["zero_point"], case["type"]).tobytes() if case["codes"] else bytes(2 * scale.size)
        constants += [helper.make_tensor(f"scale{i}", TensorProto.FLOAT, scale.shape, scale.tobytes(), raw=True),
                      helper.make_tensor(f"zero_point{i}", code_type, scale.shape, raw, raw=True)]
        attributes = {} if case["axis"] is None else {"axis": case["axis"]}
        nodes += [helper.make_node(f"Extended{verb}Linear", [f"{source}{i}", f"scale{i}", f"zero_point{i}"], [f"{target}{i}"],
                                   domain=DOMAIN, **attributes)
                  for verb, source, target in (("Quantize", "x", "codes"), ("Dequantize", "codes", "y"))]
        inputs.append((f"x{i}", TensorProto.FLOAT, x.shape))
        outputs.append((f"y{i}", TensorProto.FLOAT, x.shape))
        if case["codes"]:
            outputs.append((f"codes{i}", code_type, x.shape))
        feeds[f"x{i}"] = x
    found = run_nodes(nodes, inputs, outputs, constants, feeds, operator_library)
    for i, case in enumerate(cases):
        assert_same_bits(found[f"y{i}"], arrays[case["dequantized"]], case)
        if case["codes"]:
            assert_same_bits(found[f"codes{i}"], arrays[case["codes"]], case)


def layer_cases():
    """(cases, arrays, whether this machine has the C library that they were made with)."""
    folder = FOLDERS["own"]
    content = json.loads((folder / "extended_layers.json").read_text())
    arrays = np.load(folder / "extended_layers.npz")
    has_same_library = content["made_with"]["c_library"] == " ".join(platform.libc_ver())
    return content["cases"], {name: arrays[name] for name in arrays.files}, has_same_library


@pytest.mark.quick
def test_extended_layers(operator_library):
    """The LSTM's tanh is the C library's. With another library than the golden outputs' an output may be two codes away."""
    cases, arrays, has_same_library = layer_cases()
    nodes, inputs, outputs, feeds = [], [], [], {}
    for i, case in enumerate(cases):
        names = [f"case{i}_input{j}" for j in range(len(case["inputs"]))]
        nodes.append(helper.make_node(case["op"], names, [f"y{i}"], name=f"node{i}", domain=DOMAIN, **case["attrs"]))
        inputs += [(name, TensorProto.FLOAT, arrays[array].shape) for name, array in zip(names, case["inputs"], strict=True)]
        outputs.append((f"y{i}", TensorProto.FLOAT, arrays[case["output"]].shape))
        feeds.update((name, arrays[array]) for name, array in zip(names, case["inputs"], strict=True))
    found = run_nodes(nodes, inputs, outputs, [], feeds, operator_library)
    for i, case in enumerate(cases):
        wanted = arrays[case["output"]]
        if has_same_library or case["op"] != "ExtendedLSTM":
            assert_same_bits(found[f"y{i}"], wanted, case)
        else:
            assert np.abs(found[f"y{i}"] - wanted).max() <= 2.001 * case["attrs"]["y_scale"], case
