"""Write docs/HUNT.md from what each engine's and seed's hunt has, which results.json holds."""

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from hunt.service import Outcome

RESULTS = Path(__file__).parent / "results.json"
PAGE = Path(__file__).parents[2] / "docs/HUNT.md"
_VLLM = """## vLLM

vLLM 0.33.0's own code answers configs that are drawn from a seed, and so does this service:
`make hunt SEED=1`. Its model classes are built on PyTorch's meta device behind a fake H100, one
rank a pipeline stage; its planner divides a pool of 40 GiB. A case is a bundled model's config cut
to a few layers, as it is or in a format that publishers use (head, towers and routers in 16 bit),
with drawn degrees, cache dtype and context; an architecture comes at most three times.

A case agrees where weights with buffers are within 0.01 % on every rank and tokens within 0.1 %, or
where both refuse. Cases that this vLLM does not answer by itself are left out: the config lacks a
field that its class reads, or the code lies in the repository. Of the others the first hundred
count.

What seeds 1 to 5 brought was mended class by class; their rows are of the latest run. Every other
row is its seed's first run but for seeds 6 to 9, which agreed in 97, 95, 99 and 99 at first, and
25, which agreed in 98. Seeds 10 to 12 came after that, 13 to 31 later still.

Seeds draw models that are bundled. Classes that none is of were asked beside them: the defaults of
transformers' 133 configuration classes that vLLM has a class for, and samples of them with other
sizes, ties, formats and degrees. At first 73 of the 90 that vLLM answered agreed, then 100 of 125
and 80 of 96; of 17 multimodal models in FP8 without a list of modules, 8. What that brought is
mended: EmbeddingGemma 2, MiniCPM-V 4.6 and 4.7 and MOSS-Transcribe-Diarize are read, heads tied as
the classes have them, projectors and towers quantized likewise. Where tokens are spread over the
tensor ranks of two replicas with expert parallelism, classes hold shared experts whole, which was
counted divided (DeepSeek V2 to V4, GLM-5, Kimi, Llama 4, Nemotron 3, Qwen3-Next, Qwen3.5). A sample
after that agreed in 52 of 59. Left are Inkling's layers, ModernVBERT's projector, Cosmos 3 Edge's
tower in FP8, and towers that Quark or ModelOpt do not list.

Seeds draw ten formats. Forty that others write, over a dense model and a mixture, agreed in 76 of
117 cases at first and in 102 then; of 33 classes that vLLM takes from transformers, or no more has,
11 of 25 that it answered. What that brought is mended: AutoRound and MXFP8 are read; methods that
vLLM does not know, packed experts without a kernel (whole channels on Hopper, 8 bits with zero
points, integers as inputs), blocks of compressed-tensors that a rank cuts, and classes whose
attention cannot be set are refused; experts' blocks are refined on one rank too, and
ModelOpt's experts in FP8 have a scale a tensor. Left are a width of GPTQ's `dynamic` for experts
alone, and experts that vLLM narrows after loading (experts_int8), which are counted as they are
then. DeepSeek-OCR, Unlimited-OCR and Kimi-VL, which no seed draws, agreed in 8 of 8. Eight of these
formats over five other models agreed in 33 of 40: where no list names a tower, vLLM quantizes it,
and AWQ that AutoRound packed may have its groups cut.

Forty-four configs of models that people ask for and none bundled is like (Qwen2.5-Omni, Qwen3-Omni,
Qwen3-ASR, Granite 4, LFM2, K-EXAONE, InternVL 3, Pixtral), cut to eight layers, agreed in 28 of the
39 that vLLM answered at first. Four of the others are the hunt's own: without weights vLLM ties a
head that their config leaves to its class, and with them it reads it. Mended are K-EXAONE, which
was refused, dots.llm1, rotary tables of Qwen3-Omni and Qwen3-ASR and Pixtral's last layer; in drawn
formats and degrees they agreed in 32 of 36 then. Left are a vector that scales Falcon-H1's
projections (0.02 %) and SmolVLM's connector in AWQ without a list that names it.

Some misses are the hunt's own. Until seed 19 it asked many models in one process, in which vLLM
remembers by class what it fused (StarCoder, seeds 15 and 17), and cut Gemma 4 E to layers that
share caches of none (`'sliding_attention' is not in list`). A stage that holds MiniMax-M3's dense
layers alone, as cut configs have, takes smaller pages; its 60 layers on fewer than 20 stages have
none. So does one that holds a single layer of Qwen3.5, of full attention: blocks there are of 16
tokens, and of 64 next to a gated delta net (seeds 12, 21 and 24). A stage that holds DeepSeek V4's
layers of one ratio alone has pages that vLLM cannot join (seed 27). That gpt-oss has no more ranks
than KV heads (seeds 7, 13 and 19) was mended. Kimi K3's delta layers register a copy of their
convolutions where a kernel decodes them, 0.3 MB a layer and two ranks, which is not counted, and
its narrow gates lie in a fused linear whose blocks may be cut (seed 29). Every stage of DeepSeek V4
has the 0.5 MB that joins its streams (seed 28). The norms of Command R+, which are divided with its
heads (seed 28), were mended. The list of modules that a publisher leaves out lacked the linear
behind Gemma 4's tower until seed 27.
"""
_SGLANG = """## SGLang

SGLang 0.5.23's own code answers the same way: `make hunt ENGINE=sglang SEED=1`. It resolves its
arguments, builds its model classes on the meta device behind a fake GPU, and plans its pools from
what this service says is free before loading. Besides models and formats, GPUs are drawn (H100,
H200, A100, B200, L40S, RTX 4090, RTX 5090, T4), tensor and expert parallelism,
mem_fraction_static, chunked_prefill_size, max_running_requests, the cache's dtype and the context;
two in five configs keep all their layers. Page sizes, which this service does not ask for, are
drawn too: tokens are rounded to them.

A case agrees where weights are within 0.1 %, tokens within 1 %, or where both refuse or find no
room. Left out are cases that say nothing of the model: the config lacks a field that its class
reads, or the code lies in the repository. Kernels are not run: sparse attention is drawn on GPUs
that have them alone. A model of states alone has the tokens of one context, which is compared
where a context is drawn.

What seeds 1 to 5 brought was mended class by class; their rows are of the latest run. Asked again
after seed 15, seeds 3 to 5 agreed in 97, 100 and 100; MiniMax-M3's share (seeds 3 and 15) and a
table of Qwen2.5-VL's tower (15) were mended then. Seeds 6 and 7 agreed in 73 of the 74 and in 96 of
the first 100 that SGLang had answered by then at first; seed 8's row holds the cases that SGLang
had answered. The rows of seeds 9 to 16 are their first run. What 9 to 14 brought was mended after
it: of 9 to 12 DeepSeek V4's `wo_a`, MiniMax-M3-NVFP4's list of modules, GPTQ of StarCoder, Whisper
and Voxtral, Voxtral's tower, FP8 blocks that a merged column cuts, an fp8_e5m2 cache of DeepSeek
V2; of 10 to 14 AWQ that Marlin's kernels cannot divide, CLIP's embedding and projections, rotary
tables of DeepSeek V4 and Gemma 3n, Nemotron-H's experts over some ranks, its scales in tiles,
MiniMax M3's index keys, a cache in FP8 that hf_quant_config.json alone states, AWQ on a B200. Seeds
from 15 on were asked after that.

Of 45 configs of classes that no bundled model is of, 27 agreed at first. What that brought is
mended: MiniCPM3's latents, heads of Falcon-H1 and Phi, routers of Laguna, positions of
PaddleOCR-VL, windows of EmbeddingGemma 2, MXFP4 of compressed-tensors. The forty formats that vLLM
was asked agreed in 44 of 80 at first and in 71 then: AutoRound is read, a cache in FP8 that
compressed-tensors states is counted, and methods that SGLang does not read are refused.

The 44 configs that vLLM was asked beside its seeds agreed in 30 of the 40 that SGLang answered at
first and in 36 then: Jamba, Falcon, Bloom and Qwen2.5-Omni, whose classes of transformers it does
not take, are refused, Falcon-H1's embedding is in 16 bit, LFM2-VL has a head, and Aya Vision is
read; where SGLang runs transformers' code, towers and projectors are whole on every rank and KV
heads must be divisible. Left are the positions of Qwen3's tower of sound, a buffer that is counted
here as weights (0.3 %): the sum of both is the same.

Some misses are the hunt's own. On a B200 SGLang builds the scales of DeepSeek V4's experts in
float32 and narrows them after loading, which the hunt does too since seed 13. The first ChatGLM-6B,
whose weights SGLang's class does not load, is drawn no more. Whisper is built for contexts beyond
its 448 positions, and 4-bit experts on a T4, whose kernels are never run; this service refuses
both. Where activations outgrow what is kept back for them (Gemma 7B, seed 12), it takes them off
the tokens. Two bundled configs of Nemotron 3 in FP8 name no module that is left out. Where no
context is drawn, SGLang has rotary tables for all positions of the model, this service for 8,192:
next to a slot of states those are tokens (Qwen3.5, seeds 3 and 19). A model of states alone is
asked with the config that this service's command hands SGLang, which tells it the context.
"""
_TEXTS = {"vllm": ("vLLM", _VLLM), "sglang": ("SGLang", _SGLANG)}


