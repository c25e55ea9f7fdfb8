"""What a bar that is not reached, and a run that comes out worst, is put down to."""

WHY = {
    ("outcome", "balanced"): "; ".join(
        (
            "what served is judged rightly, of what failed the runs listed under Outcomes are not",
            "most by what no question says: others held memory at start, releases were not printed",
            "the table under Outcomes has the figure without those; `tight` counts as promised"
            " here.",
        )
    ),
    ("outcome", "broken_promises"): (
        "each by what its question does not say; the table under Outcomes has the figure without"
        " those."
    ),
}
"""What is said of a bar that is not reached."""

CAUSES = {
    "v003": (
        "release not printed; 11.1 GiB were held beside 73.8 GiB of weights, of which 5.7 are"
        " derived"
    ),
    "v008": (
        "first engine chosen by hand; its peak is 2.5 GiB, that of the engine which the question"
        " means 2.1"
    ),
    "v145": (
        "31.2 GiB were held under a budget of 29.8 on a GPU of 31.4, 0.06 of it CUDA graphs; what"
        " else took 1.3 is not told"
    ),
    "v171": (
        "release not printed: an error message of the first engine, judged as the newest release"
    ),
    "v229": (
        "a desktop held 2.6 GiB of the GPU, which leaves 0.3 GiB beside vLLM's share; warming up"
        " the sampler took more"
    ),
    "v241": "the printed peak (1.44 GiB) holds the estimate of CUDA graphs, a term of its own here",
    "v119": (
        "release not printed: its peak is that of the sampler until 0.16 (9.5 copies of the logits)"
    ),
    "v146": "release not printed; a bench command, whose defaults are not the server's",
    "v111": "release not printed: a log of the first engine, judged as the newest release",
    "v154": (
        "release not printed; four GPUs hold 1.7 GiB beside PyTorch's tensors, the median of logs"
        " says 2.1"
    ),
    "v255": "WSL: 0.56 GiB beside the weights, twice the median of logs",
    "e01": (
        "1.79 GiB beside PyTorch's tensors on one GPU, where other logs of the first engine show"
        " 0.1 to 0.4"
    ),
    "e02": (
        "3.58 GiB beside PyTorch's tensors, where other logs of the first engine show 0.1 to 0.4"
    ),
    "e47": (
        "the peak is that of the sampler since 0.17 (3.8 copies of the logits), the release stated"
        " is 0.11"
    ),
    "v049": "served in float32, activations and cache too, which the question cannot say",
    "v120": "unified memory: the process took 2.2 GiB of it, where four machines took 2.4 to 4.0",
    "e20": "67.7 of 77.6 GiB are weights: 1 GiB of libraries is a tenth of what is left",
    "f197": (
        "3.9 GiB beside the weights on one GPU; two GPUs of the same campaign show 1.7; not"
        " explained"
    ),
    "f195": "0.5 GiB beyond the layers for two GPUs without NVLink, where logs of Hopper show 1.8",
    "f063": (
        "--enable-dp-attention, which the question has no word for; f064 is the same command"
        " without it, served"
    ),
    "f007": (
        "its pool holds 46,611 tokens of a context of 131,072: SGLang starts nevertheless and"
        " refuses longer requests"
    ),
    "f042": "release not printed: November 2023, years before the release that is derived",
    "f043": (
        "release not printed; 125.7 GiB a GPU were loaded, what is published comes to 101.9: the"
        " format it was loaded in is not told"
    ),
    "f032": "release not printed: an old one that profiled the whole prompt",
    "f099": "how many GPUs the replica has is not printed",
    "v105": "67.7 of 75.2 GiB are weights: 0.3 GiB is 6 % of the pool",
}
"""What is known of runs that come out worst."""
