"""How a kind is stored in Redis and what lists call it: all that tools know of it. Each kind's file describes it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, final

from pyredisson._core.names import LockNames, NumberedNames

Form: TypeAlias = Literal["owners", "sides", "token", "number", "permits"]
"""What a key is: a hash with one owner; one with a mode and its owners; a string that is a token; one that is a number;
one that is a number, while a sorted set has the permits that are taken."""


@final
@dataclass(frozen=True)
class StoredKind:
    """A kind as an inspection sees it.

    Attributes:
        kind: The word of ``get_*``.
        label: What lists call it.
        form: How it is stored. Kinds of one form look the same, unless another key distinguishes them.
        names: Makes the names of its keys and its channel.
        shown_by: What no other kind of this form has: a queue, a token, or that its holder has run.
        number: What its number counts.
        sides: What lists call its sides, by the words for them.
        shared: The side that many can hold at a time.
        reentrant: Whether an owner that holds it cannot wait for it.
        announces: Whether each release is published on its channel.
        subscribes: Whether those who wait for it are subscribed to its channel, or notified on one of their own.
        force_unlock: The script that frees it; ``None`` if it has no owner that could be deprived of it.
        title: Its name in words, where that is not the one of ``get_*``.
    """

    kind: str
    label: str
    form: Form
    names: Callable[[str], LockNames | NumberedNames]
    shown_by: Literal["queued", "token", "ran"] | None = None
    number: Literal["permits", "count", "changes"] | None = None
    sides: Mapping[str, str] = field(default_factory=dict)
    shared: str | None = None
    reentrant: bool = True
    announces: bool = True
    subscribes: bool = True
    force_unlock: str | None = None
    title: str = ""

    @property
    def words(self) -> str:
        """Its name in words."""
        return self.title or self.kind.replace("_", " ")
