#!/usr/bin/env python3
"""Top-1 and top-5 accuracy of a network, float or quantized, on a folder with one subfolder a class.

    python onnx_validate.py VAL --batch-size 20 --onnx-input resnet50_mx6.onnx

The same on the command line:

    bitpress evaluate resnet50_mx6.onnx --data VAL --image SPEC

With --gpu the model runs in a session with CUDAExecutionProvider (onnxruntime-gpu), where there is one.
"""

import argparse
import sys
from pathlib import Path

import bitpress
from quantize_model import IMAGE


def warn_of_missing_classes(model: str, folder: str, class_output: str) -> None:
    """Says that accuracy means nothing where the subfolders are not all classes of the model: a label is a subfolder's position."""
    folders = [item for item in Path(folder).iterdir() if item.is_dir()]
    scores = [size for size in bitpress.inspect(model).output_shapes.get(class_output, [])[1:] if size != 1]
    if folders and len(scores) == 1 and scores[0] > 0 and len(folders) != scores[0]:
        print(f"onnx_validate: {folder} has {len(folders)} subfolders, but the model has {scores[0]} classes: the label of a photo is the "
              "position of its subfolder among all, so the figures are wrong unless the missing classes come last; use a folder with "
              "photos of every class, or --labels", file=sys.stderr)


def open_on_cuda(model: str):
    """A session on CUDA, or None after a line that says why there is none."""
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.register_custom_ops_library(bitpress.get_library_path())
    session, why_not = None, f"onnxruntime {onnxruntime.__version__} has no CUDAExecutionProvider (onnxruntime-gpu has it)"
    if "CUDAExecutionProvider" in onnxruntime.get_available_providers():
        try:
            session = onnxruntime.InferenceSession(model, options, providers=["CUDAExecutionProvider", "CPUExecutionProvider"])
            why_not = "" if "CUDAExecutionProvider" in session.get_providers() else "CUDA does not start, see ONNX Runtime's message"
        except Exception as error:  # its classes are those of the installed version
            why_not = str(error).splitlines()[0]
    if why_not:
        print(f"onnx_validate: --gpu: {why_not}: the model is evaluated on the CPU", file=sys.stderr)
        return None
    return session


def accuracy(session, arguments) -> tuple:
    """Number of photos with a class, and top-1 and top-5 of the first output."""
    count, hits = 0, {1: 0, 5: 0}
    name = session.get_inputs()[0].name
    for pixels, labels, _ in bitpress.read_photos(arguments.data, arguments.image, labels=arguments.labels, batch_size=arguments.batch_size,
                                                  samples=arguments.samples):
        scores = session.run(None, {name: pixels})[0].reshape(len(pixels), -1)
        for row, label in zip((-scores).argsort(axis=1, kind="stable"), labels):
            count += 1
            for k in hits:
                hits[k] += label in row[:k]
    return count, hits[1] / max(count, 1), hits[5] / max(count, 1)


def main() -> int:
    parser = argparse.ArgumentParser(description="Top-1 and top-5 accuracy of a network.")
    parser.add_argument("data", metavar="DIR", help="photos, one subfolder a class; or any, with --labels")
    parser.add_argument("--batch-size", type=int, default=20, metavar="N")
    parser.add_argument("--onnx-input", required=True, metavar="MODEL")
    parser.add_argument("--labels", metavar="CSV", help="columns file,class")
    parser.add_argument("--image", default=IMAGE, metavar="SPEC", help=f"how a photo becomes the input (default: {IMAGE})")
    parser.add_argument("--samples", type=int, default=0, metavar="N", help="photos at most (default 0: all)")
    parser.add_argument("--gpu", action="store_true", help="run the model on CUDA, with our operators; on the CPU where that is not possible")
    arguments = parser.parse_args()
    if arguments.gpu and (session := open_on_cuda(arguments.onnx_input)):
        try:
            count, top1, top5 = accuracy(session, arguments)
        except bitpress.Error as error:
            print(f"onnx_validate: {error}", file=sys.stderr)
            return 1
        print(f"{count} photos on CUDA: top-1 {top1:.2%}, top-5 {top5:.2%}" if count else "onnx_validate: the photos have no classes")
        return 0 if count else 1
    try:
        report = bitpress.evaluate(arguments.onnx_input, arguments.data, image=arguments.image, labels=arguments.labels,
                                   batch_size=arguments.batch_size, samples=arguments.samples)
    except bitpress.Error as error:
        print(f"onnx_validate: {error}", file=sys.stderr)
        return 1
    if arguments.labels is None:
        warn_of_missing_classes(arguments.onnx_input, arguments.data, report.class_output)
    if report.top1 is None or report.top5 is None:
        print("onnx_validate: the photos have no classes (one subfolder a class, or --labels), or the model has no scores", file=sys.stderr)
        return 1
    print(f"{report.num_labelled} photos: top-1 {report.top1:.2%}, top-5 {report.top5:.2%}, {report.file_bytes / 1e6:.1f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
