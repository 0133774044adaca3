"""Tests quantize_dequantize on arrays of every layout and element type."""

import gc

import ml_dtypes
import numpy as np
import pytest

import bitpress
from bitpress import formats

RNG = np.random.default_rng(8)


def resident_bytes():
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * 4096


def test_the_formats_are_listed():
    assert {"mx6", "bf16", "int8", "mxfp4_e2m1"} <= set(formats.list())
    mx6 = formats.find("MX6")
    assert (mx6.name, mx6.block_size, mx6.sub_block_size, mx6.bits_per_element, mx6.is_integer) == ("mx6", 16, 2, 6, False)
    assert formats.find("bfp(bits=13, block=32)").block_size == 32
    with pytest.raises(bitpress.InvalidArgumentError, match="did you mean 'mx6'"):
        formats.find("mx66")


@pytest.mark.parametrize("name", formats.list())
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_every_format_and_layout(name, dtype):
    array = RNG.standard_normal((6, 40, 5)).astype(dtype)
    wanted = formats.quantize_dequantize(array, name, axis=1)
    assert wanted.dtype == dtype and wanted.shape == array.shape
    error = np.abs(wanted.astype("f8") - array).max()
    assert error < {True: 4, False: 1}[formats.find(name).element_bits <= 4]
    moved = np.moveaxis(array, 1, 2)
    layouts = {
        "column-major": (np.asfortranarray(array), 1), "transposed": (moved, 2), "negative axis": (array, -2),
        "reversed": (array[::-1][::-1], 1), "a slice": (np.repeat(array, 2, axis=0)[::2], 1),
        "big endian": (array.astype(array.dtype.newbyteorder(">")), 1), "read-only": (np.broadcast_to(array, array.shape), 1),
    }
    for layout, (other, axis) in layouts.items():
        result = formats.quantize_dequantize(other, name, axis=axis)
        assert result.dtype == dtype, layout
        np.testing.assert_array_equal(np.moveaxis(result, 2, 1) if layout == "transposed" else result, wanted, layout)


@pytest.mark.quick
def test_known_values():
    x = np.array([[0.25, 6], [0.25, 0.5]], np.float32)
    np.testing.assert_array_equal(formats.quantize_dequantize(x, "mxfp4_e2m1"), [[0, 6], [0.25, 0.5]])
    np.testing.assert_array_equal(formats.quantize_dequantize(x, "mxfp4_e2m1", axis=0), x)
    bf16 = RNG.standard_normal(1000).astype(np.float32)
    np.testing.assert_array_equal(formats.quantize_dequantize(bf16, "bf16"), bf16.astype(ml_dtypes.bfloat16).astype(np.float32))
    integers = np.array([[127, -1.5], [0.254, 0.01]], np.float32)
    np.testing.assert_array_equal(formats.quantize_dequantize(integers, "int8"), [[127, -2], [0, 0]])
    np.testing.assert_allclose(formats.quantize_dequantize(integers, "int8", axis=0), [[127, -2], [0.254, 0.01]], atol=1e-7)
    np.testing.assert_allclose(formats.quantize_dequantize(np.float32([-1, 254]), "uint8"), [-1, 254])
    symmetric = formats.quantize_dequantize(np.float32([-1, 254]), "uint8", symmetric=True)
    np.testing.assert_allclose(symmetric, [-508 / 255, 127 * 508 / 255], rtol=1e-6)


@pytest.mark.quick
def test_choices_change_the_result():
    x = np.full(32, 500, np.float32)
    assert formats.quantize_dequantize(x, "mxfp8_e4m3", scale="floor")[0] == 448
    assert formats.quantize_dequantize(x, "mxfp8_e4m3", scale="ceil")[0] == 512
    half = np.array([1, 0.5 / 64], np.float32)
    assert formats.quantize_dequantize(half, "mxint8")[1] == 0
    assert formats.quantize_dequantize(half, "mxint8", rounding="half_up")[1] == 1 / 64
    for keywords in ({"scale": "best"}, {"rounding": "up"}):
        with pytest.raises(bitpress.InvalidArgumentError, match="expected|one of"):
            formats.quantize_dequantize(x, "mx6", **keywords)


def test_arrays_of_odd_shapes():
    for shape in ((), (0,), (3, 0, 2), (1,), (1, 1, 1, 1, 1, 1)):
        array = RNG.standard_normal(shape).astype(np.float32)
        for name in ("mx6", "bf16", "int8"):
            assert formats.quantize_dequantize(array, name, axis=0).shape == shape


def test_an_output_is_filled_in_place():
    array = RNG.standard_normal((4, 64)).astype(np.float32)
    wanted = formats.quantize_dequantize(array, "mx4")
    out = np.empty_like(array)
    assert formats.quantize_dequantize(array, "mx4", out=out) is out
    np.testing.assert_array_equal(out, wanted)
    formats.quantize_dequantize(array, "mx4", out=array)
    np.testing.assert_array_equal(array, wanted)
    for bad, error in [(np.empty((4, 65), np.float32), "expected float32"), (np.empty((4, 64), np.float16), "expected float32"),
                       (np.empty((64, 4), np.float32).T, "row-major"), (np.broadcast_to(np.float32(0), (4, 64)), "row-major")]:
        with pytest.raises(bitpress.InvalidArgumentError, match=error):
            formats.quantize_dequantize(array, "mx4", out=bad)
    buffer = np.zeros(300, np.float32)
    with pytest.raises(bitpress.InvalidArgumentError, match="overlaps"):
        formats.quantize_dequantize(buffer[:256], "mx4", out=buffer[1:257])


@pytest.mark.parametrize("dtype", ["f8", "i1", "i8", "u4", "c8", "?", "S3", "O", "M8[s]", ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn])
def test_other_element_types_are_refused(dtype):
    array = np.zeros(4, dtype)
    with pytest.raises(bitpress.ArgumentTypeError, match="expected float32 or float16") as caught:
        formats.quantize_dequantize(array, "mx6")
    assert isinstance(caught.value, TypeError)


def test_axes_are_checked():
    for axis in (2, -3):
        with pytest.raises(bitpress.InvalidArgumentError, match=f"no axis {axis}"):
            formats.quantize_dequantize(np.zeros((2, 2), np.float32), "bf16", axis=axis)


def test_threads_do_not_change_the_result():
    array = RNG.standard_normal((64, 64, 64)).astype(np.float32)
    for name in ("mx6", "int8", "bf16"):
        np.testing.assert_array_equal(formats.quantize_dequantize(array, name, axis=1, threads=1),
                                      formats.quantize_dequantize(array, name, axis=1, threads=5))


def test_ten_thousand_calls_leak_nothing(conv_path):
    array = RNG.standard_normal((16, 64)).astype(np.float32)

    def call(count):
        for i in range(count):
            formats.quantize_dequantize(array if i % 2 else array.T, "mx6", axis=0)
            try:
                formats.quantize_dequantize(array, "mx66")
            except bitpress.Error:
                pass
            bitpress.Config("MX6", weights="mx4")

    call(1000)
    gc.collect()
    before = resident_bytes()
    call(10_000)
    gc.collect()
    # A leaked array would take 40 MB, a leaked error message more.
    assert resident_bytes() - before < 4_000_000
    bitpress.inspect(conv_path)
    before = resident_bytes()
    for _ in range(300):
        bitpress.inspect(conv_path)
    assert resident_bytes() - before < 4_000_000
