"""Every public word of ONNX Runtime's quantization tool has a fate here, and the page says how many have which."""

import importlib
import inspect
import json

import pytest
from locations import ROOT
from package_helpers import counted_fates

import bitpress
from bitpress.compat.onnxruntime import _names, _words

pytestmark = [pytest.mark.quick]
WORDS = json.loads((ROOT / "tests" / "data" / "peer_words" / "onnxruntime.json").read_text(encoding="utf-8"))
PAGE = (ROOT / "docs" / "migrate_onnxruntime.md").read_text(encoding="utf-8")
# The table of each function and class that takes options.
TABLES = {"quantize": _words.QUANTIZE, "quantize_static": _words.STATIC, "quantize_dynamic": _words.DYNAMIC, "get_qdq_config": _words.QDQ_CONFIG,
          "StaticQuantConfig": _words.STATIC, "DynamicQuantConfig": _words.DYNAMIC, "QuantConfig": _words.STATIC,
          "quant_pre_process": _words.PREPROCESS, "MatMulNBitsQuantizer": _words.NBITS, "DefaultWeightOnlyQuantConfig": _words.DEFAULT,
          "RTNWeightOnlyQuantConfig": _words.RTN, "KQuantWeightOnlyQuantConfig": _words.K_QUANT, "GPTQWeightOnlyQuantConfig": _words.GPTQ,
          "HQQWeightOnlyQuantConfig": _words.HQQ, "WeightOnlyQuantConfig": _words.WEIGHT_ONLY}


def ours(path):
    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module(f"bitpress.compat.{module}"), name)


@pytest.mark.parametrize("module", WORDS["names"])
def test_names(module):
    there = importlib.import_module(f"bitpress.compat.{module}")
    for name in WORDS["names"][module]:
        found = getattr(there, name)
        assert (found is _names.STAND_INS.get(name)) == (name in _names.NAMES), name
        if name not in _names.NAMES:
            assert name in there.__all__, name
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        there.nothing  # noqa: B018


def test_using_a_refused_name_says_what_to_do_instead():
    from bitpress.compat.onnxruntime.quantization import CalibraterBase, create_calibrator

    for use in (CalibraterBase, lambda: create_calibrator("model.onnx"), lambda: type("Mine", (CalibraterBase,), {})):
        with pytest.raises(bitpress.UnsupportedError, match="is refused: ranges are measured by the library. Instead: bitpress.calibrate"):
            use()
    from bitpress.compat.onnxruntime.quantization.registry import QLinearOpsRegistry

    for use in (lambda: QLinearOpsRegistry.keys(), lambda: list(QLinearOpsRegistry), lambda: "Conv" in QLinearOpsRegistry, lambda: QLinearOpsRegistry["Conv"]):
        with pytest.raises(bitpress.UnsupportedError, match="QLinearOpsRegistry is refused: .*Instead: op_types_to_quantize"):
            use()
    assert set(_names.NAMES) <= {name for names in WORDS["names"].values() for name in names}


@pytest.mark.parametrize("path", WORDS["arguments"])
def test_arguments_in_their_order_with_their_defaults(path):
    name = path.rpartition(".")[2]
    if name in _names.NAMES:
        return
    found, theirs = ours(path), WORDS["arguments"][path]
    wanted = {word: text for word, text in theirs.items() if word != "deprecated_kwargs"}
    has_defaults = inspect.isclass(found) and hasattr(found, "defaults")
    have = dict(found.defaults) if has_defaults else {word: item.default for word, item in inspect.signature(found).parameters.items()}
    if name == "WeightOnlyQuantConfig":
        wanted.update(algorithm="''", quant_format="QuantFormat.QOperator")
    assert list(have)[:len(wanted)] == list(wanted)
    for word, text in wanted.items():
        value = have[word]
        if text is None:
            # They are needed there; here an error of ours says so.
            assert value is inspect.Parameter.empty or value is None, word
        else:
            same = {"2 ** 31 - 1": str(2**31 - 1), "None": "None", "compute_signal_to_quantization_noice_ratio": getattr(value, "__name__", "")}.get(text, text)
            assert same.strip("'") in (str(value), f"{type(value).__name__}.{getattr(value, 'name', '')}", getattr(value, "__name__", "?")), word
    if name in TABLES:
        assert set(wanted) <= set(TABLES[name]), name
    elif path.startswith("onnxruntime.quantization.qdq_loss_debug."):
        assert set(wanted) <= set(_words.LOSS_DEBUG)
    else:
        raise AssertionError(f"{path} has no table")


@pytest.mark.parametrize("path", WORDS["members"])
def test_members_of_enumerations(path):
    if path.rpartition(".")[2] not in _names.NAMES:
        assert list(ours(path).__members__) == WORDS["members"][path]


@pytest.mark.parametrize("path", WORDS["methods"])
def test_methods(path):
    if path.rpartition(".")[2] not in _names.NAMES:
        assert all(hasattr(ours(path), name) for name in WORDS["methods"][path])


def test_every_extra_option_has_a_fate():
    assert set(WORDS["options"]) == {"extra_options"} and len(WORDS["options"]["extra_options"]) == 27
    assert set(WORDS["options"]["extra_options"]) <= set(_words.EXTRA)
    documented = {"extra.Sigmoid.nnapi", "ActivationSymmetric", "ActivationRestrictedAsymmetric", "WeightSymmetric", "EnableSubgraph",
                  "ForceQuantizeNoInputCheck", "MatMulConstBOnly"}
    assert documented | {"DefaultTensorType"} == set(_words.DYNAMIC_EXTRA)


def test_the_page_counts_the_fates():
    assert counted_fates(WORDS, _names.NAMES, _words.TABLES, "1.31") in " ".join(PAGE.split())
