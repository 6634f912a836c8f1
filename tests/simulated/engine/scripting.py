"""Redis's Lua, from lupa's Lua 5.1: the same language as in the real servers, and the same sandbox.

A script sees ``KEYS``, ``ARGV``, ``redis`` and what scripts of locks may need of the standard functions. It can neither
set a global nor change what it sees there, and it is an error to use anything else.

There is one interpreter a thread, shared by all the simulated servers in it, so that a script is compiled once.
"""

from __future__ import annotations

import hashlib
import re
import threading
from collections.abc import Sequence
from typing import Any, Final, NamedTuple, Protocol

from tests.simulated.engine.keyspace import COMMANDS, INT64_MIN, Command, Reply, ServerError, Status, find_command

try:
    from lupa import lua51
except ImportError as error:  # pragma: no cover
    raise ImportError("the simulated server runs Lua through lupa: pip install 'pyredisson[testing]'") from error

_PRELUDE: Final = rb"""
local python = ...

local globals = {}

local function read_only(contents, missing)
    return setmetatable({}, {
        __index = setmetatable(contents, {__index = missing}),
        __newindex = function() error('Attempt to modify a readonly table', 2) end,
    })
end

local function pick(library, names, into)
    local contents = into or {}
    for name in names:gmatch('%S+') do
        contents[name] = library[name]
    end
    return contents
end

local environment = read_only(globals, function(_, name)
    error("Script attempted to access nonexistent global variable '" .. tostring(name) .. "'", 2)
end)

pick(_G, 'assert error ipairs next pairs select tonumber tostring type unpack', globals)
globals.KEYS = {}
globals.ARGV = {}
globals.string = read_only(pick(string, 'byte char find format gmatch gsub len lower match rep reverse sub upper'))
globals.table = read_only(pick(table, 'concat insert remove sort'))
globals.math = read_only(pick(math, 'abs ceil floor fmod huge max min modf'))

-- What a Python function raised arrives as userdata. A script that catches an error reply gets its text, as from a real
-- server; any other exception, say of a hook, is none of its business.
local function caught(ok, problem, ...)
    if not ok and type(problem) == 'userdata' then
        local text = python.text_of(problem)
        if not text then
            error(problem, 0)
        end
        return ok, text
    end
    return ok, problem, ...
end

function globals.pcall(...)
    return caught(pcall(...))
end

local function one_line(text)
    return (text:gsub('[\r\n]', ' '))
end

globals.redis = read_only({
    call = python.call,
    pcall = python.pcall,
    error_reply = function(text) return {err = one_line(text)} end,
})

local function described(problem)
    local text
    if type(problem) == 'table' then
        text = rawget(problem, 'err')
    elseif type(problem) == 'userdata' then
        text = python.text_of(problem)
        if not text then
            return {exception = problem}
        end
    end
    return {text = type(text) == 'string' and text or 'ERR ' .. tostring(problem)}
end

local convert

local function convert_table(value)
    local text = rawget(value, 'err')
    if type(text) == 'string' then
        return python.reply_error(one_line(text))
    end
    text = rawget(value, 'ok')
    if type(text) == 'string' then
        return python.reply_status(one_line(text))
    end
    local items, count = {}, 0
    while true do
        local item = rawget(value, count + 1)
        if item == nil then
            break
        end
        count = count + 1
        items[count] = convert(item)
    end
    return python.reply_array(unpack(items))
end

function convert(value)
    local kind = type(value)
    if kind == 'table' then
        return convert_table(value)
    elseif kind == 'string' or kind == 'number' or value == true then
        return value
    end
    return false
end

local empty = {}

local function run(body, number_of_keys, ...)
    local arguments = {...}
    if number_of_keys == 0 then
        globals.KEYS, globals.ARGV = {}, arguments
    else
        globals.KEYS = {unpack(arguments, 1, number_of_keys)}
        globals.ARGV = {unpack(arguments, number_of_keys + 1)}
    end
    local ok, value = xpcall(body, described)
    if not ok then
        return python.failed(value.exception, value.text)
    end
    return convert(value)
end

local function compile(text)
    local body, problem = loadstring(text, '@user_script')
    if not body then
        return problem
    end
    return setfenv(body, environment)
end

return {
    compile = compile,
    run = run,
    status = function(text) return {ok = text} end,
    problem = function(text) return {err = text} end,
    array = function(...) return {...} end,
}
"""

_ABOUT_NO_KEY: Final = frozenset({"publish", "spublish", "time"})
_OF_MANY_KEYS: Final = frozenset({"del", "exists"})

_HOLD_OF_A_READER: Final = re.compile(rb".*:rwlock_timeout:\d+", re.DOTALL)
"""Redisson's key of a hold of a read lock. How many there are, and whose, only the hash of the lock tells a script."""

_MANY: Final = 1000
"""Lua passes at most some thousands of arguments to a function."""


def sha1_of(text: bytes) -> str:
    """The digest that a script is known by."""
    return hashlib.sha1(text, usedforsecurity=False).hexdigest()


class Script(NamedTuple):
    """A compiled script.

    Attributes:
        sha: Its name for ``EVALSHA``.
        body: The Lua function.
    """

    sha: str
    body: Any


class Caller(Protocol):
    """The server that a script runs in.

    Attributes:
        only_declared_keys: Whether a key that is not in ``KEYS`` is an error.
    """

    only_declared_keys: bool

    def admit(self, command: Command) -> None:
        """Called before a script runs a command that writes; raises if the server refuses it."""


