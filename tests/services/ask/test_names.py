"""Which words of a question are the name of a model, and which are none."""

import itertools
from typing import get_args

import pytest

from fitgauge.catalog.catalog import bundled
from fitgauge.catalog.scope import out_of_scope, out_of_scope_names
from fitgauge.catalog.snapshot import Snapshot
from fitgauge.engine.serving.registry import ENGINES
from fitgauge.services.ask import topics, vocabulary
from fitgauge.services.ask.names import GpuNames, ModelNames
from fitgauge.services.ask.reading import Reader
from fitgauge.services.ask.vocabulary import rows

SNAPSHOT = Snapshot()
MODELS = ModelNames(SNAPSHOT)
READER = Reader(GpuNames(bundled()), MODELS)

SETTINGS = sorted("_".join(phrase) for phrase in vocabulary.PHRASES if len(phrase) > 1)
WORDS = sorted({*vocabulary.TRAINING, *vocabulary.SERVING, "device", "prompt", "openai", "python"})


def understood(text):
    return READER.read(text).understood


@pytest.mark.parametrize("name", SETTINGS)
def test_the_name_of_a_setting_is_no_model(name):
    assert understood(f"I run a 13b on an A100 and do not know what {name} does").model == "13b"


@pytest.mark.parametrize("word", WORDS)
def test_a_word_of_training_or_serving_is_no_model(word):
    assert understood(f"Does {word} with a 13b fit on an A100?").model == "13b"


@pytest.mark.parametrize("family", sorted(MODELS.english))
def test_a_word_of_the_language_is_a_model_in_a_question_about_memory(family):
    assert understood(f"Does {family} fit in 24GB?").model is not None
    assert understood(f"Who painted {family} first?").model is None


@pytest.mark.parametrize("family", sorted(MODELS.english - {"llama"}))
def test_a_size_before_a_word_of_the_language_is_its_size(family):
    assert understood(f"7b {family} on an A100?").model == f"{family} 7b"


@pytest.mark.parametrize(
    "text, model",
    [
        ("Does mistrel 7b fit on a T4?", "mistral 7b"),
        ("Does lamma 3 8b fit on a T4?", "llama 3 8b"),
        ("Does qwn3 33b fit on a T4?", "qwen3 33b"),
        ("Does gema 3 27b fit on a T4?", "gemma 3 27b"),
        ("Does deepsek r1 fit on a T4?", "deepseek r1"),
        ("Does deepseek-r1-disstill-qwen-7b fit on a T4?", "deepseek-r1-distill-qwen-7b"),
    ],
)
def test_a_letter_too_many_or_too_few_is_mended(text, model):
    assert understood(text).model == model


@pytest.mark.parametrize("word", ["best", "long", "line", "flat", "does", "mine"])
def test_a_short_word_of_the_sentence_is_no_misspelling(word):
    assert understood(f"{word} 7b model on a T4?").model == "7b"


@pytest.mark.parametrize(
    "text, model",
    [
        ("Does deepseek r1 14b fit on a T4?", "deepseek-ai/DeepSeek-R1-Distill-Qwen-14B"),
        ("Does deepseek r1 70b fit on a T4?", "deepseek-ai/DeepSeek-R1-Distill-Llama-70B"),
        ("Does deepseek r1 671b fit on 8 H200?", "deepseek r1 671b"),
        ("Does deepseek r1 fit on 8 H200?", "deepseek r1"),
    ],
)
def test_a_size_that_only_a_distillation_has_means_the_distillation(text, model):
    assert understood(text).model == model


def test_the_answer_says_which_distillation_a_size_means(ask):
    (reading,) = ask("Does deepseek r1 14b fit on a 4090?").answer["read_as"]
    assert reading["sent"] == "deepseek r1 14b"
    assert reading["taken"] == "deepseek-ai/DeepSeek-R1-Distill-Qwen-14B"


@pytest.mark.parametrize("name", out_of_scope_names())
def test_a_generator_of_images_video_or_audio_is_named_and_out_of_scope(ask, name):
    answer = ask(f"Does {name} fit in 24GB?")
    assert out_of_scope(answer.understood.model) == out_of_scope(name)
    assert answer.answer is None
    (advice,) = answer.missing
    assert out_of_scope(name) in advice


