"""The options of quantize have one table: the command line, Python's functions and their docstrings have all of them."""

import inspect

import pytest

import bitpress
from bitpress import _native

pytestmark = pytest.mark.quick
OPTIONS = _native.list_options()
OF_STEPS = [option.key for option in OPTIONS if not option.is_of_writing]
# Fixtures change defaults.
SIGNATURES = {function: inspect.signature(function) for function in (bitpress.quantize, bitpress.moments, bitpress.tune)}


def test_the_command_line_has_each_with_its_meaning(bitpress):
    text = " ".join(bitpress.ok("quantize", "--help").split())
    for option in OPTIONS:
        assert f"--{option.key.replace('_', '-')} " in text, option.key
        assert option.meaning in text, option.key


@pytest.mark.parametrize("function, keys", [(bitpress.quantize, [option.key for option in OPTIONS]), (bitpress.moments, OF_STEPS),
                                            (bitpress.tune, OF_STEPS)])
def test_functions_have_each_with_its_type_and_default(function, keys):
    parameters = SIGNATURES[function].parameters
    for option in OPTIONS:
        assert (option.key in parameters) == (option.key in keys), option.key
        if option.key in keys:
            assert repr(parameters[option.key].default).replace("'", '"') == option.default


def test_the_docstring_describes_each():
    text = " ".join(inspect.getdoc(bitpress.quantize).split())
    for option in OPTIONS:
        assert f" {option.key}: {option.meaning}." in text


def test_values_are_checked(tmp_path, conv_path):
    for options, message in [({"storage": "pakced"}, "storage 'pakced'.*did you mean 'packed'"), ({"threads": -1}, "threads=-1: expected 0 or more"),
                             ({"accuracy_level": 2}, "accuracy_level '2' is not one of 1|4".replace("|", r"\|")),
                             ({"disable_pass": ["folding"]}, "folding")]:
        with pytest.raises(bitpress.InvalidArgumentError, match=message):
            bitpress.quantize(conv_path, tmp_path / "out.onnx", "MX6", **options)
    with pytest.raises(bitpress.MissingFileError, match="there is no calibration"):
        bitpress.quantize(conv_path, tmp_path / "out.onnx", "INT8", calibration=tmp_path / "none.bpc")
    plan = bitpress.plan(conv_path, "MX6")
    with pytest.raises(bitpress.InvalidArgumentError, match="a plan holds the decisions already; weights cannot change them"):
        bitpress.quantize(conv_path, tmp_path / "out.onnx", plan=plan, weights="mx4")


def test_options_reach_the_model(tmp_path, conv_path):
    path = tmp_path / "out.onnx"
    bitpress.quantize(conv_path, path, "MX6", disable_pass=["add-portable-functions"], as_is=True, external_data=True)
    assert (tmp_path / "out.onnx.data").exists()
