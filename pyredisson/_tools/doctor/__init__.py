"""``pyredisson doctor``: inspect the servers that locks are kept on, and report what endangers the locks.

:mod:`.probe` asks the servers, :mod:`.judge` decides what is wrong without asking any, and :mod:`.show` prints it.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyredisson._tools.doctor.judge import Report, judge
from pyredisson._tools.doctor.probe import probe


def examine(urls: Sequence[str], lock: str | None = None) -> Report:
    """Inspect servers, all at the same time, and judge them.

    Args:
        urls: ``redis://``, ``rediss://``, ``unix://``, ``redis+sentinel://`` or ``redis+cluster://``.

        lock: The name of a lock that this user is to use.

    Raises:
        ValueError: A URL is not valid. No server was asked.
    """
    return judge(probe(urls, lock))


def run_doctor(urls: Sequence[str], *, as_json: bool, lock: str | None = None) -> int:
    """Inspect servers, print the report, and return the exit code. Raises as :func:`examine`."""
    report = examine(urls, lock)
    if as_json:
        print(report.as_json())
    else:
        from pyredisson._tools.doctor.show import show  # The rest needs no rich.

        show(report)
    return int(report.grade)
