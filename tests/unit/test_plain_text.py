"""What others say never moves a terminal."""

from __future__ import annotations

import pytest

from pyredisson.tools.common import plain


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("as it is: ×2, 'äöü' …", "as it is: ×2, 'äöü' …"),
        ("\x1b]0;owned\x07", "\\x1b]0;owned\\x07"),
        ("two\r\nlines\t", "two\\r\\nlines\\t"),
        ("\x9b31m", "\\x9b31m"),
        ("from right \u202e to left", "from right \\u202e to left"),
        ("\ud800", "\\ud800"),
    ],
)
def test_control_characters_are_escaped(text: str, shown: str) -> None:
    assert plain(text) == shown
