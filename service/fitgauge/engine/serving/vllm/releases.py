"""What changed in which release of vLLM, oldest first, as far as memory depends on it."""

SECOND_ENGINE = (0, 8)
"""The first version whose V1 engine is the default."""

A100_SMALL = (0, 9)
"""The first version that treats an A100 as a small GPU (vLLM pull request 17885; 0.8.5 does
not)."""

PIXELS_IN_16_BIT = (0, 9)
"""The first release taken to cast pixels before they reach the GPU. Source: 0.8.3,
models/qwen2_5_vl.py, _process_image_input; the processor of 0.11.0 casts them before."""

TOWERS_ROTATE_TOGETHER = (0, 9)
"""The first release taken to rotate a tower's queries and keys at once: 0.8.3 rotates one after
the other, 0.11.0 both."""

ENCODER_DECODERS_UNTIL = (0, 10, 2)
"""The last release with encoder-decoders other than speech, which left with the V0 engine."""

SECOND_ENGINE_ALONE = (0, 11)
"""The first release without the V0 engine, which served GPUs before Ampere."""

GRAPHS_BY_SEQUENCES = (0, 11)
"""Of the releases read, the first that captures graphs up to twice max_num_seqs (0.8.4: up to 512
tokens whatever it is)."""

ITEMS_SPREAD = (0, 11)
"""The first release that keeps every item's encoder outputs in a tensor of the whole budget.
Source: 0.11.0, v1/worker/gpu_model_runner.py (pull request 25810)."""

ROPE_SCALING_GONE = (0, 11, 1)
"""The first release without --rope-scaling, whose settings go into --hf-overrides since (pull
request 28006)."""

ROPE_PARAMETERS = (0, 12)
"""The first release that calls them `rope_parameters`, as transformers 5 does (0.12.0,
transformers_utils/config.py, patch_rope_parameters)."""

VIDEO_OF_CONTEXT = (0, 11)
"""Of the releases read, the first that builds its largest video as long as the context (0.8.3:
as long as one pass)."""

LATENTS_EXPANDED = (0, 11)
"""Of the releases read, the first whose pass stands in for the latents of earlier tokens that a
layer of MLA expands."""

TOWERS_ROTATE_IN_16_BIT = (0, 12)
"""The first release after 0.11.0, the last one read whose Qwen towers rotate queries and keys in
float32 and gather them from all ranks."""

ITEMS_PACKED = (0, 14)
"""The first release that stores the outputs alone again, as 0.19.0 does. Source: pull request
30475 of December 2025."""

WORKSPACES_RETAINED = (0, 14)
"""The first version read whose experts' workspaces outlive the layers. Source:
vllm/v1/worker/workspace.py (0.14.1; 0.11.0 has none)."""

MXFP4_PADDING_UNSEEN = (0, 17)
"""The first release of which no log shows whether rows of MXFP4 experts are still padded:
parameters, as they are built, are not."""

TOWERS_LEFT_OUT = (0, 15)
"""The first release read that loads no tower of which no item may be sent. Source: 0.15.0,
vllm/model_executor/models/interfaces.py, _mark_tower_model."""

TURBOQUANT = (0, 20)
"""The first release with TurboQuant caches. Source: config/cache.py (0.20.0; 0.19.0 has none)."""

TURBOQUANT_HYBRIDS = (0, 33)
"""The first release read whose TurboQuant caches hold hybrids; 0.20.0 refuses them."""

LANGUAGE_MODEL_ONLY = (0, 17)
"""The first release with --language-model-only. Source: vllm/engine/arg_utils.py (0.17.0 has
it, 0.16.0 does not)."""

JOINT_ROUTER_KERNELS = (0, 19)
"""Of the releases read, the first that prefers kernels of router and experts together (0.11.0
has none)."""

INDEXERS_PROFILED = (0, 19)
"""Of the releases read, the first whose sparse indexers take their workspace and logits in the
pass (0.11.0 does not)."""

STATES_CHECKED = (0, 19)
"""The first version that refuses more sequences than blocks instead of capturing fewer graphs.
Source: vLLM pull request 38270."""

FLASH_ATTENTION_LATENTS = (0, 19)
"""Of the releases read, the first that reads MLA with FlashAttention on Hopper; 0.11.0 takes
FlashMLA, with blocks of 64, for all."""

PIXTRAL_DIVIDED = (0, 20)
"""The first version whose Pixtral tower tensor parallelism divides. Source: models/pixtral.py of
0.19.0 (nn.Linear) and 0.20.0."""

BLOCKS_REFINED = (0, 20)
"""The first version taken to repeat the scales of experts whose blocks tensor parallelism cuts:
0.19.0 refuses Qwen3-30B-A3B-FP8 over eight ranks, 0.33.0 runs it; the releases between were not
read."""

TOKENS_BY_REQUEST = (0, 21)
"""The first version that logs concurrency x max_model_len; before it, blocks of one group.
Source: posted logs of both."""

FLASHINFER_FROM_AMPERE = (0, 24)
"""The first version whose FlashInfer backend starts at compute capability 8.0 instead of 7.5.
Source: vLLM pull request 45375; issue 47549 of 0.24.0."""

PREFIX_ITEMS_BATCHED = (0, 22)
"""Of the releases read, the first that attends to all of an image of Gemma 4 at once, whose batch
therefore holds the largest image or video, by default and by refusal (0.19.1 does neither).
Source: vLLM pull request 43051."""

