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
    "counter_set": "4bb66e7eada3fc673a812ca9ee3bbdfc61ebbc20",
    "fair_acquire": "884a5fd51d64f2fcd404c64b4c9e516ffdb405bf",
    "fair_force_unlock": "4d5c199d8449046c75be4bd575333ef5fb9fadad",
    "fair_look": "e7b2a1d3cfd6d9f3c5c78fe9e078b3d2b5cb700d",
    "fair_release": "53dad468227817ec8842c4c50a0b9c9e9eecad58",
    "fence_advance": "56deec2a7964cbeae24fdb6af7c0d9156f10ef71",
    "fence_hset": "72af98145426a631cb953dc632a9c373584aef32",
    "fence_set": "c51df49315c0a93ed0142d928f609fcf8473189a",
    "fenced_acquire": "6ddc56059281fbaa1282580c32229dc6b82ab7b9",
    "fenced_acquire_waiting": "d43049fce8c4070c84f6fdfb7f95047bb7578b26",
    "latch_count_down": "b517c9757c6773d00b2b80b17d99bc9ba6a5bd8f",
    "lock_acquire": "beaa9e0a26937a76b7b26bc6bff9bf52440c3447",
    "lock_acquire_waiting": "22b889199fbcab9ad5243c9940987d3bf332353f",
    "lock_force_unlock": "b560f8f5b398b68d4af600fc494e8d2fd50b86ef",
    "lock_release": "5b110f250aa8af1ac22f05e1f402b7b480d6dc91",
    "lock_renew": "633852c0123723686da216e25c576d3927332a73",
    "lock_stop_waiting": "cfc736d02e76fe83b5ddf2c20c7d56f670540711",
    "permit_acquire": "af8a6fdd078b826c18ef5a85f6158848c4c9d8bd",
    "permit_acquire_waiting": "2a486f6020f0d24031fb5e22941f01f3614e467a",
    "permit_add": "2b1bfd16bc1346b1b969b213845b78d46a3ffed5",
    "permit_count": "dc75361f3b64bdd30641c9ca14fa97dbbc271832",
    "permit_lease": "721d5f08df04b6fbda345c86a9845b60d86ac53a",
    "permit_release": "2255032a61cb417b46bd88425d6710c95089b9e2",
    "permit_renew": "29da39c8dfc21b6bc8ed691d397e3c98d045216f",
    "permit_set": "8daec4880aa8a937c49365252fd418ee59a20e92",
    "read_lock_acquire": "20498fdbf5e943e1c3e32898dbd1194938e2eb56",
    "read_lock_acquire_waiting": "bb789c563bf2d0cb507d22c7f2fc9243e1f2de8b",
    "read_lock_release": "e63bbf38a685b6670d01da574f642f7a6554a625",
    "read_lock_renew": "590aa6e7520091b55d30a67b6d4dc11cb2949ec4",
    "read_write_lock_force_unlock": "e9001554a2123aff6f7f14fa8647137cf6fe437c",
    "read_write_lock_stop_waiting": "365f8b2d3a1b1f8fefa95b21389d87166afc2d45",
    "semaphore_acquire": "688310000814f98ee6080f7e3d76ae42d8273267",
    "semaphore_acquire_waiting": "913de8874df2bc79214dac9ac2d43103b464ec3f",
    "semaphore_add": "8aad8d3af616d88058968269625dc87455e02c24",
    "semaphore_drain": "6e6f5bad6c1528bf7eaae59b124be40f18a4b8fc",
    "semaphore_release": "bdd83ee1a3daad8d52f7720899c5df50193843e2",
    "semaphore_stop_waiting": "b32b6dd331fc1e374d0409137969b6775df74cf3",
    "semaphore_undo": "241838ccae64a581f2378bd97b5a41cea5e60bec",
    "token_acquire": "efecb9092f00ebb32e3edfa1d45ca5a0b70f6e05",
    "token_extend": "a947ed8a4eb62ce8a1e7241b6c20204e74c69afc",
    "token_force_unlock": "f8cd44d43c3c2405fe47eec16ee0005b4c995b22",
    "token_release": "7c7034a0a87c60a21a03641b1dd9e7dd9c1105bd",
    "token_renew": "e5354930d2c3eb2b06b2fd00d1f3374d13f23a77",
    "write_lock_acquire": "65aa1def62b0f6bff2eb01cf12a6778f3850a329",
    "write_lock_acquire_waiting": "41ea270eb82ea90e7fc20ada6e719aba7b7fcb7f",
    "write_lock_release": "af323531dc94282f29a1f5b4ded3c8cc506f0064",
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
