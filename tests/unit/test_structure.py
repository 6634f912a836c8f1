"""The rules of the tree that no linter knows, read from the sources."""

import ast
import asyncio
import importlib
import inspect
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Collection, Iterator
from functools import cache
from pathlib import Path

import pytest

from pyredisson._lua import script_text
from pyredisson.inspection.model import labels, stored_kinds
from tests.examples import ROOT

PACKAGE = ROOT / "pyredisson"
SOURCES = sorted(PACKAGE.rglob("*.py"))
#: The protocol: it reaches the world through its runtime only.
CORE = sorted(path for folder in ("_core", "_kinds", "_quorum") for path in (PACKAGE / folder).rglob("*.py"))
SCRIPTS = sorted((PACKAGE / "_lua").glob("*.lua"))
PRIMITIVES = [PACKAGE / form / f"{name}.py" for form in ("_threads", "_asyncio") for name in ("locks", "semaphores")]
CLIENTS = [PACKAGE / "_threads" / "client.py", PACKAGE / "_asyncio" / "client.py"]
#: The modules that users import from, and the packages of the tools that gather the names of their modules.
PUBLIC = {
    "pyredisson",
    "pyredisson.asyncio",
    "pyredisson.compat.redis_py",
    "pyredisson.compat.redis_py.asyncio",
    "pyredisson.config",
    "pyredisson.embedded",
    "pyredisson.errors",
    "pyredisson.events",
    "pyredisson.fencing",
    "pyredisson.fencing.http",
    "pyredisson.fencing.redis",
    "pyredisson.fencing.sql",
    "pyredisson.fencing.sqlalchemy",
    "pyredisson.holders",
    "pyredisson.integrations.django",
    "pyredisson.integrations.django_models",
    "pyredisson.integrations.fastapi",
    "pyredisson.integrations.sqlalchemy",
    "pyredisson.lease",
    "pyredisson.integrations.apscheduler",
    "pyredisson.integrations.celery",
    "pyredisson.integrations.dramatiq",
    "pyredisson.integrations.rq",
    "pyredisson.runs",
    "pyredisson.observe.opentelemetry",
    "pyredisson.observe.prometheus",
    "pyredisson.testing",
    "pyredisson.testing.plugin",
    "pyredisson.inspection",
}

#: What the core may use of the world: nothing that knows the time, blocks, or differs from run to run.
CORE_MAY_IMPORT = {
    "__future__",
    "abc",
    "bisect",
    "collections",
    "contextlib",
    "contextvars",  # The call chain that calls is the context that it calls in.
    "copy",
    "dataclasses",
    "datetime",  # timedelta; that nobody asks it for the time is checked below
    "enum",
    "fractions",
    "functools",
    "hashlib",
    "importlib",  # Each kind is loaded when it is first used.
    "itertools",
    "json",
    "math",
    "numbers",
    "operator",
    "re",
    "types",
    "typing",
    "typing_extensions",
    "weakref",
    "pyredisson._core",
    "pyredisson._kinds",
    "pyredisson._quorum",
    "pyredisson.events",
    "pyredisson.errors",
    "pyredisson.holders",
    "pyredisson.lease",
    "pyredisson.runs",
}
CORE_MAY_IMPORT_FOR_TYPING = {"pyredisson.config"}


def by_path(path: Path) -> str:
    return str(path.relative_to(ROOT))


def every(paths: list[Path]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("path", paths, ids=by_path)


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def module_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def exports_of(tree: ast.Module) -> list[str] | None:
    for node in tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        if any(isinstance(target, ast.Name) and target.id == "__all__" for target in targets):
            names = ast.literal_eval(node.value)
            assert isinstance(names, list)
            return names
    return None


def import_statements(tree: ast.Module) -> Iterator[tuple[ast.Import | ast.ImportFrom, bool]]:
    """Every import, anywhere, with whether it is for type checkers alone."""
    typing_only = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
        for statement in node.body
        for inner in ast.walk(statement)
    }
    for node in ast.walk(tree):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            yield node, id(node) in typing_only


def imports_of(tree: ast.Module) -> Iterator[tuple[str, bool, int]]:
    """All that is imported, anywhere, by its dotted name, whether that is for type checkers alone, and the line."""
    for node, typing_only in import_statements(tree):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
        within = f"{node.module}." if isinstance(node, ast.ImportFrom) else ""
        for alias in node.names:
            yield within + alias.name, typing_only, node.lineno


