"""The snapshot is reread from a Hub: row by row, resumably, and in one step."""

import asyncio
import json
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from fitgauge.catalog.snapshot import SnapshotModel
from fitgauge.cli import main
from fitgauge.errors import HubUnreachableError
from fitgauge.hub import Hub, HubSettings
from fitgauge.services import snapshot_refresh
from fitgauge.services.snapshot_refresh import DERIVED, OWN, STATE, RefreshReport, SnapshotRefresh
from hub_stand_in import HubStandIn, llama_config, safetensors_repository

TINY = 1_987_840


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Provide data files with an old row, a derived one, and one that the Hub does not have."""
    old = {"source": "an old one", "date": "2025-01-01", "config": llama_config(vocab_size=500)}
    rows = [{"id": name, **old} for name in ("acme/gone", "acme/tiny")]
    derived = {"id": "acme/Tiny-Chat", "like": "acme/tiny", "rule": "sibling", "source": "its name"}
    (tmp_path / OWN).write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / DERIVED).write_text(json.dumps(derived) + "\n")
    return tmp_path


def refreshed(
    hub: HubStandIn, folder: Path, *ids: str, said: list[str] | None = None
) -> RefreshReport:
    async def run() -> RefreshReport:
        settings = HubSettings(
            endpoint=hub.url,
            offline=False,
            token=False,
            cache_dir=None,
            attempts=1,
            flight_seconds=5,
            outage_seconds=0.01,
        )
        resolver = Hub(settings)
        await resolver.start()
        try:
            say = (said if said is not None else []).append
            one = SnapshotRefresh(
                resolver, folder, per_minute=60_000, say=say, today=lambda: "2026-11-23"
            )
            return await one.run(ids)
        finally:
            await resolver.close()

    return asyncio.run(run())


def rows_of(folder: Path) -> dict[str, SnapshotModel]:
    lines = (folder / OWN).read_bytes().splitlines()
    rows = [msgspec.json.decode(line, type=SnapshotModel) for line in lines]
    assert [row.id.lower() for row in rows] == sorted(row.id.lower() for row in rows)
    return {row.id: row for row in rows}


def open_hub() -> HubStandIn:
    return HubStandIn(safetensors_repository("acme/tiny"), safetensors_repository("acme/Tiny-Chat"))


def test_rows_are_reread_and_those_that_are_gone_stay(folder: Path) -> None:
    said: list[str] = []
    with open_hub() as hub:
        report = refreshed(hub, folder, said=said)
        assert (report.refreshed, [one.id for one in report.refused]) == (2, ["acme/gone"])
    rows = rows_of(folder)
    assert rows["acme/tiny"].parameters == TINY
    assert rows["acme/tiny"].elements == {"BF16": TINY}
    assert rows["acme/tiny"].date == "2026-11-23"
    assert hub.url in rows["acme/tiny"].source
    assert rows["acme/gone"].source == "an old one"
    assert rows["acme/Tiny-Chat"].config["vocab_size"] == 1000
    assert (folder / DERIVED).read_bytes() == b""
    assert len(said) == 3
    assert not (folder / STATE).exists()


def test_only_the_ids_that_are_named_are_read(folder: Path) -> None:
    with open_hub() as hub:
        assert refreshed(hub, folder, "acme/tiny").refreshed == 1
        assert hub.count("Tiny-Chat") == 0
    assert rows_of(folder)["acme/gone"].date == "2025-01-01"
    assert b"Tiny-Chat" in (folder / DERIVED).read_bytes()


def test_an_interrupted_run_goes_on_where_it_stopped(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot_refresh, "_MOST_WAIT_SECONDS", 0.0)
    before = (folder / OWN).read_bytes()
    with open_hub() as hub:
        hub.fault("Tiny-Chat", status=503)
        with pytest.raises(HubUnreachableError):
            refreshed(hub, folder)
        assert (folder / OWN).read_bytes() == before
        with (folder / STATE).open("ab") as file:
            file.write(b'{"id": "acme/ti')
        hub.mend()
        asked = hub.count("/api/models/acme/tiny")
        assert refreshed(hub, folder).refreshed == 2
        assert hub.count("/api/models/acme/tiny") == asked
    assert rows_of(folder)["acme/tiny"].parameters == TINY


def test_the_command_exits_2_where_the_hub_is_away(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    result = CliRunner().invoke(main, ["snapshot", "refresh", "--folder", str(folder)])
    assert result.exit_code == 2
    assert "offline" in result.output.lower()
