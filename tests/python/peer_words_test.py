"""Every public word of the peers is known: the lists that tools/make_peer_words.py made of their wheels beside our tables of fates."""

import ast
import importlib
import json
from pathlib import Path

import pytest

import bitpress
from bitpress.compat.quark import _names, _presets, _words
from bitpress.compat.quark import _types as types
from bitpress.compat.quark._algorithm_types import ALGORITHMS, REQUIRED

WORDS = json.loads((Path(__file__).parents[1] / "data" / "peer_words" / "quark.json").read_text(encoding="utf-8"))


def ours(module):
    return importlib.import_module("bitpress.compat." + module)


def arguments(name):
    """The arguments of a class or function, by its name behind the module's."""
    (found,) = [given for key, given in WORDS["arguments"].items() if key.rsplit(".", 1)[-1] == name]
    return found


@pytest.mark.quick
@pytest.mark.parametrize("module", WORDS["names"])
def test_every_public_name_can_be_imported(module):
    there = ours(module)
    for name in WORDS["names"][module]:
        found = getattr(there, name)  # AttributeError: an unknown name
        refused = _names.NAMES.get(name)
        assert (found is _names.STAND_INS.get(name)) == (refused is not None), name
        if refused is None and not name.startswith("DEFAULT_") and not (name.endswith("_CONFIG")):
            assert name in there.__all__, name


@pytest.mark.quick
def test_using_a_refused_name_says_what_to_do_instead():
    from bitpress.compat.quark.onnx import CalibraterBase, create_calibrator_float_scale

    known = {name for names in WORDS["names"].values() for name in names}
    assert set(_names.NAMES) <= known
    for use in (CalibraterBase, lambda: create_calibrator_float_scale("model.onnx", []), lambda: type("Mine", (CalibraterBase,), {})):
        with pytest.raises(bitpress.UnsupportedError, match="is refused: ranges are measured.*Instead: bitpress.calibrate"):
            use()
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        ours("quark.onnx").Nothing  # noqa: B018


@pytest.mark.quick
@pytest.mark.parametrize("group, table", [
    ("extra_options", _words.OPTIONS), ("FastFinetune", _words.FAST_FINETUNE), ("GPTQParams", _words.GPTQ_PARAMS),
    ("MatMulNBitsParams", _words.MATMUL_NBITS),
    ("AutoMixprecision", {**_words.AUTO_MIXPRECISION, **{_words.camel_case(name): word for name, word in _words.AMP.items()}})])
def test_every_option_has_a_fate(group, table):
    assert set(WORDS["options"][group]) - set(table) == set()


def test_every_group_of_options_is_compared():
    assert set(WORDS["options"]) == {"extra_options", "FastFinetune", "GPTQParams", "MatMulNBitsParams", "AutoMixprecision"}


@pytest.mark.quick
def test_algorithms_have_quarks_arguments_in_its_order_with_its_defaults():
    tables = {"adaround": _words.FINETUNE, "adaquant": _words.FINETUNE, "gptq": _words.GPTQ, "smooth_quant": _words.SMOOTH_QUANT,
              "cle": _words.CLE, "bias_correction": _words.BIAS_CORRECTION, "quarot": _words.QUAROT, "auto_mixprecision": _words.AMP}
    for name, kind in ALGORITHMS.items():
        wanted = {word: REQUIRED if text is None else ast.literal_eval(text) for word, text in arguments(kind.__name__).items()}
        assert list(kind.defaults) == list(wanted) and dict(kind.defaults) == wanted, name
        assert set(tables[name]) == set(wanted), name
        if REQUIRED not in wanted.values():
            made = kind()
            assert {word: getattr(made, word) for word in wanted} == wanted and made.options == {}, name


@pytest.mark.quick
def test_specifications_have_quarks_arguments_with_its_defaults():
    names = [key.rsplit(".", 1)[-1] for key in WORDS["arguments"] if key.endswith("Spec")]
    assert len(names) == 19
    for name in names:
        spec = getattr(types, name)()
        for word, text in arguments(name).items():
            value = getattr(spec, word)
            assert text.rsplit(".", 1)[-1] == getattr(value, "name", str(value)), (name, word)
    assert list(vars(types.QTensorConfig())) == list(arguments("QTensorConfig"))
    assert list(vars(types.QLayerConfig())) == list(arguments("QLayerConfig"))


@pytest.mark.quick
def test_the_fields_of_the_older_configuration_are_quarks():
    wanted = arguments("QuantizationConfig")
    made = types.QuantizationConfig()
    assert set(vars(made)) == set(wanted) and set(wanted) - {"extra_options"} == set(_words.FIELDS)
    for word, text in wanted.items():
        if text in ("True", "False"):
            assert bool(getattr(made, word)) == ast.literal_eval(text), word


@pytest.mark.quick
def test_members_of_enumerations_are_quarks():
    for key, members in WORDS["members"].items():
        assert set(members) <= set(getattr(types, key.rsplit(".", 1)[-1]).__members__), key


@pytest.mark.quick
@pytest.mark.parametrize("name", WORDS["presets"])
def test_every_named_configuration_is_there(name):
    config = types.QConfig.get_default_config(name)
    assert isinstance(config, types.Config) and config.global_quant_config == _presets.get_default_config(name)
    assert ours("quark.onnx.quantization.config").DefaultConfigMapping[name] == config.global_quant_config


@pytest.mark.quick
def test_methods_of_configurations_are_quarks():
    kinds = {"AlgoConfig": ALGORITHMS["cle"], "QConfig": types.QConfig, "QTensorConfig": types.QTensorConfig, "QLayerConfig": types.QLayerConfig}
    for name, kind in kinds.items():
        (methods,) = [given for key, given in WORDS["methods"].items() if key.endswith("." + name)]
        assert all(callable(getattr(kind, method)) for method in methods), name
