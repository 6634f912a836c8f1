"""One replica of this program leads. It answers probes, and resigns at once when it is drained."""

from __future__ import annotations

import os
import signal
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from pyredisson import Redisson, Term

client = Redisson.from_env()  # PYREDISSON_URL
stopping = threading.Event()


def lead(term: Term) -> None:
    """Do the work of the leader in small steps, until another one has to lead."""
    print(f"leading token={term.token}", flush=True)
    while not term.wait(0.1):
        ...  # One step. Pass `term.token` to what it changes.
    print(f"resigned token={term.token}", flush=True)


class Probes(BaseHTTPRequestHandler):
    """``/live``: the process serves. ``/ready``: it stands for election, and is not draining."""

    def do_GET(self) -> None:
        """Answer a probe; ``/leader`` is for people and for routing to the leader."""
        ok = {"/live": True, "/ready": not stopping.is_set(), "/leader": campaign.leading}.get(self.path, False)
        self.send_response(200 if ok else 503)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Do not log each probe."""


for number in (signal.SIGTERM, signal.SIGINT):  # SIGTERM: Kubernetes drains or replaces the pod. SIGINT: Ctrl-C.
    signal.signal(number, lambda *_: stopping.set())
server = ThreadingHTTPServer(("", int(os.environ.get("PORT", "8080"))), Probes)
campaign = client.get_leader_election(os.environ.get("ELECTION", "example-leader")).start(lead)
threading.Thread(target=server.serve_forever, daemon=True).start()
print("standing for election", flush=True)

stopping.wait()
campaign.stop(timeout=20)  # Less than terminationGracePeriodSeconds. Another replica leads at once.
client.close()
server.shutdown()
