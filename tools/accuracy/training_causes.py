"""What is known of the training runs that come out worst."""

TRACKER = (
    "the tracker counts what no device holds in its first step (tests/engine/training/test_fsdp.py)"
)
NOISE = "a CPU keeps dropout's noise in the format of its input, CUDA a byte a number"
STEP_CAUSES = (
    (
        "openai-community/gpt2",
        "sdpa",
        (
            "a CPU writes the scores of an attention with dropout out; CUDA's kernel, estimated"
            " here, does not"
        ),
    ),
    ("openai-community/gpt2", "", NOISE),
    ("facebook/opt", "", NOISE),
    ("google/gemma-3-1b", "", TRACKER),
    ("Qwen/Qwen3-8B", "", TRACKER),
    ("meta-llama/Llama-3.1-8B", "", TRACKER),
)
"""What is known of steps that come out worst: the beginning of the model's name, the attention,
the cause; the first that fits."""

ROCM = (
    "a process under ROCm holds more than under CUDA: what is not PyTorch's is 2.4 GiB in each of"
    " the fp32 runs of BERT, 1.2 on H100"
)
OLD_ZERO_GRAD = (
    "PyTorch before 2.0 kept gradients through the next forward pass (zero_grad wrote zeros)"
)
ROUTING = "what Megatron and DeepSpeed hold to route tokens to experts is not derived"
RUN_CAUSES = {
    "t106": (
        "asked with today's configuration; that of the time had adapters on q and v alone, and"
        " without recomputation these need 30.2 GiB (torchtune 30b8519e8, recipes/configs/llama3_1/"
        "8B_lora_single_device.yaml)"
    ),
    "f113": "which counter is not said: 19.0 GiB is what PyTorch is expected to have allocated",
    "f115": "which counter is not said: 19.4 GiB is what PyTorch is expected to have allocated",
    "f116": (
        "as much as with whole logits (11.0 GiB allocated): the source asks for a fused loss,"
        " which this model's class may not have run"
    ),
    "t405": "what loading reserves, 3.7 GiB as the source says, is not counted",
    "t156": (
        "a packed row of ms-swift holds chosen and rejected together (swift/dataset/packing.py,"
        " create_packed_idx); asked as two rows of that length"
    ),
    "t394": (
        "what stays on the GPU beside FSDP's offload is not derived for this project; which"
        " counter is not printed"
    ),
    "t098": "of a page about 4-bit training: what its linears save is not derived",
    "t099": (
        "of a page about 8-bit training that names no model: what its linears save is not derived"
    ),
    "t110": "not explained; the unit differs from the other rows of its table",
    "t108": "not explained: FSDP's offload of parameters, gradients and states",
    "t438": (
        "the source's loss never holds logits (Apple's cut cross-entropy); asked as a loss in"
        " chunks, which does"
    ),
    "t172": f"the GPU is full, which shows the GPU and not the need; {ROUTING}",
    "t173": ROUTING,
    "t174": ROUTING,
    "t175": ROUTING,
    **dict.fromkeys(("f081", "f082", "f083"), ROUTING),
    **dict.fromkeys(("f056", "f057", "f061", "f062", "f074", "f075", "f076"), ROCM),
    **dict.fromkeys(("t467", "t525", "t527", "t529"), OLD_ZERO_GRAD),
    "f048": (
        "the source's row contradicts itself: layers' inputs and logits of four sequences are more"
        " than is printed"
    ),
}
"""What is known of published runs that come out worst."""
