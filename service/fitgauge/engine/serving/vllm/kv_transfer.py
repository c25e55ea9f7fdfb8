"""Half of disaggregated serving with vLLM: prefill hands the KV cache of a prompt over to decode.

Source: vllm 0.33, docs/features/nixl_connector_usage.md (both halves start with kv_role kv_both; a
proxy before them decides which does what); distributed/kv_transfer/kv_connector/v1/nixl/
base_worker.py, register_kv_caches: the pool is registered where it lies. Weights, pool, profile run
and graphs are those of any server; what the network's library takes of the GPU no source states."""

from msgspec import json

from fitgauge.engine.model.spec import ModelSpec
from fitgauge.engine.serving.vllm import releases
from fitgauge.engine.serving.vllm.kv_offload import is_hybrid
from fitgauge.engine.serving.workload import Workload
from fitgauge.engine.unsupported import UnsupportedError

CONNECTOR = json.encode({"kv_connector": "NixlConnector", "kv_role": "kv_both"}).decode()
"""The value of --kv-transfer-config."""


def refusal(spec: ModelSpec, workload: Workload) -> UnsupportedError | None:
    """Return why a release serves no half of this model; None where it does."""
    if (
        workload.disaggregation is None
        or workload.engine_version >= releases.HYBRIDS_OFFLOADED
        or not is_hybrid(spec)
    ):
        return None
    return UnsupportedError(
        "disaggregation",
        "Before 0.21 vLLM turns its hybrid KV cache manager off where KV cache is transferred:"
        " this model's layers of several kinds are not estimated without it.",
        ({"engine_version": ("0.21.0",)}, {"disaggregation": (None,)}),
    )
