"""The page on errors has each message as the library prints it, and what to do about it."""

import ast
import re

import pytest

from pyredisson import errors
from tests.examples import ROOT

PAGE = ROOT / "docs" / "reference" / "errors.md"
PACKAGE = ROOT / "pyredisson"

#: Messages that no caller sees, or that only wrap another one.
NOT_SHOWN = {
    "the server has replicas, which were not asked": "the cause of an outcome that is settled",
    "INFO was answered by a …": "the cause of a refused server",
}


def template(node: ast.expr) -> str:
    """A message as it is written, with ``…`` for what is put in."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(str(each.value) if isinstance(each, ast.Constant) else "…" for each in node.values)
    return "…"


def sources() -> list[ast.Module]:
    return [
        ast.parse(path.read_text(encoding="utf-8"))
        for path in sorted(PACKAGE.rglob("*.py"))
        if "testing" not in path.relative_to(PACKAGE).parts
    ]


SOURCES = sources()

#: Every text of the library.
TEXTS = [
    template(node)
    for tree in SOURCES
    for node in ast.walk(tree)
    if isinstance(node, (ast.JoinedStr, ast.Constant)) and isinstance(getattr(node, "value", ""), str)
]


def raised() -> list[str]:
    """The messages with which the public errors are made, where they are written out."""
    return sorted(
        {
            template(node.args[0])
            for tree in SOURCES
            for node in ast.walk(tree)
            if isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id in errors.__all__
            and node.args
            and template(node.args[0]).strip("… ")
        }
    )


def printed() -> list[str]:
    """The messages on the page, one per line."""
    return re.findall(r"^- `(.+)`$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)


def pieces(message: str) -> list[str]:
    """What does not vary in a message, without its punctuation at the ends."""
    return [piece for part in re.split(r"…", message) if len(piece := part.strip(" '();:.,")) > 3]


def is_written(piece: str, parts: int = 3) -> bool:
    """Whether the library has this text, in one piece or put together of a few: long ones, or whole ones."""
    if piece in TEXTS or any(piece in text for text in TEXTS if len(piece) > 10 or parts == 3):
        return True
    cuts = [cut for cut in range(10, len(piece) - 3) if any(piece[:cut] in text for text in TEXTS)]
    return parts > 1 and bool(cuts) and is_written(piece[max(cuts) :].strip("; "), parts - 1)


@pytest.mark.parametrize("message", printed())
def test_a_message_on_the_page_is_one_of_the_library(message):
    assert [piece for piece in pieces(message) if not is_written(piece)] == []


@pytest.mark.parametrize("message", raised())
def test_a_message_of_the_library_is_on_the_page(message):
    longest = max(pieces(message), key=len)
    assert message in NOT_SHOWN or any(longest in line or piece_of(line, longest) for line in printed())


def piece_of(line: str, text: str) -> bool:
    """Whether the line, cut short by ``…``, has the beginning or the end of the text."""
    return any(text.startswith(piece) or text.endswith(piece) for piece in pieces(line) if len(piece) > 20)


def test_each_error_has_a_section_with_a_message():
    sections = re.split(r"^## ", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    with_message = {section.split("\n", 1)[0] for section in sections if "\n- `" in section}
    assert with_message == set(errors.__all__)


def test_what_is_not_shown_is_still_raised():
    assert set(NOT_SHOWN) <= set(raised())
