"""A program as lines of Python that anyone can run, for the report of a fault."""

from __future__ import annotations

from tests.programs.numbers import PARTIES, VALUE
from tests.programs.steps import LOCKS, NUMBERS, PLACES, SHORT, Step, targets_of

_HEAD = """
import contextvars, time
from collections import defaultdict
import redis
{imports}

URL = "redis://127.0.0.1:6379"
PLACES = {places}
{client_class}

clients, blocks, leases, permits, contexts = Clients(), {{}}, {{}}, {{}}, {{}}
owners = defaultdict(lambda: clients[0].new_owner())
store = lambda place: redis.Redis.from_url(f"{{URL}}/{{place}}")
"""

_CLIENTS = """
class Clients(dict):
    def __missing__(self, number):
        database, prefix = PLACES[number % 3]
        told = lambda *lost: print("lost:", lost)
        self[number] = Redisson.from_url(f"{URL}/{database}", config=Config(prefix=prefix, on_lock_lost=told))
        return self[number]
"""

_THREADS = """
threads = defaultdict(lambda: ThreadPoolExecutor(1))


def start(actor, call):
    thread, _, context = actor.partition(".")
    run = contexts[int(context)].run if context else lambda call: call()
    return threads[thread].submit(run, call)


def do(actor, call):
    try:
        print(start(actor, call).result())
    except Exception as error:
        print(repr(error))


def enter(number, block):
    blocks[number], leases[number] = block, block.__enter__()

"""

_TASKS = """
tasks = {}


async def serve(calls):
    while True:
        call, future = await calls.get()
        try:
            result = call()
            future.set_result(await result if inspect.isawaitable(result) else result)
        except (Exception, asyncio.CancelledError) as error:
            future.set_exception(RuntimeError("cancelled") if isinstance(error, asyncio.CancelledError) else error)


def start(actor, call):
    if actor not in tasks:
        calls = asyncio.Queue()
        tasks[actor] = asyncio.create_task(serve(calls)), calls
    future = asyncio.get_running_loop().create_future()
    tasks[actor][1].put_nowait((call, future))
    return future


async def do(actor, call):
    try:
        print(await start(actor, call))
    except Exception as error:
        print(repr(error))


async def enter(number, block):
    blocks[number], leases[number] = block, await block.__aenter__()


async def program():
"""

_CALLS = {
    "acquire": "{handle}.try_lock({wait}, {lease})",
    "acquire lock": "{handle}.lock({lease})",
    "acquire acquire": "{handle}.acquire()",
    "acquire with": "{handle}.{enter}()",
    "acquire token": "{handle}.try_lock_and_get_token({wait}, {lease})",
    "release": "{handle}.unlock()",
    "release error": "{handle}.{leave}(Exception, Exception(), None)",
    "leave": "blocks[{n}].{leave}(None, None, None)",
    "leave error": "blocks[{n}].{leave}(Exception, Exception(), None)",
    "enter": "enter({n}, {handle}.hold({wait}, {lease}))",
    "enter sem": "enter({n}, {handle}.hold(1, {wait}))",
    "extend": "{handle}.extend({lease})",
    "extend_block": "leases[{n}].extend({lease})",
    "force": "{handle}.force_unlock()",
    "delete": "store({database}).delete({key!r})",
    "cond_wait": "{client}.get_condition({handle}).wait({wait})",
    "notify": "{client}.get_condition({handle}).notify()",
    "copy": "contexts.update({{{n}: contextvars.copy_context()}})",
    "close": "clients[{n}].close()",
    "close_owner": "owners[{n}].close()",
    "set": "{handle}.try_set_permits({n})",
    "set latch": "{handle}.try_set_count({n})",
    "take": "{handle}.try_acquire({n}, {wait})",
    "take permits": "permits.update({{{n}: {handle}.try_acquire({wait}, {lease})}})",
    "take bounded": "{handle}.acquire()",
    "give": "{handle}.release({n})",
    "give permits": "{handle}.try_release(permits.get({n}, '0' * 32))",
    "drain": "{handle}.drain_permits()",
    "down": "{handle}.count_down()",
    "wipe": "{handle}.delete()",
    "wait_for": "{handle}.wait({wait})",
    "flag": "{handle}.{face}()",
}


def _handle(on: str, owner: int) -> str:
    if "+" in on:
        return f"MultiLock({', '.join(_handle(word, owner) for word in on.split('+') if word)})"
    (target,) = targets_of(on)
    arguments = {"bounded": f", {VALUE}", "barrier": f", {PARTIES}"}.get(target.kind, "")
    arguments += f", owner=owners[{owner}]" * bool(owner and target.kind in LOCKS)
    maker = {**LOCKS, **NUMBERS}[target.kind]
    return f"clients[{target.client}].{maker}({target.name!r}{arguments})" + f".{target.side}_lock()" * bool(
        target.side
    )


def _line(step: Step, await_: str) -> str:
    if step.op == "let_end":
        return f"{await_ and 'await asyncio'}{'' if await_ else 'time'}.sleep({SHORT + 0.04})"
    if step.op == "cancel":
        return f"tasks['{step.n}'][0].cancel()"
    if step.op in ("forget", "end_thread"):
        return f"pass  # {step.op}"
    kind = targets_of(step.on)[0].kind if step.on else ""
    words = [f"{step.op} {step.face}", f"{step.op} {kind}", step.op]
    template = next(_CALLS[word] for word in words if word in _CALLS)
    place = targets_of(step.on)[0].place if step.on else (0, "")
    call = template.format(
        handle=_handle(step.on, step.owner) if step.on else "",
        client=f"clients[{targets_of(step.on)[0].client if step.on else 0}]",
        database=place[0],
        key=place[1],
        enter="__aenter__" if await_ else "__enter__",
        leave="__aexit__" if await_ else "__exit__",
        **{name: getattr(step, name) for name in ("wait", "lease", "n", "face")},
    )
    if step.wait is None:
        return f"waiting = start({step.by!r}, lambda: {call}); {await_}{'asyncio' if await_ else 'time'}.sleep(0.2)"
    return f"{await_}do({step.by!r}, lambda: {call})"


def as_python(steps: list[Step], *, tasks: bool) -> str:
    """Return a program in Python that makes the calls of these steps, and prints how they end."""
    imports = (
        "import asyncio, inspect\nfrom pyredisson.asyncio"
        if tasks
        else ("from concurrent.futures import ThreadPoolExecutor\nfrom pyredisson")
    )
    head = _HEAD.format(imports=f"{imports} import Config, MultiLock, Redisson", places=PLACES, client_class=_CLIENTS)
    lines = [_line(step, "await " * tasks) for step in steps]
    lines += ["for client in clients.values():", f"    {'await ' * tasks}client.close()"]
    indent, head, tail = ("    ", head + _TASKS, "\n\nasyncio.run(program())\n") if tasks else ("", head + _THREADS, "")
    return head + "".join(f"{indent}{line}\n" for line in lines) + tail
