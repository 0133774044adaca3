"""Operators that Quark computes as one: between them integers, BF16 and FP16 have no quantizer."""

from typing import Any, Dict, List, Mapping

from bitpress._errors import ArgumentTypeError

# An activation function behind one of these reads what they give as it is.
_PRODUCERS = ("Conv", "ConvTranspose", "Gemm", "MatMul", "Add", "MaxPool", "AveragePool", "GlobalAveragePool")
# The words, what they hold for where a script does not say them, and their activation functions. A Clip counts from 0 to 6 or to 1.
_READERS = {
    "RemoveQDQConvClip": (True, ("Relu6", "Relu1")),
    "RemoveQDQConvRelu": (True, ("Relu",)),
    "RemoveQDQConvLeakyRelu": (True, ("LeakyRelu",)),
    "RemoveQDQConvPRelu": (True, ("PRelu",)),
    "RemoveQDQConvGelu": (False, ("Gelu",)),
}
# A pool reads what a Pad gives as it is, whatever a script says.
_ALWAYS = ("Pad>AveragePool", "Pad>GlobalAveragePool")


def joined_settings(options: Mapping[str, Any]) -> Dict[str, Any]:
    """The settings for the RemoveQDQ words."""
    def holds(word: str, default: bool) -> bool:
        value = options.get(word)
        return default if value is None else bool(value)

    producers = [*_PRODUCERS, *(["InstanceNormalization"] if holds("RemoveQDQInstanceNorm", False) else [])]
    pairs = [f"{producer}>{reader}" for word, (default, readers) in _READERS.items() if holds(word, default)
             for reader in readers for producer in producers]
    pairs += _ALWAYS
    if holds("RemoveQDQMulAdd", False):
        pairs.append("Mul>Add")
    pairs += _pairs_between(options.get("RemoveQDQBetweenOps"))
    settings: Dict[str, Any] = {"float_between": pairs}
    if holds("RemoveFusedQDQ", False):
        settings["float_between_blocks"] = True
    return settings


def _pairs_between(given: Any) -> List[str]:
    pairs = [] if given is None else given
    if not isinstance(pairs, (list, tuple)) or not all(
            isinstance(pair, (list, tuple)) and len(pair) == 2 and all(isinstance(name, str) and name for name in pair) for pair in pairs):
        raise ArgumentTypeError(f"RemoveQDQBetweenOps={given!r}: expected a list of pairs of operator types, [('Conv', 'Sigmoid')]")
    return [f"{producer}>{reader}" for producer, reader in pairs]
