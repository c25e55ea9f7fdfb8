"""One resolve: from a Reference to Facts in two parallel requests, whatever the number of
shards; four for a GGUF repository."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import msgspec

from fitgauge.engine.model.families import silent_on_cache
from fitgauge.engine.note import Note
from fitgauge.errors import MalformedModelError, ModelError, RenamedModelError, UnknownModelError
from fitgauge.hub import gguf_config, gguf_files
from fitgauge.hub.description import (
    Description,
    read_description,
    read_tree,
    refuse_without_weights,
    weight_files,
)
from fitgauge.hub.gguf import Metadata, read_metadata
from fitgauge.hub.metadata import GgufModel, RepoMetadata, model_of, read_json
from fitgauge.hub.reference import Reference

if TYPE_CHECKING:
    from fitgauge.hub.client import Answer, Client, HubRequest

MAX_DESCRIPTION = 4 * 2**20
MAX_CONFIG = 4 * 2**20
GGUF_BEGINNINGS = (256 * 2**10, 8 * 2**20)
"""Bytes read of a GGUF file: nearly always the first step holds all sizes, they come before the
vocabulary."""


async def fetch(
    client: Client,
    trip: HubRequest,
    reference: Reference,
    cached: RepoMetadata | None,
    clock: Callable[[], float],
) -> RepoMetadata:
    """Return what the Hub says about the reference, of which `trip` is the resolve.

    known: what it said before, checked by commit and ETag. Raise ModelError, HubError.
    """
    etag = cached.config_etag if cached and cached.config is not None else None
    described, configured = await asyncio.gather(
        client.describe(trip, MAX_DESCRIPTION),
        client.file(trip, "config.json", MAX_CONFIG, etag),
        return_exceptions=True,
    )
    if isinstance(described, BaseException):
        raise described
    description = await client.parse(read_description, described, reference.repo_id)
    warnings = _moved(reference, description)
    if isinstance(configured, RenamedModelError | UnknownModelError) and warnings:
        raise RenamedModelError(
            f"{reference.repo_id} has moved to {description.id}.",
            hint=f"Send {description.id}.",
            matches=(description.id,),
        )
    if isinstance(configured, BaseException):
        raise configured
    if cached is not None and description.sha is not None and description.sha == cached.sha:
        return msgspec.structs.replace(cached, fetched_at=clock())
    refuse_without_weights(reference.repo_id, description.files)
    trip = replace(
        trip, repo_id=description.id or reference.repo_id, revision=description.sha or trip.revision
    )
    if configured.commit not in (None, description.sha):
        # somebody pushed between the two requests: read both at one commit
        configured = await client.file(trip, "config.json", MAX_CONFIG)
    facts = RepoMetadata(
        repo_id=trip.repo_id,
        sha=description.sha,
        fetched_at=clock(),
        elements=description.safetensors.parameters if description.safetensors else {},
        config=cached.config if cached and configured.unchanged else configured.body,
        config_etag=cached.config_etag if cached and configured.unchanged else configured.etag,
        weightless=not weight_files(description.files),
        warnings=warnings,
    )
    plain = any(not file.endswith(".gguf") for file in weight_files(description.files))
    if reference.file is None and (plain or facts.weightless):
        return await _with_quantization(client, trip, description, facts)
    return await _with_gguf(client, trip, description, facts, reference.file)


def _moved(reference: Reference, description: Description) -> tuple[Note, ...]:
    """Return a warning where the Hub answered for a repository of another name."""
    if not description.id or description.id == reference.repo_id:
        return ()
    message = f"{reference.repo_id} was renamed to {description.id}: using that repository."
    return (Note("repository-renamed", "model", message),)


async def _with_quantization(
    client: Client, trip: HubRequest, description: Description, facts: RepoMetadata
) -> RepoMetadata:
    """Add hf_quant_config.json, where the repository keeps its quantization, or what it says of the
    cache, there and not in config.json."""
    if "hf_quant_config.json" not in description.files or facts.config is None:
        return facts
    config = await client.parse(read_json, facts.config, "config.json")
    settings = config.get("quantization_config")
    if settings and not (isinstance(settings, dict) and silent_on_cache(settings)):
        return facts
    answer: Answer = await client.file(trip, "hf_quant_config.json", MAX_CONFIG)
    return msgspec.structs.replace(facts, quantization=answer.body)


async def _with_gguf(
    client: Client,
    trip: HubRequest,
    description: Description,
    facts: RepoMetadata,
    wanted: str | None,
) -> RepoMetadata:
    """Add the GGUF files that are meant: their sizes, and the architecture from the first where
    config.json does not tell it."""
    models = gguf_files.models_in(description.files)
    if not models:
        raise UnknownModelError(
            f"{trip.repo_id} has no GGUF files.",
            hint=f"Send {trip.repo_id} without {wanted}.",
            matches=(trip.repo_id,),
        )
    chosen = gguf_files.choose(models, wanted, trip.repo_id)
    warnings = facts.warnings
    if wanted is None and len(models) > 1:
        warnings += (
            Note(
                "gguf-file-chosen",
                "model",
                f"Using {chosen.label} of {len(models)} GGUF files; send {trip.repo_id}:LABEL for"
                " another.",
            ),
        )
    listing, metadata = await asyncio.gather(
        client.folder(trip, chosen.folder, MAX_DESCRIPTION),
        _metadata(client, trip, chosen.files[0], facts),
    )
    sizes = await client.parse(read_tree, listing, trip.repo_id)
    if any(sizes.get(file, 0) <= 0 for file in chosen.files):
        raise MalformedModelError(f"The Hub reports no size for {chosen.name}.")
    if metadata is not None:
        warnings += tuple(
            Note("gguf-layers-differ", "model", f"{key} differs between layers: using the largest.")
            for key in gguf_config.uneven(metadata)
        )
    gguf = GgufModel(
        name=chosen.files[0],
        label=chosen.label,
        file_bytes=sum(sizes[file] for file in chosen.files),
        parameters=description.gguf.total if description.gguf else 0,
        config=gguf_config.config_of(metadata) if metadata is not None else None,
    )
    return msgspec.structs.replace(facts, elements={}, gguf=gguf, warnings=warnings)


async def _metadata(
    client: Client, trip: HubRequest, file: str, facts: RepoMetadata
) -> Metadata | None:
    """Return the key-values of a GGUF file, None where the repository's config.json describes
    the model (many hold a stub)."""
    if facts.config is not None and await client.parse(_is_readable, facts):
        return None
    metadata = None
    for length in GGUF_BEGINNINGS:
        metadata = await client.parse(read_metadata, await client.beginning(trip, file, length))
        if gguf_config.is_enough(metadata):
            break
    return metadata


def _is_readable(facts: RepoMetadata) -> bool:
    try:
        model_of(facts)
    except ModelError:
        return False
    return True
