#!/usr/bin/env python3
"""Quantizes a network for photos.

    python quantize_model.py --input_model_path resnet50-v1-12.onnx --output_model_path resnet50_mx6.onnx \\
        --calibration_dataset_path CALIB --config MX6

The same on the command line:

    bitpress quantize resnet50-v1-12.onnx -o resnet50_mx6.onnx --config MX6 --data CALIB --image SPEC
"""

import argparse
import sys

import bitpress

# ResNet-50 of the ONNX model zoo.
IMAGE = "resize=256,crop=224,mean=0.485/0.456/0.406,std=0.229/0.224/0.225"
ALL_PHOTOS = 1_000_000_000


def main() -> int:
    parser = argparse.ArgumentParser(description="Quantize a network for photos.")
    parser.add_argument("--input_model_path", required=True, metavar="ONNX")
    parser.add_argument("--output_model_path", required=True, metavar="ONNX")
    parser.add_argument("--calibration_dataset_path", metavar="DIR", help="photos; formats without calibration need none")
    parser.add_argument("--config", required=True, metavar="NAME", help="MX6, INT8, MXFP8E4M3_ADAQUANT, ...")
    parser.add_argument("--image", default=IMAGE, metavar="SPEC", help=f"how a photo becomes the input (default: {IMAGE})")
    parser.add_argument("--samples", type=int, default=0, metavar="N", help="photos at most (default 0: all)")
    arguments = parser.parse_args()
    # Unless told otherwise, Bitpress learns from 100 photos; here all that are there count.
    most = ALL_PHOTOS if arguments.samples == 0 else arguments.samples
    try:
        report = bitpress.quantize(arguments.input_model_path, arguments.output_model_path, arguments.config,
                                   arguments.calibration_dataset_path, image=arguments.image, samples=arguments.samples,
                                   finetune_samples=most)
    except bitpress.Error as error:
        print(f"quantize_model: {error}", file=sys.stderr)
        return 1
    share = report.output_bytes / report.input_bytes
    print(f"{arguments.output_model_path}: {report.output_bytes / 1e6:.1f} MB, {share:.1%} of the float model")
    return 0


if __name__ == "__main__":
    sys.exit(main())
