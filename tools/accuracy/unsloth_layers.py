"""Unsloth's layers without a GPU: its autograd functions as they stand in a checkout, whose Triton
kernels do nothing.

What a kernel reads and writes is made by the Python around it, so that fake tensors count it;
measure_steps.py asks for these layers where a row says `kernels: unsloth`. UNSLOTH names the
checkout (unsloth 2026.8 was measured)."""

import ast
import contextlib
import importlib
import os
import sys
import types
from pathlib import Path
from typing import Any

import torch


class Nothing(types.ModuleType):
    """A module, a kernel, a decorator or a type: whatever is asked of it is the like; launched,
    it does nothing."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Nothing(name)

    def __getitem__(self, grid: Any) -> Any:
        return lambda *args, **kwargs: None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return Nothing(self.__name__)


def _own(path: Path, name: str, around: dict[str, Any]) -> Any:
    """Return one function of a file, with what it calls."""
    tree = ast.parse(path.read_text())
    function = next(
        node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == name
    )
    exec(compile(ast.Module([function], []), str(path), "exec"), around)
    return around[name]


def kernels() -> Any:
    """Return the modules fast_lora, rms_layernorm and rope_embedding of the checkout."""
    root = Path(os.environ["UNSLOTH"]) / "unsloth"
    utils = Nothing("unsloth.kernels.utils")
    utils.torch_gpu_device = lambda device: contextlib.nullcontext()  # type: ignore[attr-defined]
    utils.calculate_settings = lambda size: (size, 4)  # type: ignore[attr-defined]
    utils.torch_amp_custom_fwd = torch.amp.custom_fwd(device_type="cpu")  # type: ignore[attr-defined]
    utils.torch_amp_custom_bwd = torch.amp.custom_bwd(device_type="cpu")  # type: ignore[attr-defined]
    utils._maybe_fake_quantize_activations = lambda x, module: x  # type: ignore[attr-defined]
    utils.fast_dequantize = lambda weight, state, **kwargs: weight  # type: ignore[attr-defined]
    utils.get_lora_parameters = lambda one: (one.base.weight, None, one.a.weight, one.b.weight, 2.0)  # type: ignore[attr-defined]
    around = {
        "torch_matmul": torch.matmul,
        "fast_dequantize": utils.fast_dequantize,
        "Float8Tensor": Nothing,
        "torch": torch,
    }
    utils.matmul_lora = _own(root / "kernels/utils.py", "matmul_lora", around)  # type: ignore[attr-defined]
    device = Nothing("unsloth.device_type")
    device.DEVICE_COUNT = 1  # type: ignore[attr-defined]
    for name, path in (("unsloth", root), ("unsloth.kernels", root / "kernels")):
        package = types.ModuleType(name)
        package.__path__ = [str(path)]
        sys.modules[name] = package
    stand_ins = {
        "triton": Nothing("triton"),
        "triton.language": Nothing("tl"),
        utils.__name__: utils,
        device.__name__: device,
    }
    sys.modules |= stand_ins
    return [
        importlib.import_module(f"unsloth.kernels.{name}")
        for name in ("fast_lora", "rms_layernorm", "rope_embedding")
    ]


def patch(model: Any) -> None:
    """Put Unsloth's functions in the place of norms, attention and MLP of a Llama with adapters
    (unsloth/models/llama.py, LlamaAttention_fast_forward; patch_peft_model)."""
    lora, norms, rope = kernels()

    def attention(
        self: Any, hidden_states: torch.Tensor, position_embeddings: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, None]:
        shape = (*hidden_states.shape[:-1], -1, self.head_dim)
        q, k, v = (
            part.view(shape).transpose(1, 2) for part in lora.apply_lora_qkv(self, hidden_states)
        )
        q, k = rope.fast_rope_embedding(q, k, *position_embeddings)
        mixed = torch.nn.functional.scaled_dot_product_attention(
            q, k, v, is_causal=True, enable_gqa=True
        )
        return (
            lora.apply_lora_o(self, mixed.transpose(1, 2).reshape(*hidden_states.shape[:-1], -1)),
            None,
        )

    for module in model.modules():
        name = type(module).__name__
        if name.endswith("RMSNorm"):
            module.forward = types.MethodType(norms.fast_rms_layernorm, module)
        elif name.endswith("MLP"):
            module.forward = types.MethodType(lora.apply_lora_mlp_swiglu, module)
        elif name.endswith("Attention"):
            module.forward = types.MethodType(attention, module)
