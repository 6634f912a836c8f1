"""Write the façade for threads from that for asyncio: ``make facade``. With ``--check`` it only compares them.

The source is ``pyredisson/_asyncio/NAME.py``; what is written is ``pyredisson/_threads/NAME.py``. An ``await`` becomes
the call that steps a coroutine of the core to its end; one that releases something goes on after a signal, too. What
truly differs between the forms is in modules that are written by hand: ``runtime``, ``fast_path``, ``hold``, ...
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from itertools import accumulate
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NAMES = ("locks", "semaphores", "synchronizers", "run_once", "client")

#: Methods of the core that release or announce something: a signal that interrupts them does not end them.
TO_THE_END = re.compile(
    r"fast_path\.release|self\._core\.(add_permits|clear|count_down|give|leave|notify|notify_all|release|resize|set)"
)

#: What is plain in both forms: the fast path, and other façades.
PLAIN = re.compile(r"fast_path\.acquire|self\.close$|self\._lock\.|self\._enter_once\(\)\.|self\._entered\.")

#: Methods that only asyncio has.
ASYNCIO_ALONE = {"is_held_by_current_task", "aclose"}

WORDS = (
    (r"(?<!`)\basync (def|with|for)\b", r"\1"),
    (r"\bawait ", ""),
    (r"__a(enter|exit)__", r"__\1__"),
    (r"Coroutine\[Any, Any, (R|R \| Skipped|Ran\[R\] \| Skipped)\]", r"\1"),
    (r"\bcoroutine (functions?)\b", r"\1"),
    (r"guard(\(\))?\.task\b", r"guard\1.function"),
    (r"pyredisson\._asyncio\b", "pyredisson._threads"),
    (r"AsyncLease as Lease", "Lease"),
    (r"\bAsyncIterator\b", "Iterator"),
    (r"\bfor each in (.*):\n +yield each\n", r"yield from \1\n"),
    (r"\bAsyncioRuntime\b", "ThreadsRuntime"),
    (r"\b_threads\.pipe\b", "_threads.sockets"),
    (r"\bredis\.asyncio\b", "redis"),
    (r"\n    It serves one event loop (?:.+\n)+", ""),
    (r"\n +cancel_on_loss: [^\n]*", ""),
    (r", cancel_on_loss\b", ""),
    (r"\b([Tt])ask(s?)\b", lambda found: ("T" if found[1] == "T" else "t") + "hread" + found[2]),
    (r"\((run\((?:[^()]|\([^()]*\))*\))\)\.", r"\1."),
)


def without_methods(source: str) -> str:
    """Return the source without the methods that only asyncio has."""
    lines = source.splitlines(keepends=True)
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.AsyncFunctionDef) and node.name in ASYNCIO_ALONE:
            lines[node.lineno - 1 : node.end_lineno] = [""] * len(lines[node.lineno - 1 : node.end_lineno])
    return "".join(lines)


def threads_form(source: str, name: str) -> str:
    """Return the module for threads."""
    source = without_methods(source)
    data = source.encode()
    starts = [0, *accumulate(map(len, data.splitlines(keepends=True)))]

    def begin(node: ast.expr) -> int:
        return starts[node.lineno - 1] + node.col_offset

    def end(node: ast.expr) -> int:
        return starts[(node.end_lineno or 0) - 1] + (node.end_col_offset or 0)

    edits: list[tuple[int, int, bytes]] = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Await) and isinstance(node.value, ast.Call):
            call = node.value
            called = ast.unparse(call.func)
            if TO_THE_END.fullmatch(called):
                edits.append((begin(node), begin(call), b"run_to_the_end("))
                edits.append((end(call.func), end(call.func) + 1, b", " if call.args else b""))
            elif PLAIN.match(called):
                edits.append((begin(node), begin(call), b""))
            else:
                edits += [(begin(node), begin(call), b"run("), (end(call), end(call), b")")]
    for first, last, new in sorted(edits, reverse=True):
        data = data[:first] + new + data[last:]
    text = data.decode()
    for pattern, instead in WORDS:
        text = re.sub(pattern, instead, text)
    used = ", ".join(each for each in ("run", "run_to_the_end") if re.search(rf"\b{each}\(", text))
    if used:
        text = text.replace(
            "from pyredisson._shared", f"from pyredisson._core.runtime import {used}\nfrom pyredisson._shared", 1
        )
    return f"# Generated from _asyncio/{name}.py by `make facade`: change that file, and run it.\n\n{text}"


def formatted(text: str) -> str:
    """Return it as ruff writes it, with its imports sorted."""
    ruff = [sys.executable, "-m", "ruff"]
    path = ["--stdin-filename", str(ROOT / "pyredisson" / "_threads" / "generated.py"), "-"]
    for command in (["check", "--quiet", "--select", "I001,F401", "--fix", *path], ["format", "--quiet", *path]):
        done = subprocess.run([*ruff, *command], input=text, capture_output=True, text=True, check=True, cwd=ROOT)
        text = done.stdout
    return text


def main() -> int:
    """Write or compare all of them."""
    differ = []
    for name in NAMES:
        source = (ROOT / "pyredisson" / "_asyncio" / f"{name}.py").read_text(encoding="utf-8")
        target = ROOT / "pyredisson" / "_threads" / f"{name}.py"
        text = formatted(threads_form(source, name))
        if not target.exists() or target.read_text(encoding="utf-8") != text:
            differ.append(name)
            if "--check" not in sys.argv:
                target.write_text(text, encoding="utf-8")
    if differ and "--check" in sys.argv:
        print(f"pyredisson/_threads/: {', '.join(differ)} would change: run `make facade`")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
