"""Types, scales, zero points and ranges that a script gives for single tensors: a rule for each, and numbers in the plan."""

import re
from typing import Any, Callable, Dict, List, Mapping, Sequence, Tuple

import bitpress
from bitpress._errors import InvalidArgumentError
from bitpress.compat import _fates

WORDS = ("scale", "zero_point", "rmin", "rmax")
Overrides = Sequence[Mapping[str, Any]]


def _is_pair(given: Mapping[str, Any]) -> bool:
    words = {word for word in WORDS if given.get(word) is not None}
    return words in ({"scale", "zero_point"}, {"rmin", "rmax"})


def check(overrides: Overrides, where: str) -> bool:
    """Returns whether numbers are given: one dict, or one for each channel of a weight.

    Raises:
        InvalidArgumentError: some have numbers and others not, or a number without its other.
    """
    has_numbers = [any(given.get(word) is not None for word in WORDS) for given in overrides]
    if not any(has_numbers):
        if len(overrides) > 1:
            raise InvalidArgumentError(f"{where}: {len(overrides)} dicts, one for each channel, need numbers: scale and zero_point, or rmin and rmax")
        return False
    for given in overrides:
        if not _is_pair(given):
            raise InvalidArgumentError(f"{where}: {dict(given)!r}: expected both scale and zero_point, or both rmin and rmax")
    return True


def rules_of(tensor: str, overrides: Overrides, set_type: Callable[[Dict[str, Any], Any], None]) -> List[Dict[str, Any]]:
    """The rule for what is not a number, or none.

    Args:
        set_type: gives a rule the formats of the tool's type.
    """
    given = overrides[0]
    rule: Dict[str, Any] = {"tensors": [re.escape(tensor)], "optional": True}
    if given.get("quant_type") is not None:
        set_type(rule, given["quant_type"])
    if given.get("symmetric") is not None:
        rule["activation_symmetric"] = rule["weight_symmetric"] = bool(given["symmetric"])
    if given.get("reduce_range") is not None:
        rule["reduce_range"] = bool(given["reduce_range"])
    if given.get("axis") is not None or len(overrides) > 1:
        rule["weight_granularity"] = "per_axis"
    return [rule] if len(rule) > 2 else []


def _codes(row: Mapping[str, Any]) -> Tuple[int, int]:
    bits, is_signed = int(row["format"].lstrip("uint")), row["format"].startswith("int")
    least, most = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if is_signed else (0, 2**bits - 1)
    return (least // 2, most // 2 + is_signed) if row.get("reduce_range") else (least, most)


def _params(given: Mapping[str, Any], row: Mapping[str, Any]) -> Tuple[float, int]:
    """A scale and a zero point, by the formula where a range is given."""
    if given.get("scale") is not None:
        return float(given["scale"]), int(given["zero_point"])
    least, most = _codes(row)
    low, high = min(float(given["rmin"]), 0.0), max(float(given["rmax"]), 0.0)
    if row.get("symmetric"):
        middle = 0 if least < 0 else (most + 1) // 2
        return 2 * max(-low, high) / (most - least - (least < 0)), middle
    scale = (high - low) / (most - least)
    return scale, max(least, min(most, round(least - low / scale))) if scale else 0


def give(plan: bitpress.Plan, numbers: Mapping[str, Overrides], where: str) -> bitpress.Plan:
    """Writes the numbers into the rows of a plan. A tensor that the plan does not quantize to integers is passed over with a notice."""
    rows: Dict[str, List[Dict[str, Any]]] = {}
    for row in plan.tensors:
        rows.setdefault(row["value"], []).append(row)
    for tensor, overrides in numbers.items():
        found = [row for row in rows.get(tensor, ()) if row["format"].lstrip("u").startswith("int")]
        if not found:
            _fates.say(f"passed over: {where}: the model has no '{tensor}' in integers")
        for row in found:
            if row["role"] == "bias":
                _fates.say(f"passed over: {where}: '{tensor}' is a bias, whose scale is that of the products")
                continue
            params = [_params(given, row) for given in overrides]
            for word in ("range", "shares", "pair_safe", "may_be_uint8"):
                row.pop(word, None)
            scales, zero_points = [scale for scale, _ in params], [zero_point for _, zero_point in params]
            if row.get("granularity") == "per_axis":
                middle = 0 if row["format"].startswith("int") else (_codes(row)[1] + 1) // 2
                row["symmetric"] = all(zero_point == middle for zero_point in zero_points)
                row["scale"], row["zero_point"] = scales, zero_points
            else:
                row["scale"], row["zero_point"] = scales[0], zero_points[0]
    return plan
