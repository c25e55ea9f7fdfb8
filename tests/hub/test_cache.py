"""What is known is kept: in memory, on disk over a restart, and checked with the Hub in the
background."""

import asyncio
import json
import os
import stat
import sys

import pytest

from fitgauge.engine.model.families import read_config
from fitgauge.engine.model.model import Model
from fitgauge.errors import HubBusyError, HubUnreachableError, UnknownModelError
from fitgauge.hub import Reference
from fitgauge.hub.cache import MAX_FILE, SCHEMA, CachedModel, Disk, Memory, NegativeCache, deep_size
from fitgauge.hub.metadata import RepoMetadata
from hub_stand_in import gguf_repository, llama_config, safetensors_repository

TINY = Reference("acme/tiny")


class Clock:
    """Time that passes when it is told to."""

    def __init__(self) -> None:
        self.now = 1_700_000_000.0

    def __call__(self) -> float:
        return self.now


def resolved(open_hub, reference=TINY, **settings):
    async def run():
        async with open_hub(**settings) as hub:
            return await hub.resolve(reference)

    return asyncio.run(run())


async def settled(stand_in, requests):
    """Wait until the stand-in has seen so many requests and their answers have been taken in."""
    while stand_in.count() < requests:
        await asyncio.sleep(0.01)
    await asyncio.sleep(0.5)


def facts(**changes):
    usual = {
        "repo_id": "acme/tiny",
        "sha": "a" * 40,
        "fetched_at": 1.0,
        "elements": {"BF16": 1},
        "config": b"{}",
        "config_etag": '"1"',
    }
    return RepoMetadata(**{**usual, **changes})


def test_an_answer_survives_a_restart(stand_in, open_hub):
    first = resolved(open_hub)
    assert resolved(open_hub) == first
    assert stand_in.count() == 2


def test_an_answer_survives_a_restart_without_a_hub(stand_in, open_hub):
    first = resolved(open_hub)
    stand_in.fault(drop=True)
    assert resolved(open_hub) == first
    assert resolved(open_hub, offline=True) == first
    assert stand_in.count() == 2


def test_an_old_answer_is_served_during_an_outage(stand_in, open_hub):
    async def run():
        async with open_hub(clock=clock, attempts=1) as hub:
            return await hub.resolve(TINY), await hub.resolve(TINY)

    clock = Clock()
    first = resolved(open_hub, clock=clock)
    clock.now += 10**6
    stand_in.fault(status=500)
    assert asyncio.run(run()) == (first, first)


def test_old_answers_are_served_offline_without_a_check(stand_in, open_hub):
    clock = Clock()
    first = resolved(open_hub, clock=clock)
    clock.now += 10**6
    assert resolved(open_hub, clock=clock, offline=True) == first
    assert stand_in.count() == 2


@pytest.mark.parametrize("restart", [False, True])
def test_an_old_answer_is_given_at_once_and_checked_by_its_etag_in_the_background(
    stand_in, open_hub, restart
):
    async def run():
        async with open_hub(clock=clock) as hub:
            if not restart:
                await hub.resolve(TINY)
                clock.now += 3601
            stale = await hub.resolve(TINY)
            await settled(stand_in, 4)
            assert hub.peek(TINY) == stale
            await asyncio.sleep(0.05)

    clock = Clock()
    if restart:
        resolved(open_hub, clock=clock)
        clock.now += 3601
    asyncio.run(asyncio.wait_for(run(), 30))
    assert stand_in.count() == 4
    checks = [request for request in stand_in.requests if "if-none-match" in request.headers]
    assert [request.path for request in checks] == ["/acme/tiny/resolve/main/config.json"]


def test_a_change_on_the_hub_arrives_with_the_next_check(stand_in, open_hub):
    async def run():
        async with open_hub(clock=clock) as hub:
            old = await hub.resolve(TINY)
            stand_in.add(safetensors_repository("acme/tiny", llama_config(num_hidden_layers=3)))
            clock.now += 3601
            assert await hub.resolve(TINY) is old
            await settled(stand_in, 4)
            return hub.peek(TINY)

    clock = Clock()
    new = asyncio.run(asyncio.wait_for(run(), 30))
    assert new.spec.layers == 3
    assert new.revision == stand_in.repositories["acme/tiny"].sha


def test_a_new_commit_with_the_same_config_takes_the_new_weights(stand_in, open_hub):
    async def run():
        async with open_hub(clock=clock) as hub:
            await hub.resolve(TINY)
            changed = safetensors_repository("acme/tiny", shards=2)
            stand_in.add(changed)
            clock.now += 3601
            hub.peek(TINY)
            await settled(stand_in, 4)
            return hub.peek(TINY).revision == changed.sha and hub.peek(TINY).spec.layers == 2

    clock = Clock()
    assert asyncio.run(asyncio.wait_for(run(), 30))


