"""The documentation: links lead somewhere, every page is in the site, commands exist, the page of the command line is current."""

import ast
import os
import re
import runpy
import shlex
import subprocess
import sys

import pytest
from locations import ROOT

PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *ROOT.glob("*/*/README.md"), *ROOT.glob("*/README.md")])
PAGES = [page for page in PAGES if not page.relative_to(ROOT).parts[0].startswith(("build", "."))]
FENCE = re.compile(r"^( *)```(\w*)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[(?:[^\[\]]|\[[^\]]*\])*\]\(([^()\s]+)\)")


def name_of(page):
    return os.path.relpath(page, ROOT)


def prose(page):
    """The text without code blocks and code in lines."""
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    return re.sub(r"`[^`\n]*`", lambda code: code[0] if "](" not in code[0] else "", text)


def slugs(page):
    """Anchors of the headings, as GitHub and the site name them; repeated ones, which get a number, only by their first."""
    headings = re.findall(r"^#+ (.*)$", FENCE.sub("", page.read_text(encoding="utf-8")), re.MULTILINE)
    found = set()
    for heading in headings:
        text = re.sub(r"[`*]|\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("\\", "").strip().lower()
        found.add(re.sub(r"\s", "-", re.sub(r"[^\w\s-]", "", text)))
    return found


def wrong_links(page):
    """Returns what is wrong with the links of a page, a line each."""
    wrong = []
    for link in LINK.findall(prose(page)):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists():
            wrong.append(f"{name_of(page)}: there is no {link}")
        elif anchor and anchor not in slugs(target):
            wrong.append(f"{name_of(page)}: {link} names no heading")
        elif page.is_relative_to(ROOT / "docs") and not target.is_relative_to(ROOT / "docs"):
            wrong.append(f"{name_of(page)}: {link} is not part of the site")
    return wrong


@pytest.mark.quick
def test_links_lead_somewhere():
    assert not [line for page in PAGES for line in wrong_links(page)] and len(PAGES) > 30


def test_the_checks_can_fail(tmp_path):
    page, other = tmp_path / "page.md", tmp_path / "there.md"
    page.write_text("# A `b` (c)\n\n```sh\n# no heading\n```\n[here](#a-b-c) [`x[0]`](there.md#y)\n`[not](this.md)`\n")
    assert slugs(page) == {"a-b-c"} and LINK.findall(prose(page)) == ["#a-b-c", "there.md#y"]
    assert [line.partition(": ")[2] for line in wrong_links(page)] == ["there is no there.md#y"]
    other.write_text("# X\n")
    assert [line.partition(": ")[2] for line in wrong_links(page)] == ["there.md#y names no heading"]
    other.write_text("# Y\n")
    assert wrong_links(page) == []


def test_every_page_is_in_the_site():
    groups = runpy.run_path(str(ROOT / "docs" / "site" / "conf.py"))["NAVIGATION"].values()
    named = ["index.md", *(f"{name}.md" for pages in groups for name in pages.values())]
    pages = {str(page.relative_to(ROOT / "docs")) for page in (ROOT / "docs").rglob("*.md")}
    assert len(named) == len(set(named)) and pages == set(named), sorted(pages ^ set(named))


def test_the_site_has_the_version_of_the_program(program):
    configuration = runpy.run_path(str(ROOT / "docs" / "site" / "conf.py"))
    printed = subprocess.run([str(program), "--version"], capture_output=True, text=True, check=True).stdout
    assert configuration["release"] in printed.split(), printed
    assert re.fullmatch(r"\d+\.\d+", configuration["version"]) and configuration["release"].startswith(configuration["version"] + ".")


def test_versions_of_the_site_lie_side_by_side(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    import make_site  # pylint: disable=import-outside-toplevel,import-error
    for name in ("0.9", "0.10", "0.1", "notes"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "index.html").touch()
    (tmp_path / "0.11").mkdir()  # without pages
    make_site.write_entrance(tmp_path)
    assert re.findall(r'href="(.*?)"', (tmp_path / "versions.html").read_text(encoding="utf-8")) == [f"0.{i}/index.html" for i in (10, 9, 1)]
    assert 'content="0; url=0.10/index.html"' in (tmp_path / "index.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("name, text, is_bad", [
    ("a.html", '<a href="https://example.org">there</a><img src="a.png">', False),
    ("a.html", '<img alt="b" src="https://example.org/a.png">', True),
    ("a.html", "<link rel=stylesheet href=//example.org/a.css>", True),
    ("a.css", '@import "../basic.css"; p {background: url("data:image/svg+xml,https://example.org")}', False),
    ("a.css", '@import "//example.org/a.css";', True),
    ("a.css", "p {background: url(https://example.org/a.png)}", True),
])
def test_the_site_loads_nothing_from_another_host(tmp_path, monkeypatch, name, text, is_bad):
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    import make_site  # pylint: disable=import-outside-toplevel,import-error
    (tmp_path / name).write_text(text, encoding="utf-8")
    assert make_site.pages_that_load_from_elsewhere(tmp_path) == [tmp_path / name] * is_bad


def test_every_public_name_is_in_the_reference():
    text = (ROOT / "docs" / "reference_python.md").read_text(encoding="utf-8")
    tree = ast.parse((ROOT / "python" / "bitpress" / "__init__.py").read_text(encoding="utf-8"))
    names = [ast.literal_eval(node.value) for node in tree.body if isinstance(node, ast.Assign) and node.targets[0].id == "__all__"][0]
    assert len(names) > 30
    for name in names:
        assert re.search(rf"^\.\. autoapi\w+:: bitpress\.{name}\b", text, re.MULTILINE), name


def commands(page):
    """(command, words behind it) of each line that runs the program."""
    text = page.read_text(encoding="utf-8")
    blocks = [body for _, language, body in FENCE.findall(text) if language in ("sh", "")]
    blocks.append("\n".join(re.findall(r"^ {4}(bitpress .*|    .*)$", FENCE.sub("", text), re.MULTILINE)))
    for line in re.sub(r"\\\n", " ", "\n".join(blocks)).splitlines():
        words = shlex.split(line, comments=True)
        if len(words) > 1 and words[0].rsplit("/", 1)[-1] == "bitpress" and words[1].isalpha():
            yield words[1], words[2:]


@pytest.fixture(scope="session")
def helps(bitpress):
    overview = bitpress.ok("--help")
    return {name: bitpress.ok(name, "--help") for name in re.findall(r"^  ([a-z]+) {2,}", overview.partition("Subcommands:")[2], re.MULTILINE)}


def sections(text):
    """The text in front of the first heading of the second level, and that of each section behind it."""
    return re.split(r"^## ", text, flags=re.MULTILINE)


def unexplained_tables(text):
    """The headings of the sections with a table and without a date, a machine or a command, which may also stand in front of all sections."""
    first, *others = sections(text)
    date, machine, command = r"20\d\d-\d\d-\d\d", r"AMD|Intel|NVIDIA|x86|Arm|QEMU", r"`[^`]*(?:bitpress |\./dev |\.py|/measure/)|^```sh"
    return [section.splitlines()[0] for section in others if re.search(r"^\|", section, re.MULTILINE) and not all(
        re.search(wanted, first + section, re.MULTILINE) for wanted in (date, machine, command))]


def test_tables_of_measurements_have_date_machine_and_command():
    measured = "# T\n\n## A\n\n*2026-11-21, x86; `bitpress inspect`*\n\n| a |\n|---|\n| 1 |\n"
    assert unexplained_tables(measured + "\n## B\n\nno table\n") == []
    for needed in ("2026-11-21", "x86", "`bitpress inspect`"):
        assert unexplained_tables(measured.replace(needed, "")) == ["A"]
    pages = [page for page in PAGES if page.parent.name == "benchmarks" and page.name != "index.md"]
    assert len(pages) > 10 and {page.name: unexplained_tables(page.read_text(encoding="utf-8")) for page in pages} == {page.name: [] for page in pages}


def test_measurements_stand_in_the_benchmarks_only():
    """A date tells a measurement or a revision from a fact: pages for users have facts."""
    pages = [page for page in (ROOT / "docs").rglob("*.md") if page.parent.name != "benchmarks"]
    dated = r"\b20\d\d-\d\d-\d\d\b|\b(?:January|February|March|April|June|July|August|September|October|November|December) 20\d\d\b"
    assert not [f"{name_of(page)}: {line}" for page in pages for line in page.read_text(encoding="utf-8").splitlines() if re.search(dated, line)]


def test_pages_use_the_words_of_the_field():
    """Request, validation, training, kernel family, repair and entry point are known to a newcomer; these words are not."""
    words = r"\b(?:wish(?:ed|es)?|judg(?:e|es|ed|ing|ement)|teach(?:es)?|taught|kin|hears?|heard|mends?|mended|door|codes meet)\b"
    pages = [page for page in PAGES if page.name != "reference_cli.md"]  # made of the program's texts
    assert not [f"{name_of(page)}: {line}" for page in pages for line in prose(page).splitlines() if re.search(words, line)]


def test_sources_use_the_words_of_the_field():
    words = r"\b(?:wish(?:ed|es)?|judg(?:e|es|ed|ing|ement)|teach(?:es)?|taught|kin|hears?|heard|mends?|mended|doors?)\b|Judge|Wish|Teach|TheDoor"
    sources = [path for room in ("src", "apps", "python", "include") for path in (ROOT / room).rglob("*") if path.suffix in (".h", ".cc", ".inc", ".py", ".in", ".js")]
    assert len(sources) > 500
    assert not [f"{path}: {line}" for path in sources for line in path.read_text(encoding="utf-8").splitlines() if re.search(words, line)]


def test_headings_of_tables_are_not_empty():
    empty = r"^\|(?:.*\|)? *\|.*\n\|[-|: ]+\|$"
    assert re.search(empty, "| | a |\n|---|---|\n", re.MULTILINE) and re.search(empty, "| a | |\n|---|---|\n", re.MULTILINE)
    assert not re.search(empty, "| a | b |\n|---|---|\n| c | |\n", re.MULTILINE)
    assert not [f"{name_of(page)}: {found[0]}" for page in PAGES for found in re.finditer(empty, page.read_text(encoding="utf-8"), re.MULTILINE)]


def test_a_script_puts_its_table_into_a_page(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# T\n\n<!-- table: a -->\n*old*\n\n| x |\n|---|\n| 1 |\n\nbehind\n\n| y |\n|---|\n| 2 |\n")
    command = [sys.executable, str(ROOT / "tools" / "measure" / "put_table.py"), str(page)]
    printed = "said\n\n| z |\n|---|\n| 3 |\n\n- a note\n"
    assert subprocess.run([*command, "a"], input=printed, capture_output=True, text=True, check=True).stdout == printed
    found = page.read_text()
    assert re.sub(r"\*20.* cores\*", "*LINE*", found) == (
        "# T\n\n<!-- table: a -->\n*LINE*\n\n| z |\n|---|\n| 3 |\n\nbehind\n\n| y |\n|---|\n| 2 |\n")
    for name, text in (("b", printed), ("a", "no table\n")):
        result = subprocess.run([*command, name], input=text, capture_output=True, text=True, check=False)
        assert result.returncode == 1 and str(page) in result.stderr and page.read_text() == found


def test_the_picture_of_the_readme_is_current():
    command = [sys.executable, "-B", str(ROOT / "tools" / "measure" / "draw_accuracy.py"), "--check"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


@pytest.mark.quick
def test_the_readme_is_a_screen():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(text.partition("## Licence")[0].splitlines()) <= 60


@pytest.mark.quick
def test_commands_exist_with_their_options(helps):
    presets = set(re.search(r"^Presets: (.*)$", helps["quantize"], re.MULTILINE)[1].split())
    settings = set(re.findall(r"^  (\w+)=", helps["plan"], re.MULTILINE))
    num_commands = 0
    for page in PAGES:
        for command, words in commands(page):
            num_commands += 1
            where = f"{name_of(page)}: bitpress {command} {' '.join(words)}"
            assert command in helps, where
            for word, value in zip(words, [*words[1:], ""]):
                if word.startswith("-"):
                    assert re.search(rf"^ .*{re.escape(word)}[ ,\n]", helps[command], re.MULTILINE), f"{where}: {word}"
                if word == "--set":
                    assert value.partition("=")[0] in settings or value.endswith("..."), f"{where}: {value}"
                if word == "--config" and value.isupper() and value != "NAME":
                    assert re.sub("_ADAQUANT$|_ADAROUND$", "", value) in presets, f"{where}: {value}"
    assert num_commands > 60


def test_the_page_of_the_command_line_is_current(program):
    command = [sys.executable, "-B", str(ROOT / "tools" / "make_cli_reference.py"), "--check", "--program", str(program)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


def test_the_page_of_targets_is_current(program):
    command = [sys.executable, "-B", str(ROOT / "tools" / "make_targets_page.py"), "--check", "--program", str(program)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


def test_lines_of_a_help_stay_one_paragraph(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    from make_cli_reference import section  # pylint: disable=import-outside-toplevel,import-error
    found = "\n".join(section("Says it.\nUsage: bitpress say\n\nOne sentence on\ntwo lines.\n\nExample:\n  bitpress say\nIt says more."))
    assert found.endswith("```\n\nOne sentence on\ntwo lines.\n\nExample:\n\n```sh\nbitpress say\n```\n\nIt says more.")
