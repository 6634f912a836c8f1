"""The scripts as servers get them: shared blocks spliced in, one order of arguments, and digests that are pinned."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from pathlib import Path

import pytest

import pyredisson.lua
from pyredisson.lua import script_names, script_text

FOLDER = Path(pyredisson.lua.__file__).parent
BLOCKS = sorted(path.stem for path in (FOLDER / "shared").glob("*.lua"))

#: The SHA-1 of each script, by which servers know it. A changed script is a new one to all of them: whoever changes one
#: changes its line here, on purpose.
DIGESTS = {
    "counter_set": "f58bdadf9239315f7b48e2ee1e62bb15d14b3b1a",
    "fair_acquire": "884a5fd51d64f2fcd404c64b4c9e516ffdb405bf",
    "fair_force_unlock": "4d5c199d8449046c75be4bd575333ef5fb9fadad",
    "fair_look": "e7b2a1d3cfd6d9f3c5c78fe9e078b3d2b5cb700d",
    "fair_release": "53dad468227817ec8842c4c50a0b9c9e9eecad58",
    "fence_advance": "56deec2a7964cbeae24fdb6af7c0d9156f10ef71",
    "fence_hset": "72af98145426a631cb953dc632a9c373584aef32",
    "fence_set": "c51df49315c0a93ed0142d928f609fcf8473189a",
    "fenced_acquire": "6ddc56059281fbaa1282580c32229dc6b82ab7b9",
    "fenced_acquire_waiting": "7b7b495d379a7f91a6edd4d41e7c3bcd112b73ab",
    "latch_count_down": "b517c9757c6773d00b2b80b17d99bc9ba6a5bd8f",
    "lock_acquire": "beaa9e0a26937a76b7b26bc6bff9bf52440c3447",
    "lock_acquire_waiting": "9febb7e1d01720f1add87a88edb18bc39bc87987",
    "lock_force_unlock": "47e69106f89e292cc2ea185d8bf16d1d1899c902",
    "lock_release": "4df71bd0a3b000c19ae8e5f539816e43eb760dc3",
    "lock_renew": "633852c0123723686da216e25c576d3927332a73",
    "lock_stop_waiting": "e0814a0490e364c8c5795e26b01d710203a8b713",
    "permit_acquire": "af8a6fdd078b826c18ef5a85f6158848c4c9d8bd",
    "permit_acquire_waiting": "477107fbfbffcc8123d3e9cdb50a7b77efd893f0",
    "permit_add": "ad6c1207914ac7db968f0bf1b1a8930d25326d33",
    "permit_count": "d2799f940513fd0522479f8e94984aac666cba08",
    "permit_lease": "bc0457a1d6f058a7ce804ab4079938f84016aa3d",
    "permit_release": "f8328bdc5650389c531d46753ddb9e5df8ed2912",
    "permit_renew": "29da39c8dfc21b6bc8ed691d397e3c98d045216f",
    "permit_set": "70e82cd42eb78b82e717236266e252f2e053c419",
    "read_lock_acquire": "20498fdbf5e943e1c3e32898dbd1194938e2eb56",
    "read_lock_acquire_waiting": "ff49fac0a0e64a33382ef4538fad9608c5ba3604",
    "read_lock_release": "54986fd982d1df7546a3c8dbb7e59c43196e6195",
    "read_lock_renew": "590aa6e7520091b55d30a67b6d4dc11cb2949ec4",
    "read_write_lock_force_unlock": "4650727c4fe9443f6687a2e1b9982f793043624e",
    "read_write_lock_stop_waiting": "e2661a00221c7edbf5eac6dbd602d11223277f10",
    "semaphore_acquire": "688310000814f98ee6080f7e3d76ae42d8273267",
    "semaphore_acquire_waiting": "b35fbcce4b9a582dc3f04a6920f382066b5ff4ba",
    "semaphore_add": "6e4928b0a2417afc0d625695b26f9e369613da69",
    "semaphore_drain": "6e6f5bad6c1528bf7eaae59b124be40f18a4b8fc",
    "semaphore_release": "3b304dcd939207df355d79842fdb1c1e9804d46f",
    "semaphore_stop_waiting": "36b17ece6b8f7fa280f45057ee5e45d5285aa172",
    "semaphore_undo": "490d35a3dd63778077b30324c0daffc1fa39ca75",
    "token_acquire": "efecb9092f00ebb32e3edfa1d45ca5a0b70f6e05",
    "token_extend": "a947ed8a4eb62ce8a1e7241b6c20204e74c69afc",
    "token_force_unlock": "f8cd44d43c3c2405fe47eec16ee0005b4c995b22",
    "token_release": "7c7034a0a87c60a21a03641b1dd9e7dd9c1105bd",
    "token_renew": "e5354930d2c3eb2b06b2fd00d1f3374d13f23a77",
    "write_lock_acquire": "65aa1def62b0f6bff2eb01cf12a6778f3850a329",
    "write_lock_acquire_waiting": "68daf060a4027b1b4cb1106fecebf2b59c0a3d4f",
    "write_lock_release": "961da3d04b17ba9e740cf3b9cde2033cca69ddba",
}

#: Those without an epoch of one owner and without a numbered request: for many locks, waiters or permits at once, safe
#: to repeat, or before keys of other programs.
OWN_ORDER = {
    "fair_look",
    "fence_advance",
    "fence_hset",
    "fence_set",
    "lock_renew",
    "lock_stop_waiting",
    "permit_count",
    "permit_renew",
    "read_lock_renew",
    "read_write_lock_stop_waiting",
    "semaphore_stop_waiting",
    "token_extend",
    "token_renew",
}


def file_text(name: str) -> str:
    return (FOLDER / f"{name}.lua").read_text(encoding="utf-8")


def included(text: str) -> list[str]:
    return re.findall(r"-- include: (\w+)", text)


def header_part(text: str, word: str) -> str:
    """What a header says after a word, up to the next one."""
    header = "\n".join(line for line in text.split("\nlocal ", 1)[0].splitlines() if line.startswith("--"))
    found = re.search(rf"^-- {word} +(.*(?:\n--  .*)*)", header, re.MULTILINE)
    assert found is not None, word
    return re.sub(r"\s*\n--\s*", "  ", found[1])


def names_in(part: str) -> set[str]:
    """The Lua names that a block expects or defines."""
    items = [item.strip() for item in part.split(";")]
    lists = [re.split(r"[:(]", item)[0] for item in items if not item.startswith(("KEYS[", "ARGV["))]
    return {name.strip() for each in lists for name in each.split(",")} - {"nothing"}


def test_the_digest_of_each_script_is_pinned() -> None:
    assert {name: hashlib.sha1(script_text(name).encode()).hexdigest() for name in script_names()} == DIGESTS


@pytest.mark.parametrize("name", script_names())
def test_a_script_takes_its_arguments_in_the_common_order(name: str) -> None:
    keys, argv = (header_part(file_text(name), word) for word in ("KEYS", "ARGV"))
    if name in OWN_ORDER:
        assert "epoch" not in keys + argv
        assert "number of" not in argv
    elif "epoch" in keys:
        assert re.match(r"1 lock \(\w+\)  2 epoch of the (owner|caller)(  |$)", keys)
        assert re.match(r"1 (owner|caller|token of the (new )?hold)( \(not used\))?  2 epoch  3 repeat\b", argv)
        assert ("lease" in argv) == bool(re.search(r"  4 lease\b", argv))
        assert ("holds the client counts" in argv) == bool(re.search(r"  5 holds the client counts\b", argv))
    else:
        assert re.match(r"1 \w+ \(string\)  2 last request of the owner(  |$)", keys)
        assert re.match(r"1 number of (the|this) request(  |$)", argv)


@pytest.mark.parametrize("name", script_names())
def test_a_script_defines_what_its_blocks_expect(name: str) -> None:
    text = script_text(name)
    lines = file_text(name).splitlines(keepends=True)
    for at, line in enumerate(lines):
        for block in included(line):
            before = re.sub("-- attempt: ", "local function attempt() -- ", "".join(lines[:at]))
            for each in included(before):
                before += file_text(f"shared/{each}")
            for expected in names_in(header_part(file_text(f"shared/{block}"), "Expects")):
                assert re.search(rf"\blocal (function )?[\w, ]*\b{expected}\b", before), (block, expected)
    assert included(text) == []


@pytest.mark.parametrize("name", BLOCKS)
def test_a_shared_block_says_what_it_expects_and_defines(name: str) -> None:
    text = file_text(f"shared/{name}")
    expects, defines = header_part(text, "Expects"), header_part(text, "Defines")
    assert not text.startswith(("-- Expects", "-- Defines")), "what it does comes first"
    assert included(text) == []
    body = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("--"))
    assert set(re.findall(r"(?:KEYS|ARGV)\[\d+\]", body)) == set(re.findall(r"(?:KEYS|ARGV)\[\d+\]", expects))
    assert all(re.search(rf"\b{expected}\b", body) for expected in names_in(expects))
    defined = re.findall(r"^local (?:function )?(\w+(?:, \w+)*)", body, re.MULTILINE)
    assert {each for names in defined for each in names.split(", ")} == names_in(defines)


def test_each_shared_block_is_shared() -> None:
    users = Counter(block for name in script_names() for block in set(included(file_text(name))))
    assert set(users) == set(BLOCKS)
    assert min(users.values()) > 1


def test_a_block_is_spliced_in_at_the_depth_of_its_line() -> None:
    assert "\n-- include: " in file_text("fair_release")
    assert "\n    -- include: release_one\n" in file_text("fair_release")
    assert "\n    reply = 0\nend\n" in script_text("fair_release")
    assert "-- Expects" not in script_text("fair_release")