def test_a_commit_is_never_checked_again(stand_in, open_hub):
    async def run():
        async with open_hub(clock=clock) as hub:
            await hub.resolve(pinned)
            clock.now += 10**8
            await hub.resolve(pinned)
            await settled(stand_in, 2)

    clock = Clock()
    pinned = Reference("acme/tiny", stand_in.repositories["acme/tiny"].sha)
    asyncio.run(run())
    assert stand_in.count() == 2


def test_checking_gguf_files_of_the_same_commit_costs_two_requests_and_not_four(stand_in, open_hub):
    async def run():
        async with open_hub(clock=clock) as hub:
            old = await hub.resolve(reference)
            clock.now += 3601
            hub.peek(reference)
            await settled(stand_in, 6)
            assert hub.peek(reference) == old

    clock, reference = Clock(), Reference("acme/tiny-GGUF", None, "Q8_0")
    keys = {
        "llama.block_count": 1,
        "llama.embedding_length": 64,
        "llama.feed_forward_length": 8,
        "llama.attention.head_count": 2,
    }
    stand_in.add(
        gguf_repository(
            "acme/tiny-GGUF",
            {"general.architecture": "llama", "llama.vocab_size": 9, **keys},
            {"a-Q8_0.gguf": 9},
        )
    )
    asyncio.run(asyncio.wait_for(run(), 30))
    assert stand_in.count() == 6


def test_a_model_that_was_deleted_is_gone_with_the_next_check(stand_in, open_hub):
    async def run():
        async with open_hub(clock=clock) as hub:
            await hub.resolve(TINY)
            del stand_in.repositories["acme/tiny"]
            clock.now += 3601
            await hub.resolve(TINY)
            await settled(stand_in, 4)
            with pytest.raises(UnknownModelError):
                await hub.resolve(TINY)
        with pytest.raises(UnknownModelError):
            await after_a_restart()

    async def after_a_restart():
        async with open_hub(clock=clock) as hub:
            await hub.resolve(TINY)

    clock = Clock()
    asyncio.run(asyncio.wait_for(run(), 30))


def test_one_endpoint_never_answers_for_another(stand_in, open_hub):
    resolved(open_hub)
    with pytest.raises(HubUnreachableError):
        resolved(open_hub, endpoint="http://127.0.0.1:9", attempts=1)


@pytest.mark.parametrize("content", [b"", b"\x00" * 100, b"\xff\xff", b"\x91" * 100_000, None])
def test_a_broken_file_is_passed_over(stand_in, open_hub, tmp_path, content):
    first = resolved(open_hub)
    (file,) = (tmp_path / "hub").iterdir()
    file.write_bytes(file.read_bytes()[:-10] if content is None else content)
    assert resolved(open_hub) == first
    assert stand_in.count() == 4


def test_a_file_of_another_version_is_passed_over(tmp_path, monkeypatch):
    disk = Disk(tmp_path, "http://hub", 10, 10**9)
    disk.write(TINY, facts())
    assert disk.read(TINY) == facts()
    monkeypatch.setattr("fitgauge.hub.cache.SCHEMA", SCHEMA + 1)
    assert disk.read(TINY) is None


def test_nothing_half_written_is_left_behind(tmp_path, monkeypatch):
    def fails(*_):
        raise OSError("disk full")

    disk = Disk(tmp_path, "http://hub", 10, 10**9)
    disk.write(TINY, facts())
    monkeypatch.setattr("pathlib.Path.replace", fails)
    disk.write(TINY, facts(sha="b" * 40))
    assert disk.read(TINY) == facts()
    assert len(list(tmp_path.iterdir())) == 1


def test_the_disk_keeps_so_many_files_and_drops_the_oldest(tmp_path):
    disk = Disk(tmp_path, "http://hub", 3, 10**9)
    for number in range(5):
        disk.write(Reference(f"acme/m{number}"), facts())
        os.utime(tmp_path / disk.name(Reference(f"acme/m{number}")), (number, number))
    assert [disk.read(Reference(f"acme/m{number}")) is not None for number in range(5)] == [
        False,
        False,
        True,
        True,
        True,
    ]


def test_a_cache_that_cannot_be_written_costs_nothing_but_the_cache(open_hub, tmp_path):
    (tmp_path / "file").write_text("in the way")
    assert resolved(open_hub, cache_dir=tmp_path / "file").id == "acme/tiny"


def test_no_cache_folder_means_nothing_on_disk(open_hub, tmp_path):
    assert resolved(open_hub, cache_dir=None).id == "acme/tiny"
    assert list(tmp_path.iterdir()) == []


