"""Each format has its section in docs/formats/, and the package computes the examples there."""

import doctest
import re

import numpy as np
import pytest
from locations import ROOT

from bitpress import formats

PAGES = sorted((ROOT / "docs" / "formats").glob("*.md"))


def test_every_format_has_a_section_and_an_example():
    text = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
    sections = dict(re.findall(r"^## `(\w+)`\n((?:(?!^## ).)*)", text, re.MULTILINE | re.DOTALL))
    of_integers = {name for name in formats.list() if formats.find(name).is_integer}
    assert set(formats.list()) - set(sections) <= of_integers
    assert all(f"| `{name}` |" in text for name in of_integers)
    assert all(">>>" in body for body in sections.values())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_examples_are_what_is_computed(page):
    with np.printoptions(threshold=1000, linewidth=75):
        result = doctest.testfile(str(page), module_relative=False, parser=Fenced())
    assert result.attempted > 5 and result.failed == 0


class Fenced(doctest.DocTestParser):
    """An example ends where its block ends."""

    def parse(self, string, name="<string>"):
        return super().parse(string.replace("\n```", "\n\n"), name)


def tables():
    """Returns the facts on the pages as {name: {fact: text}}. A table is of one format, that of its section, or has a column for
    each."""
    found = {}
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for name, body in re.findall(r"^## `(\w+)`\n((?:(?!^## ).)*)", text, re.MULTILINE | re.DOTALL):
            found.setdefault(name, {}).update(re.findall(r"^\| ([^|]+) \| ([^|]+) \|$", body, re.MULTILINE))
        columns = re.search(r"^\| property \|((?: `\w+` \|){2,})$", text, re.MULTILINE)
        for row in re.findall(r"^\| ([^|]+) \|(.*)\|$", text[columns.end() :], re.MULTILINE) if columns else ():
            for name, value in zip(re.findall(r"\w+", columns[1]), row[1].split("|")):
                found.setdefault(name, {})[row[0]] = value.strip()
    return found


def number(text):
    """Returns the value of an expression such as (2 - 2^-7) * 2^127, with e = 0. Text behind a comma or colon is ignored."""
    expression = re.split(r"[,:(]\s*(?:about|sub|sign|two)", text)[0].strip().rstrip(",(: ")
    assert re.fullmatch(r"[-0-9.()+*^e ]+", expression), text
    return eval(expression.replace("^", "**"), {"e": 0})  # noqa: S307 - checked above


def rounded(name, *values):
    """Quantizes the values in one block, or each alone."""
    x = np.zeros(max(formats.find(name).block_size, len(values)), np.float32)
    x[: len(values)] = values
    return formats.quantize_dequantize(x, name)


@pytest.mark.parametrize("name, facts", [pytest.param(name, facts, id=name) for name, facts in tables().items()])
def test_tables_say_what_is_computed(name, facts):
    spec = formats.find(name)
    bits = facts.get("bits of a value in all", facts.get("bits of a value"))
    if bits is not None:
        assert number(bits) == spec.bits_per_element
    if "largest value" in facts:
        assert rounded(name, 3.4e38)[0] == number(facts["largest value"])
    if "smallest value" in facts:
        smallest = number(facts["smallest value"])
        assert rounded(name, smallest)[0] == smallest and rounded(name, 0.49 * smallest)[0] == 0
    if "largest at exponent e" in facts:  # neighbours that share everything
        step, most = number(facts["step at exponent e"]), number(facts["largest at exponent e"])
        assert [*rounded(name, 1.9999, 1.9999)[:2]] == [most, most] and [*rounded(name, 1, step)[:2]] == [1, step]
        assert rounded(name, 1, 0.49 * step)[1] == 0
    if "largest element" in facts:  # a scale of 1
        most, least = number(facts["largest element"]), number(facts["smallest element above 0"])
        assert rounded(name, 1.05 * most)[0] == most and rounded(name, most, least)[1] == least
        assert rounded(name, most, 0.49 * least)[1] == 0


def test_every_format_has_facts():
    facts = tables()
    assert {"largest value", "smallest value"} <= set(facts["bf16"]) and "largest at exponent e" in facts["mx9"]
    assert all("largest element" in facts[name] for name in formats.list() if name.startswith("mxfp"))
