"""A monkey patch is refused that leaves greenlets without a way to be told apart."""

import pytest

from tests.command_line import output_of
from tests.frameworks.common import require

PATCH = {
    "gevent": "from gevent import monkey; monkey.patch_all({})",
    "eventlet": "import eventlet; eventlet.monkey_patch({})",
}

each_kind = pytest.mark.parametrize("kind", PATCH)


CHECK = """
try:
    check_patched()
except RuntimeError as error:
    print(error)
else:
    print("all is well")
"""
IMPORT = "from pyredisson._shared.process import check_patched, is_patched"


@each_kind
def test_a_patch_before_the_import_passes(kind):
    require(kind)
    assert output_of("\n".join([PATCH[kind].format(""), IMPORT, CHECK, CHECK, "print(is_patched())"])).split("\n") == [
        "all is well",
        "all is well",
        "True",
    ]


@each_kind
@pytest.mark.parametrize("early", [False, True], ids=["after the import", "before the import"])
def test_a_patch_without_threads_is_refused(kind, early):
    require(kind)
    patch = PATCH[kind].format("thread=False")
    said = output_of("\n".join([patch, IMPORT, CHECK] if early else [IMPORT, patch, CHECK]))
    assert f"{kind} patched socket, but not threading" in said
    assert "gunicorn.conf.py" in said


def test_other_libraries_may_replace_the_socket_class():
    replace = "import socket\nclass Proxied(socket.socket): pass\nsocket.socket = Proxied"
    assert output_of("\n".join([IMPORT, replace, CHECK])) == "all is well"


CLIENT = "pyredisson.Redisson.from_url('redis://127.0.0.1:1')"


@each_kind
@pytest.mark.parametrize(
    ("before", "after"),
    [("", CLIENT), (f"client = {CLIENT}", "client.get_lock('orders').lock()")],
    ids=["made", "used"],
)
def test_a_client_is_neither_made_nor_used_after_a_late_patch(kind, before, after):
    require(kind)
    check = f"check_patched = lambda: {after}"
    said = output_of("\n".join(["import pyredisson", before, PATCH[kind].format(""), check, CHECK]))
    assert f"{kind} patched threading after pyredisson was imported" in said
    assert "gunicorn.conf.py" in said
