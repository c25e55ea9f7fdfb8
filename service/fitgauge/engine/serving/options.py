"""Options of serving engines, each defined once: a request takes them, a workload has them under
the same name, and the answer echoes them.

An option needs no default of a release or a model, and no other unit. To add one, write a field
here, read it in a formula, and name it in the rows of the engines that do (`Engine.options`); all
others say that they ignore it."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from fitgauge.field_docs import doc

ALL_LAYERS = 999
"""What stands for all layers of a model, as people write it."""


class EngineOptions(Struct, frozen=True, kw_only=True):
    """Options as a request sends them; None leaves an option out."""

    enforce_eager: Annotated[bool | None, doc("true disables CUDA graphs.")] = None
    lora_slots: Annotated[
        Annotated[int, Meta(ge=0, le=4096)] | None,
        doc("vllm: LoRA adapters on the GPU at once (max_loras). Default 0.", examples=[4]),
    ] = None
    lora_rank: Annotated[
        Annotated[int, Meta(ge=1, le=512)] | None,
        doc("vllm: their largest rank: 1, 8, 16, 32, 64, 128, 256, 320 or 512. Default 16."),
    ] = None
    speculative_tokens: Annotated[
        Annotated[int, Meta(ge=0, le=64)] | None,
        doc(
            "vllm, sglang: draft tokens per step, by the model's MTP head or draft_model."
            " Default 0: off.",
            examples=[1],
        ),
    ] = None
    pooling: Annotated[
        bool | None,
        doc(
            "vllm: true serves a generating model as an embedding model, without its head"
            " (--runner pooling). Default false."
        ),
    ] = None
    language_model_only: Annotated[
        bool | None,
        doc(
            "vllm, llama.cpp: true serves a model that also reads images or sound for text"
            " alone, without its encoders. Default false."
        ),
    ] = None
    rope_scaling_factor: Annotated[
        Annotated[float, Meta(ge=1, le=64)] | None,
        doc(
            "vllm, sglang, llama.cpp: factor by which YaRN stretches the model's positions"
            " (rope_scaling, hf_overrides, rope_scale); 1: not at all. Default: the least that"
            " context_length needs, of a model whose publisher states that YaRN does it.",
            examples=[4],
        ),
    ] = None
    kv_offload_gib: Annotated[
        Annotated[float, Meta(ge=0, le=65_536)] | None,
        doc(
            "GiB of host memory per GPU for KV cache that leaves the GPU, for later prompts"
            " that begin alike (kv_offloading_size, hicache_size, host_cache_size, cache_ram)."
            " Running requests need theirs on the GPU all the same. Default 0: off.",
            examples=[64],
        ),
    ] = None
    n_gpu_layers: Annotated[
        Annotated[int, Meta(ge=0, le=1000)] | None,
        doc(
            "llama.cpp, ollama: layers on the GPUs, the output as one more (-ngl, num_gpu); the"
            " first layers stay in host memory with their KV cache. Default: all on the GPUs.",
            examples=[20],
        ),
    ] = None
    n_cpu_moe: Annotated[
        Annotated[int, Meta(ge=0, le=1000)] | None,
        doc(
            "llama.cpp: the first layers whose experts stay in host memory (--n-cpu-moe); 999:"
            " those of all (--cpu-moe). Default 0.",
            examples=[24],
        ),
    ] = None
    disaggregation: Annotated[
        Literal["prefill", "decode"] | None,
        doc(
            "vllm, sglang: the half of disaggregated serving that this server is of. prefill"
            " computes prompts and hands their KV cache over, decode writes the answers. Ask"
            " once for each half. Default: one server does both."
        ),
    ] = None


def sent_options(request: EngineOptions) -> dict[str, str | int | float | bool]:
    """Return the options that a request sends, by name."""
    values = ((name, getattr(request, name)) for name in EngineOptions.__struct_fields__)
    return {name: value for name, value in values if value is not None}
