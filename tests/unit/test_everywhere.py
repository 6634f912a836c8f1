"""The tables of servers say what the last run on every server found."""

from tests.everywhere import table
from tests.servers import KNOWN


def test_the_tables_say_what_was_found():
    results = table.load()
    assert table.PIECE.read_text(encoding="utf-8") == table.piece(results)


def test_every_server_was_run():
    assert [row["id"] for row in table.load()["servers"]] == [build.id for build in KNOWN]


def test_no_server_fails_and_each_imitation_that_does_has_its_sentence():
    for row in table.load()["servers"]:
        failed = [test for part in row["parts"].values() for test in part["failed"]]
        if failed:
            assert row["imitation"], failed
            assert table.REASONS[row["id"]]
