"""A deprecated name warns where a program uses it, and goes after two minor versions."""

import re
import warnings
from pathlib import Path

import pytest

import pyredisson
from pyredisson._shared.arguments import deprecated
from tests.examples import ROOT


def library_code(source: str) -> dict[str, object]:
    """The names of a module of the library with this source."""
    names: dict[str, object] = {"__name__": "pyredisson._shared.example", "deprecated": deprecated}
    exec(compile(source, "example.py", "exec"), names)
    return names


def test_the_warning_says_what_to_write_and_when_the_name_goes():
    text = "Lock.old() is deprecated since pyredisson 0.4 and goes in 0.6: write Lock.new()"
    with pytest.warns(DeprecationWarning, match=f"^{re.escape(text)}$"):
        deprecated("Lock.old()", since="0.4", instead="Lock.new()")


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_the_warning_names_the_line_of_the_program(depth):
    source = 'def call_1():\n    deprecated("old()", since="0.4", instead="new()")\n'
    source += "".join(f"def call_{n}():\n    call_{n - 1}()\n" for n in range(2, depth + 1))
    outermost = library_code(source)[f"call_{depth}"]
    with pytest.warns(DeprecationWarning, match="old") as caught:
        outermost()
    assert [Path(each.filename).name for each in caught] == [Path(__file__).name]


def test_a_program_can_make_it_an_error():
    with warnings.catch_warnings():
        warnings.simplefilter("error", DeprecationWarning)
        with pytest.raises(DeprecationWarning, match=r"write new\(\)"):
            deprecated("old()", since="0.4", instead="new()")


def test_nothing_deprecated_is_overdue():
    current = tuple(map(int, re.findall(r"\d+", pyredisson.__version__)[:2]))
    for path in (ROOT / "pyredisson").rglob("*.py"):
        for major, minor in re.findall(r'deprecated\([^)]*since="(\d+)\.(\d+)"', path.read_text(encoding="utf-8")):
            assert current < (int(major), int(minor) + 2), f"{path.name}: remove what was deprecated in {major}.{minor}"