def test_cached_files_are_the_users_own(open_hub, tmp_path):
    resolved(open_hub)
    (file,) = (tmp_path / "hub").iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def known(size=0):
    model = Model(id="acme/tiny", source="hub", spec=read_config(llama_config()))
    return CachedModel(facts(), model, size)


def test_memory_forgets_what_was_not_used_for_longest():
    memory = Memory(entries=2, size=10**6)
    memory.put(Reference("a"), known())
    memory.put(Reference("b"), known())
    memory.get(Reference("a"))
    memory.put(Reference("c"), known())
    assert [memory.get(Reference(name)) is not None for name in "abc"] == [True, False, True]


def test_memory_is_bounded_by_size_too():
    memory = Memory(entries=100, size=10_000)
    for number in range(10):
        memory.put(Reference(str(number)), known(size=6000))
    assert len(memory) == 1
    memory.put(Reference("large"), known(size=50_000))
    assert memory.get(Reference("large")) is not None


def test_putting_the_same_again_does_not_count_twice():
    memory = Memory(entries=100, size=10_000)
    memory.put(Reference("other"), known(size=2000))
    for _ in range(10):
        memory.put(TINY, known(size=2000))
    assert len(memory) == 2


def test_a_model_in_memory_weighs_what_it_holds():
    ignored = [f"model.layers.{number}.mlp" for number in range(1000)]
    config = llama_config(quantization_config={"quant_method": "fp8", "ignore": ignored})
    text = json.dumps(config).encode()
    plain = CachedModel.of(facts(config=json.dumps(llama_config()).encode()))
    heavy = CachedModel.of(facts(config=text))
    assert heavy.weight - plain.weight > len(text) + sum(map(sys.getsizeof, ignored))
    assert deep_size(ignored, ignored) == sys.getsizeof(ignored) + sum(map(sys.getsizeof, ignored))


def test_failures_are_remembered_until_their_moment():
    clock = Clock()
    failures = NegativeCache(clock)
    error = HubBusyError("busy", retry_after_seconds=20)
    failures.put(TINY, error, 20)
    failures.put(Reference("acme/none"), UnknownModelError("none", matches=("a",)), 30)
    clock.now += 15
    assert failures.get(TINY).retry_after_seconds == 5
    clock.now += 5
    assert failures.get(TINY) is None
    assert failures.get(Reference("acme/none")).matches == ("a",)
    failures.forget(Reference("acme/none"))
    assert failures.get(Reference("acme/none")) is None


def test_a_remembered_failure_holds_no_frames():
    failures = NegativeCache(Clock())
    try:
        raise UnknownModelError("none") from ValueError()
    except UnknownModelError as error:
        failures.put(TINY, error, 30)
    remembered = failures.get(TINY)
    assert (remembered.__traceback__, remembered.__cause__) == (None, None)


def test_failures_are_bounded(monkeypatch):
    monkeypatch.setattr("fitgauge.hub.cache.MAX_FAILURES", 3)
    failures = NegativeCache(Clock())
    for number in range(5):
        failures.put(Reference(f"acme/{number}"), UnknownModelError("none"), 30)
    remembered = [failures.get(Reference(f"acme/{number}")) is not None for number in range(5)]
    assert remembered == [False, False, True, True, True]


def test_the_disk_is_bounded_in_bytes_too(tmp_path):
    disk = Disk(tmp_path, "http://hub", 100, 10_000)
    for number in range(5):
        disk.write(Reference(f"acme/m{number}"), facts(config=b"x" * 3000))
        name = disk.name(Reference(f"acme/m{number}"))
        os.utime(tmp_path / name, (number, number))
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= 10_000
    there = [disk.read(Reference(f"acme/m{number}")) is not None for number in range(5)]
    assert there == [False, False, True, True, True]


def plant_link(path):
    target = path.with_suffix(".target")
    path.replace(target)
    path.symlink_to(target)


def plant_fifo(path):
    path.unlink()
    os.mkfifo(path)


def plant_folder(path):
    path.unlink()
    path.mkdir()


def plant_giant(path):
    os.truncate(path, MAX_FILE + 1)


@pytest.mark.parametrize("plant", [plant_link, plant_fifo, plant_folder, plant_giant])
def test_only_regular_files_of_bounded_size_are_read(stand_in, open_hub, tmp_path, plant):
    first = resolved(open_hub)
    (file,) = (tmp_path / "hub").iterdir()
    plant(file)
    assert resolved(open_hub) == first
    assert stand_in.count() == 4
    # what was planted gives way, a folder excepted: it is not ours to delete
    assert resolved(open_hub) == first
    assert stand_in.count() == (6 if plant is plant_folder else 4)
