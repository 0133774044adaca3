#!/usr/bin/env python3
"""The two kinds of x86 processors, as environments for this Python. As a program: prints which kind its ONNX Runtime computes for."""

import json
import os
import subprocess
import sys

WITHOUT, WITH = "without VNNI", "with VNNI"


class ProcessorError(Exception):
    """An interpreter does not work, or computes for another kind than it is meant for."""


def saturates() -> bool:
    """Returns whether sums of two 8-bit products lose bits: 255 * 127 + 255 * 127 does not fit 16 of them."""
    import numpy as np
    from onnx import TensorProto, helper, numpy_helper
    from samples import open_session
    graph = helper.make_graph([helper.make_node("MatMulInteger", ["a", "b"], ["y"])], "sum",
                              [helper.make_tensor_value_info("a", TensorProto.UINT8, [1, 2])],
                              [helper.make_tensor_value_info("y", TensorProto.INT32, [1, 1])],
                              [numpy_helper.from_array(np.full((2, 1), 127, np.int8), "b")])
    model = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)])
    product = open_session(model.SerializeToString()).run(None, {"a": np.full((1, 2), 255, np.uint8)})[0]
    return product.item() != 2 * 255 * 127


def ask(environment: dict) -> tuple:
    """(kind, version of ONNX Runtime)"""
    result = subprocess.run([sys.executable, __file__], env={**os.environ, **environment}, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        lines = result.stderr.strip().splitlines() or [f"exit status {result.returncode}"]
        raise ProcessorError(lines[-1])
    answer = json.loads(result.stdout)
    return answer["kind"], answer["version"]


def environments(no_vnni_dir) -> tuple:
    """({kind: variables to set}, notes for the table). Kernels without VNNI run everywhere, kernels with it only where it is."""
    kind, version = ask({})
    notes = [f"{kind}: ONNX Runtime {version}"]
    if kind == WITHOUT:
        return {WITHOUT: {}}, [*notes, f"This processor has no VNNI, so that there are no columns {WITH}."]
    library, site = no_vnni_dir.resolve() / "narrow_cpu.so", no_vnni_dir.resolve() / "site"
    if not (library.is_file() and site.is_dir()):
        return {WITH: {}}, [*notes, f"{no_vnni_dir} has no narrow_cpu.so and site/, so that there are no columns {WITHOUT}."]
    narrow = {"LD_PRELOAD": str(library), "PYTHONPATH": str(site)}
    try:
        kind, version = ask(narrow)
    except ProcessorError as error:
        # Its ONNX Runtime is built for the version of Python that the build has found.
        raise ProcessorError(f"{site} does not work with {sys.executable}: {error}") from None
    if kind != WITHOUT:
        raise ProcessorError(f"{no_vnni_dir} computes {kind}")
    return {WITHOUT: narrow, WITH: {}}, [f"{WITHOUT}: ONNX Runtime {version}", *notes]


if __name__ == "__main__":
    import onnxruntime
    print(json.dumps({"kind": WITHOUT if saturates() else WITH, "version": onnxruntime.__version__}))