def write(
    engine: str, seed: int, scored: Sequence[Outcome], misses: Sequence[tuple[str, str, str]]
) -> None:
    """Keep the seed's result and write the page of all engines and seeds anew."""
    results = json.loads(RESULTS.read_text())
    results[engine][str(seed)] = {
        "scored": len(scored),
        "architectures": len({one.case["architecture"] for one in scored}),
        "misses": [list(miss) for miss in misses],
    }
    ordered = {
        name: dict(sorted(seeds.items(), key=lambda one: int(one[0])))
        for name, seeds in sorted(results.items())
    }
    RESULTS.write_text(json.dumps(ordered, indent=1) + "\n")
    PAGE.write_text(page(ordered), encoding="utf-8")


def page(results: dict) -> str:
    """Return the page: of each engine a row a seed, then the seeds' misses."""
    parts = [_of_engine(results[engine], *text) for engine, text in _TEXTS.items()]
    return "# Hunt\n\n" + "\n".join(parts)


def _of_engine(seeds: dict, title: str, text: str) -> str:
    text += "\n| Seed | Agree | Of | Classes | Weights | Tokens |"
    text += f" Refused by {title} | Refused here |\n"
    text += "|---|---|---|---|---|---|---|---|\n"
    for seed, one in seeds.items():
        kinds = Counter(kind for kind, _, _ in one["misses"])
        counts = [
            one["scored"] - len(one["misses"]), one["scored"], one["architectures"],
            *(kinds[kind] for kind in ("weights", "tokens", f"refused by {title}", "refused here")),
        ]  # fmt: skip
        text += f"| {seed} | {' | '.join(map(str, counts))} |\n"
    for seed, one in seeds.items():
        if not one["misses"]:
            continue
        text += f"\n### Misses of seed {seed}\n\n"
        text += f"Ours less {title}'s, by part of the model"
        text += " on the rank that differs most.\n\n" if title == "vLLM" else ".\n\n"
        for kind, label, detail in one["misses"]:
            detail = " ".join(detail.replace("|", "/").replace("`", "'").split())
            text += f"- {label}: {kind}. `{detail}`\n"
    return text
