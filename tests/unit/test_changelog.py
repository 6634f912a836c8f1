"""The changelog is for users: what is new, what may break, and short lines."""

import re

import pytest

from tests.examples import ROOT

TEXT = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
VERSIONS = dict(re.findall(r"^## \[(.+?)\].*?\n(.*?)(?=^## |\Z)", TEXT, re.DOTALL | re.MULTILINE))
LONGEST = 25  # words


def bullets_of(text: str) -> list[str]:
    return re.findall(r"^- (.*(?:\n  .*)*)", text, re.MULTILINE)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_version_begins_with_five_highlights_and_with_what_may_break(version):
    sections = re.findall(r"^### (.+)\n((?:(?!^### ).*\n?)*)", VERSIONS[version], re.MULTILINE)
    assert [name for name, _ in sections[:2]] == ["Highlights", "What may break"]
    assert len(bullets_of(sections[0][1])) == 5
    assert {name for name, _ in sections[2:]} <= {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}


def test_a_line_is_short():
    assert [each for each in bullets_of(TEXT) if len(each.split()) > LONGEST] == []


def test_the_page_on_upgrading_shows_what_may_break_in_each_version():
    page = (ROOT / "docs" / "upgrading.md").read_text(encoding="utf-8")
    marked = re.findall(r"<!-- upgrading ([\d.]+) begins -->.*?<!-- upgrading \1 ends -->", TEXT, re.DOTALL)
    assert len(marked) == len(VERSIONS)
    assert re.findall(r':end-before: "<!-- upgrading ([\d.]+) ends -->"', page) == marked
