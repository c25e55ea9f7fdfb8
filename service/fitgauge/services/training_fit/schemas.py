"""The contract of training questions: what callers send and what they get."""

from typing import Annotated, Literal

from msgspec import UNSET, Struct, UnsetType

from fitgauge.engine.note import Note
from fitgauge.engine.quantity import Bytes
from fitgauge.engine.training.workload import PhaseName
from fitgauge.field_docs import doc
from fitgauge.services.common.answer_facts import AnswerAsOf, AnswerId
from fitgauge.services.common.fit_schemas import LimitedBy, Limits
from fitgauge.services.common.host_schemas import HostMemory
from fitgauge.services.common.need_schemas import MemoryNeed, SmallestGpus
from fitgauge.services.common.reading_schemas import Reading
from fitgauge.services.common.schemas import (
    Assumption,
    GpuAnswer,
    Launch,
    ModelAnswer,
    RankAnswer,
    Suggestion,
    TermAnswer,
    Text,
    Verdict,
)
from fitgauge.services.training_fit.run_fields import RunFields
from fitgauge.services.training_fit.run_schemas import (
    AdapterMerge,
    Evaluation,
    Resume,
    TrainingDisk,
    TrainingRun,
)


class TrainingRequest(RunFields, kw_only=True, forbid_unknown_fields=True):
    """Will this model fit on this GPU when it is trained? Only `model` is needed: without `gpu`
    the answer says what it needs."""

    gpu: Annotated[
        Text | None,
        doc(
            "The accelerator as people write it, or a memory size: 80GB. Without it: what the"
            " training needs by method, and the smallest GPUs.",
            examples=["A100 80GB"],
        ),
    ] = None
    detail: Annotated[
        Literal["summary", "full"] | None,
        doc("summary (default): the answer. full: every formula, source and stage too."),
    ] = None


class TrainingPerGpu(Struct, kw_only=True):
    """Memory of the fullest GPU [bytes]."""

    usable_bytes: Annotated[int, doc("What a process can really take, not what the box says.")]
    required_bytes: Annotated[
        Bytes, doc("The sum of `terms`, which decides the verdict, and the figure in `summary`.")
    ]
    allocated_bytes: Annotated[Bytes, doc("What torch.cuda.max_memory_allocated would say.")]
    reserved_bytes: Annotated[Bytes, doc("What torch.cuda.max_memory_reserved would say.")]
    headroom_bytes: Annotated[
        int, doc("usable_bytes minus expected required_bytes; negative if it does not fit.")
    ]
    limited_by: LimitedBy
    """The memory that decides the verdict."""
    shown_bytes: Annotated[
        Bytes,
        doc(
            "What nvidia-smi will show: required_bytes, and what PyTorch's allocator reserves"
            " besides while memory is plenty, and gives back where it is short."
        ),
    ]
    rank: Annotated[int, doc("Pipeline stage of the fullest GPU.")]
    host_bytes: Annotated[int, doc("Host memory of one rank for what is offloaded.")]
    nvme_bytes: Annotated[int, doc("NVMe of one rank, with offload nvme.")]


class OtherMethod(Struct, kw_only=True):
    """The same training by another method."""

    verdict: Annotated[Verdict, doc("The verdict of the method.")]
    required_bytes: Annotated[int, doc("Expected, of the fullest GPU.")]
    fit_probability: Annotated[
        float | None, doc("How likely it fits, 0 to 1; null where unsupported.")
    ]


class PhaseAnswer(Struct, kw_only=True):
    """One phase of a step: the most its tensors take."""

    name: Annotated[PhaseName, doc("The phase.")]
    bytes: Annotated[int, doc("Tensors of all models, and what a rollout engine holds on the GPU.")]
    terms: Annotated[
        list[TermAnswer] | UnsetType,
        doc("Of what it is the sum; where an algorithm has several models."),
    ] = UNSET


class SavedTensor(Struct, kw_only=True):
    """A tensor that autograd keeps for the backward pass, each storage once."""

    name: Annotated[str, doc("What makes it.")]
    read_by: Annotated[str, doc("The first operation whose backward reads it.")]
    shape: Annotated[list[int], doc("Its shape on one rank.")]
    dtype: Annotated[
        Literal["fp32", "bf16", "fp16", "fp8", "int8", "int64", "bool"], doc("Its number format.")
    ]
    bytes: Annotated[int, doc("Its size.")]


