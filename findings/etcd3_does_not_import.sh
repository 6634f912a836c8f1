#!/usr/bin/env bash
# Guess: `pip install etcd3`, the best known client of etcd for Python, whose lock is in many tutorials, gives a client that works.
# Seen:  its last release, 0.12.0, asks for protobuf>=3.6.1, and pip installs the newest and finds nothing broken. `import etcd3` raises
#        TypeError, since its generated code is of a protoc before 3.19. With protobuf 3.20.3 it imports, as with
#        PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION=python, which is slow and holds for the whole process.
# Versions: etcd3 0.12.0, protobuf 7.36.2 and 3.20.3, grpcio 1.85.3. Run on 2026-11-29, Python 3.11.7.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.11}" -m venv "$folder/venv"
pip() { "$folder/venv/bin/pip" --disable-pip-version-check -q "$@"; }
import() { "$folder/venv/bin/python" -c 'import etcd3; print("imported")' 2>&1 | grep -o -m 1 '^imported\|^TypeError: .*' || true; }
pip install etcd3==0.12.0 protobuf==7.36.2 grpcio==1.85.3
pip check
new=$(import)
slow=$(PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION=python import)
pip install protobuf==3.20.3
old=$(import)
echo "etcd3 0.12.0 with protobuf 7.36.2: $new; in pure Python: $slow; with protobuf 3.20.3: $old"
[ "$new, $slow, $old" = "TypeError: Descriptors cannot be created directly., imported, imported" ]
