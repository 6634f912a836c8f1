"""What the benchmarks conclude from what they measured, and what the documentation shows of it."""

import re
import shutil
import statistics
from dataclasses import replace

import pytest

from benchmarks import __main__ as command_line
from benchmarks import charts, plots, profile_hot_path
from benchmarks.cross_hand_over import WAITED_NS, HandOvers, Pass, hand_overs
from benchmarks.report import Claim, Figure, read, write
from benchmarks.rounds import CALM_CORES, FOREIGN
from benchmarks.throughput import Counted, Spent, proven

MS = 1_000_000
assert WAITED_NS == MS


def passes(*times_ms: tuple[float, float, float]) -> list[Pass]:
    return [Pass(*(int(time * MS) for time in times)) for times in times_ms]


def test_a_lock_that_goes_to_and_fro():
    one, other = passes((0, 1, 11), (16, 22, 32)), passes((5, 12, 21.5), (27, 34, 44))
    assert hand_overs(one, other) == HandOvers([1 * MS, 2 * MS], 0)
    assert hand_overs(other, one) == HandOvers([MS // 2], 0)


@pytest.mark.parametrize(
    ("asked", "found"),
    [(9, 1), (10, 1), (10.5, 0), (12, 0)],
    ids=["long before", "just in time", "about to wait", "after the release"],
)
def test_only_who_waits_is_handed_the_lock(asked, found):
    taken = hand_overs(passes((0, 1, 11)), passes((asked, 13, 20)))
    assert len(taken.waits_ns) == found


def test_a_wait_counts_from_the_first_release_that_could_have_ended_it():
    giver, taker = passes((0, 1, 11), (11.1, 11.2, 21)), passes((5, 22, 30))
    assert hand_overs(giver, taker) == HandOvers([11 * MS], taken_back=1)


def test_two_inside_are_an_error():
    with pytest.raises(RuntimeError, match="two were inside"):
        hand_overs(passes((0, 1, 11)), passes((5, 10.9, 20)))


@pytest.mark.parametrize(
    ("done", "left", "message"),
    [(19, 0, "ran changes 19 times, not 2 for each"), (20, 1, "left 1 keys behind")],
    ids=["a pair that was not done", "a key that was left"],
)
def test_only_work_that_the_server_confirms_counts(done, left, message):
    counted = Counted(in_all=10, pairs=8, spent=Spent(wall=2.0, cpu=1.0))
    assert proven("etcd", counted, 20, 0, proof="changes", times=2)["pairs/s"] == 4.0
    with pytest.raises(RuntimeError, match=message):
        proven("etcd", counted, done, left, proof="changes", times=2)


# ---- results and pictures --------------------------------------------------------------------------------------------

PAGE = plots.PIECES.parents[1] / "explanation" / "benchmarks.md"


def figure(name: str = "one_thread", *, measured: float = 2.0) -> Figure:
    """With 1.0 as its bound, and a contestant that missed a round."""
    claim = Claim("pairs of <others>", measured, ">=", 1.0, "x")
    samples = {"pyredisson": [{"pairs/s": 1500.0}, {"pairs/s": 2500.0}], "<others>": [{"pairs/s": 1000.0}, {}]}
    return Figure(name, "A & B", "It was done.", ("who", "n"), [("us", "1")], [claim], ["Mind this"], samples)


ABOUT = {"server": "Valkey 9", "python": "CPython 3", "redis-py": "8", "system": "Linux", "cores": 2}


def test_a_figure_that_others_disturbed_is_not_shown(tmp_path):
    disturbed = {who: [{**each, FOREIGN: CALM_CORES} for each in samples] for who, samples in figure().samples.items()}
    write(replace(figure(), samples=disturbed), ABOUT, tmp_path)
    assert plots.shown(tmp_path) == {}
    assert (plots.figures({}), plots.readme_table({})[:8]) == ("\n", "| median")


def test_a_ratio_is_the_median_of_those_within_the_rounds():
    rates = {"ours": [{"n": 3.0}, {"n": 8.0}, {"n": 5.0}], "other": [{"n": 1.0}, {"n": 2.0}, {"n": 5.0}]}
    comparison = plots.Comparison("n", "x", "ours", "other", "n", "other")
    assert plots.ratio(replace(figure(), samples=rates), comparison) == 3.0


def test_each_figure_is_drawn():
    assert list(plots.FIGURES) == list(command_line.FIGURES)


def test_each_figure_has_its_section():
    sections = [name for _, names in plots.SECTIONS for name in names]
    coordinators = [name for _, name, _ in plots.COMPARED_WITH_COORDINATORS]
    assert sorted([*sections, *coordinators, *plots.COMPARED_WITH_REDISSON]) == sorted(plots.FIGURES)


def test_the_documentation_and_the_readme_show_the_results_that_are_here(tmp_path):
    """Else: ``python -m benchmarks.plots``."""
    results, pieces, chart, readme = (tmp_path / name for name in ("results", "pieces", "chart.svg", "README.md"))
    shutil.copytree(plots.RESULTS, results)
    shutil.copy(plots.README, readme)
    paths = {"--results": results, "--pieces": pieces, "--chart": chart, "--readme": readme}
    plots.main([str(each) for pair in paths.items() for each in pair])
    assert (results / "latest.md").read_text() == (plots.RESULTS / "latest.md").read_text()
    assert chart.read_text() == plots.CHART.read_text()
    assert readme.read_text() == plots.README.read_text()
    written = {path.name: path.read_text() for path in pieces.iterdir()}
    assert {path.name: path.read_text() for path in plots.PIECES.iterdir()} == written


def test_what_the_readme_says_of_better_peers_was_measured():
    results = {result.figure.name: result.figure for result in read(plots.RESULTS, plots.FIGURES)}

    def median(name, who, quantity):
        return statistics.median(charts.values_of(results[name], quantity)[who])

    assert median("one_thread", "redis-py Lock", "bytes/pair") < median("one_thread", "pyredisson", "bytes/pair")
    assert median("held_locks", plots.RENEWED_BY_THREADS, "bytes") < median("held_locks", "pyredisson", "bytes")
    assert median("redlock", "redlock-ng", "bytes/pair") < median("redlock", "pyredisson", "bytes/pair")
    longest = "longest ms"
    assert median("java_hand_over", "Redisson 4.7.0, 8", longest) < median("java_hand_over", "pyredisson, 8", longest)


def test_the_profile_of_the_hot_path_runs(capsys):
    assert profile_hot_path.main(["--rounds", "1", "--pairs", "20"]) == 0
    assert "core: ownerships, deadlines, watchdog, events" in capsys.readouterr().out


def test_the_pages_include_what_is_written():
    pages = PAGE.read_text() + PAGE.with_name("figures.md").read_text()
    included = re.findall(r"\{include\} \.\./_generated/benchmarks/(\w+)\.md", pages)
    assert included == ["summary", "compared_with_coordinators", "compared_with_redisson", "figures"]
    written = {path.stem for path in plots.PIECES.iterdir()}
    assert written == {*included, *plots.INCLUDED_ELSEWHERE}
