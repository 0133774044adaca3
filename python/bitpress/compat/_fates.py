"""The fates of another tool's words. One table for each group of words feeds the checks and the documentation."""

import difflib
import enum
import json
import re
from dataclasses import dataclass, replace
from typing import Any, Collection, Dict, Iterable, List, Mapping, Optional, Tuple

from bitpress._errors import InvalidArgumentError, UnsupportedError, warn
from bitpress.compat._values import FLAG, Kind


class Fate(enum.Enum):
    HONOURED = "honoured"
    NOTICE = "accepted with a notice"
    REFUSED = "refused"


class Notice(UserWarning):
    """A word was accepted that changes nothing here; the message says why."""


@dataclass(frozen=True)
class Word:
    """One word of another tool.

    Attributes:
        text: what it becomes, or why it changes nothing, or why it is refused.
        neutral: values that ask for nothing, and are accepted without a notice or an error.
        nearest: of refused words: what to do instead.
        takes: the kind of values; None: any.
    """

    name: str
    fate: Fate
    text: str
    neutral: Tuple[Any, ...] = (None,)
    nearest: str = ""
    takes: Optional[Kind] = None


Table = Dict[str, Word]


def honoured(name: str, text: str) -> Word:
    return Word(name, Fate.HONOURED, text)


def notice(name: str, text: str, *neutral: Any) -> Word:
    return Word(name, Fate.NOTICE, text, (None, *neutral))


def refused(name: str, text: str, nearest: str, *neutral: Any) -> Word:
    return Word(name, Fate.REFUSED, text, (None, *neutral), nearest)


def table(words: Iterable[Word]) -> Table:
    return {word.name: word for word in words}


def with_kinds(words: Table, kinds: Mapping[str, Kind]) -> Table:
    """Returns the words with the kinds of their values. A word that True or False asks nothing of takes True or False."""
    unknown = set(kinds) - set(words)
    assert not unknown, f"kinds of no words: {sorted(unknown)}"
    return table(replace(word, takes=kinds.get(word.name, FLAG if any(isinstance(value, bool) for value in word.neutral) else None))
                 for word in words.values())


def say(message: str) -> None:
    """Warns with a Notice at the line of the caller's script."""
    warn(Notice(message))


def say_report(report: Any, words: Mapping[str, str], quiet: Collection[str] = (), names: Optional[Mapping[str, str]] = None) -> None:
    """Says what a script does not see of a written model: what fits nothing, stays float, learned nothing, has other scales.

    Args:
        words: by the selector of a rule, the other tool's word that it comes from.
        quiet: selectors whose words are not the script's own.
        names: by the names of nodes, tensors and operator types, the word that gave them; "": none of the script's.
    """
    for text in report.unmatched_words:
        text = re.sub(r"'\(\?:(.*?)\)\.\*'", r"'\1'", text)  # beginnings of names
        selector, name = re.match(r"rule '(\w+)=.*?': ", text), re.search(r"'([^']*)' matches", text)
        word = (names or {}).get(name[1]) if name is not None else None
        if word is not None and selector is not None:
            if word:
                say(f"passed over: {word}: {text[selector.end():]}")
        elif selector is None:
            say(f"passed over: {text}")
        elif selector[1] not in quiet:
            say(f"passed over: {words.get(selector[1], selector[1])}: {text[selector.end():]}")
    if report.left_float:
        value, reason = report.left_float[0]
        say(f"{len(report.left_float)} activations stay float: '{value}': {reason}" + (", ..." if len(report.left_float) > 1 else ""))
    if report.layers and not any(layer.is_tuned for layer in report.layers):
        first = report.layers[0]
        say(f"none of {len(report.layers)} layers has learned weights: '{first.node}': {first.note}")
    safe = [row["value"] for row in json.loads(report.plan)["tensors"] if row.get("pair_safe")]
    if safe:
        say(f"{len(safe)} int8 weights ('{safe[0]}'{', ...' if len(safe) > 1 else ''}) behind 8-bit activations have the scale with the least "
            "error of codes whose sums no processor saturates: up to twice the formula's")


def say_left(report: Any, asked: str) -> None:
    """Says which nodes have another form than the script asks for with the words `asked`."""
    left = list(report.left_in_form)
    if left:
        name, reason = left[0]
        say(f"{asked}: {len(left)} of the model have no such operator: '{name}': {reason}" + (", ..." if len(left) > 1 else ""))


def _is_same(value: Any, asks: Any) -> bool:
    """Members of enums are compared by their names: scripts bring ONNX Runtime's own along."""
    return (type(value) is type(asks) and value == asks) or (isinstance(value, enum.Enum) and value.name == asks)


def nearest(name: Any, words: Iterable[str]) -> Optional[str]:
    return next(iter(difflib.get_close_matches(str(name), list(words), 1)), None)


def unknown(name: Any, words: Iterable[str], where: str) -> str:
    """Says that the other tool has no such word, with the nearest."""
    near = nearest(name, words)
    return f"{where} has no '{name}'" + (f"; did you mean '{near}'?" if near else "")


def check(given: Mapping[str, Any], words: Table, where: str, is_lenient: bool = False) -> None:
    """Says what becomes of each word given.

    Args:
        is_lenient: a word that the other tool does not have is a notice, as it is a warning or nothing there.

    Raises:
        ArgumentTypeError, InvalidArgumentError: a value of a wrong type or out of range.
        InvalidArgumentError: a word that the other tool does not have, with the nearest.
        UnsupportedError: a refused word.
    """
    for name, value in given.items():
        word = words.get(name)
        if word is None:
            if not is_lenient:
                raise InvalidArgumentError(unknown(name, words, where))
            near = nearest(name, words)
            say(f"{where} has no '{name}'; it changes nothing" + (f". Did you mean '{near}'?" if near else ""))
            continue
        if word.takes is not None:
            word.takes.check(value, f"{where}: {name}")
        if word.fate is Fate.HONOURED or any(_is_same(value, asks) for asks in word.neutral):
            continue
        if word.fate is Fate.REFUSED:
            raise UnsupportedError(f"{where}: {name}={value!r} is refused: {word.text}. Instead: {word.nearest}")
        say(f"{where}: {name}={value!r} changes nothing here: {word.text}")


def markdown(words: Table) -> List[str]:
    """The table for the documentation."""
    lines = ["| word | fate | what becomes of it |", "|---|---|---|"]
    for word in words.values():
        instead = f". Instead: {word.nearest}" if word.nearest else ""
        unless = [value for value in word.neutral if value is not None]
        asks = f" (unless {' or '.join(f'`{value!r}`' for value in unless)})" if unless else ""
        lines.append(f"| `{word.name}` | {word.fate.value}{asks} | {word.text}{instead} |")
    return lines


def counts(tables: Mapping[str, Table]) -> List[str]:
    """How many words of each table have each fate, for the documentation."""
    lines = ["| words of | all | honoured | accepted with a notice | refused |", "|---|---|---|---|---|"]
    for title, words in tables.items():
        of_fate = [sum(word.fate is fate for word in words.values()) for fate in Fate]
        lines.append(f"| {title} | {len(words)} | " + " | ".join(map(str, of_fate)) + " |")
    return lines
