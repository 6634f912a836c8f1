"""The extras of the package: what a module needs that is not installed with the library alone."""

from __future__ import annotations

from types import TracebackType
from typing import final


@final
class Extra:
    """Around the imports of a module that needs an extra: if one of them is missing, the error names the extra.

    Args:
        name: The extra.
    """

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not isinstance(error, ModuleNotFoundError) or (error.name or "").partition(".")[0] == "pyredisson":
            return
        raise ModuleNotFoundError(
            f'{error.name} is not installed: pip install "pyredisson[{self._name}]"', name=error.name, path=error.path
        ) from error
