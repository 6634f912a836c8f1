"""What to do about an error of a server or a connection, by what it says: a table, read from the top."""

from __future__ import annotations

import re
from typing import Final

_TABLE: Final = tuple(
    (re.compile(pattern, re.IGNORECASE), remedy)
    for pattern, remedy in (
        (
            "MOVED |.*SELECT is not allowed in cluster mode",
            "it is one node of a cluster: connect by redis+cluster://host:port",
        ),
        (".*cluster support disabled", "it is no node of a cluster: connect by redis://host:port"),
        (
            ".*unknown command .?HELLO|NOPROTO",
            "the server, or a proxy before it, does not know HELLO: add ?protocol=2 to its URL",
        ),
        (".*unknown command", "the server, or a proxy before it, does not have this command, or has renamed it"),
        (
            "OOM ",
            "the server's memory is full, so it stores no lock (releases are still accepted): raise maxmemory, "
            "or give locks a server of their own",
        ),
        (
            "WRONGPASS|.*invalid username-password|.*invalid password",
            "the server refuses this user or password: if it was changed, make the client with the new one, or with a "
            "credential_provider",
        ),
        (
            "LOADING ",
            "the server was started and reads its data: a call with a wait time waits until it has",
        ),
        (
            "NOPERM |.*no permissions to",
            "this user may not do that: allow what the page 'Connect' lists under 'What the server must allow'; "
            "`pyredisson doctor` names what is missing",
        ),
        (
            "READONLY ",
            "it is a replica: connect to its master, or by redis+sentinel://host:port/service, which follows failovers",
        ),
        ("MASTERDOWN ", "it is a replica whose master is away: connect to the master, or by redis+sentinel://"),
        ("MISCONF ", "its last save failed, so it refuses to write: see its log, and give it room on its disk"),
        (
            "NOREPLICAS ",
            "fewer replicas follow it than min-replicas-to-write demands: start them, or lower that number",
        ),
        ("BUSY ", "a script or function has run for too long there: SCRIPT KILL or FUNCTION KILL ends it"),
        ("CLUSTERDOWN ", "the cluster, or this slot of it, is not served: see CLUSTER INFO on its nodes"),
        (
            ".*(?:hostname mismatch|is not valid for|doesn't match)",
            "its certificate is that of another name: connect by a name that it has",
        ),
        (
            ".*certificate.verify.failed",
            "its certificate is not trusted: name the file of its CA with ssl_ca_certs=/path/to/ca.pem",
        ),
        (
            ".*(?:wrong.version.number|record.layer.failure|packet.length.too.long)",
            "no TLS is spoken at this port: use redis://, or the server's port for TLS",
        ),
    )
)


def remedy_of(text: str) -> str | None:
    """Return what to do about an error with this text; ``None`` if that is not known."""
    return next((remedy for pattern, remedy in _TABLE if pattern.match(text)), None)