def longest_known(name: str, known: Collection[str]) -> str | None:
    """The part of a dotted name that is known, from its beginning on."""
    while name and name not in known:
        name = name.rpartition(".")[0]
    return name or None


def forbidden_imports(tree: ast.Module) -> list[str]:
    found = []
    for module, typing_only, line in imports_of(tree):
        allowed = CORE_MAY_IMPORT | (CORE_MAY_IMPORT_FOR_TYPING if typing_only else set())
        if longest_known(module, allowed) is None:
            found.append(f"line {line}: {module}")
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            if called in ("__import__", "open", "input") or called.endswith((".now", ".utcnow", ".today")):
                root = called.split(".", 1)[0]
                if called.count(".") == 0 or root in ("datetime", "date"):
                    found.append(f"line {node.lineno}: {called}()")
    return found


# ---- the core --------------------------------------------------------------------------------------------------------


@every(CORE)
def test_the_core_imports_no_clock_socket_thread_or_chance(path):
    assert forbidden_imports(tree_of(path)) == []


@every(CORE)
def test_the_core_waits_through_its_runtime_only(path):
    """Whatever the core awaits is its own or its runtime's: under threads nothing may ever suspend.

    But a member of a multi-lock yields its requests, to what runs several members side by side.
    """
    for node in ast.walk(tree_of(path)):
        assert not isinstance(node, (ast.AsyncFor, ast.AsyncWith, ast.Yield, ast.YieldFrom)) or path.name in (
            "runtime.py",
            "hold.py",
        ), f"line {node.lineno}"


# ---- the scripts -----------------------------------------------------------------------------------------------------


def header_of(path: Path) -> list[str]:
    lines = []
    for line in path.read_text(encoding="utf-8").splitlines():
        if not line.startswith("--"):
            break
        lines.append(line.removeprefix("--").strip())
    return lines


@every(SCRIPTS)
def test_a_script_says_what_it_takes_and_what_it_replies(path):
    header = header_of(path)
    starts = [line.split(" ", 1)[0] for line in header]
    assert starts[0] not in ("KEYS", "ARGV", "Reply"), "what it does comes first"
    at = [starts.index(word) for word in ("KEYS", "ARGV", "Reply")]
    assert at == sorted(at)
    parts = {"KEYS": " ".join(header[at[0] : at[1]]), "ARGV": " ".join(header[at[1] : at[2]])}
    body = "\n".join(line for line in script_text(path.stem).splitlines() if not line.lstrip().startswith("--"))
    for kind, part in parts.items():
        numbers = set(re.findall(r"(?:^|\s)(\d+)(?:\.\.)?\s", part))
        numbers -= set(re.findall(r"\s(\d+) \w+ \(not used\)", part))
        used = set(re.findall(rf"\b{kind}\[(\d+)\]", body))
        assert used <= numbers, f"{kind} used, and not in the header"
        if not re.search(rf"\b{kind}\[[^\d\]]|\({kind}\)", body):
            assert numbers <= used, f"{kind} in the header, and not used"


@every(SCRIPTS)
def test_a_script_is_free_of_chance_and_of_globals(path):
    body = script_text(path.stem)
    assert "math.random" not in body
    assert not re.search(r"^[a-z_]\w* = ", re.sub(r"^\s*local .*$", "", body, flags=re.MULTILINE), re.MULTILINE)


def in_wait_queue(name: str) -> bool:
    """Whether a script is that of a client in a wait queue: see ``LockKind.request``, ``PermitsCore.queued``."""
    acquire = name.removesuffix("_acquire_waiting")
    return acquire != name and (PACKAGE / "_lua" / f"{acquire}_acquire.lua").exists()


def test_each_script_is_called_in_one_place_by_its_kind():
    names = {path.stem for path in SCRIPTS if not in_wait_queue(path.stem)}
    assert len(names) < len(SCRIPTS)
    calls = [
        (node.args[0].value, path)
        for path in SOURCES
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Call)
        and node.args
        and isinstance(node.args[0], ast.Constant)
        and node.args[0].value in names
    ]
    assert Counter(name for name, _ in calls) == Counter(names)
    assert {path.parent.name for _, path in calls} == {"_kinds", "fencing"}


