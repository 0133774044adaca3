"""The fates of another tool's words. One table for each group of words feeds the checks and the documentation."""

import difflib
import enum
import warnings
from dataclasses import dataclass
from typing import Any, Dict, Iterable, List, Mapping, Tuple

from bitpress._errors import InvalidArgumentError, UnsupportedError


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
    """

    name: str
    fate: Fate
    text: str
    neutral: Tuple[Any, ...] = (None,)
    nearest: str = ""


Table = Dict[str, Word]


def honoured(name: str, text: str) -> Word:
    return Word(name, Fate.HONOURED, text)


def notice(name: str, text: str, *neutral: Any) -> Word:
    return Word(name, Fate.NOTICE, text, (None, *neutral))


def refused(name: str, text: str, nearest: str, *neutral: Any) -> Word:
    return Word(name, Fate.REFUSED, text, (None, *neutral), nearest)


def table(words: Iterable[Word]) -> Table:
    return {word.name: word for word in words}


def say(message: str) -> None:
    """Warns with a Notice at the line of the caller's script, as well as that can be found."""
    warnings.warn(message, Notice, stacklevel=4)


def say_unmatched(report: Any) -> None:
    """Says which words of a configuration fit nothing in the model: other tools pass over them, too."""
    for words in report.unmatched_words:
        say(f"passed over: {words}")


def _is_same(value: Any, asks: Any) -> bool:
    """Members of enums are compared by their names: scripts bring ONNX Runtime's own along."""
    return (type(value) is type(asks) and value == asks) or (isinstance(value, enum.Enum) and value.name == asks)


def check(given: Mapping[str, Any], words: Table, where: str) -> None:
    """Says what becomes of each word given.

    Raises:
        InvalidArgumentError: a word that the other tool does not have, with the nearest.
        UnsupportedError: a refused word.
    """
    for name, value in given.items():
        word = words.get(name)
        if word is None:
            near = difflib.get_close_matches(name, words, 1)
            hint = f"; did you mean '{near[0]}'?" if near else ""
            raise InvalidArgumentError(f"{where} has no '{name}'{hint}")
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
