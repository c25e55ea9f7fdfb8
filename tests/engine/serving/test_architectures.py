"""What engines have classes for: the lists as data, and what is said of a model that an engine's
list does not name."""

import msgspec
import pytest

import bundled_models
from fitgauge.catalog.catalog import bundled
from fitgauge.engine.model.spec import ModelSpec
from fitgauge.engine.serving.architectures import note, refusal, supports
from fitgauge.engine.serving.registry import ENGINES
from fitgauge.engine.serving.tgi import architectures as tgi
from fitgauge.engine.serving.vllm import architectures as vllm
from fitgauge.engine.serving.workload import EngineName, Workload
from workloads import workload_of

H100 = bundled().find("H100 SXM").accelerator
M3 = bundled().find("M3 Max 64GB").accelerator
LISTS = {name: row.architectures for name, row in ENGINES.items() if row.architectures}


def spec_of(name: str, **changes: str) -> ModelSpec:
    return msgspec.structs.replace(bundled_models.spec_of(name), **changes)


def workload(engine: EngineName, version: tuple[int, ...] | None = None) -> Workload:
    return workload_of(
        engine,
        version or LISTS[engine].release,
        context_length=1,
        max_batched_tokens=1,
        max_num_seqs=1,
    )


@pytest.mark.parametrize("engine", LISTS)
def test_a_list_holds_names_of_one_word_and_what_every_engine_runs(engine: EngineName) -> None:
    names = LISTS[engine].names
    assert {len(name.split()) for name in names} == {1}
    everywhere = {"llama", "mistral", "qwen2", "qwen3", "gemma3"} if LISTS[engine].by_type else {
        "LlamaForCausalLM", "MistralForCausalLM", "Qwen2ForCausalLM", "Qwen3ForCausalLM",
        "Gemma3ForCausalLM"
    }  # fmt: skip
    assert everywhere <= names


def test_the_parts_of_a_list_do_not_overlap() -> None:
    assert not vllm.SETTLED & vllm.LATER
    assert not tgi.LATER & (tgi.MODEL_TYPES | tgi.AUTOMATIC)


@pytest.mark.parametrize(
    ("engine", "model", "lacking"),
    [
        ("tgi", "Qwen/Qwen3-Next-80B-A3B-Instruct", "Qwen3NextForCausalLM"),
        ("tensorrt-llm", "allenai/OLMo-2-1124-7B-Instruct", "Olmo2ForCausalLM"),
        ("llama.cpp", "facebook/opt-125m", "OPTForCausalLM"),
        ("ollama", "openai/whisper-large-v3", "WhisperForConditionalGeneration"),
    ],
)
def test_an_engine_without_the_class_is_refused_with_those_that_have_it(
    engine: EngineName, model: str, lacking: str
) -> None:
    refused = refusal(workload(engine), spec_of(model), None, H100)
    assert refused is not None
    assert lacking in refused.reason
    assert refused.alternatives == ({"engine": ("vllm", "sglang")},)


@pytest.mark.parametrize(
    ("engine", "model", "architecture"),
    [
        ("sglang", "ai21labs/Jamba-v0.1", "JambaForCausalLM"),
        ("sglang", "tiiuae/falcon-180B", "FalconForCausalLM"),
        ("sglang", "bigscience/bloom", "BloomForCausalLM"),
        ("vllm", "ai21labs/Jamba-v0.1", "UnlistedForCausalLM"),
    ],
)
def test_engines_refuse_classes_of_transformers_that_they_do_not_take(
    engine: EngineName, model: str, architecture: str
) -> None:
    """No engine's cache has room for recurrent states there, and some classes' attention is not
    SGLang's to set."""
    refused = refusal(workload(engine), spec_of(model, architecture=architecture), None, H100)
    assert refused is not None
    assert architecture in refused.reason


def test_what_is_sent_instead_runs_on_the_card() -> None:
    """Falcon: mlx-lm has no class for it, and neither vLLM nor SGLang has kernels for Apple
    silicon."""
    falcon = spec_of("Qwen/Qwen3-8B", architecture="FalconForCausalLM", model_type="falcon")
    refused = refusal(workload("mlx"), falcon, None, M3)
    assert refused is not None
    assert refused.alternatives == ({"engine": ("llama.cpp", "transformers")},)


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_engines_that_take_transformers_classes_are_warned_of_and_not_refused(
    engine: EngineName,
) -> None:
    unnamed = spec_of("Qwen/Qwen3-8B", architecture="HeliumForCausalLM")
    assert refusal(workload(engine), unnamed, None, H100) is None
    warning = note(workload(engine), unnamed)
    assert warning is not None
    assert warning.code == "architecture-unlisted"
    assert "takes transformers'" in warning.message


