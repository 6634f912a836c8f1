"""The scripts as servers get them: shared blocks spliced in, one order of arguments, and digests that are pinned."""

import hashlib
import re
from collections import Counter
from pathlib import Path

import pytest

import pyredisson._lua
from pyredisson._lua import script_names, script_text

FOLDER = Path(pyredisson._lua.__file__).parent
BLOCKS = sorted(path.stem for path in (FOLDER / "shared").glob("*.lua"))

#: The SHA-1 of each script, by which servers know it. A changed script is a new one to all of them: whoever changes one
#: changes its line here, on purpose.
DIGESTS = {
    "barrier_visit": "e0c62d48879c5aa3252c7bcdbc30d09dbde7820e",
    "condition_fair_wait": "a0120fa785932a812e688f44fcea34af7b7dcaf7",
    "condition_leave": "2fd0cd6eb1592fc124ab7b6a272ce65d403e52d1",
    "condition_look": "1dba63a0eec3c5d1984068e183038c5d46d35bdb",
    "condition_notify": "c24b70f17b9c3b1e810658aca1349a520e0447ee",
    "condition_wait": "fd8666ea6c9a87a3719ce087e56b1e007f9be05d",
    "counter_expire": "1635b55dde157cff870e668e2960745912b61107",
    "counter_set": "b50781b01fa627bb5ad35f738bef318449c42661",
    "election_acquire": "c97b076bd181b8bcd9fab1556d661752848a62b3",
    "election_acquire_waiting": "465c25c88f426e02f7befc9083678a7fff725ee7",
    "event_change": "d21f9bfdffe7148a85aa3725c827e7c3fca56117",
    "fair_acquire": "f0358608cd0a36f8538ede288c288b344d152f8c",
    "fair_force_unlock": "ffa6760e133545b57cb18b9b982d242b5dc976ac",
    "fair_look": "cbec21bb11d96cda45f476111572d106167dc973",
    "fair_release": "3e668c44d5c02538b6cf72aadc900650eb87f6f5",
    "fence_advance": "56deec2a7964cbeae24fdb6af7c0d9156f10ef71",
    "fence_hset": "72af98145426a631cb953dc632a9c373584aef32",
    "fence_set": "93610f751e5148fbd41deb089966af3c4aca0314",
    "fenced_acquire": "686a30fdb04275f6c97ae12a52ef76b0c625fcc1",
    "fenced_acquire_waiting": "bb9f745da41c13f39af88c1dc8663e94a1acc7ed",
    "latch_count_down": "aec48138dda997b66ffa06d1c88dad137f4ba391",
    "lock_acquire": "c723a5ca147018b3b28f15f62c0445ac940ef54d",
    "lock_acquire_waiting": "cf0b2dd3d94e004b4cf058c72d15757d4ffc2e01",
    "lock_force_unlock": "ecf8b81a07530e3a3f729231f9976cae8c0a3cd4",
    "lock_release": "8de364449ad81a218418f1a04bd985aa629a3247",
    "lock_renew": "46062f897e3fafe1b7b688b7be37825fcba3aace",
    "lock_stop_waiting": "6f416a6cd4e4a8a240cc0256fe9680a183add193",
    "permit_acquire": "7dfad3f6b122c2bfddb48d284dd9d8142adb555a",
    "permit_acquire_waiting": "6be50db8be3ab85fd361f655bff6afe808ad5a7a",
    "permit_add": "95e406fcc65cd304bfddf8156e2e0a38972f0982",
    "permit_count": "7f40376c821dded964226b81d222e5891844dce3",
    "permit_lease": "e106b94e28abf55d63a71ba919cae64cee06bb50",
    "permit_release": "14774f9ae60e0bf9767a1e7f8e379011c772a114",
    "permit_release_all": "d4786630bd638c4114c49d762974bea0a4f7fd5f",
    "permit_renew": "f62d4ff1e2a748f302b9388432280928c8b9ef19",
    "permit_set": "dc0d8e7d1535cf4316d7dc50a779c179a60074c4",
    "read_lock_acquire": "c2f65b37271fdb2aca522b4bee6b626728496642",
    "read_lock_acquire_waiting": "07f1b5c7f39b4d46477f423a29c3c67ebd802de4",
    "read_lock_release": "cce0b948ba42be420061720bf17802924fb7ea67",
    "read_lock_renew": "6f0dcfd6848e5ba68c0893affd04b8e32dea9c09",
    "read_write_lock_force_unlock": "a8eb7b49051cc4e72deba5e317cb176993acf3b8",
    "read_write_lock_stop_waiting": "5c25283b9a93fc07c2556d293ba4faafcce0d800",
    "run_once_release": "6ca41c2d59e8e95590257103ed1001bf3bb104e3",
    "semaphore_acquire": "2c0a3d9e856af4cb514c86c6b0ce9b32c827f5bc",
    "semaphore_acquire_waiting": "737a77b2d70befdd2a4c45c56949f7add5fe6f3c",
    "semaphore_add": "83483d2576e0422d94da81d223877380a9148dfc",
    "semaphore_drain": "ea8a09a520429bd2e24488009a4200a0e72574ed",
    "semaphore_release": "aecd311a9fbfd4ea2828922088d1a6b39fe171d3",
    "semaphore_resize": "7263aae540503188d7b4ec7239750f01de5bb161",
    "semaphore_stop_waiting": "d96ee1a8cee84c0a059f99132d5001938cc6a5d2",
    "semaphore_undo": "d087913800e3f9b322594b8fc65796baf60d0a5d",
    "token_acquire": "efecb9092f00ebb32e3edfa1d45ca5a0b70f6e05",
    "token_extend": "a947ed8a4eb62ce8a1e7241b6c20204e74c69afc",
    "token_force_unlock": "228d778f6d560b5f685ec351b118e7d971576f28",
    "token_release": "7c7034a0a87c60a21a03641b1dd9e7dd9c1105bd",
    "token_renew": "fb76489c3e8cb5a38d6641d446e3dcf0b3f010f3",
    "write_lock_acquire": "1f1583e361b6e2ec9cbadeced521a4beb16e32b8",
    "write_lock_acquire_waiting": "6ff95491529545a4e5d7f3096aa88b2016ffb972",
    "write_lock_release": "e0ed933919cc9a14ab069949bcc403c7e0c1a9a8",
}

