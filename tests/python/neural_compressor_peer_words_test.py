"""Every public word of ONNX Neural Compressor 1.0 has a fate here, and the page says how many have which."""

import importlib
import inspect
import json

import pytest
from locations import ROOT
from package_helpers import counted_fates

import bitpress
from bitpress.compat.neural_compressor import _enums, _names, _nbits, _words
from bitpress.compat.neural_compressor._types import BaseConfig

pytestmark = [pytest.mark.quick]
WORDS = json.loads((ROOT / "tests" / "data" / "peer_words" / "neural_compressor.json").read_text(encoding="utf-8"))
PAGE = (ROOT / "docs" / "migrate_neural_compressor.md").read_text(encoding="utf-8")


def ours(path):
    """A name of ours, by the other tool's path, or None if asking for it is refused."""
    module, _, name = path.rpartition(".")
    found = importlib.import_module(module.replace("onnx_neural_compressor", "bitpress.compat.neural_compressor"))
    if name not in _names.NAMES:
        return getattr(found, name)
    with pytest.raises(bitpress.UnsupportedError, match=f"{name} is refused: .* Instead: "):
        getattr(found, name)
    return None


def words_of(found):
    """The words that something takes, in the order of arguments."""
    if inspect.isclass(found) and issubclass(found, (BaseConfig, _nbits.WeightOnlyQuantConfig)) and found.defaults:
        return list(found.defaults)
    return list(inspect.signature(found).parameters)


@pytest.mark.parametrize("module", WORDS["names"])
def test_names(module):
    for name in WORDS["names"][module]:
        assert ours(f"{module}.{name}") is not None or name in _names.NAMES, name


@pytest.mark.parametrize("path", WORDS["arguments"])
def test_arguments_in_their_order(path):
    found = ours(path)
    if found is None or path.endswith("BaseConfig"):
        return
    theirs, have = list(WORDS["arguments"][path]), words_of(found)
    if path.endswith(("SmoothQuantConfig", "StaticQuantConfig", "DynamicQuantConfig")) or "WeightOnly" not in path:
        theirs.sort(key=lambda word: word == "white_list")  # by name only
        have = [word for word in have if word != "white_list"] + ["white_list"] * ("white_list" in have)
    assert [word for word in theirs if word not in have] == []
    place = len(theirs) - (theirs[-1:] == ["white_list"])
    assert have[:place] == theirs[:place]


@pytest.mark.parametrize("path", WORDS["members"])
def test_members_of_enumerations(path):
    if ours(path) is not None:
        assert list(getattr(_enums, path.rsplit(".", 1)[-1]).__members__) == list(WORDS["members"][path])


@pytest.mark.parametrize("path", WORDS["methods"])
def test_methods(path):
    found = ours(path)
    is_config = found is not None and issubclass(found, BaseConfig)
    made = found([]) if path.endswith("ComposableConfig") else found() if is_config else found
    for name in WORDS["methods"][path] if found is not None else ():
        if name in _names.METHODS and is_config and not hasattr(found, name):
            with pytest.raises(bitpress.UnsupportedError, match=f"{found.__name__}: {name} is refused: .* Instead: "):
                getattr(made, name)
        else:
            assert hasattr(made, name) or (path.endswith("BaseConfig") and name == "white_list"), name


def test_extra_options_are_all_there():
    options = WORDS["arguments"]["onnx_neural_compressor.quantization.config.ExtraOptions"]
    assert len(options) == 11 and set(options) <= set(_words.EXTRA) & set(_words.DYNAMIC_EXTRA)


def test_the_page_counts_the_fates():
    assert counted_fates(WORDS, _names.NAMES, _words.TABLES, "1.0") in " ".join(PAGE.split())