class SavedSegment(Struct, kw_only=True):
    """What one part of the model saves on one rank, for one micro-batch."""

    name: Annotated[str, doc("embedding, the prefix of layers made alike, or head.")]
    layers: Annotated[
        list[int], doc("Numbers of the layers that save the same; empty for embedding and head.")
    ]
    bytes: Annotated[
        int,
        doc(
            "Of one of them. Under checkpointing: what its recomputation makes; with compile:"
            " what the compiler chooses from."
        ),
    ]
    tensors: Annotated[list[SavedTensor], doc("What it saves, each storage once.")]


class TrainingAnswer(Struct, kw_only=True):
    """The verdict, the evidence, and what to do instead."""

    verdict: Annotated[Verdict | None, doc("Null without `gpu`.")]
    summary: Annotated[str, doc("One or two sentences a person can act on.")]
    fit_probability: Annotated[
        float | None, doc("How likely it fits, 0 to 1; null where unsupported.")
    ]
    model: Annotated[ModelAnswer, doc("The model as it was read.")]
    gpu: Annotated[GpuAnswer | None, doc("Null without `gpu`.")]
    per_gpu: Annotated[TrainingPerGpu | None, doc("Null if unsupported.")]
    terms: Annotated[list[TermAnswer] | None, doc("Null if unsupported.")]
    phases: Annotated[list[PhaseAnswer], doc("The most that each phase of a step takes.")]
    limits: Annotated[Limits | None, doc("Null if unsupported.")]
    host_memory: Annotated[HostMemory | None, doc("Null where nothing is offloaded.")]
    others: Annotated[
        dict[str, OtherMethod], doc("lora, qlora and full, but for the method that is answered.")
    ]
    suggestions: Annotated[list[Suggestion], doc("Changes that make it fit, each estimated.")]
    warnings: Annotated[list[Note], doc("What to know about the estimate.")]
    assumed: Annotated[list[Assumption], doc("What the request leaves open, and the values taken.")]
    understood_as: Annotated[
        dict[str, str | int | float | bool], doc("The question with every default filled in.")
    ]
    launch: Annotated[Launch | None, doc("Null if it does not fit or is unsupported.")]
    checkpoint_bytes: Annotated[
        int,
        doc(
            "Disk for one checkpoint to resume from: trained weights, masters, optimizer"
            " states, of all ranks."
        ),
    ]
    read_as: Annotated[list[Reading], doc("What was guessed of the names in the request.")] = []
    needs: Annotated[
        list[MemoryNeed], doc("Without `gpu`: memory of one GPU by method; else empty.")
    ] = []
    smallest: Annotated[
        list[SmallestGpus], doc("Without `gpu`: the fewest, cheapest and fastest GPUs; else empty.")
    ] = []
    run: Annotated[
        TrainingRun | UnsetType,
        doc(
            "With samples, token_budget or lengths: time and cost of the whole run, where it fits."
        ),
    ] = UNSET
    disk: Annotated[
        TrainingDisk | UnsetType,
        doc("With these, save_steps or save_total_limit: what checkpoints take on disk."),
    ] = UNSET
    evaluation: Annotated[
        Evaluation | UnsetType, doc("With eval_batch_size: evaluation between steps.")
    ] = UNSET
    merge: Annotated[
        AdapterMerge | UnsetType, doc("With merge: adapters merged into their base.")
    ] = UNSET
    resume: Annotated[Resume | UnsetType, doc("With resume_gpu_count: the run on other GPUs.")] = (
        UNSET
    )
    ranks: Annotated[
        list[RankAnswer] | UnsetType, doc("With `detail` full: every pipeline stage.")
    ] = UNSET
    saved: Annotated[
        list[SavedSegment] | UnsetType,
        doc("With detail full: every tensor the backward pass waits for, part by part."),
    ] = UNSET
    as_of: AnswerAsOf = UNSET
    """How old the facts of the answer are."""
    answer_id: AnswerId = UNSET
    """The permalink of the answer."""
