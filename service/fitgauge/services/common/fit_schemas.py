"""The answer of check_fit: the verdict, its evidence, and what would fit."""

from typing import Annotated, Literal

from msgspec import UNSET, Struct, UnsetType

from fitgauge.engine.note import Note
from fitgauge.engine.quantity import Bytes
from fitgauge.field_docs import doc
from fitgauge.services.common.answer_facts import AnswerAsOf, AnswerId
from fitgauge.services.common.host_schemas import HostMemory
from fitgauge.services.common.need_schemas import MemoryNeed, SmallestGpus
from fitgauge.services.common.reading_schemas import Reading, Verdict
from fitgauge.services.common.schemas import (
    Assumption,
    GpuAnswer,
    Launch,
    ModelAnswer,
    RankAnswer,
    Suggestion,
    TermAnswer,
)
from fitgauge.services.common.speed_schemas import SpeedAnswer, TextSpeedAnswer

LimitedBy = Annotated[
    Literal["budget", "device"],
    doc(
        "What decides the verdict: the engine's share of the GPU (budget_bytes), or the whole"
        " GPU (usable_bytes)."
    ),
]


class PerGpu(Struct, kw_only=True):
    """Memory of the fullest GPU [bytes]."""

    usable_bytes: Annotated[int, doc("Memory a process can allocate: less than the marketed size.")]
    budget_bytes: Annotated[
        int, doc("Memory the engine may use (vLLM: usable x gpu_memory_utilization).")
    ]
    required_bytes: Annotated[
        Bytes, doc("The sum of `terms`, which decides the verdict, and the figure in `summary`.")
    ]
    headroom_bytes: Annotated[
        int, doc("budget_bytes minus expected required_bytes; negative if it does not fit.")
    ]
    limited_by: LimitedBy
    """The memory that decides the verdict."""
    shown_bytes: Annotated[
        Bytes,
        doc(
            "What nvidia-smi will show: an engine with a preallocated KV cache fills its share"
            " of the GPU, whatever the requests need."
        ),
    ]
    rank: Annotated[int, doc("Pipeline stage of the fullest GPU.")]


class Limits(Struct, kw_only=True):
    """Limits of this deployment; null where there is none."""

    kv_cache_tokens: Annotated[
        int | None, doc("KV cache tokens of one replica, as the engine logs them.")
    ] = None
    max_context_length: Annotated[
        int | None, doc("Longest context that fits at this concurrency; 0 if none does.")
    ] = None
    max_concurrency: Annotated[
        int | None, doc("Most concurrent requests that fit at this context; 0 if none does.")
    ] = None
    max_micro_batch_size: Annotated[
        int | None, doc("Largest micro-batch that fits; 0 if none does.")
    ] = None
    max_sequence_length: Annotated[
        int | None, doc("Longest sequences that fit in a micro-batch as requested; 0 if none do.")
    ] = None
    min_gpu_count: Annotated[
        int | None, doc("Fewest of these GPUs it fits on, everything else as requested.")
    ] = None


class ChosenSetting(Struct, kw_only=True):
    """A setting that was chosen instead of the engine's default; a field to send."""

    setting: Annotated[str, doc("The field to send.")]
    value: Annotated[int | float | bool, doc("The value that was chosen.")]
    default: Annotated[int | float | bool, doc("The engine's default.")]
    why: Annotated[str, doc("What it makes room for.")]
    costs: Annotated[str, doc("What is given up.")]


class DefaultsAnswer(Struct, kw_only=True):
    """How the engine's own defaults turn out."""

    verdict: Annotated[Verdict, doc("The verdict with the engine's defaults.")]
    reason: Annotated[str, doc("Why they were not taken, or why nothing fits.")]
    required_bytes: Annotated[int, doc("What the fullest GPU needs with them.")]


class FitAnswer(Struct, kw_only=True):
    """The verdict, its evidence and suggestions."""

    verdict: Annotated[Verdict | None, doc("Null without `gpu`.")]
    summary: Annotated[str, doc("Summary in one or two sentences.")]
    fit_probability: Annotated[
        float | None, doc("Probability that it fits, 0 to 1; null if unsupported.")
    ]
    model: Annotated[ModelAnswer, doc("The model as it was read.")]
    gpu: Annotated[GpuAnswer | None, doc("Null without `gpu`.")]
    per_gpu: Annotated[PerGpu | None, doc("Under `unsupported`: as if it ran.")]
    terms: Annotated[list[TermAnswer] | None, doc("Under `unsupported`: as if it ran.")]
    limits: Annotated[Limits | None, doc("Under `unsupported`: the tokens alone.")]
    host_memory: Annotated[HostMemory | None, doc("Null where nothing is offloaded.")]
    suggestions: Annotated[list[Suggestion], doc("Changes that make it fit, each estimated.")]
    warnings: Annotated[list[Note], doc("What to know about the estimate.")]
    assumed: Annotated[list[Assumption], doc("What the request leaves open, and the values taken.")]
    understood_as: Annotated[
        dict[str, str | int | float | bool], doc("The request with every default filled in.")
    ]
    launch: Annotated[Launch | None, doc("Null if it does not fit or is unsupported.")]
    chosen: Annotated[
        list[ChosenSetting], doc("Settings changed so that it fits; empty: the engine's defaults.")
    ] = []
    defaults: Annotated[
        DefaultsAnswer | None,
        doc("The engine's defaults, where they were not chosen or nothing fits."),
    ] = None
    read_as: Annotated[list[Reading], doc("What was guessed of the names in the request.")] = []
    needs: Annotated[
        list[MemoryNeed], doc("Without `gpu`: memory by format, the widest first; else empty.")
    ] = []
    smallest: Annotated[
        list[SmallestGpus], doc("Without `gpu`: the fewest, cheapest and fastest GPUs; else empty.")
    ] = []
    speed: Annotated[
        SpeedAnswer | None,
        doc(
            "How fast the launch answers its load; null where it does not start, and where no"
            " formula covers it: embeddings, experts over ranks of their own, offloaded"
            " weights, GPUs of several kinds, drafted tokens."
        ),
    ] = None
    texts: Annotated[
        TextSpeedAnswer | None, doc("The same of an embedding or reranking model; null for others.")
    ] = None
    ranks: Annotated[
        list[RankAnswer] | UnsetType, doc("With `detail` full: every pipeline stage.")
    ] = UNSET
    as_of: AnswerAsOf = UNSET
    """How old the facts of the answer are."""
    answer_id: AnswerId = UNSET
    """The permalink of the answer."""
