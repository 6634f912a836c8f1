"""The ``pyredisson`` command, also as ``python -m pyredisson``."""

from __future__ import annotations

import errno
import signal
import sys
from importlib.util import find_spec


def main() -> None:
    """Run the command line, or say which extra it needs."""
    missing = [package for package in ("click", "rich") if find_spec(package) is None]
    if missing:
        print(
            f'pyredisson: the command line needs {" and ".join(missing)}: pip install "pyredisson[cli]"',
            file=sys.stderr,
        )
        raise SystemExit(2)

    # Ctrl-C while the rest is being imported needs no traceback. What has something to clean up handles it by itself.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)

    from pyredisson._tools.cli import cli

    try:
        cli(prog_name="pyredisson")
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        what = error.filename or "the output"  # It may be the folder of an embedded server.
        print(f"pyredisson: {what} could not be written: {error.strerror}", file=sys.stderr)
        raise SystemExit(1) from None


if __name__ == "__main__":
    main()
