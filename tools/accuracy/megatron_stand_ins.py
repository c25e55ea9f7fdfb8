"""What megatron-core needs of a GPU and of Transformer Engine, stood in for on a CPU: each kernel
keeps what the real one keeps.

Transformer Engine cannot be imported without CUDA's libraries. A stand-in computes nothing: it
makes tensors of the sizes that the kernel's source makes, and saves for its backward pass what that
source gives to save_for_backward. All around it is megatron-core's own code: layers, router,
dispatchers, checkpoints. Weights' gradients go into main_grad at once
(--gradient-accumulation-fusion), so none is made. Collectives of the fake process group make
tensors of the right sizes; what every rank tells the others is what this one says.

Read by commit d0067d0d of Transformer Engine:
pytorch/module/{rmsnorm,layernorm_linear,linear,grouped_linear}.py, pytorch/permutation.py,
pytorch/attention/rope.py, pytorch/attention/dot_product_attention/backends.py (FlashAttention)."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import torch
from measure_steps import Live

Shape = Sequence[int]


class Tracker(Live):
    """Live bytes, of storages that are freed and filled again too, with kernels that nothing can
    be seen inside of."""

    at_work: "Tracker | None" = None
    looks = True

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if self.looks:
            return super().__torch_dispatch__(func, types, args, kwargs)
        return func(*args, **(kwargs or {}))

    def resized(self, storage: torch.UntypedStorage, size: int) -> None:
        """Count a storage that is freed (CheckpointWithoutOutput) or comes back."""
        if self._seen.get(storage):
            self.live += size - storage.nbytes()
            self.peak = max(self.peak, self.live)

    @contextlib.contextmanager
    def inside(self) -> Iterator[None]:
        """Provide one kernel: what it makes on the way is never there."""
        before, self.looks = self.looks, False
        try:
            yield
        finally:
            self.looks = before


def resized(storage: torch.UntypedStorage, size: int) -> Any:
    """Resizes a storage, which nothing dispatches."""
    if Tracker.at_work is not None:
        Tracker.at_work.resized(storage, size)
    return torch._C.StorageBase.resize_(storage, size)


def fused(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return what torch.compile makes one kernel of (megatron/core/jit.py, jit_fuser)."""

    def kernel(*args: Any, **kwargs: Any) -> Any:
        tracker = Tracker.at_work
        if tracker is None or not tracker.looks:
            return function(*args, **kwargs)
        with tracker.inside():
            result = function(*args, **kwargs)
        return torch.utils._pytree.tree_map_only(
            torch.Tensor, lambda x: x.view_as(x), result
        )  # seen from here on

    return kernel


class Nothing:
    """A stream, an event, a generator: whatever is asked of it, nothing happens."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass

    def __getattr__(self, name: str) -> Any:
        return Nothing


def without_gpu() -> None:
    """Put nothing in the place of CUDA's devices, streams and random states. To be called before
    megatron's models are imported."""
    torch.Tensor.cuda = lambda tensor, *args, **kwargs: tensor  # type: ignore[method-assign]
    torch.Tensor.record_stream = lambda tensor, stream: None  # type: ignore[method-assign]
    for name in ("Stream", "Event", "current_stream", "default_stream"):
        setattr(torch.cuda, name, Nothing)
    torch.cuda.stream = lambda stream: contextlib.nullcontext()  # type: ignore[assignment]
    torch.cuda.current_device = lambda: "cpu"  # type: ignore[assignment,return-value]
    torch.cuda.synchronize = lambda *args: None  # type: ignore[assignment]
    torch.distributed.all_to_all_single = lambda *tensors, **kwargs: None
    torch.compile = fused
    torch.UntypedStorage.resize_ = resized
    from megatron.core.tensor_parallel import layers, random

    random._get_all_rng_states = lambda: ()
    random._set_all_rng_states = lambda *states: None
    random._fork_rng = contextlib.nullcontext
    random.FP8GlobalStateManager = SimpleNamespace(is_fp8_enabled=lambda: False)
    random.activation_recompute_forward = random.fp8_autocast = lambda **kwargs: (
        contextlib.nullcontext()
    )
    random.CudaRNGStatesTracker.fork = lambda tracker, name="": contextlib.nullcontext()
    layers._grad_accum_fusion_available = True
    layers.fused_weight_gradient_mlp_cuda = SimpleNamespace(
        wgrad_gemm_accum_fp32=lambda *tensors: None
    )
    layers.get_global_memory_buffer = lambda: SimpleNamespace(
        get_tensor=lambda shape, dtype, name: torch.empty(shape, dtype=dtype)
    )


class _Kernel(torch.autograd.Function):
    """Makes a tensor of `inputs`; saves those whose numbers are `saves`, what is `extra` and,
    where asked, its output."""

    @staticmethod
    def forward(
        ctx: Any,
        shape: Shape,
        saves: Sequence[int],
        extra: Any,
        saves_output: bool,
        *inputs: torch.Tensor,
    ) -> torch.Tensor:
        ctx.inputs = [(x.shape, x.dtype) for x in inputs]
        output = inputs[0].new_empty(shape)
        own = [torch.empty(size, dtype=dtype) for size, dtype in extra]
        ctx.save_for_backward(
            *(inputs[number] for number in saves), *own, *((output,) if saves_output else ())
        )
        return output

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        needed = ctx.needs_input_grad[4:]
        return (
            None,
            None,
            None,
            None,
            *(
                torch.empty(x[0], dtype=x[1]) if asks else None
                for x, asks in zip(ctx.inputs, needed, strict=True)
            ),
        )