def test_requests_are_made_by_kinds_alone():
    for path in CORE:
        if path.parent.name != "_kinds" and path.name not in ("kind.py", "numbered.py"):
            assert ".prepare(" not in path.read_text(encoding="utf-8"), by_path(path)


@every(SOURCES)
def test_names_in_redis_are_written_in_one_place(path):
    if path.name == "names.py" and path.parent.name == "_core":
        return
    docstrings = {
        id(node.value)
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    names = exports_of(tree_of(path)) or []
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            named = re.match(r"(redisson|pyredisson)_\w", node.value)
            assert not named or node.value in names, f"line {node.lineno}: {node.value!r}"


# ---- names -----------------------------------------------------------------------------------------------------------


def bound_in(tree: ast.Module) -> set[str]:
    """The names that a module binds, but for those that it imports."""
    bound = set()
    for node in ast.walk(tree):
        if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            bound.add(node.name)
        elif isinstance(node, ast.Assign):
            bound |= {name.id for target in node.targets for name in ast.walk(target) if isinstance(name, ast.Name)}
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            bound.add(node.target.id)
    return bound


def offered_by(path: Path) -> set[str]:
    """The names that other modules may import: what a public module exports, what another one defines."""
    exported = exports_of(tree_of(path))
    return {name for name in bound_in(tree_of(path)) if name[0] != "_"} if exported is None else set(exported)


@every(SOURCES)
def test_public_modules_alone_say_what_they_export(path):
    tree = tree_of(path)
    names = exports_of(tree)
    assert (names is not None) == (module_of(path) in PUBLIC)
    if names is not None:
        imported = {alias.asname or alias.name for node, _ in import_statements(tree) for alias in node.names}
        assert len(names) == len(set(names))
        assert set(names) <= bound_in(tree) | imported, "exported, and not there"


def test_what_modules_take_from_each_other_is_offered():
    offered = {module_of(path): offered_by(path) for path in SOURCES}
    breaches = []
    for path in SOURCES:
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.ImportFrom) and node.module in offered:
                for alias in node.names:
                    if alias.name == "*":
                        continue  # Takes what is exported, and nothing else.
                    if f"{node.module}.{alias.name}" not in offered and alias.name not in offered[node.module]:
                        breaches.append(f"{by_path(path)}:{node.lineno}: {node.module}.{alias.name}")
    assert breaches == []


def test_a_package_exports_every_public_name(form):
    names = form.__all__
    assert names == sorted(names)
    submodules = {path.stem for path in PACKAGE.iterdir()} | {path.stem for path in (PACKAGE / "_asyncio").iterdir()}
    assert all(hasattr(form, name) for name in names)  # Each is loaded when it is first used.
    # "@": what pytest adds to a module whose asserts it rewrites.
    public = {name for name in vars(form) if not name.startswith(("_", "@"))}  # "@": what pytest adds for its asserts.
    assert public - set(names) <= submodules
    assert set(names) - public == {"__version__"}


# ---- façades ---------------------------------------------------------------------------------------------------------


def classes_in(path: Path) -> list[ast.ClassDef]:
    return [node for node in tree_of(path).body if isinstance(node, ast.ClassDef)]


def statements_of(function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[ast.stmt]:
    first = function.body[0]
    documented = (
        isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str)
    )
    return function.body[1:] if documented else function.body


@every([*PRIMITIVES, *CLIENTS, PACKAGE / "lease.py", PACKAGE / "config.py"])
def test_public_classes_are_closed(path):
    bases = {ast.unparse(base).partition("[")[0] for node in classes_in(path) for base in node.bases}
    for node in classes_in(path):
        if not node.name.startswith("_") and node.name not in bases and "Protocol" not in map(ast.unparse, node.bases):
            assert "final" in {ast.unparse(decorator) for decorator in node.decorator_list}, node.name


