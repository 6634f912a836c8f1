"""Every example of the documentation does what the page says. How they are run: ``tests/examples.py``."""

import ast
import code
import dataclasses
import itertools
import os
import re
import runpy
import subprocess
import sys
import types
from pathlib import Path
from xml.etree import ElementTree

import pytest

import pyredisson
import pyredisson.asyncio
from pyredisson import Config
from pyredisson._tools.demo import demo
from tests.examples import ROOT, blocks_of, examples_of, matches, pages, reference, seen_in, tabs_of

#: What may stand behind an opening fence. ``python`` is run; ``output`` is compared; MyST's directives are built.
KNOWN = {"python", "output", "console", "text", "lua"}

WITHIN = 110.0  # seconds for one page; the tutorial waits for the end of a lease, and starts ten processes


def run_in(directory: Path, page: Path, tab: str | None = None) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    return subprocess.run(
        [sys.executable, "-W", "error", "-m", "tests.examples", str(page), *([tab] if tab else [])],
        cwd=directory,
        env={**os.environ, "PYTHONPATH": path},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=WITHIN,
    )


README = ROOT / "README.md"
TUTORIAL = ROOT / "docs" / "tutorial.md"


def pages_by_tab() -> list[tuple[Path, str | None]]:
    return [(page, tab) for page in pages() for tab in tabs_of(page) if examples_of(page, tab)]


@pytest.mark.parametrize(
    ("page", "tab"),
    pages_by_tab(),
    ids=[f"{page.relative_to(ROOT)}{f'-{tab}' if tab else ''}" for page, tab in pages_by_tab()],
)
def test_the_examples_of_a_page_run_and_print_what_it_says(page, tab, tmp_path):
    done = run_in(tmp_path, page, tab)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_no_block_escapes_by_an_unknown_kind(page):
    unknown = {block.info for block in blocks_of(page) if block.info not in KNOWN and not block.info.startswith("{")}
    assert not unknown


def test_the_examples_that_must_not_go_missing_are_found():
    assert len(examples_of(README)) >= 2
    assert len(examples_of(TUTORIAL)) >= 5
    assert sum(len(examples_of(page)) for page in pages()) >= 30


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("```python\nassert False\n```\n", "line 2, in <module>"),
        ("```python\nprint(1)\n```\n\n```output\n2\n```\n", "page.md:6: the page says"),
        ("```python\nimport socket\nsocket.create_connection(('127.0.0.1', 6379))\n```\n", "wants to connect"),
        ("```python\nimport warnings\nwarnings.warn('this is old')\n```\n", "this is old"),
        ("```python\nx = 1\n", "not closed"),
        ("- item\n\n  ```python\n  x = 1\n  ```\n", "not indented"),
        ("```output\n1\n```\n", "follows no example"),
    ],
    ids=["raises", "prints", "connects", "warns", "unclosed", "indented", "output alone"],
)
def test_an_example_that_is_wrong_fails(text, reason, tmp_path):
    page = tmp_path / "page.md"
    page.write_text(text, encoding="utf-8")
    done = run_in(tmp_path, page)
    assert done.returncode != 0
    assert reason in done.stderr


def test_an_ellipsis_stands_for_any_part_of_one_line():
    assert matches("a … c", "a b c\n")
    assert not matches("a … c", "a\nb c")
    assert not matches("a.c", "abc")


# ---- the tutorial and the README -------------------------------------------------------------------------------------

TABS = [tab for tab in tabs_of(TUTORIAL) if tab is not None]
MINUTES = 10.0
WORDS_PER_MINUTE = 200.0
CODE_LINES_PER_MINUTE = 20.0  # to read and paste
WAITED = 0.5  # minutes: pip install, the sellers, the end of the lease


class Console(code.InteractiveConsole):
    """An interactive interpreter that compiles what is pasted, and runs nothing."""

    def runcode(self, code: types.CodeType) -> None: ...


