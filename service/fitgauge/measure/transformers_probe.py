"""Load a model with transformers, generate two tokens, and print what memory it took.

Runs by itself in the Python that has transformers, which need not have this package."""

import json
import sys
from importlib.metadata import version

import torch
from transformers import AutoModelForCausalLM


def size(tensors: object) -> int:
    """Return the bytes of tensors; those that share their storage count once."""
    storages = {
        tensor.untyped_storage().data_ptr(): tensor.untyped_storage().nbytes()
        for tensor in tensors  # type: ignore[attr-defined] # an iterator of tensors
    }
    return sum(storages.values())


def main(model_id: str, context_length: int, concurrency: int) -> None:
    """Print a line of JSON: sizes in bytes."""
    on_gpu = torch.cuda.is_available()
    free = torch.cuda.mem_get_info()[0] if on_gpu else 0
    model = AutoModelForCausalLM.from_pretrained(
        model_id, dtype="auto", **({"device_map": "auto"} if on_gpu else {})
    )
    measured = {"weights": size(model.state_dict().values())}
    prompt = torch.randint(0, model.config.get_text_config().vocab_size, (1, context_length - 1))
    generated = model.generate(
        prompt.expand(concurrency, -1).to(model.device),
        attention_mask=torch.ones(concurrency, context_length - 1, device=model.device),
        min_new_tokens=2,
        max_new_tokens=2,
        do_sample=False,
        return_dict_in_generate=True,
    )
    layers = generated.past_key_values.layers
    measured["kv_pool"] = size(
        tensor for layer in layers for tensor in (layer.keys, layer.values) if tensor is not None
    )
    if on_gpu:
        peak = torch.cuda.max_memory_allocated()
        measured["activations"] = peak - measured["weights"] - measured["kv_pool"]
        taken = free - torch.cuda.mem_get_info()[0]
        measured["runtime"] = taken - torch.cuda.memory_reserved()
    print(
        "fitgauge-measured "
        + json.dumps(
            {
                "version": version("transformers"),
                "gpu": torch.cuda.get_device_name() if on_gpu else None,
                "measured": measured,
            }
        ),
        flush=True,
    )


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