@pytest.mark.parametrize("engine", ["vllm", "sglang", "llama.cpp"])
def test_a_class_of_transformers_whose_attention_cannot_be_set_is_refused(
    engine: EngineName,
) -> None:
    refused = refusal(workload(engine), spec_of("openai-community/openai-gpt"), None, H100)
    assert refused is not None
    assert "transformers" in refused.alternatives[0]["engine"]


@pytest.mark.parametrize("engine", LISTS)
def test_a_model_younger_than_the_lists_is_refused_nowhere(engine: EngineName) -> None:
    young = spec_of("Qwen/Qwen3-8B", architecture="Qwen9ForCausalLM", model_type="qwen9")
    assert refusal(workload(engine), young, None, H100) is None
    warning = note(workload(engine), young)
    assert warning is not None
    assert LISTS[engine].read in warning.message


@pytest.mark.parametrize(
    ("engine", "version"), [("tgi", (3, 4)), ("tensorrt-llm", (1, 3)), ("mlx", (0, 33))]
)
def test_a_release_newer_than_its_list_is_refused_nothing(
    engine: EngineName, version: tuple[int, ...]
) -> None:
    olmo = spec_of("Qwen/Qwen3-8B", architecture="Olmo3ForCausalLM", model_type="olmo3")
    assert refusal(workload(engine, version), olmo, None, H100) is None


def test_towers_and_encoders_that_other_packages_run_are_not_refused() -> None:
    assert (
        refusal(workload("tensorrt-llm"), spec_of("llava-hf/llava-1.5-7b-hf"), None, H100) is None
    )
    assert refusal(workload("mlx"), spec_of("openai/whisper-large-v3"), None, M3) is None


def test_tgi_gives_transformers_classes_no_awq() -> None:
    refused = refusal(workload("tgi"), spec_of("Qwen/Qwen3-8B"), "awq", H100)
    assert refused is not None
    assert refused.alternatives == ({"engine": ("vllm", "sglang")},)
    assert refusal(workload("tgi"), spec_of("Qwen/Qwen3-8B"), None, H100) is None


def test_a_gguf_file_names_no_class_and_a_removed_class_is_said_elsewhere() -> None:
    assert note(workload("llama.cpp"), spec_of("Qwen/Qwen3-8B", architecture="gpt-j")) is None
    assert (
        note(
            workload("vllm"),
            spec_of("Qwen/Qwen3-8B", architecture="MllamaForConditionalGeneration"),
        )
        is None
    )


def test_transformers_has_every_model_and_is_not_listed() -> None:
    assert supports("transformers", spec_of("Qwen/Qwen3-8B", architecture="NobodyKnows"))
    assert "transformers" not in LISTS


@pytest.mark.parametrize(
    ("engine", "model", "version", "first"),
    [
        ("sglang", "google/gemma-3-4b-it", (0, 4, 4), "0.4.4.post2"),
        ("vllm", "google/gemma-3-4b-it", (0, 7, 3), "0.8.0"),
        ("vllm", "Qwen/Qwen3-8B", (0, 6, 6), "0.8.4"),
        ("vllm", "Qwen/Qwen3-Next-80B-A3B-Instruct", (0, 10, 1), "0.10.2"),
    ],
)
def test_a_release_older_than_a_class_is_refused_with_the_first_that_has_it(
    engine: EngineName, model: str, version: tuple[int, ...], first: str
) -> None:
    refused = refusal(workload(engine, version), spec_of(model), None, H100)
    assert refused is not None
    assert refused.alternatives == ({"engine_version": (first,)},)
    assert note(workload(engine, version), spec_of(model)) is None
    numbers = LISTS[engine].first[spec_of(model).architecture].numbers
    assert refusal(workload(engine, numbers), spec_of(model), None, H100) is None


def test_a_release_that_takes_transformers_class_is_warned_of() -> None:
    qwen = spec_of("Qwen/Qwen3-8B")
    assert refusal(workload("vllm", (0, 8, 3)), qwen, None, H100) is None
    warning = note(workload("vllm", (0, 8, 3)), qwen)
    assert warning is not None
    assert "since 0.8.4" in warning.message
    assert note(workload("vllm", (0, 8, 4)), qwen) is None
