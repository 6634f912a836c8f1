"""fakeredis over TCP, started like a server: ``fakeredis_server.py --version``, or with ``--port PORT`` and others."""

from __future__ import annotations

import os
import sys

import fakeredis

if __name__ == "__main__":
    if "--version" in sys.argv:
        print(f"Fakeredis server v={fakeredis.__version__}")
    else:
        port = int(sys.argv[sys.argv.index("--port") + 1])
        server = fakeredis.TcpFakeServer(("127.0.0.1", port), server_version=(7,))
        server.serve_forever()
        os._exit(0)
