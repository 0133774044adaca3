#!/usr/bin/env python3
"""Makes the small models in tests/data/evaluate that src/evaluate/evaluate_test.cc runs.

    .deps/venv/bin/python tools/testdata/make_evaluate_models.py
"""

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

FOLDER = Path(__file__).resolve().parents[2] / "tests" / "data" / "evaluate"


def save(name, nodes, inputs, outputs, constants=(), external=False):
    """`inputs` and `outputs`: (name, shape[, type])."""

    def value(name, shape, element_type=TensorProto.FLOAT):
        return helper.make_tensor_value_info(name, element_type, shape)

    initializers = [numpy_helper.from_array(np.asarray(array), key) for key, array in constants]
    graph = helper.make_graph(nodes, name, [value(*i) for i in inputs], [value(*o) for o in outputs], initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model, full_check=True)
    path = FOLDER / f"{name}.onnx"
    if external:
        path.with_suffix(".bin").unlink(missing_ok=True)
        onnx.save(model, path, save_as_external_data=True, location=f"{name}.bin", size_threshold=0)
    else:
        path.write_bytes(model.SerializeToString(deterministic=True))


def main():
    FOLDER.mkdir(parents=True, exist_ok=True)
    node = helper.make_node
    scores_in, scores_out = [("x", ["N", 4])], [("scores", ["N", 4])]
    save("identity", [node("Identity", ["x"], ["scores"])], scores_in, scores_out)
    scale = [("scale", np.float32(0.9))]
    save("scaled", [node("Mul", ["x", "scale"], ["scores"])], scores_in, scores_out, scale)
    # Classes 0 and 1 change places.
    order = [("order", np.array([1, 0, 2, 3]))]
    save("swapped", [node("Gather", ["x", "order"], ["scores"], axis=1)], scores_in, scores_out, order)
    # NaN where x is negative.
    save("root", [node("Sqrt", ["x"], ["scores"])], scores_in, scores_out)
    # The same as identity, in batches of two only.
    save("fixed_batch", [node("Identity", ["x"], ["scores"])], [("x", [2, 4])], [("scores", [2, 4])])
    save("half", [node("Cast", ["x"], ["scores"], to=TensorProto.FLOAT16)], scores_in,
         [("scores", ["N", 4], TensorProto.FLOAT16)])
    # Two inputs, whose order the second model changes; a feature map before the scores.
    pair = [node("Reshape", ["a", "shape"], ["features"]), node("Sub", ["a", "b"], ["scores"])]
    shape = [("shape", np.array([-1, 1, 2, 2]))]
    outputs = [("features", ["N", 1, 2, 2]), ("scores", ["N", 4])]
    save("pair", pair, [("a", ["N", 4]), ("b", ["N", 4])], outputs, shape)
    save("pair_reversed", pair, [("b", ["N", 4]), ("a", ["N", 4])], outputs[::-1], shape)
    # The same with a third input that nothing reads: between the two, and behind them.
    inputs = [(name, ["N", 4]) for name in ("a", "unused", "b")]
    save("triple", pair, inputs, outputs, shape)
    save("triple_last", pair, [inputs[0], inputs[2], inputs[1]], outputs, shape)
    save("features", [node("Reshape", ["x", "shape"], ["features"])], scores_in, outputs[:1], shape)
    # The numbers of a box before the probabilities of classes.
    save("box", [node("Neg", ["x"], ["box"]), node("Softmax", ["x"], ["classes"])], scores_in, [("box", ["N", 4]), ("classes", ["N", 4])])
    # How sure the model is at each step, before what it finds there.
    save("steps", [node("Sigmoid", ["x"], ["sure"]), node("Identity", ["x"], ["found"])], scores_in, [("sure", ["N", 4]), ("found", ["N", 4])])
    # With external data: 2 x 16 bytes.
    save("external", [node("Mul", ["x", "ones"], ["y"]), node("Mul", ["y", "more_ones"], ["scores"])], scores_in, scores_out,
         [("ones", np.ones(4, np.float32)), ("more_ones", np.ones(4, np.float32))], external=True)


if __name__ == "__main__":
    main()
