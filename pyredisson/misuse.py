"""What is said to those who use the library in ways that cannot work."""

from __future__ import annotations

import sys
import warnings
from typing import Any, TypeVar

__all__ = ["BY_HAND", "core_of", "not_portable", "warn_never_entered"]

C = TypeVar("C")

#: Stands for an argument that only a client gives.
BY_HAND: Any = None


def not_portable(thing: object) -> TypeError:
    """The error for whoever pickles or copies something that is of use only in this process, through this client."""
    kind = type(thing).__name__
    name = getattr(thing, "name", None)
    client = getattr(thing, "_client", thing)
    url = getattr(client, "url", None)
    made = f".get_...({name!r})" if isinstance(name, str) else ""
    masked = ", with the password in it" if url is not None and ":***@" in url else ""
    return TypeError(
        f"a {kind} cannot be pickled or copied: it belongs to its client in this process. Make a client from its URL "
        f"in the other process{masked}: Redisson.from_url({url or 'url'!r}){made}"
    )


def core_of(kind: type[C], core: object, handle: object, client: object) -> C:
    """Return the core that a client made for a handle.

    Raises:
        TypeError: Somebody made the handle by hand.
    """
    if isinstance(core, kind):
        return core
    name = next((repr(each) for each in (core, client) if isinstance(each, str)), "name")
    made = type(handle).__name__
    raise TypeError(
        f"a {made} is made by a client: client = Redisson.from_url(url), then client.get_{_snake_case(made)}({name})"
    )


def _snake_case(name: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name).lstrip("_")


def warn_never_entered(block: object, name: str) -> None:
    """Warn that the object which ``hold()`` returned was thrown away, and nothing was ever held."""
    if not sys.is_finalizing():
        warnings.warn(
            f"hold() of {name!r} was never entered, so nothing was held: write `with ....hold():` "
            "(`async with` for asyncio)",
            ResourceWarning,
            stacklevel=2,
            source=block,
        )