@pytest.mark.parametrize("name", [name for name in ENGINES if name.isalpha() and len(name) > 3])
@pytest.mark.parametrize("suffix", [".com", ".ai", "js", "py"])
def test_the_site_or_client_of_an_engine_names_the_engine(name, suffix):
    assert understood(f"Does a 7b fit on a T4 with {name}{suffix}?").engine == name


@pytest.mark.parametrize(
    "text, model",
    [
        ("Llama 3 8b ran but Llama 3 70b is out of memory on a T4", "Llama 3 70b"),
        ("We previously ran Llama 2 13b, will Qwen2.5 14b fit on an L40S?", "Qwen2.5 14b"),
        ("Train llama-2-70b on 8 A100? Has anybody trained llama-70b?", "llama-2-70b"),
    ],
)
def test_of_two_models_the_one_in_question_is_meant(text, model):
    assert understood(text).model == model


def test_models_in_a_row_stay_together():
    text = "Which GPU do I need for Llama2 7B, Llama2 7B-chat, Llama2 13B, Llama2 70B?"
    result = understood(text)
    assert result.model is None
    assert result.models == ["Llama2 7B", "Llama2 7B-chat", "Llama2 13B", "Llama2 70B"]


def test_each_of_several_copies_has_its_part_of_the_gpu(ask):
    copies = ask("run 8 replicas of qwen3 8b on one H100")
    assert any(note.startswith("8 replicas:") and "0.11" in note for note in copies.missing)
    assert copies.answer["verdict"] == "does_not_fit"
    assert ask("host 3 llama 3.1 8b models on one A100 80GB").answer["verdict"] == "fits"


def test_copies_on_several_gpus_have_gpus_of_their_own(ask):
    copies = ask("run 4 replicas of qwen3 8b on 4x H100")
    assert copies.answer["summary"].startswith("4 copies at most, each on 1 GPU. ")
    assert not copies.missing
    assert not ask("run qwen3 8b on one H100").missing


@pytest.mark.parametrize(
    ("text", "note"),
    [
        ("qwen2.5 vl 7b on a 4090 with 10 images per request", "10 images:"),
        ("cheapest way to run llama 3 8b with no gpu of my own?", "gpu: runs without one"),
    ],
)
def test_what_no_request_has_a_field_for_is_said(ask, text, note):
    answer = ask(text)
    assert [one for one in answer.missing if one.startswith(note)]
    assert answer.understood.gpu_count is None


def test_pixels_are_no_gpus():
    assert understood("qwen2.5 vl 7b on a 4090, images of 1024x1024").gpu_count is None
    assert understood("llama 3 70b on 4x3090").gpu_count == 4


@pytest.mark.parametrize(
    "name",
    [
        "glm 4.5 air", "glm 5.1", "yi 1.5 34b chat", "gpt j 6b", "polyglot ko 5.8b", "t5 large",
        "phi 3 mini 4k instruct", "phi 4 reasoning plus", "open llama 7b", "step 3.7 flash",
        "qwen3 embedding 4b", "nomic embed text v1.5", "mistral 7b v0.1", "c4ai command r plus",
        "mt5 base", "bart large", "nllb 200 distilled 600m",
    ],
)  # fmt: skip
def test_a_bundled_name_is_read_whole_however_it_is_parted(name):
    for written in (name, name.replace(" ", "-")):
        result = understood(f"does {written} run on 4x RTX 3090?")
        assert SNAPSHOT.read(result.model).id == SNAPSHOT.read(name).id
        assert (result.gpu, result.gpu_count) == ("RTX 3090", 4)


def test_a_number_behind_a_name_that_counts_is_none_of_it():
    result = understood("does phi 4 gpus with 24gb suffice?")
    assert (result.model, result.gpu_count) == ("phi", 4)


def test_every_topic_has_its_rows_in_one_place():
    blocks = [topic for topic, _ in itertools.groupby(topic for topic, _ in rows("topics"))]
    assert sorted(blocks) == sorted(get_args(topics.Topic))
