"""The real servers of the tests do what the tests think they do."""

import pytest

from tests.servers import VALKEY, Build, Server


@pytest.fixture
def no_build(monkeypatch: pytest.MonkeyPatch) -> Build:
    monkeypatch.delenv("PYREDISSON_REQUIRE_ALL", raising=False)
    return Build("valkey-1.0", lambda: ["/nonexistent/valkey-server", VALKEY.require()], "build it")


def test_a_missing_build_says_why_and_skips(no_build):
    assert no_build.path() is None
    reason = no_build.missing()
    assert reason is not None
    assert "no valkey-1.0 here" in reason
    assert "/nonexistent/valkey-server" in reason
    assert "is Valkey 9.1" in reason
    assert "build it" in reason
    with pytest.raises(pytest.skip.Exception, match=r"no valkey-1\.0 here"):
        Server(no_build)


def test_a_missing_build_fails_when_all_are_required(no_build, monkeypatch):
    monkeypatch.setenv("PYREDISSON_REQUIRE_ALL", "1")
    with pytest.raises(pytest.fail.Exception, match=r"no valkey-1\.0 here"):
        no_build.require()
