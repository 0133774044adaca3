"""Times a model that declares a batch of 1 beside itself with a free one, for each sample, and says whether the outputs agree.

    python bench/declared_batch.py MODEL.onnx [--rows 8]
"""

import argparse
import time

import numpy as np
import onnx
import onnxruntime


def ms_of_sample(session, x, seconds=1.0):
    """The shortest of the runs of about so many seconds, in processor time of one thread."""
    name, best, end = session.get_inputs()[0].name, float("inf"), time.monotonic() + seconds
    while best == float("inf") or time.monotonic() < end:
        start = time.thread_time()
        outputs = session.run(None, {name: x})
        best = min(best, time.thread_time() - start)
    return 1000 * best / len(x), outputs


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--rows", type=int, default=8)
    arguments = parser.parse_args()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 3
    model = onnx.load(arguments.model)
    declared = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    for value in [*model.graph.input, *model.graph.output]:
        value.type.tensor_type.shape.dim[0].dim_param = "N"
    del model.graph.value_info[:]
    freed = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    x = np.random.default_rng(0).random((arguments.rows, *declared.get_inputs()[0].shape[1:]), np.float32)
    (one, _), (many, found) = ms_of_sample(declared, x[:1]), ms_of_sample(freed, x)
    wanted = [np.concatenate(rows) for rows in zip(*(declared.run(None, {declared.get_inputs()[0].name: row[None]}) for row in x))]
    agree = all(a.shape == b.shape and np.allclose(a, b, rtol=1e-3, atol=1e-5) for a, b in zip(found, wanted))
    print(f"{one:.3f} ms declared, {many:.3f} ms freed in runs of {len(x)}; outputs {'agree' if agree else 'differ'}: "
          f"{[list(a.shape) for a in found]} freed, {[list(a.shape) for a in wanted]} declared")


main()