#: Those without an epoch of one owner and without a numbered request: for many locks, waiters or permits at once, safe
#: to repeat, or before keys of other programs.
OWN_ORDER = {"condition_look", "fair_look", "fence_advance", "fence_hset", "fence_set", "lock_renew"}
OWN_ORDER |= {"lock_stop_waiting", "permit_count", "permit_renew", "read_lock_renew"}
OWN_ORDER |= {"read_write_lock_stop_waiting", "semaphore_stop_waiting", "token_extend", "token_renew"}


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


def test_the_digest_of_each_script_is_pinned():
    assert {name: hashlib.sha1(script_text(name).encode()).hexdigest() for name in script_names()} == DIGESTS


@pytest.mark.parametrize("name", script_names())
def test_a_script_takes_its_arguments_in_the_common_order(name):
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
        assert re.match(r"1 \w+ \((string|hash|not used)\)  2 last request of the owner(  |$)", keys)
        assert re.match(r"1 number of (the|this) request(  |$)", argv)


@pytest.mark.parametrize("name", BLOCKS)
def test_a_shared_block_says_what_it_expects_and_defines(name):
    text = file_text(f"shared/{name}")
    expects, defines = header_part(text, "Expects"), header_part(text, "Defines")
    assert not text.startswith(("-- Expects", "-- Defines")), "what it does comes first"
    assert included(text) == []
    body = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("--"))
    assert set(re.findall(r"(?:KEYS|ARGV)\[\d+\]", body)) == set(re.findall(r"(?:KEYS|ARGV)\[\d+\]", expects))
    assert all(re.search(rf"\b{expected}\b", body) for expected in names_in(expects))
    defined = re.findall(r"^local (?:function )?(\w+(?:, \w+)*)", body, re.MULTILINE)
    assert {each for names in defined for each in names.split(", ")} == names_in(defines)


def test_each_shared_block_is_shared():
    users = Counter(block for name in script_names() for block in set(included(file_text(name))))
    assert set(users) == set(BLOCKS)
    assert min(users.values()) > 1
