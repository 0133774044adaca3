"""`python -m onnxruntime.quantization.preprocess --input MODEL --output FILE`."""

import argparse

from bitpress.compat.onnxruntime._quantize import quant_pre_process

__all__ = ["main"]


def _flag(text: str) -> bool:
    if text.lower() not in ("true", "false", "1", "0"):
        raise argparse.ArgumentTypeError(f"'{text}': expected True or False")
    return text.lower() in ("true", "1")


def main() -> None:
    parser = argparse.ArgumentParser(prog="preprocess", description="Write the float model as quantizing begins with it: constants and BatchNorm folded.")
    parser.add_argument("--input", required=True)
    parser.add_argument("--output", required=True)
    for word in ("skip_optimization", "skip_onnx_shape", "skip_symbolic_shape", "auto_merge", "guess_output_rank", "save_as_external_data",
                 "all_tensors_to_one_file"):
        parser.add_argument(f"--{word}", type=_flag, nargs="?", const=True, default=False)
    parser.add_argument("--int_max", type=int, default=2**31 - 1)
    parser.add_argument("--verbose", type=int, default=0)
    parser.add_argument("--external_data_location")
    parser.add_argument("--external_data_size_threshold", type=int, default=1024)
    given = vars(parser.parse_args())
    quant_pre_process(given.pop("input"), given.pop("output"), **given)


if __name__ == "__main__":
    main()
