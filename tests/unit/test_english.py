"""User-visible text uses the words of the field: docstrings, messages, log lines, CLI help, README and docs."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
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

#: Places where a refused word is the right one: the file, a piece of the text, and the reason.
EXCEPTIONS: dict[tuple[str, str], str] = {}

FACADE = ("client", "factory", "hold", "primitives", "semaphores")

#: Modules whose public names are the API: their docstrings are read in editors and on the reference pages.
PUBLIC = [
    "__init__.py",
    "asyncio/__init__.py",
    "compat/**/*.py",
    "config.py",
    "embedded.py",
    "errors.py",
    "events.py",
    "fencing/**/*.py",
    "lease.py",
    "observe/**/*.py",
    "shared/*owners.py",
    "shared/base_client.py",
    "testing/**/*.py",
    "tools/cli.py",
    "tools/commands/*.py",
    *(f"{form}/{name}.py" for form in ("threads", "asyncio") for name in FACADE),
]

#: Modules whose internal docstrings and comments are read as well.
INSIDE = [
    "pyredisson/*.py",
    *(
        f"pyredisson/{folder}/**/*.py"
        for folder in (
            "asyncio",
            "compat",
            "core",
            "fencing",
            "kinds",
            "lua",
            "net",
            "observe",
            "quorum",
            "shared",
            "testing",
            "threads",
            "tools",
        )
    ),
    "benchmarks/*.py",
]

#: The architecture is for those who change the library.
NOT_FOR_USERS = ["docs/_build/"]

_REFUSED = {word: re.compile(rf"\b{word}\b", re.IGNORECASE) for word in SAY_INSTEAD}


def refused_in(text: str) -> Iterator[tuple[int, str]]:
    """The refused words of a text, each with the number of its line (from 0) and what to say."""
    for word, pattern in _REFUSED.items():
        for found in pattern.finditer(text):
            yield text.count("\n", 0, found.start()), f"{found[0]!r}: say {SAY_INSTEAD[word]}"


def prose_of(page: Path) -> str:
    """The text of a page without code spans and addresses of links, line for line; fenced examples stay."""
    text = page.read_text(encoding="utf-8")
    if page.name == "CHANGELOG.md":
        text = re.split(r"^## \[\d", text, maxsplit=1, flags=re.MULTILINE)[0]  # What was released stays as it is.
    text = re.sub(r"(?<!`)`[^`\n]+`(?!`)", "``", text)
    return re.sub(r"\]\([^)\n]*\)", "]()", text)


def docstrings_of(tree: ast.Module) -> Iterator[tuple[ast.AST, int, str]]:
    """Every docstring of a module, of its public names unless it is the module's own, with its first line."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            body = node.body
            if body and isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant):
                value = body[0].value
                if isinstance(value.value, str):
                    yield node, value.lineno, value.value


def is_public(node: ast.AST) -> bool:
    return not getattr(node, "name", "").startswith("_")


