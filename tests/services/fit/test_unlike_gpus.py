"""GPUs of several kinds in one machine: llama.cpp and Ollama divide layers over them by free
memory, and each is judged with its own share."""

import shlex
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fitgauge.engine.quantity import GIB
from fitgauge.engine.serving.llamacpp.offload import layer_split
from fitgauge.errors import UnlikeGpusError

MODEL = "Qwen/Qwen3-32B"
LAYERS = 64


def split_of(answer):
    words = shlex.split(answer.launch.command)
    return [int(count) for count in words[words.index("--tensor-split") + 1].split(",")]


@given(layers=st.integers(1, 130), free=st.lists(st.integers(1, 96 * GIB), min_size=1, max_size=8))
def test_a_layer_goes_where_llama_cpp_puts_it(layers, free):
    """The rule of load_tensors: the first GPU whose share, added up, lies above i / n."""
    split = layer_split(layers, len(free), free=free)
    ends = list(accumulate(free))
    for layer in range(layers + 1):
        gpu = next(i for i, end in enumerate(ends) if end * (layers + 1) > layer * ends[-1])
        where = split.output if layer == layers else None
        if where is None:
            where = next(i for i, held in enumerate(split.ranges) if layer in held)
        assert where == gpu
    assert sum(split.counts) == layers + 1


@given(layers=st.integers(1, 130), free=st.lists(st.integers(1, 96 * GIB), min_size=1, max_size=8))
def test_the_counts_in_the_command_divide_the_layers_alike(layers, free):
    split = layer_split(layers, len(free), free=free)
    assert layer_split(layers, len(free), free=split.counts) == split


def test_gpus_of_one_kind_are_divided_evenly():
    equal = layer_split(LAYERS, 3, free=(24 * GIB,) * 3)
    assert equal == layer_split(LAYERS, 3)
    assert equal.counts == (22, 22, 21)


def test_each_gpu_is_judged_with_its_own_share(check_fit):
    gpu = "RTX 4090 + RTX 3090 + RTX 3060 12GB"
    answer = check_fit(model=MODEL, gpu=gpu, engine="llama.cpp")
    assert answer.verdict == "fits"
    assert split_of(answer) == [27, 26, 12]
    assert [rank.layers for rank in answer.ranks] == [27, 26, 11]
    assert [rank.gpu for rank in answer.ranks] == ["RTX 4090", "RTX 3090", "RTX 3060 12GB"]
    usable = [(r.required_bytes.expected + r.headroom_bytes) / GIB for r in answer.ranks]
    assert usable == pytest.approx([23.64, 23.57, 11.66], abs=0.01)
    assert answer.per_gpu.rank == 2
    assert answer.per_gpu.headroom_bytes == min(rank.headroom_bytes for rank in answer.ranks)
    assert answer.per_gpu.usable_bytes / GIB == pytest.approx(11.66, abs=0.01)
    assert (answer.gpu.count, answer.gpu.name) == (3, gpu)
    assert answer.limits.min_gpu_count is None


def test_the_weights_of_all_gpus_are_the_file_without_embeddings(check_fit):
    weights = {}
    for gpu in ("RTX 4090 + RTX 3060 12GB", "2x RTX 3090"):
        answer = check_fit(model=MODEL, gpu=gpu, engine="llama.cpp", detail="full")
        weights[gpu] = sum(
            term.bytes for rank in answer.ranks for term in rank.terms if term.name == "weights"
        )
    one, other = weights.values()
    assert one == pytest.approx(other, rel=1e-6)


def test_the_smallest_gpu_decides_where_it_is_the_fullest(check_fit):
    """Memory that another GPU has left does not help."""
    asked = {"model": MODEL, "engine": "llama.cpp", "context_length": 32_768, "concurrency": 3}
    answer = check_fit(gpu="RTX 4090 + RTX 3060 12GB", **asked)
    ranks = {rank.gpu: rank.verdict for rank in answer.ranks}
    assert answer.verdict == min(ranks.values(), key=["does_not_fit", "tight", "fits"].index)
    longest = check_fit(
        gpu="RTX 4090 + RTX 3060 12GB",
        **{**asked, "context_length": answer.limits.max_context_length},
    )
    assert longest.verdict == "fits"


def test_what_was_understood_can_be_sent_again(check_fit):
    asked = {"model": MODEL, "gpu": "2x RTX 3090 + 3060", "engine": "llama.cpp"}
    answer = check_fit(**asked)
    again = check_fit(**answer.understood_as)
    assert again.per_gpu == answer.per_gpu
    assert again.launch == answer.launch


def test_ollama_spreads_over_them_the_largest_first(check_fit):
    answer = check_fit(model=MODEL, gpu="RTX 3060 12GB + RTX 4090", engine="ollama")
    assert [rank.gpu for rank in answer.ranks] == ["RTX 4090", "RTX 3060 12GB"]
    assert "OLLAMA_SCHED_SPREAD=1" in answer.launch.command


def test_offloaded_layers_are_not_in_the_split(check_fit):
    answer = check_fit(
        model="meta-llama/Llama-3.3-70B-Instruct",
        gpu="RTX 4090 + RTX 3060 12GB",
        engine="llama.cpp",
        cpu_offload_gib=8.0,
    )
    on_gpus = int(answer.launch.command.split("-ngl ")[1].split()[0])
    assert sum(split_of(answer)) == on_gpus < 81


@pytest.mark.parametrize("engine", [None, "vllm", "sglang", "transformers"])
def test_other_engines_are_asked_about_the_smallest(check_fit, engine):
    with pytest.raises(UnlikeGpusError) as refusal:
        check_fit(model=MODEL, gpu="1x4090 1x3060", engine=engine)
    assert refusal.value.send == {"gpu": "RTX 3060 12GB", "gpu_count": 2}


def test_gpus_of_two_makers_are_refused(check_fit):
    with pytest.raises(UnlikeGpusError):
        check_fit(model=MODEL, gpu="RTX 4090 + RX 7900 XTX", engine="llama.cpp")


def test_a_gguf_format_implies_the_engine_that_divides_over_them(check_fit):
    gpus = "RTX 4090 + RTX 3060 12GB"
    answer = check_fit(model=MODEL, gpu=gpus, quantization="q6_k")
    named = check_fit(model=MODEL, gpu=gpus, quantization="q6_k", engine="llama.cpp")
    assert answer.understood_as["engine"] == "llama.cpp"
    assert answer.assumed[0].field == "engine"
    assert (answer.verdict, answer.launch) == (named.verdict, named.launch)
