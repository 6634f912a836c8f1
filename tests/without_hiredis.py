"""A plugin of pytest (``-p tests.without_hiredis``): pyredisson and redis-py do not find hiredis.

The tests themselves, which are servers too, may import it.
"""

from __future__ import annotations

import builtins
import sys
from typing import Any

_import = builtins.__import__


def _without(name: str, globals: dict[str, Any] | None = None, *args: Any, **kwargs: Any) -> Any:
    asking = str((globals or {}).get("__name__", "")).partition(".")[0]
    relative = kwargs.get("level", args[2] if len(args) > 2 else 0)  # redis-py has a module of that name.
    if name.partition(".")[0] == "hiredis" and not relative and asking in ("pyredisson", "redis", "valkey"):
        raise ImportError("No module named 'hiredis'")
    return _import(name, globals, *args, **kwargs)


if {"pyredisson.net", "redis"} & set(sys.modules):
    raise RuntimeError("too late: pyredisson or redis has been imported")
builtins.__import__ = _without
