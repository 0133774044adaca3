#!/usr/bin/env python3
"""Accuracy of a network in every block format under several settings, as a Markdown table, through the command line.

    tools/measure/accuracy_table.py model.onnx --data photos --labels labels.csv --image "crop=224,mean=0.498,std=0.502" \\
        --vary placement=compute,all --vary scale=default,floor

Each --vary names a key of `bitpress plan --help` and its values; every combination is one row. --format picks formats.
"""
import argparse
import itertools
import json
import pathlib
import subprocess
import sys
import tempfile

FORMATS = ["bf16", "fp16", "bfp16", "mx9", "mx6", "mx4", "mxint8", "mxfp8_e4m3", "mxfp8_e5m2", "mxfp6_e2m3", "mxfp6_e3m2", "mxfp4_e2m1"]


def run(command):
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        sys.exit(result.stderr.strip() or f"{command[0]} failed with exit code {result.returncode}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--program", default="build/bitpress")
    parser.add_argument("--data", required=True)
    parser.add_argument("--labels")
    parser.add_argument("--image")
    parser.add_argument("--vary", action="append", default=[], metavar="KEY=VALUE,VALUE")
    parser.add_argument("--format", action="append", dest="formats", choices=FORMATS)
    options = parser.parse_args()

    keys = [vary.split("=", 1)[0] for vary in options.vary]
    values = [vary.split("=", 1)[1].split(",") for vary in options.vary]
    print("| format | " + "".join(f"{key} | " for key in keys) + "top-1 % | agrees % | SQNR dB | time |")
    print("|---" * (len(keys) + 5) + "|")
    with tempfile.TemporaryDirectory() as folder:
        quantized = str(pathlib.Path(folder) / "quantized.onnx")
        report = str(pathlib.Path(folder) / "report.json")
        for name in options.formats or FORMATS:
            for combination in itertools.product(*values):
                settings = [word for key, value in zip(keys, combination) for word in ("--set", f"{key}={value}")]
                run([options.program, "quantize", options.model, "-o", quantized, "--config", name, *settings])
                command = [options.program, "evaluate", quantized, "--data", options.data, "--reference", options.model, "--json", report]
                command += ["--labels", options.labels] if options.labels else []
                command += ["--image", options.image] if options.image else []
                run(command)
                result = json.loads(pathlib.Path(report).read_text())
                top1 = f"{100 * result['top1']:.1f}" if result.get("top1") is not None else "-"
                row = [f"`{name}`", *combination, top1, f"{100 * result['agreement']:.1f}", f"{result['sqnr_db']:.1f}", f"{result['time_ratio']:.2f}"]
                print("| " + " | ".join(row) + " |", flush=True)


if __name__ == "__main__":
    main()