def texts_of(path: Path, *, public: bool) -> Iterator[tuple[int, str]]:
    """The strings of a module that a user may read: messages, and docstrings if it is a public one."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    docstrings = {line: (node, text) for node, line, text in docstrings_of(tree)}
    if public:
        yield from ((line, text) for line, (node, text) in docstrings.items() if is_public(node))
    inside = {line for line, (_, text) in docstrings.items()}
    if not public:  # Nor are strings below a name, which describe it.
        inside |= {node.lineno for node in ast.walk(tree) if isinstance(node, ast.Expr)} - {
            node.lineno for node in ast.walk(tree) if isinstance(node, ast.Call)
        }
    for node in ast.walk(tree):
        text = node.value if isinstance(node, ast.Constant) else None
        if isinstance(text, str) and " " in text.strip() and node.lineno not in inside:
            yield node.lineno, text


def inside_of(path: Path) -> Iterator[tuple[int, str]]:
    """The comments of a module, and all its docstrings, with their first lines."""
    text = path.read_text(encoding="utf-8")
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string
    yield from ((line, text) for _, line, text in docstrings_of(ast.parse(text)))


def breaches(path: Path) -> list[str]:
    """What is to be reworded in a file, one line each."""
    name = str(path.relative_to(ROOT))
    if path.suffix == ".md":
        texts: Iterator[tuple[int, str]] = iter([(1, prose_of(path))])
    else:
        within = path.relative_to(PACKAGE)
        texts = texts_of(path, public=any(_matches(within, pattern) for pattern in PUBLIC))
    found = []
    for line, text in texts:
        for offset, reason in refused_in(text):
            stands_in = text.splitlines()[offset]
            if not any(where == name and piece in stands_in for where, piece in EXCEPTIONS):
                found.append(f"{name}:{line + offset}: {reason}: {stands_in.strip()[:110]}")
    return found


def _matches(path: Path, pattern: str) -> bool:
    return path in (candidate.relative_to(PACKAGE) for candidate in PACKAGE.glob(pattern))


def sources() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def pages() -> list[Path]:
    docs = [
        page
        for page in sorted((ROOT / "docs").rglob("*.md"))
        if not str(page.relative_to(ROOT)).startswith(tuple(NOT_FOR_USERS))
    ]
    return [ROOT / "README.md", ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md", ROOT / "benchmarks/README.md", *docs]


def by_path(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", [*sources(), *pages()], ids=by_path)
def test_user_visible_text_uses_the_words_of_the_field(path: Path) -> None:
    found = breaches(path)
    assert not found, "\n".join(found)


@pytest.mark.parametrize("path", [path for pattern in INSIDE for path in sorted(ROOT.glob(pattern))], ids=by_path)
def test_internal_docstrings_and_comments_use_them_too(path: Path) -> None:
    found = [f"{line + offset}: {reason}" for line, text in inside_of(path) for offset, reason in refused_in(text)]
    assert not found, "\n".join(found)


def test_each_exception_is_needed() -> None:
    for (name, piece), reason in EXCEPTIONS.items():
        assert reason
        assert piece in (ROOT / name).read_text(encoding="utf-8"), (name, piece)


@pytest.mark.parametrize(
    ("text", "refused"),
    [
        ("Nobody holds it.", True),
        ("The lock was not got in time.", True),
        ("a function of the other colour", True),
        ("its lease is over", True),
        ("No one holds it.", False),
        ("forgotten, besides, overtaken", False),
        ("a lock over several servers", False),
    ],
)
def test_whole_words_are_refused_in_any_case(text: str, refused: bool) -> None:
    assert bool(list(refused_in(text))) == refused


def test_code_spans_are_no_prose_and_examples_are(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("`nobody` [x](beside.md)\n```text\nnobody\n```\n", encoding="utf-8")
    assert [line for line, _ in refused_in(prose_of(page))] == [2]


def test_messages_and_public_docstrings_are_read(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text(
        'def f():\n    """Nobody calls it."""\n    raise ValueError(f"{1}: held by nobody")\n\n\n'
        'def _g():\n    """Nobody calls it."""\n',
        encoding="utf-8",
    )
    assert [line for line, text in texts_of(module, public=True) if list(refused_in(text))] == [2, 3]
    assert [line for line, text in texts_of(module, public=False) if list(refused_in(text))] == [3]


def logged_in(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """The texts that a module passes to a logger directly, with their lines."""
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in ("debug", "info", "warning", "error", "exception")
            and ast.unparse(node.func.value).startswith("_")
            and node.args
            and isinstance(node.args[0], ast.Constant)
        ):
            yield node.lineno, str(node.args[0].value)


def test_a_line_of_the_log_says_whose_it_is() -> None:
    logged = [
        (path.name, line, text)
        for path in sorted(PACKAGE.rglob("*.py"))
        for line, text in logged_in(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert len(logged) > 10
    assert [each for each in logged if not each[2].startswith("pyredisson: ")] == []
