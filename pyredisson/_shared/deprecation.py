"""How a public name is deprecated: it warns in two minor versions, and goes in the third."""

from __future__ import annotations

import inspect
import warnings

_MINOR_VERSIONS_THAT_WARN = 2
_LIBRARY = __name__.partition(".")[0]


def deprecated(what: str, *, since: str, instead: str) -> None:
    """Warn of the use of a public name, at the line of the program that uses it.

    Args:
        what: What the program wrote, such as `"Lock.old()"`.
        since: The minor version that deprecates it, such as `"0.4"`.
        instead: What to write.
    """
    major, minor = map(int, since.split("."))
    gone = f"{major}.{minor + _MINOR_VERSIONS_THAT_WARN}"
    warnings.warn(
        f"{what} is deprecated since pyredisson {since} and goes in {gone}: write {instead}",
        DeprecationWarning,
        stacklevel=_frames_of_the_library() + 1,
    )


def _frames_of_the_library() -> int:
    """Return how many frames of the library stand between the warning and the program that called."""
    frame, count = inspect.currentframe(), -1  # Not this one.
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] == _LIBRARY:
        frame, count = frame.f_back, count + 1
    return count