class Interpreter:
    """A Lua interpreter. Get the thread's own from :meth:`of_this_thread`."""

    def __init__(self) -> None:
        new_runtime: Any = lua51.LuaRuntime  # its stub has none of these parameters
        # Lua's strings are bytes; and a script never gets hold of Python's builtins.
        self._lua = new_runtime(
            encoding=None, unpack_returned_tuples=False, register_eval=False, register_builtins=False
        )
        python = {
            b"call": self._call,
            b"pcall": self._pcall,
            b"text_of": _text_of,
            b"reply_error": lambda text: ServerError.from_text(text.decode(errors="replace")),
            b"reply_status": Status,
            b"reply_array": lambda *items: list(map(_plain, items)),
            b"failed": self._failed,
        }
        prelude = self._lua.execute(_PRELUDE, self._lua.table_from(python))
        self._compile = prelude[b"compile"]
        self._run = prelude[b"run"]
        self._status = prelude[b"status"]
        self._problem = prelude[b"problem"]
        self._array = prelude[b"array"]
        self._compiled: dict[bytes, Script] = {}
        self._caller: Any = None
        self._declared: Sequence[bytes] | None = None
        self._failure: str | None = None

    @staticmethod
    def of_this_thread() -> Interpreter:
        """The interpreter that all the simulated servers of this thread share."""
        try:
            interpreter: Interpreter = _local.interpreter
        except AttributeError:
            interpreter = _local.interpreter = Interpreter()
        return interpreter

    def compile(self, text: bytes) -> Script:
        """Compile a script, or find it compiled.

        Raises:
            ServerError: It is not Lua.
        """
        script = self._compiled.get(text)
        if script is None:
            body = self._compile(text)
            if isinstance(body, bytes):
                raise ServerError("ERR", f"Error compiling script (new function): {body.decode(errors='replace')}")
            script = self._compiled[text] = Script(sha1_of(text), body)
        return script

    def run(self, caller: Caller, script: Script, keys: Sequence[bytes], args: Sequence[bytes]) -> Reply:
        """Run a script inside ``caller``.

        Raises:
            ServerError: The script failed, or its reply is an error.
            RuntimeError: Called while a script runs, say from a hook.
            AssertionError: It touched a key that is not in ``keys``, in a server of ``only_declared_keys``.
        """
        if self._caller is not None:
            raise RuntimeError("a script is running: it must end before the next command")
        self._caller = caller
        self._declared = keys if caller.only_declared_keys else None
        try:
            reply = self._run(script.body, len(keys), *keys, *args)
        finally:
            self._caller = None
        # Lua keeps what it was given until it collects its garbage, so what is raised here is new.
        if self._failure is not None:
            text, self._failure = self._failure, None
            raise ServerError.from_text(text)
        if type(reply) is ServerError:
            raise ServerError(reply.code, reply.message)
        plain: Reply = _plain(reply)
        return plain

    def _call(self, name: object, *args: object) -> object:
        """``redis.call``."""
        command = COMMANDS.get(name) if type(name) is bytes else None  # the usual case, without a call
        if command is None:
            command = find_command(_text(name))
        for arg in args:
            if type(arg) is not bytes:
                args = tuple([each if type(each) is bytes else _text(each) for each in args])
                break
        if command is None:
            raise _Refused("ERR Unknown Redis command called from script")
        if self._declared is not None and command.name not in _ABOUT_NO_KEY:
            for key in args if command.name in _OF_MANY_KEYS else args[:1]:
                assert key in self._declared or _HOLD_OF_A_READER.fullmatch(key), f"{key!r} is not in KEYS"
        caller = self._caller
        try:
            if command.writes:
                caller.admit(command)
            reply = command.run(caller, *args)
        except ServerError as error:
            refusal = str(error)
        else:
            kind = type(reply)
            if kind is int or kind is bytes:
                return reply
            if reply is None:
                return False
            if kind is Status:
                return self._status(reply)
            assert isinstance(reply, list)
            items = [False if item is None else item for item in reply]
            return self._array(*items) if len(items) <= _MANY else self._lua.table_from(items)
        raise _Refused(refusal)

    def _pcall(self, name: object, *args: object) -> object:
        """``redis.pcall``."""
        try:
            return self._call(name, *args)
        except _Refused as refused:
            return self._problem(str(refused).encode())

    def _failed(self, exception: BaseException | None, text: bytes) -> None:
        """The script ended with an error, or an exception of Python came through it."""
        if exception is not None:
            raise exception
        self._failure = text.decode(errors="replace")


class _Refused(Exception):
    """The text of an error reply, on its way to the script."""


_local = threading.local()


def _text_of(problem: BaseException) -> bytes | None:
    """The text of a refusal that a script or the interpreter caught; ``None`` for any other exception."""
    if not isinstance(problem, _Refused):
        return None
    # Lua keeps it until it collects its garbage: let it not keep all the callers, and their server, too.
    problem.__traceback__ = None
    return str(problem).encode()


def _plain(value: Any) -> Any:
    """A converted Lua value as a reply: numbers lose their fraction, false is null."""
    kind = type(value)
    if kind is bool:
        return 1 if value else None
    if kind is float:
        value = int(value) if -(2.0**63) <= value < 2.0**63 else INT64_MIN
    return value


def _text(value: Any) -> bytes:
    """An argument of ``redis.call`` as the server reads it."""
    kind = type(value)
    if kind is bytes:
        return value
    if kind is int:
        if -(10**17) < value < 10**17:
            return b"%d" % value
        return b"%.17g" % float(value)
    if kind is float:
        return b"%.17g" % value
    raise _Refused("ERR Lua redis lib command arguments must be strings or integers")