@every(PRIMITIVES)
def test_a_method_of_a_facade_is_one_or_two_statements(path):
    for node in classes_in(path):
        for method in node.body:
            if not isinstance(method, (ast.FunctionDef, ast.AsyncFunctionDef)):
                continue
            if node.name in ("Hold", "PermitHold") and method.name.startswith("_"):
                continue  # Keeps the lease between entering and leaving.
            statements = statements_of(method)
            at = f"{node.name}.{method.name}"
            assert len(statements) <= 2, at
            if isinstance(statements[0], ast.If):  # No call on the fast path, for keywords that are there by mistake.
                assert ast.unparse(statements.pop(0)) == f"if unknown:\n    refuse(self.{method.name}, unknown)", at
            assert all(isinstance(statement, (ast.Return, ast.Expr, ast.Assign)) for statement in statements), at


@every(CLIENTS)
def test_a_client_makes_each_kind_in_two_statements(path):
    for node in classes_in(path):
        for method in node.body:
            if isinstance(method, (ast.FunctionDef, ast.AsyncFunctionDef)) and method.name.startswith("get_"):
                assert len(statements_of(method)) <= 2, method.name


# ---- sizes -----------------------------------------------------------------------------------------------------------

LINES_OF_A_FILE, LINES_OF_A_FUNCTION = 1000, 50


def lines_of(*nodes: ast.stmt) -> int:
    return sum((node.end_lineno or 0) - node.lineno + 1 for node in nodes)


@every(SOURCES)
def test_files_and_functions_can_be_read_at_one_sitting(path):
    """A docstring does not count for the length of its function."""
    assert len(path.read_text(encoding="utf-8").splitlines()) <= LINES_OF_A_FILE
    for node in ast.walk(tree_of(path)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            docstring = node.body[: len(node.body) - len(statements_of(node))]
            assert lines_of(node) - lines_of(*docstring) <= LINES_OF_A_FUNCTION, node.name


# ---- files and docstrings --------------------------------------------------------------------------------------------


@every([path for path in SOURCES if path.read_text().strip()])
def test_a_module_opens_with_what_it_is(path):
    assert ast.get_docstring(tree_of(path))


def methods_of(node: ast.ClassDef) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    return [
        child
        for child in node.body
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef))
        and "overload" not in map(ast.unparse, child.decorator_list)
    ]


@cache
def documented_by_base() -> set[str]:
    """Methods that a protocol or an abstract class describes; its implementations need not repeat it."""
    found = {name for name in dir(asyncio.Protocol) if not name.startswith("_")}
    for path in SOURCES:
        for node in classes_in(path):
            if any(ast.unparse(base).startswith(("Protocol", "ABC")) for base in node.bases):
                found |= {method.name for method in methods_of(node) if ast.get_docstring(method)}
    return found


@every(SOURCES)
def test_whatever_is_exported_has_a_docstring(path):
    exported = offered_by(path)
    told_of_base = documented_by_base() | {
        method.name for node in classes_in(path) for method in methods_of(node) if ast.get_docstring(method)
    }
    bare = []
    for node in tree_of(path).body:
        if (
            isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef))
            and node.name in exported
            and "overload" not in map(ast.unparse, node.decorator_list)
        ):
            bare += [] if ast.get_docstring(node) else [node.name]
            bare += [
                f"{node.name}.{method.name}"
                for method in (methods_of(node) if isinstance(node, ast.ClassDef) else [])
                if not (method.name.startswith("_") or ast.get_docstring(method) or method.name in told_of_base)
            ]
    assert bare == []


# ---- what an owner holds ---------------------------------------------------------------------------------------------


def assignments_to_ownerships(tree: ast.Module) -> list[str]:
    """Assignments to an attribute of what is called an ownership."""
    found = []
    for node in ast.walk(tree):
        targets: list[ast.expr] = []
        if isinstance(node, ast.Assign):
            targets = node.targets
        elif isinstance(node, (ast.AugAssign, ast.AnnAssign)):
            targets = [node.target]
        for target in targets:
            for each in ast.walk(target):
                if isinstance(each, ast.Attribute) and isinstance(each.ctx, ast.Store):
                    said = ast.unparse(each.value)
                    if re.search(r"(^|[._])(ownership|own|in_flight)(\[.*\])?$", said):
                        found.append(f"line {node.lineno}: {ast.unparse(each)}")
    return found


OWN_STATE = ("ownership.py",)