PAGES_IN_SLOTS = (0, 23)
"""Of the releases read, the first whose blocks of DeepSeek V4 hold of every page size as many as
the largest group has, not whole repeats (0.22.0)."""

DEEP_GEMM_ON_RTX = (0, 24)
"""The first release that runs DeepGEMM on compute capability 12.x. Source: platforms/cuda.py of
0.23.0 and 0.24.0, support_deep_gemm."""

IN_FLIGHT_COUNTED = (0, 26)
"""The first version whose windows reserve for every batch in flight, not one. Source: vLLM pull
request 47728, merged after 6 July 2026; logs of DeepSeek-V4-Flash count one batch in 0.25.0 and
two in 0.26.0, of Gemma 4 two in 0.28.0."""

SECOND_RUNNER_IMAGES = (0, 27)
"""The first release whose second model runner profiles the encoder. Source: 0.27.0,
v1/worker/gpu/model_runner.py, profile_run (vLLM pull request 47985, which came too late for
0.26: ray-project/ray pull request 65045)."""

CONSUMPTION_MEASURED = (0, 27)
"""Of the releases read, the first that measures all that is held after the pass: 0.26.0 adds up
weights, the pass's peak and what is not PyTorch's, and so leaves out tensors that are neither
weights nor of the pass. Source: vllm/utils/mem_utils.py, memory_profiling."""

PAGES_OVERLAID = (0, 27)
"""Of the releases read, the first whose blocks of DeepSeek V4 are as large as its largest group,
and whose log counts a block of any group alike (0.26.0 pads every page to one of the compressed
entries' and counts their bytes)."""

HYBRID_PREFIX_CACHING = (0, 27)
"""The first version that caches prefixes of hybrid models unless disabled. Source: vLLM pull
request 50991, merged August 2026 after 0.26.0; a log of 0.27.1 (198,529 tokens of Qwen3.8-27B at
150,000) holds two states a request."""

WIDE_GRAPHS = (0, 28)
"""The first release that captures graphs of up to 1,024 tokens on data-centre Blackwell. Source:
0.27.0 and 0.28.0, config/vllm.py, _set_cudagraph_sizes (vLLM pull request 49390)."""

DECODE_STEPS_CAPTURED = (0, 29)
"""The first release that also captures whole decode steps whose size lies between the usual ones.
Source: 0.28.0 and 0.29.0, config/vllm.py, _set_cudagraph_sizes (vLLM pull request 50488)."""

LARGE_TIER = (0, 28)
"""Of the versions read, the first with larger batches from 160 GiB (0.25 has none)."""

REPEATS_COUNTED_ONCE = (0, 29)
"""Of the releases read, the first whose check at start asks of DeepSeek V4 for no more than its
blocks (0.28.0: for whole repeats in every block)."""

TABLES_ON_HOST = (0, 30)
"""The first release whose tables of n-grams stay in host memory by default. Source: 0.29.0
(models/qwen4_exp, on the GPU) and 0.30.0, envs.py (VLLM_PLE_CPU_OFFLOAD)."""

SECOND_RUNNER_SMALL_PASS = (0, 31)
"""The first release whose second model runner profiles no more tokens than
max_num_batched_tokens."""

STATES_EXPORTED = (0, 32)
"""The first version taken to export states in mid-prefill: pull request 57329 (Mamba 2) was open
in September 2026, when 0.31 was near, and 0.33.0 has it. Which release between them was first is
not known here."""

LENGTH_BY_POSITIONS = (0, 30)
"""The first release whose longest context is max_position_embeddings under YaRN too (0.29: trained
positions x factor). Source: 0.29.0 and 0.30.0, config/model.py, _get_and_verify_max_len."""

KV_OFFLOADING_SIZE = (0, 19)
"""Of the releases read, the first with --kv-offloading-size (0.11.0 has none)."""

HYBRIDS_OFFLOADED = (0, 21)
"""The first release whose hybrid KV cache manager stays on where KV cache is offloaded. Source:
vLLM pull request 41445; 0.19.0, vllm/config/vllm.py, turns it off for any connector."""

LATENTS_OFFLOADED_ONCE = (0, 33)
"""Of the releases read, the first that stores one copy of the latents of all tensor ranks in host
memory (0.25.0 stores every rank's)."""

ROTARY_TABLES_CUT = (0, 33)
"""Of the releases read, the first whose Qwen3-VL and Qwen3.5 have tables of one length (0.19.0
has four; so had June 2026, see vLLM pull request 44738: 224 MiB more than 32,768 positions
need)."""

DEPRECATED_FORMATS = (0, 14)
"""The first release that reads FBGEMM's FP8 only with a flag. Source: vllm-project/vllm#31688 and
#32689."""

SAMPLER_WARMED = (0, 33)
"""The first release whose second model runner's sampler is profiled with every sampling
parameter set (0.32.0 has none)."""

ACTIVATION_ORDER_GONE = (0, 33)
"""Of the releases read, the first without GPTQ's activation order. Source: 0.33.0,
quantization/utils/gptq_utils.py."""

GPTQ_GROUPS_CUT = (0, 33)
"""Of the releases read, the first whose linears in GPTQ's groups a rank may cut: Humming's kernel
takes what Marlin's does not. Source: 0.33.0, quantization/auto_gptq.py, AutoGPTQLinearMethod;
kernels/linear/__init__.py, _POSSIBLE_KERNELS."""

MIXTURES_BY_TRANSFORMERS = (0, 33)
"""Of the releases read, the first that runs `architectures.BY_TRANSFORMERS` through transformers'
code."""
