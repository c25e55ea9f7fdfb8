"""What stands before and between the tables on training."""

PARALLEL = """\
One rank each, measured in the frameworks' own code without a GPU (tools/accuracy/README.md): the
most it holds at once, where nothing else is said. Beside these, what every rank of {schedules}
pipeline schedules of torch.distributed.pipelining, megatron-core and DeepSpeed holds, and the
parameters of {stages} stages that megatron-core makes, are met exactly."""

PREFACE = """\
Three truths. *Steps*: one training step of one process, every tensor counted by PyTorch under fake
tensors (`training.jsonl`: {given} given; `training_own.jsonl` and `training_masks.jsonl`: {own} of
our own, made with `measure_steps.py`), against `allocated`: the most that any step after the first
holds. *Ranks*: one rank of FSDP2 by PyTorch's own tracker (`training_fsdp.jsonl`: {ranks}).
*Runs*: GPU runs that projects and papers printed (`training_gpu.jsonl`: {runs} that say enough to
be asked), each against the counter it names: PyTorch's allocated or reserved peak, or the
device's. Steps are arithmetic: nothing is fitted to them. Fragmentation (what PyTorch's allocator
reserves beyond what is allocated) and the width of intervals are fitted to the fit part of the runs
(`training_calibrate.py`); `check` in `headline_training.json` is the rest."""

PUBLISHED = """\
`training_found.jsonl` ({rows} published runs, {asked} of which the API can be asked): looked for
when all was fitted, where the first set is thin. None is fitted to, and none was left out for its
error: a run is not asked where a setting has no word in the API, which its `note` names. By
campaign too, since the runs of one share what is wrong. When they were first asked, before anything
was mended, the median was 9.5 %, the 90th percentile 27.9 % and 73.5 % lay in their intervals. One
cause was mended since, from sources and not by a fit: torchtitan uses expandable segments."""

KERNELS = """\
Dropout: a CPU keeps its noise in the format of its input and writes the scores of an attention with
dropout out; CUDA keeps a byte a number and no scores. Estimates are of CUDA, so given steps of
GPT-2 and OPT, which were measured on a CPU, show that difference; our own steps are measured with
CUDA's kernels (`measure_steps.py`, cuda_dropout)."""

NOT_MEASURED = """\
Kernels: steps run without a GPU, so what CUDA's and Triton's kernels keep is from their sources and
met by published runs alone: Liger's, those of Mamba and linear attention (whose references in
PyTorch are among the families never taught). Optimizers beside AdamW, SGD, Adafactor and
bitsandbytes' 8-bit AdamW and Lion: their states are from their sources. Whole steps of ModernBERT,
whose layers were compared, and mixtures that loop over their experts: fake tensors cannot follow
them. Towers of vision-language models are measured on small ones of their architecture, computed in
earnest on square images; whole ones by published runs alone. Audio towers are counted as weights
alone."""