@pytest.mark.parametrize("tab", TABS)
def test_the_tutorial_can_be_pasted_into_an_interpreter(tab, capsys):
    console = Console()
    console.compile.compiler.flags |= ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    for block, _ in examples_of(TUTORIAL, tab):
        if block.info == "python" and not block.saved_as:
            for line in [*block.text.splitlines(), ""]:
                more = console.push(line)
            assert not more, block.text
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("tab", TABS)
def test_the_tutorial_takes_at_most_ten_minutes(tab):
    text = TUTORIAL.read_text(encoding="utf-8")
    prose = re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)  # Both tabs: a little too many.
    words = len(re.findall(r"\w[\w'`()._-]*", prose))
    lines = sum(len(block.text.splitlines()) for block in seen_in(tab, TUTORIAL) if block.info in ("python", "console"))
    minutes = words / WORDS_PER_MINUTE + lines / CODE_LINES_PER_MINUTE + WAITED
    assert minutes <= MINUTES, f"{words} words, {lines} lines of code: {minutes:.1f} minutes"


def test_the_tutorial_has_both_forms_and_uses_hold_first():
    assert TABS == ["Threads", "asyncio"]
    for tab in TABS:
        examples = [block for block, _ in examples_of(TUTORIAL, tab)]
        used = [re.search(r"\.(hold|lock|try_lock|acquire)\(", block.text) for block in examples]
        assert next(found[1] for found in used if found) == "hold"


def test_the_demo_of_the_readme_is_the_one_that_is_drawn():
    """It is run by ``tests/real_servers/test_demo.py``; here its defaults and the picture of its output."""
    defaults = {each.name: each.default for each in demo.params}
    picture = (ROOT / "docs" / "_static" / "demo.svg").read_text(encoding="utf-8").replace("&#160;", " ")
    workers, seats = map(int, re.findall(r"(\d+) processes sell (\d+) seats", picture)[0])
    assert (workers, seats) == (defaults["workers"], defaults["seats"])
    assert f"{ {4: 'Four'}[workers] } processes sell {seats} seats" in README.read_text(encoding="utf-8")
    assert "taken over" in picture
    assert "…" not in picture, "its table was cut"


