"""What errors of servers and connections say that there is to do."""

import pytest

import pyredisson
from pyredisson._core.failures import remedy_of


@pytest.mark.parametrize(
    ("text", "remedy"),
    [
        ("MOVED 1234 127.0.0.1:7001", "redis+cluster://"),
        ("ERR This instance has cluster support disabled", "redis://"),
        ("no sentinel knows the master of 'x' (h:1: unknown command 'SENTINEL', with args)", "it is no sentinel"),
        ("ERR DB index is out of range", "no database of this number"),
        ('Protocol error: Protocol error, got "<" as reply type byte', "no Redis or Valkey"),
        ("ERR unknown command `HELLO`, with args beginning with: `3`", "?protocol=2"),
        ("unknown command 'HELLO'", "?protocol=2"),
        ("OOM command not allowed when used memory > 'maxmemory'.", "maxmemory"),
        ("WRONGPASS invalid username-password pair or user is disabled.", "credential_provider"),
        ("invalid username-password pair or user is disabled.", "credential_provider"),
        ("LOADING Redis is loading the dataset in memory", "reads its data"),
        ("NOPERM User app has no permissions to run the 'eval' command", "What the server must allow"),
        ("READONLY You can't write against a read only replica.", "redis+sentinel://"),
        ("MISCONF Redis is configured to save RDB snapshots", "save failed"),
        ("NOREPLICAS Not enough good replicas to write.", "min-replicas-to-write"),
        ("BUSY Redis is busy running a script.", "SCRIPT KILL"),
        ("[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: self-signed certificate", "ssl_ca_certs"),
        (
            "[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: Hostname mismatch, certificate is not valid "
            "for 'localhost'.",
            "another name",
        ),
        ("[SSL: WRONG_VERSION_NUMBER] wrong version number (_ssl.c:1006)", "no TLS"),
    ],
)
def test_a_remedy(text, remedy):
    found = remedy_of(text)
    assert found is not None
    assert remedy in found


@pytest.mark.parametrize(
    "text", ["Connection refused", "no reply from the server within 1 s", "ERR value is not an integer"]
)
def test_no_remedy_is_known(text):
    assert remedy_of(text) is None


@pytest.mark.parametrize("setting", ["ssl_ca_certs", "ssl_certfile", "ssl_keyfile"])
def test_a_missing_file_of_the_tls_settings_is_named(tmp_path, setting):
    with pytest.raises(ValueError, match=rf"{setting}='.*missing\.pem'"):
        pyredisson.Redisson.from_url(f"rediss://h?{setting}={tmp_path / 'missing.pem'}")
