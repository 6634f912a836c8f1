"""What the benchmarks conclude from what they measured, and what the documentation shows of it."""

from __future__ import annotations

import re
import shutil
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from benchmarks import __main__ as command_line
from benchmarks import plots, profile_hot_path
from benchmarks.cross_hand_over import WAITED_NS, HandOvers, Pass, hand_overs
from benchmarks.report import Claim, Figure, read, write, write_summary

MS = 1_000_000
assert WAITED_NS == MS


def passes(*times_ms: tuple[float, float, float]) -> list[Pass]:
    return [Pass(*(int(time * MS) for time in times)) for times in times_ms]


def test_a_lock_that_goes_to_and_fro() -> None:
    one, other = passes((0, 1, 11), (16, 22, 32)), passes((5, 12, 21.5), (27, 34, 44))
    assert hand_overs(one, other) == HandOvers([1 * MS, 2 * MS], 0)
    assert hand_overs(other, one) == HandOvers([MS // 2], 0)


@pytest.mark.parametrize(
    ("asked", "found"),
    [(9, 1), (10, 1), (10.5, 0), (12, 0)],
    ids=["long before", "just in time", "about to wait", "after the release"],
)
def test_only_who_waits_is_handed_the_lock(asked: float, found: int) -> None:
    taken = hand_overs(passes((0, 1, 11)), passes((asked, 13, 20)))
    assert len(taken.waits_ns) == found


def test_a_wait_counts_from_the_first_release_that_could_have_ended_it() -> None:
    giver, taker = passes((0, 1, 11), (11.1, 11.2, 21)), passes((5, 22, 30))
    assert hand_overs(giver, taker) == HandOvers([11 * MS], taken_back=1)


def test_two_inside_are_an_error() -> None:
    with pytest.raises(RuntimeError, match="two were inside"):
        hand_overs(passes((0, 1, 11)), passes((5, 10.9, 20)))


# ---- results and pictures --------------------------------------------------------------------------------------------

PAGE = plots.PICTURES.parents[1] / "explanation" / "benchmarks.md"
NOTHING_SHORT = "Nothing: every bound is kept.\n"


def figure(name: str = "one_thread", *, measured: float = 2.0) -> Figure:
    """With 1.0 as its bound, and a contestant that missed a round."""
    claim = Claim("pairs of <others>", measured, ">=", 1.0, "x")
    samples = {"pyredisson": [{"pairs/s": 1500.0}, {"pairs/s": 2500.0}], "<others>": [{"pairs/s": 1000.0}, {}]}
    return Figure(name, "A & B", "It was done.", ("who", "n"), [("us", "1")], [claim], ["Mind this"], samples)


ABOUT = {"server": "Valkey 9", "python": "CPython 3", "redis-py": "8", "cores": 2}


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    write(figure(), ABOUT, tmp_path)
    ((again, about),) = read(tmp_path, ["readers", "one_thread"])
    assert about == ABOUT
    assert again.claims == figure().claims
    assert again.samples == figure().samples
    write(figure("readers", measured=0.5), ABOUT, tmp_path)
    write_summary(tmp_path, ["readers", "one_thread"])
    summary = (tmp_path / "latest.md").read_text()
    assert summary.startswith("# Benchmarks\n\n1 of 2 bounds are kept.")
    assert summary.index("`readers`") < summary.index("`one_thread`")


def test_a_figure_is_drawn_and_described(tmp_path: Path) -> None:
    write(figure(measured=0.5), ABOUT, tmp_path)
    plots.draw(tmp_path, tmp_path)
    texts = [each.text for each in ElementTree.fromstring((tmp_path / "one_thread.svg").read_text()).iter()]
    assert {"A & B", "pyredisson", "<others>", "2,000", "1,000"} <= set(texts)
    told = (tmp_path / "one_thread.md").read_text()
    assert ":alt: A & B. Pairs of acquire and release a second: pyredisson 2,000, <others> 1,000.\n" in told
    assert "Mind this." in told
    assert "| pairs of <others> | 0.50 x | >= 1.00 x | short |" in told
    assert "| A & B | pairs of <others> | 0.50 x | >= 1.00 x |" in (tmp_path / "short.md").read_text()
    assert (tmp_path / "redlock.md").read_text().startswith("*Not measured yet")
    assert not (tmp_path / "redlock.svg").exists()
    write(figure(), ABOUT, tmp_path)
    plots.draw(tmp_path, tmp_path)
    assert (tmp_path / "short.md").read_text() == NOTHING_SHORT


@pytest.mark.parametrize(
    ("largest", "ticks"),
    [(1.0, [0, 0.2, 0.4, 0.6, 0.8, 1.0]), (15441.0, [0, 5000, 10000, 15000]), (54.9, [0, 20, 40]), (0.0, [0])],
)
def test_round_numbers_stand_at_an_axis(largest: float, ticks: list[float]) -> None:
    assert plots.linear_ticks(largest) == pytest.approx(ticks)


@pytest.mark.parametrize(
    ("smallest", "largest", "ticks"),
    [(0.18, 498, [0.1, 1, 10, 100, 1000]), (1, 1, [1, 10]), (0.5, 0.7, [0.1, 1])],
)
def test_powers_of_ten_stand_around_the_waits(smallest: float, largest: float, ticks: list[float]) -> None:
    assert plots.decades(smallest, largest) == pytest.approx(ticks)


def test_each_figure_is_drawn() -> None:
    assert list(plots.FIGURES) == list(command_line.FIGURES)


def test_the_figures_that_compare_with_redisson_have_a_word() -> None:
    chosen = command_line.parse(["redisson", "one_thread"]).figure
    assert chosen == [command_line.GROUPS["redisson"], ["one_thread"]]
    assert set(chosen[0]) == {name for name in plots.FIGURES if name.startswith(("java", "cross"))}


def test_the_documentation_shows_the_results_that_are_here(tmp_path: Path) -> None:
    """Else: ``python -m benchmarks.plots``."""
    results, pictures = tmp_path / "results", tmp_path / "pictures"
    shutil.copytree(plots.RESULTS, results)
    plots.main(["--results", str(results), "--pictures", str(pictures)])
    assert (results / "latest.md").read_text() == (plots.RESULTS / "latest.md").read_text()
    drawn = {path.name: path.read_text() for path in pictures.iterdir()}
    assert {path.name: path.read_text() for path in plots.PICTURES.iterdir()} == drawn


def test_quick_figures_are_kept_from_the_documented_ones() -> None:
    assert command_line.QUICK_RESULTS != command_line.RESULTS
    assert not set(command_line._by_default(quick=True)) & set(command_line.GROUPS["redisson"])


def test_the_profile_of_the_hot_path_runs(capsys: pytest.CaptureFixture[str]) -> None:
    assert profile_hot_path.main(["--rounds", "1", "--pairs", "20"]) == 0
    assert "core: ownerships, deadlines, watchdog, events" in capsys.readouterr().out


def test_the_page_includes_what_is_drawn() -> None:
    included = set(re.findall(r"\{include\} \.\./_generated/benchmarks/(\w+)\.md", PAGE.read_text()))
    assert included == {*plots.FIGURES, plots.SHORT}
