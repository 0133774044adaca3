"""Percentile, entropy and distribution against onnxruntime.quantization's own calibration code, on the same data."""

import functools
import subprocess

import numpy as np
import pytest
from locations import built
from onnxruntime.quantization.calibrate import HistogramCollector

NUM_BINS, NUM_QUANTIZED_BINS = 2048, 128
RANDOM = np.random.default_rng(20)
DATA = {
    "normal": RANDOM.normal(0.3, 2, 400_000),
    "relu": np.maximum(RANDOM.normal(0, 1, 400_000), 0),
    "laplace": RANDOM.laplace(0, 0.1, 400_000),
    "heavy tails": RANDOM.standard_t(3, 400_000),
    "skewed": RANDOM.gamma(2, 3, 400_000) - 0.3,
    "uniform": RANDOM.uniform(-1, 4, 400_000),
    "relu6": np.clip(RANDOM.normal(2, 3, 400_000), 0, 6),
    "few": RANDOM.normal(0, 1, 50),
}


@pytest.fixture(scope="session")
def choose_ranges(tmp_path_factory):
    program = built("choose_ranges")
    path = tmp_path_factory.mktemp("ranges") / "x.npy"

    def run(x, *questions):
        np.save(path, x.astype(np.float32))
        result = subprocess.run([program, path, *questions], capture_output=True, text=True, check=False)
        assert result.returncode == 0, result.stderr
        return [tuple(map(float, line.split())) for line in result.stdout.splitlines()]

    return run


def collect(x, method, symmetric=False, num_bins=NUM_BINS):
    collector = HistogramCollector(method, symmetric, num_bins, NUM_QUANTIZED_BINS, 99.999, "same")
    collector.collect({"x": x.astype(np.float32)})
    return collector


def ours_width(x):
    """The width of our bin at x: a 256th of its power of two."""
    return 2.0 ** (np.floor(np.log2(max(abs(x), 1e-30))) - 8)


@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.quick if name == "few" else ()) for name in DATA])
@pytest.mark.parametrize("symmetric", [True, False])
def test_percentiles_are_one_bin_apart(name, symmetric, choose_ranges):
    x = DATA[name]
    collector = collect(x, "percentile", symmetric)
    edges = collector.get_histogram_dict()["x"][1]
    percentiles = [99, 99.9, 99.99, 99.999, 100]
    answers = choose_ranges(x, *(f"percentile({percentile})" + ("" if symmetric else ":asymmetric") for percentile in percentiles))
    for percentile, ours in zip(percentiles, answers, strict=True):
        collector.percentile = percentile
        theirs = collector.compute_percentile()["x"][:2]
        if name == "few" and percentile != 100:
            # Between single elements the quantile is anywhere in an empty stretch for neither: both stay in the element's bin.
            assert abs(theirs[1] - ours[1]) <= (edges[1] - edges[0]) + ours_width(ours[1])
            continue
        for their_end, our_end in zip(theirs, ours[:2]):
            assert abs(their_end - our_end) <= 1.001 * ((edges[1] - edges[0]) + ours_width(our_end)), (percentile, theirs, ours)


@functools.cache
def uniform_histogram(name, num_bins):
    histogram = collect(DATA[name], "entropy", num_bins=num_bins).get_histogram_dict()["x"]
    return histogram[0], histogram[1]


@pytest.mark.parametrize("name", DATA)
@pytest.mark.parametrize("num_bins", [128, 256, 1024])
def test_entropy_of_the_same_histogram_is_the_same(name, num_bins, choose_ranges):
    counts, edges = uniform_histogram(name, num_bins)
    collector = HistogramCollector("entropy", False, num_bins, NUM_QUANTIZED_BINS, 99.999, "same")
    # Ends beyond all that are counted, so that nothing is cut back to the extremes.
    histogram = (counts, edges, np.float32(-np.inf), np.float32(np.inf))
    theirs = collector.get_entropy_threshold(histogram, NUM_QUANTIZED_BINS)
    first, last = choose_ranges(counts, f"divergence={NUM_QUANTIZED_BINS}")[0]
    assert abs(edges[int(first)] - theirs[0]) <= 1.001 * (edges[1] - edges[0])
    assert abs(edges[int(last)] - theirs[1]) <= 1.001 * (edges[1] - edges[0])


@pytest.mark.parametrize("name", [name for name in DATA if name != "few"])
def test_entropy_of_the_resampled_histogram_is_as_good(name, choose_ranges):
    """Our bins are wider than theirs at the ends; the chosen range may lie elsewhere on a flat curve. Their error measures both."""
    num_bins = 1024
    counts, edges = uniform_histogram(name, num_bins)
    ours = choose_ranges(DATA[name], f"entropy={num_bins}")[0]
    their_first, _ = choose_ranges(counts, f"divergence={NUM_QUANTIZED_BINS}")[0]
    width = edges[1] - edges[0]
    assert abs(ours[0] - edges[int(their_first)]) <= 0.1 * edges[-1] + width
    assert ours[0] == pytest.approx(-ours[1], abs=1.01 * float(width))


def test_distribution_is_the_deviation_over_that_of_the_codes(choose_ranges):
    import ml_dtypes

    codes = np.arange(256, dtype=np.uint8).view(ml_dtypes.float8_e4m3fn).astype(np.float32)
    deviation = np.std(codes[np.isfinite(codes)])
    for name, x in DATA.items():
        theirs = collect(x, "distribution").compute_distribution()["x"].avg_std[1] / deviation
        # Theirs takes all values for their bins' centres, zeros too.
        assert choose_ranges(x, "fp8=distribution")[0][0] == pytest.approx(float(theirs), rel=3e-3), name
