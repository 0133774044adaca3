"""Weights in blocks, as the quantizers of MatMulNBits of several tools ask for them."""

from typing import Any, Dict, Mapping, Sequence

from bitpress._errors import ArgumentTypeError
from bitpress.compat import _fates

_SIZES = (16, 32, 64, 128, 256)


def arguments(where: str, names: Mapping[str, Any], by_position: Sequence[Any], by_name: Mapping[str, Any]) -> Dict[str, Any]:
    """The arguments that are given, by their names.

    Args:
        names: of all arguments, in their order.
    """
    order = list(names)
    twice = set(order[:len(by_position)]) & set(by_name)
    if twice or len(by_position) > len(order):
        raise ArgumentTypeError(f"{where}: {min(twice)} is given twice, by position and by name" if twice
                                else f"{where} takes {len(order)} arguments at most, not {len(by_position)}")
    return {**dict(zip(order, by_position)), **by_name}


def block_settings(bits: int, size: int, is_symmetric: bool) -> Dict[str, Any]:
    """The format of weights in blocks."""
    return {"weights": f"{'int' if is_symmetric else 'uint'}{bits}", "weight_symmetric": is_symmetric, "weight_granularity": "per_block",
            "weight_block_size": size}


def has_operator(bits: int, size: int, level: int, bits_word: str, size_word: str) -> bool:
    """Returns whether MatMulNBits takes the weights; a notice says why it does not.

    Args:
        bits_word, size_word: the script's words.
    """
    # Products of floats exist for 4 bits only; other weights are decoded when the model is loaded, which is exact too.
    why = (f"{bits_word}={bits} without accuracy_level=4: it has no fast products of floats for them" if level != 4 and bits != 4 else
           f"{size_word}={size}: its blocks have 16, 32, 64, 128 or 256 elements" if size not in _SIZES else "")
    if why:
        _fates.say(f"quant_format=QOperator: weights have no MatMulNBits ({why}) and are decoded when the model is loaded")
    return not why