@every([path for path in SOURCES if path.name not in (*OWN_STATE, "fast_path.py")])  # Spells out what these do.
def test_an_ownership_is_changed_by_its_own_methods_alone(path):
    assert assignments_to_ownerships(tree_of(path)) == []


# ---- circles ---------------------------------------------------------------------------------------------------------


def imports_between(trees: dict[str, ast.Module]) -> dict[str, set[str]]:
    """What each module imports of the others when the program runs."""
    return {
        module: {
            other
            for name, typing_only, _ in imports_of(tree)
            if not typing_only and (other := longest_known(name, trees)) and other != module
        }
        for module, tree in trees.items()
    }


def reached_from(module: str, wanted: dict[str, set[str]]) -> set[str]:
    """All that a module imports, and what that imports."""
    found: set[str] = set()
    ahead = [module]
    while ahead:
        new = wanted[ahead.pop()] - found
        found |= new
        ahead += new
    return found


def circles_in(wanted: dict[str, set[str]]) -> list[list[str]]:
    """The modules that import each other, directly or through others; the largest circle first."""
    reached = {module: reached_from(module, wanted) for module in wanted}
    circles = {
        tuple(sorted(other for other in reached[module] if module in reached[other]))
        for module in wanted
        if module in reached[module]
    }
    return sorted(map(list, circles), key=len, reverse=True)


TREES = {module_of(path): tree_of(path) for path in SOURCES}


def test_no_files_import_each_other_in_a_circle():
    """Not when the program runs."""
    assert circles_in(imports_between(TREES)) == []


def package_of(module: str) -> str:
    return module.split(".")[1] if "." in module else module


def test_the_architecture_page_says_what_each_package_imports():
    """When the program runs; an import in a function counts, too."""
    imported = {}
    for module, others in imports_between(TREES).items():
        found = imported.setdefault(package_of(module), set())
        found |= {package_of(other) for other in others} - {package_of(module)}
    page = (ROOT / "docs" / "contributing" / "architecture.md").read_text(encoding="utf-8")
    table = page.partition("| package | what it imports when it runs |")[2].partition("\n\n")[0]
    rows = re.findall(r"^\| `(\w+)` \| (.*) \|$", table, re.MULTILINE)
    said = {package: set(re.findall(r"`(\w+)`", others)) for package, others in rows}
    assert said == {package: others for package, others in imported.items() if others}


def test_one_page_lists_the_public_modules():
    page = (ROOT / "docs" / "reference" / "public.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^\| `(pyredisson[\w.]*)` \|", page, re.MULTILINE)) == PUBLIC


def test_the_architecture_page_draws_the_tree():
    page = (ROOT / "docs" / "contributing" / "architecture.md").read_text(encoding="utf-8")
    drawn = set(re.findall(r"[\w./]+", page.partition("```text\npyredisson/")[2].partition("```")[0]))
    for path in SOURCES:
        package, *inner = path.relative_to(PACKAGE).with_suffix("").parts
        if package in ("_core", "_net", "_shared", "_quorum") and inner != ["__init__"]:
            assert {f"{package}/", inner[0]} <= drawn, by_path(path)


# ---- kinds -----------------------------------------------------------------------------------------------------------


def test_kinds_import_the_core_and_not_the_other_way_round():
    for path in (PACKAGE / "_core").rglob("*.py"):
        assert not any(module.startswith("pyredisson._kinds") for module, _, _ in imports_of(tree_of(path))), by_path(
            path
        )


def test_kinds_override_no_private_methods():
    bases = {}
    methods = {}
    for path in CORE:
        for node in classes_in(path):
            bases[node.name] = [ast.unparse(base).split("[")[0] for base in node.bases]
            methods[node.name] = {
                each.name for each in node.body if isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef))
            }

    def inherited(name):
        return {method for base in bases.get(name, ()) for method in methods.get(base, set()) | inherited(base)}

    for path in (PACKAGE / "_kinds").glob("*.py"):
        for node in classes_in(path):
            overridden = methods[node.name] & inherited(node.name)
            assert not {each for each in overridden if re.match(r"_[a-z]", each)}, node.name


# ---- private parts of others -----------------------------------------------------------------------------------------

TAKEN_OVER = "redis-py opens the connection, and has no public name for its socket or streams"
LET_GO = "asyncio cannot close a transport without its event loop, which is closed, or the parent's of a fork"
EXPORTED = "not private: it is in asyncio.__all__, or documented"

