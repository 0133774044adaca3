"""docs/errors.md and the sources have the same messages: each of the page is in a source, and each of some files is on the page."""

import re

import pytest
from locations import ROOT

PAGE = (ROOT / "docs" / "errors.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| `(.*?)` \| (.*?) \| (.*?) \|$", PAGE, re.MULTILINE)
LITERALS = re.compile(r'(?:"(?:[^"\\]|\\.)*"\s*)+')
# Every message of these rooms and files, which people meet, has an entry.
WHOLE = ["apps", "src/base", "src/data", "src/evaluate", "src/plan", "src/search", "src/tasks", "src/runtime/session.cc"]
# They pass on what another part says, and have no words of their own.
WORDLESS = {"{}", "{}: {}", "{}; the last: {}", "'{}' {}"}
# They tell callers of the library what no command does.
OF_CALLERS = {"a batch of 0 samples was asked for", "the batch size is 0, expected 1 or more", "there is no option '{}'"}


def text_of(literals):
    """The text of adjacent string literals."""
    return "".join(re.findall(r'"((?:[^"\\]|\\.)*)"', literals)).replace('\\"', '"')


def texts(path):
    return [text_of(found[0]) for found in LITERALS.finditer(path.read_text(encoding="utf-8"))]


def matches(entry, message):
    """Whether a message of the page stands for a text of a source, whose {} are any words."""
    words = r".*?".join(re.escape(part) for part in entry.split("…"))
    return re.fullmatch(words, message, re.DOTALL) is not None


def test_every_message_of_the_page_is_in_a_source():
    sources = [text for room in ("src", "apps") for path in (ROOT / room).rglob("*.cc") if not path.name.endswith("_test.cc") for text in texts(path)]
    assert len(ROWS) > 60 and len(sources) > 3000
    assert not [entry for entry, _, _ in ROWS if not any(matches(entry, text) for text in sources)]


def test_every_row_says_cause_and_what_to_do():
    assert len(ROWS) == len(re.findall(r"^\| `", PAGE, re.MULTILINE))
    assert all(cause.strip() and todo.strip() for _, cause, todo in ROWS)


@pytest.mark.parametrize("name", WHOLE)
def test_every_message_of_a_room_is_on_the_page(name):
    place = ROOT / name
    paths = [path for path in place.rglob("*.cc") if not path.name.endswith("_test.cc")] if place.is_dir() else [place]
    sources = [path.read_text(encoding="utf-8") for path in paths]
    messages = [text_of(found[1]) for source in sources for found in re.finditer(rf"Fail\(\s*ErrorCode::k\w+,\s*({LITERALS.pattern})", source)]
    assert messages
    known = WORDLESS | OF_CALLERS
    missing = [message for message in messages if message not in known and not any(matches(entry, message) for entry, _, _ in ROWS)]
    assert not missing
