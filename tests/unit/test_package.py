"""The distribution: what pyproject.toml says of it, what the wheel and the sdist contain, and twine's checks."""

import importlib.util
import os
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml

import pyredisson
from tests.examples import ROOT

if sys.version_info >= (3, 11):
    import tomllib
else:
    tomllib = pytest.importorskip("tomli")

PYPROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT: dict[str, Any] = PYPROJECT["project"]

#: Where the project will be; see CONTRIBUTING.md.
PLACEHOLDER = "example.invalid"

FIRST, LAST = 10, 14
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def test_the_links_of_the_project_are_in_one_place():
    assert {"Homepage", "Documentation", "Source", "Issues", "Changelog"} == set(PROJECT["urls"])
    texts = [*ROOT.glob("*.cff"), *ROOT.glob(".github/**/*.yml"), *ROOT.glob("SECURITY.md"), *ROOT.glob("CODE*.md")]
    naming = {path.name for path in texts if PLACEHOLDER in path.read_text()}
    assert naming == {"release.yml"}  # It refuses to publish them.


def test_each_supported_python_is_named_and_tested():
    assert PROJECT["requires-python"] == f">=3.{FIRST}"
    named = [re.fullmatch(r"Programming Language :: Python :: 3\.(\d+)", each) for each in PROJECT["classifiers"]]
    assert [int(each[1]) for each in named if each] == list(range(FIRST, LAST + 1))
    tested = yaml.safe_load((ROOT / ".github/workflows/tests.yml").read_text())["jobs"]["quick"]["strategy"]["matrix"]
    assert {f"3.{minor}" for minor in range(FIRST, LAST + 1)} < set(tested["python"])
    for page in ("README.md", "docs/install.md"):
        assert f"Python 3.{FIRST} to 3.{LAST}" in (ROOT / page).read_text(encoding="utf-8")
    table = (ROOT / "docs" / "_generated" / "servers.md").read_text(encoding="utf-8")
    assert {f"3.{minor}" for minor in range(FIRST, LAST + 1)} <= set(re.findall(r"CPython (3\.\d+)", table))


def test_the_page_on_stability_has_the_versions_of_the_package():
    page = (ROOT / "docs" / "reference" / "stability.md").read_text(encoding="utf-8")
    supported = dict(re.findall(r"^\| ([\w-]+) \| (.+?) \| .+ \|$", page, re.MULTILINE))
    assert supported["CPython"] == f"3.{FIRST} to 3.{LAST}"
    needed = dict(each.split(">=") for each in PROJECT["dependencies"])
    oldest, newest = supported["redis-py"].split(" to ")
    assert needed["redis"] == f"{oldest},<{int(newest) + 1}"
    assert supported["hiredis"] == f"{needed['hiredis']} or later"
    table = (ROOT / "docs" / "_generated" / "servers.md").read_text(encoding="utf-8")
    tested = re.findall(r"^\| (Redis|Valkey|Redict) (\d+\.\d+)", table, re.MULTILINE)
    for make, versions in re.findall(r"(Redis|Valkey|Redict) ([\d.]+(?: (?:to|and) [\d.]+)?)", supported["servers"]):
        assert set(re.findall(r"[\d.]+", versions)) <= {version for each, version in tested if each == make}


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_may_do_no_more_than_it_needs(path):
    workflow = yaml.safe_load(path.read_text())
    assert workflow["permissions"] == {"contents": "read"}
    for name, job in workflow["jobs"].items():
        assert "uses" in job or job["timeout-minutes"], name
        assert job.get("permissions", {}) == ({"id-token": "write"} if name == "publish" else {}), name


def test_code_that_is_not_released_does_not_have_the_number_of_a_release():
    first, *released = re.findall(r"^## \[(.+?)\]", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    version, _, dev = pyredisson.__version__.partition(".dev")
    if first == "Unreleased":
        assert dev == "0"
        assert tuple(map(int, version.split("."))) > tuple(map(int, released[0].split(".")))
    else:
        assert (first, dev) == (version, "")


# ---- what is built ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with a new wheel and a new sdist, built without a network."""
    missing = [name for name in ("build", "hatchling", "twine") if importlib.util.find_spec(name) is None]
    if missing:
        reason = f"{' and '.join(missing)} not installed"
        if os.environ.get("PYREDISSON_REQUIRE_ALL") == "1":
            pytest.fail(f"PYREDISSON_REQUIRE_ALL=1: {reason}", pytrace=False)
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def only(folder: Path, pattern: str) -> Path:
    [path] = folder.glob(pattern)
    return path


def test_twine_accepts_both(built):
    files = [str(path) for path in built.iterdir()]
    assert len(files) == 2
    done = subprocess.run(
        [sys.executable, "-m", "twine", "check", "--strict", *files], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_wheel_has_the_package_and_nothing_else(built):
    with zipfile.ZipFile(only(built, "*.whl")) as wheel:
        names = wheel.namelist()
        metadata = wheel.read(next(name for name in names if name.endswith("/METADATA"))).decode()
    info = f"pyredisson-{pyredisson.__version__}.dist-info/"
    assert {name.partition("/")[0] + "/" for name in names} == {"pyredisson/", info}
    packed = {name for name in names if name.startswith("pyredisson/")}
    assert {Path(name).suffix or Path(name).name for name in packed} == {
        ".py",
        ".lua",
        ".bash",
        ".typed",
        ".html",
        ".css",
        ".js",
        ".svg",
    }
    sources = [path for path in (ROOT / "pyredisson").rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    assert packed == {path.relative_to(ROOT).as_posix() for path in sources}
    assert f"{info}licenses/LICENSE" in names
    assert f"Version: {pyredisson.__version__}\n" in metadata
    assert "License-Expression: Apache-2.0\n" in metadata
    assert "Author: pyredisson contributors\n" in metadata
    targets = re.findall(r"\[[^\]]*\]\(([^)\s]+)\)", metadata)
    assert all(target.startswith("https://") for target in targets)
    source = PROJECT["urls"]["Source"]
    assert {f"{source}/blob/main/docs/tutorial.md", f"{source}/raw/main/docs/_static/demo.svg"} <= set(targets)


def test_the_sdist_has_what_is_needed_to_build_test_and_read(built):
    with tarfile.open(only(built, "*.tar.gz")) as sdist:
        names = {name.partition("/")[2] for name in sdist.getnames()}
    for needed in (
        "pyproject.toml",
        "README.md",
        "CHANGELOG.md",
        "CITATION.cff",
        "CONTRIBUTING.md",
        "LICENSE",
        "Makefile",
        "hatch_build.py",
        "SECURITY.md",
        "pyredisson/py.typed",
        "pyredisson/_lua/lock_acquire.lua",
        "tests/conftest.py",
        "docs/conf.py",
        "PKG-INFO",
    ):
        assert needed in names
    junk = re.compile(
        r"(^|/)(__pycache__|_build|target|\..*cache|\.venv.*|\.git|results-quick|.*\.(pyc|class|log|rdb))(/|$)"
    )
    assert [name for name in names if junk.search(name)] == []
    tops = {name.partition("/")[0] for name in names}
    assert tops - {".gitignore", "PKG-INFO"} <= {path.name for path in ROOT.iterdir() if not path.name.startswith(".")}