def kernel(
    shape: Shape,
    *inputs: torch.Tensor,
    saves: Sequence[int] = (),
    extra: Sequence[tuple[Shape, torch.dtype]] = (),
    saves_output: bool = False,
) -> torch.Tensor:
    """Return an operation of which only sizes matter."""
    return _Kernel.apply(tuple(shape), saves, extra, saves_output, *inputs)


class Norm(torch.nn.Module):
    """Saves its input and the inverse deviation of every row; a layer norm its mean too
    (ops/basic/rmsnorm.py, layer_norm.py)."""

    def __init__(self, config: Any, hidden_size: int, eps: float = 1e-5, **others: Any) -> None:
        super().__init__()
        self.statistics = 1 if config.normalization == "RMSNorm" else 2
        self.weight = torch.nn.Parameter(torch.empty(hidden_size, dtype=config.params_dtype))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.contiguous()
        return kernel(
            x.shape, x, saves=[0], extra=[((self.statistics, *x.shape[:-1]), torch.float32)]
        )


class Duplicated(torch.nn.Module):
    """A linear that every tensor-parallel rank has whole (TELinear, parallel_mode duplicated):
    saves its input."""

    def __init__(self, inputs: int, outputs: int, *, config: Any, **others: Any) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.empty(outputs, inputs, dtype=config.params_dtype))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, None]:
        return kernel((*x.shape[:-1], self.weight.shape[0]), x, saves=[0]), None


class GroupedLinear(torch.nn.Module):
    """A linear of every expert over its tokens, which are next to each other: saves them once
    (grouped_linear.py, inputmats)."""

    def __init__(
        self, experts: int, inputs: int, outputs: int, *, config: Any, **others: Any
    ) -> None:
        super().__init__()
        ways = config.expert_tensor_parallel_size
        by_rows = others["tp_comm_buffer_name"] == "fc2"
        shape = (
            (experts, outputs, inputs // ways) if by_rows else (experts, outputs // ways, inputs)
        )
        self.weight = torch.nn.Parameter(torch.empty(shape, dtype=config.params_dtype))

    def forward(self, x: torch.Tensor, tokens: Any) -> tuple[torch.Tensor, None]:
        return kernel((x.shape[0], self.weight.shape[1]), x, saves=[0]), None


class FlashAttention(torch.nn.Module):
    """Saves queries, keys, values, its output and the log of the sum of exponentials; tokens are
    put behind sequences for it, and back.

    Of several sequences that is a copy of everything, of one only of what was no tensor of its
    own (backends.py, FlashAttention.forward)."""

    def __init__(self, config: Any, *args: Any, **others: Any) -> None:
        super().__init__()

    def forward(
        self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *args: Any, **others: Any
    ) -> torch.Tensor:
        q, k, v = (x.transpose(0, 1).contiguous() for x in (query, key, value))
        batch, tokens, heads, _ = q.shape
        sums = ((batch, heads, tokens), torch.float32)
        mixed = kernel(
            (batch, tokens, heads, v.shape[3]),
            q,
            k,
            v,
            saves=[0, 1, 2],
            extra=[sums],
            saves_output=True,
        )
        return mixed.transpose(0, 1).contiguous().view(tokens, batch, -1)


def rotated(x: torch.Tensor, angles: torch.Tensor, *args: Any, **others: Any) -> torch.Tensor:
    """Save its angles alone (rope.py, FusedRoPEFunc)."""
    return kernel(x.shape, x)


def permuted(
    tokens: torch.Tensor, probs: torch.Tensor, routing_map: torch.Tensor, num_out_tokens: int
) -> Any:
    """Save a map of rows: of every token twice as many numbers as there are experts, and one
    (permutation.py)."""
    mapped = torch.empty(tokens.shape[0], 2 * routing_map.shape[1] + 1, dtype=torch.int32)
    result = kernel((num_out_tokens, tokens.shape[1]), tokens, mapped, saves=[1])
    return result, kernel((num_out_tokens,), probs), mapped


def unpermuted(
    tokens: torch.Tensor, mapped: torch.Tensor, merging_probs: Any = None, restore_shape: Any = None
) -> torch.Tensor:
    """Save the map that the permutation made."""
    return kernel(restore_shape, tokens, mapped, saves=[1])


def sorted_chunks(tokens: torch.Tensor, *others: Any) -> torch.Tensor:
    """Save where each row goes."""
    return kernel(tokens.shape, tokens, extra=[((tokens.shape[0],), torch.int32)])


def sorted_chunks_and_probs(tokens: torch.Tensor, probs: torch.Tensor, *others: Any) -> Any:
    """Return the same, with the weights of the tokens."""
    return sorted_chunks(tokens), kernel(probs.shape, probs)


def with_kernels() -> None:
    """Put the stand-ins where megatron-core looks for Transformer Engine's kernels."""
    from megatron.core.models.common.embeddings import rope_utils
    from megatron.core.transformer import multi_latent_attention
    from megatron.core.transformer.moe import moe_utils

    rope_utils.fused_apply_rotary_pos_emb = rotated
    multi_latent_attention.TELinear = Duplicated
    moe_utils.HAVE_TE, moe_utils.te_general_gemm = True, None
    moe_utils.fused_permute = moe_utils.fused_permute_with_probs = permuted
    moe_utils.fused_unpermute = unpermuted
    moe_utils.fused_sort_chunks_by_index, moe_utils.fused_sort_chunks_by_index_with_probs = (
        sorted_chunks,
        sorted_chunks_and_probs,
    )