def test_each_extra_is_on_the_page_on_installing():
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    extras = project.split("[project.optional-dependencies]\n")[1].split("\n[")[0]
    rows = re.findall(r"^\| (`.*?) \|", (ROOT / "docs" / "install.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(re.findall(r"`(\w+)`", " ".join(rows))) == sorted(re.findall(r"^(\w+) = \[", extras, re.MULTILINE))


def test_the_readme_is_short():
    assert len(README.read_text(encoding="utf-8").split()) <= 900


def test_the_badges_of_the_readme_say_what_the_package_says():
    text, project = (README.read_text(encoding="utf-8"), (ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert f"![version {pyredisson.__version__}](https://img.shields.io/badge/version-{pyredisson.__version__}-" in text
    [oldest] = re.findall(r'^requires-python = ">=([\d.]+)"', project, re.MULTILINE)
    assert f"![Python {oldest} or newer](https://img.shields.io/badge/python-{oldest}%2B-" in text


# ---- the pictures ----------------------------------------------------------------------------------------------------

PICTURES = runpy.run_path(str(ROOT / "docs" / "draw_protocol.py"))["PICTURES"]
SVG = "{http://www.w3.org/2000/svg}"


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_is_what_is_drawn_now_and_is_described(name):
    picture = PICTURES[name]()
    svg = picture.svg()
    assert (ROOT / "docs" / "_static" / f"{name}.svg").read_text(encoding="utf-8") == svg, "run docs/draw_protocol.py"
    root = ElementTree.fromstring(svg)
    described = [root.findtext(f"{SVG}{element}[@id='{element}']") for element in ("title", "desc")]
    assert described == [picture.title, picture.described]
    shown = f"../_static/{name}.svg\n:alt: {picture.title}. {picture.described}\n"
    assert sum(shown in page.read_text(encoding="utf-8") for page in pages()) == 1, f"write {shown}"


@pytest.mark.parametrize("name", PICTURES)
def test_no_text_of_a_picture_is_cut_off_or_covers_another(name):
    """With a wide font, such as DejaVu Sans: 9 pixels for each character of 15 pixels."""
    root = ElementTree.fromstring(PICTURES[name]().svg())
    places = []
    for text in root.iter(f"{SVG}text"):
        x, y, width = float(text.get("x")), float(text.get("y")), 9 * len(text.text)
        x -= {"start": 0, "middle": width / 2, "end": width}[text.get("text-anchor")]
        assert x >= 8
        assert x + width <= float(root.get("width")) - 8, text.text
        places.append((x, x + width, y))
    for (left, right, y), (other_left, other_right, other_y) in itertools.combinations(places, 2):
        assert right <= other_left or other_right <= left or abs(y - other_y) >= 16


# ---- the reference ---------------------------------------------------------------------------------------------------


def settings_table() -> list[dict[str, str]]:
    """The table of settings, a row each, by column."""
    text = (ROOT / "docs" / "reference" / "expert.md").read_text(encoding="utf-8")
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("|")]
    start = next(index for index, row in enumerate(rows) if row[0] == "setting")
    return [dict(zip(rows[start], row, strict=True)) for row in rows[start + 2 :]]


def test_the_table_of_settings_has_each_in_its_order():
    assert [row["setting"] for row in settings_table()] == [f"`{field.name}`" for field in dataclasses.fields(Config)]


def test_every_public_name_is_in_the_reference(form):
    text = reference()
    for name in set(form.__all__) - {"__version__", "events"}:
        value = getattr(form, name)
        places = [form.__name__, getattr(value, "__module__", "")]
        if value is getattr(pyredisson, name):
            places.append("pyredisson")
        named = [rf":: {re.escape(place)}\.{name}\b" for place in places]
        assert re.search("|".join([*named, rf"py:function:: {re.escape(form.__name__)}\.{name}\("]), text), name


def test_every_event_is_in_the_reference():
    assert ".. automodule:: pyredisson.events\n   :members:" in reference()


# ---- the text --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_a_list_does_not_begin_inside_a_paragraph(page):
    text = re.sub(r"^(`{3,}).*?^\1$", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    assert re.findall(r"^(?![ -])\S.*\n- .*$", text, re.MULTILINE) == []


def bare_numbers(text: str) -> list[str]:
    """The calls whose first number is a wait time, a lease or a number of permits, depending on the method."""
    return re.findall(r"\b(?:hold|lock|acquire|try_lock|try_acquire|(?:try_)?lock_and_get_token)\(\d[^)]*\)", text)


@pytest.mark.parametrize(
    "path", [*pages(), *sorted((ROOT / "pyredisson").rglob("*.py"))], ids=lambda path: str(path.relative_to(ROOT))
)
def test_a_number_is_passed_by_its_name(path):
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
        text = "\n".join(ast.get_docstring(node) or "" for node in ast.walk(ast.parse(text)) if isinstance(node, kinds))
    assert bare_numbers(text) == []


#: What people search for, and the page that answers it: one of its words, or a keyword of its header.
SEARCHED = {
    "aclose": "howto/owners",
    "concurrency limit": "howto/semaphore",
    "cron": "howto/run-once",
    "deadlock": "operate/find-the-holder",
    "flask": "howto/owners",
    "graceful shutdown": "operate/shutting-down",
    "leader election": "howto/run-once",
    "mutex": "howto/acquire",
    "rate limit": "howto/recipes",
    "redlock": "howto/multi-lock",
    "sigterm": "operate/shutting-down",
    "throttle": "howto/recipes",
}


@pytest.mark.parametrize(("words", "page"), SEARCHED.items(), ids=SEARCHED)
def test_the_words_that_people_search_for_are_on_the_page_that_answers(words, page):
    # Of the keywords in a header the search knows each between two commas, as a single word.
    text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8").lower()
    assert set(words.split()) <= set(re.findall(r"\w+", text))


# ---- links -----------------------------------------------------------------------------------------------------------

_LINK = re.compile(r"\[[^]]*\]\(<?([^)\s>]*)>?\)")


def without_code(page: Path) -> str:
    """The text of a page, without its blocks and code spans."""
    text = re.sub(r"^(`{3,}).*?^\1$", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    return re.sub(r"`[^`\n]+`", "``", text)


def anchors_of(page: Path) -> set[str]:
    """The anchors of the headings of a page, as MyST and GitHub make them."""
    text = re.sub(r"^(`{3,}).*?^\1$", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    headings = re.findall(r"^#{1,3} (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def broken_links(page: Path) -> list[str]:
    """The links of a page to files that are not there, and to headings that they do not have."""
    found = []
    for link in _LINK.findall(without_code(page)):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and target.suffix == ".md" and anchor not in anchors_of(target)):
            found.append(link)
    return found


@pytest.mark.parametrize(
    "page",
    [*pages(), ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", ROOT / "benchmarks" / "README.md"],
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_every_link_and_anchor_resolves(page):
    assert broken_links(page) == []
