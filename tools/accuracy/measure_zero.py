"""Measures one rank of DeepSpeed's ZeRO byte for byte: rows of kind `zero` of
training_parallel.jsonl, in and out.

    DS_ACCELERATOR=cpu LOCAL_RANK=0 python tools/accuracy/measure_zero.py \\
        < settings.jsonl >> training_parallel.jsonl

DeepSpeed itself, on a CPU under a fake process group, on a small model of the architecture
`config` names: real tensors, whose storages are counted from the operation that makes them until
they are freed. One row a process, since an engine leaves threads and hooks behind. Settings:
config (of transformers), zero_stage, ranks, overlap, seq, batch, micro_batches, gradients (the
format they are summed in, bf16 where nothing is said), hpz (ranks that share ZeRO++'s second
copy). Buckets are DeepSpeed's defaults, AdamW is fused. `bytes`: resident (after two steps), and
the highest moments of the passes and of the step of a third one."""

import contextlib
import gc
import json
import sys
import warnings
from typing import Any

import deepspeed
import torch
import torch.distributed as dist
import transformers
from measure_steps import Live
from torch.testing._internal.distributed.fake_pg import FakeStore
from transformers import masking_utils


def engine_of(row: dict[str, Any], **options: Any) -> Any:
    """Return the model in DeepSpeed's hands. `options`: more settings of ZeRO."""
    config = transformers.AutoConfig.for_model(**row["config"])
    config._attn_implementation, config.use_cache = "sdpa", False
    zero = {
        "stage": row["zero_stage"],
        "overlap_comm": row["overlap"],
        "contiguous_gradients": True,
    }
    zero |= options | ({"zero_hpz_partition_size": row["hpz"]} if "hpz" in row else {})
    settings = {
        "train_micro_batch_size_per_gpu": row["batch"],
        "gradient_accumulation_steps": row["micro_batches"],
        "bf16": {"enabled": True},
        "data_types": {"grad_accum_dtype": row.get("gradients", "bf16")},
        "zero_optimization": zero,
        "zero_allow_untested_optimizer": True,
        "zero_force_ds_cpu_optimizer": False,
    }
    if row["zero_stage"] == 3:
        init = deepspeed.zero.Init(config_dict_or_path=settings)
    else:
        init = contextlib.nullcontext()
    with init:
        model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    engine, *_ = deepspeed.initialize(model=model, optimizer=optimizer, config=settings)
    return engine


def storages() -> dict[int, torch.UntypedStorage]:
    """Return every storage that a tensor of this process has, by its address."""
    gc.collect()
    tensors = [
        each
        for each in gc.get_objects()
        if type(each) in (torch.Tensor, torch.nn.Parameter) and each.device.type == "cpu"
    ]
    return {
        storage.data_ptr(): storage
        for tensor in tensors
        if (storage := tensor.untyped_storage()).nbytes()
    }


def step(engine: Any, row: dict[str, Any], live: Live) -> dict[str, int]:
    """Return the highest moments of one step."""
    peaks = {"forward": 0, "backward": 0}
    tokens = torch.zeros((row["batch"], row["seq"]), dtype=torch.long)
    for _ in range(row["micro_batches"]):
        live.peak = live.live
        loss = engine(input_ids=tokens, labels=tokens).loss
        peaks["forward"] = max(peaks["forward"], live.peak)
        live.peak = live.live
        engine.backward(loss)
        del loss
        peaks["backward"] = max(peaks["backward"], live.peak)
        live.peak = live.live
        engine.step()
    return peaks | {"step": live.peak}


def measure(row: dict[str, Any]) -> dict[str, int]:
    """Return the bytes of the third step, beside all that is there before it."""
    masking_utils.find_packed_sequence_indices = lambda position_ids: None
    dist.init_process_group("fake", rank=0, world_size=row["ranks"], store=FakeStore())
    engine = engine_of(row)
    for _ in range(2):
        step(engine, row, Live([]))
    there = storages()
    resident = sum(storage.nbytes() for storage in there.values())
    live = Live([torch.empty(0, dtype=torch.uint8).set_(storage) for storage in there.values()])
    with live:
        peaks = step(engine, row, live)
    return {"resident": resident} | {name: resident + size for name, size in peaks.items()}


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    transformers.logging.set_verbosity_error()
    versions = {
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "deepspeed": deepspeed.__version__,
    }
    row = json.loads(sys.stdin.readline())
    print(json.dumps(row | {"versions": versions, "bytes": measure(row)}))