#: What of CPython and of redis-py is used that begins with an underscore, by module, and why.
USED: dict[tuple[str, str], str] = {
    ("_asyncio/fast_path.py", "asyncio._get_running_loop"): EXPORTED,
    ("_asyncio/pipe.py", "connection._reader"): TAKEN_OVER,
    ("_asyncio/pipe.py", "connection._writer"): TAKEN_OVER,
    ("_asyncio/pipe.py", "transport._closing"): LET_GO,
    ("_asyncio/pipe.py", "transport._sock"): LET_GO,
    ("_asyncio/pipe.py", "_reader"): TAKEN_OVER,
    ("inspection/servers.py", "self._connection._sock"): TAKEN_OVER,
    ("_shared/owners.py", "asyncio._get_running_loop"): EXPORTED,
    ("_shared/owners.py", "sys._current_frames"): EXPORTED,
    ("_threads/fast_path.py", "asyncio._get_running_loop"): EXPORTED,
    ("_threads/sockets.py", "connection._sock"): TAKEN_OVER,
    ("_threads/runtime.py", "asyncio._get_running_loop"): EXPORTED,
    ("_threads/sockets.py", "_sock"): TAKEN_OVER,
}

#: Modules whose private names are looked for.
OTHERS = (
    *("threading", "_thread", "sys", "concurrent.futures.thread", "asyncio.events", "asyncio.streams", "asyncio.tasks"),
    *("asyncio.selector_events", "asyncio.sslproto", "redis.connection", "redis.asyncio.connection"),
)
#: Those that are not in the sources of each version, or are names of ours as well.
ALSO = {"f_locals", "_is_owned", "_limbo", "_cancel_message", "_sock", "_reader", "_writer", "_closing", "_buffer"}


@cache
def private_names_of_others() -> frozenset[str]:
    """What begins with an underscore in the sources of CPython and of redis-py, unless it is a name of ours."""
    found: set[str] = set()
    for module in map(importlib.import_module, OTHERS):
        found |= {name for name in vars(module) if name.startswith("_")}
        if getattr(module, "__file__", None):
            found |= set(re.findall(r"(?<!\w)_[a-z]\w*", inspect.getsource(module)))
    ours = {"_replace"}  # Documented for all named tuples.
    for node in (node for path in SOURCES for node in ast.walk(tree_of(path))):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and ast.unparse(node.value) == "self":
            ours.add(node.attr)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            ours.add(node.name)
    return frozenset((found - ours) | ALSO)


def private_parts_used(tree: ast.Module) -> set[str]:
    """Private names of others that are asked for: of anything but an object's own self, or by ``getattr()``."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            name, own = node.attr, isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in ("getattr", "hasattr", "setattr", "methodcaller"):
            said = [each.value for each in node.args if isinstance(each, ast.Constant) and isinstance(each.value, str)]
            name, own = next(iter(said), ""), ast.unparse(node.args[0]) == "self"
        else:
            continue
        if not own and not name.startswith("__") and name in private_names_of_others():
            found.add(ast.unparse(node) if isinstance(node, ast.Attribute) else name)
    return found


def test_private_parts_of_others_are_few_and_listed():
    used = {
        (path.relative_to(PACKAGE).as_posix(), name) for path in SOURCES for name in private_parts_used(tree_of(path))
    }
    assert used == set(USED)


TOOLS = sorted(path for folder in ("_tools", "observe", "inspection") for path in (PACKAGE / folder).rglob("*.py"))


@pytest.mark.parametrize("path", TOOLS, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_no_tool_names_a_kind(path):
    """A kind describes itself, in its file in kinds/: a new one needs no change in any tool."""
    everyday = {"lock", "permits", "token", "event"}  # These are words of everyday use, too.
    words = {*labels(), *stored_kinds()} - everyday
    strings = [node.value for node in ast.walk(tree_of(path)) if isinstance(node, ast.Constant)]
    assert [each for each in strings if each in words] == []


def test_the_facade_for_threads_is_written_from_that_for_asyncio():
    ran = subprocess.run([sys.executable, "tools/facade.py", "--check"], cwd=ROOT, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr
