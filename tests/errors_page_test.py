"""docs/errors.md and the sources have the same messages: each of the page is in a source, and each of a source is on the page."""

import ast
import re

import pytest
from locations import ROOT

PAGE = (ROOT / "docs" / "errors.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| `(.*?)` \| (.*?) \| (.*?) \|$", PAGE, re.MULTILINE)
LITERALS = re.compile(r'(?:"(?:[^"\\]|\\.)*"\s*)+')
WHOLE = ["apps", "python", *sorted(f"src/{path.name}" for path in (ROOT / "src").iterdir() if path.is_dir())]
# They pass on what another part says, and have no words of their own.
WORDLESS = {"{}", "{}: {}", "{}; the last: {}", "'{}' {}", "'{}': {}", "{} {}", "tensor '{}': {}", "range method {} {}"}
# They tell callers of the library what no command does.
OF_CALLERS = {
    "a batch of 0 samples was asked for",
    "the batch size is 0, expected 1 or more",
    "there is no option '{}'",
    "{} is not a floating-point element type",
    "{} is not an integer element type",
    "instruction set '{}' is not available here; these are: {}",
}
# These files refuse arguments of changes that our own code asks for, never a user.
OF_CODE = {f"src/graph/{name}.cc" for name in ["deferred", "edit", "extract", "model", "node"]}


def text_of(literals):
    """The text of adjacent string literals."""
    return "".join(re.findall(r'"((?:[^"\\]|\\.)*)"', literals)).replace('\\"', '"')


def texts(path):
    return [text_of(found[0]) for found in LITERALS.finditer(path.read_text(encoding="utf-8"))]


def sources_in(place):
    paths = [path for path in place.rglob("*") if path.suffix in {".cc", ".h", ".cu"}] if place.is_dir() else [place]
    return sorted(path for path in paths if not path.stem.endswith("_test") and not path.name.startswith("test_"))


def python_text(node):
    """The text of a literal of Python, with {} for what it is filled with; None if it is something else."""
    if isinstance(node, ast.JoinedStr):
        return "".join("{}" if isinstance(part, ast.FormattedValue) else part.value for part in node.values)
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def python_nodes():
    """The nodes of the package's syntax trees. The pages of moving from other tools say what bitpress.compat refuses, word by word."""
    paths = [path for path in (ROOT / "python" / "bitpress").rglob("*.py") if "compat" not in path.parts]
    return [node for path in paths for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))]


def python_messages():
    raised = [node.exc for node in python_nodes() if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and node.exc.args]
    return [text for text in (python_text(call.args[0]) for call in raised) if text is not None]


def messages_of(path):
    """The messages of a source that somebody can meet who does not change the sources."""
    found = re.findall(rf"Fail\(\s*ErrorCode::(k\w+),\s*({LITERALS.pattern})", path.read_text(encoding="utf-8"))
    is_of_code = str(path.relative_to(ROOT)) in OF_CODE
    return [text_of(literals) for code, literals in found if not (is_of_code and code == "kInvalidArgument")]


def pattern_of(entry):
    """The pattern of the texts of sources that a message of the page stands for, whose {} are any words."""
    return re.compile(r".*?".join(re.escape(part) for part in entry.split("…")), re.DOTALL)


PATTERNS = {entry: pattern_of(entry) for entry, _, _ in ROWS}


def test_every_message_of_the_page_is_in_a_source():
    sources = [text for room in ("src", "apps", "python") for path in sources_in(ROOT / room) for text in texts(path)]
    sources += [text for text in map(python_text, python_nodes()) if text is not None]
    assert len(ROWS) > 60 and len(sources) > 3000
    assert not [entry for entry, _, _ in ROWS if not any(PATTERNS[entry].fullmatch(text) for text in sources)]


def test_every_row_says_cause_and_what_to_do():
    assert len(ROWS) == len(re.findall(r"^\| `", PAGE, re.MULTILINE))
    assert all(cause.strip() and todo.strip() for _, cause, todo in ROWS)


def lacking(messages):
    """The messages that are not on the page."""
    known = WORDLESS | OF_CALLERS
    return [message for message in messages if message not in known and not any(pattern.fullmatch(message) for pattern in PATTERNS.values())]


def test_messages_are_found():
    messages = [message for name in WHOLE for path in sources_in(ROOT / name) for message in messages_of(path)]
    assert len(WHOLE) > 20 and len(messages) > 600 and len(python_messages()) > 50
    assert lacking(["a message that nobody says"])


@pytest.mark.parametrize("name", WHOLE)
def test_every_message_of_a_room_is_on_the_page(name):
    assert not lacking([message for path in sources_in(ROOT / name) for message in messages_of(path)])


def test_every_message_of_the_python_package_is_on_the_page():
    assert not lacking(python_messages())
