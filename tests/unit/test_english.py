"""User-visible text uses the words of the field: docstrings, messages, log lines, CLI help, README and docs."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.examples import ROOT

PACKAGE = ROOT / "pyredisson"

#: What is refused, as whole words, and what to say instead. The words are regular expressions.
SAY_INSTEAD = {
    r"anybody": "any owner, any client",
    r"apart": "separate, separately",
    r"as things stand": "(leave it out)",
    r"at once by": "immediately by",
    r"be had": "available, acquired",
    r"believed in": "considered alive",
    r"beside": "next to, alongside, concurrently with, in addition to",
    r"by the way": "in the background",
    r"came": "arrived, happened",
    r"colou?rs?": "sync and async, threads and asyncio",
    r"concerned by": "applies to",
    r"for ever": "forever, indefinitely",
    r"goes first": "takes precedence",
    r"got": "acquired, received",
    r"(?:is|was|were) had": "granted",
    r"(?:gave|given|gives?|giving) back": "release, return",
    r"happenings?": "event",
    r"hear[ds]? of": "received a heartbeat",
    r"home": "client, server",
    r"(?:are|be|is|was|were) over": "has ended, has expired",
    r"nobody": "no one, no other client, nothing",
    r"on (?:its|the) way": "in flight",
    r"patience": "wait time",
    r"seen to": "handled",
    r"so many": "n, that many",
    r"somebody": "another client, another owner",
    r"stands? there": "is stored there",
    r"told": "notified, reported, described",
    r"what (?:is|was) (?:left|pending|taken)": "a noun: the rest, the pending request, the permits",
    r"who asks": "the caller",
    r"(?:who|whom)ever": "the caller, the owner, the client that ...",
    r"whose turn": "next in the queue",
}

#: Where a refused word is the right one.
EXCEPTIONS = {
    ("benchmarks/charts.py", "color"),  # CSS's.
    ("pyredisson/_core/numbered.py", "who asks"),
}

_REFUSED = {word: re.compile(rf"\b{word}\b", re.IGNORECASE) for word in SAY_INSTEAD}


def refused_in(text: str, path: str = "") -> Iterator[tuple[int, str]]:
    """The refused words of a text, each with the number of its line (from 0) and what to say."""
    for word, pattern in _REFUSED.items():
        for found in pattern.finditer(text):
            if (path, found[0]) not in EXCEPTIONS:
                yield text.count("\n", 0, found.start()), f"{found[0]!r}: say {SAY_INSTEAD[word]}"


def prose_of(page: Path) -> str:
    """The text of a page without code spans and addresses of links, line for line; fenced examples stay."""
    text = page.read_text(encoding="utf-8")
    if page.name == "CHANGELOG.md":
        text = re.split(r"^## \[\d", text, maxsplit=1, flags=re.MULTILINE)[0]  # What was released stays as it is.
    text = re.sub(r"(?<!`)`[^`\n]+`(?!`)", "``", text)
    return re.sub(r"\]\([^)\n]*\)", "]()", text)


def texts_of(module: Path) -> Iterator[tuple[int, str]]:
    """The docstrings and messages of a module, and its comments, with their first lines."""
    text = module.read_text(encoding="utf-8")
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value.strip():
            yield node.lineno, node.value


def breaches(path: Path) -> list[str]:
    """What is to be reworded in a file, one line each."""
    texts = [(1, prose_of(path))] if path.suffix == ".md" else texts_of(path)
    name = path.relative_to(ROOT).as_posix()
    return [f"{line + offset}: {reason}" for line, text in texts for offset, reason in refused_in(text, name)]


SOURCES = sorted(PACKAGE.rglob("*.py"))
PAGES = [page for page in sorted((ROOT / "docs").rglob("*.md")) if "_build" not in page.parts]
OTHERS = [ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "benchmarks/README.md")]
BENCHMARKS = sorted((ROOT / "benchmarks").glob("*.py"))


@pytest.mark.parametrize("path", [*SOURCES, *BENCHMARKS, *PAGES, *OTHERS], ids=lambda path: str(path.relative_to(ROOT)))
def test_texts_use_the_words_of_the_field(path):
    found = breaches(path)
    assert not found, "\n".join(found)


def logged_in(tree: ast.Module) -> Iterator[str]:
    """The texts that a module passes to a logger directly."""
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in ("debug", "info", "warning", "error", "exception")
            and ast.unparse(node.func.value).startswith("_")
            and node.args
            and isinstance(node.args[0], ast.Constant)
        ):
            yield str(node.args[0].value)


def test_a_line_of_the_log_says_whose_it_is():
    logged = [text for path in SOURCES for text in logged_in(ast.parse(path.read_text(encoding="utf-8")))]
    assert len(logged) > 10
    assert [text for text in logged if not text.startswith("pyredisson: ")] == []
