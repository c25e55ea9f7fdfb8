"""Preference and RL training: which models are on the card in which phase, and what a rollout
engine leaves of it."""

import pytest
from msgspec.structs import replace

from fitgauge.catalog.accelerators import load
from fitgauge.catalog.engines import load_engines
from fitgauge.catalog.snapshot import Snapshot
from fitgauge.catalog.training import load_training
from fitgauge.engine.model.families import read_config
from fitgauge.engine.model.model import Model
from fitgauge.engine.serving.registry import ENGINES
from fitgauge.engine.training.algorithms.phases import algorithm_stages
from fitgauge.engine.training.algorithms.roles import policy_workload
from fitgauge.engine.training.algorithms.setup import Rollout, Setup
from fitgauge.engine.training.autograd.segments import segments
from fitgauge.engine.training.estimate import training_stages
from fitgauge.engine.training.phases import headless
from fitgauge.engine.training.workload import TrainingWorkload
from fitgauge.services.common.schemas import FitRequest
from fitgauge.services.common.weight_cache import WeightCache
from fitgauge.services.fit.workload import serving_workload

PROFILE = load_training()


def spec_of(name="Qwen/Qwen2.5-7B-Instruct"):
    return read_config(Snapshot().get(name).config)


SPEC = spec_of()
STEP = TrainingWorkload(sequence_length=1024, precision="bf16", activation_checkpointing="full")


def stage(setup, workload=STEP, **models):
    (found,) = algorithm_stages(SPEC, workload, setup, PROFILE, **models)
    return found


def named(found, phase):
    return {term.name: term.bytes for term in found.phase_terms[phase]}


def test_pairs_go_through_the_model_in_one_batch_of_twice_the_size():
    assert (
        policy_workload(
            STEP, Setup(algorithm="dpo", trainer="trl", reference="none")
        ).micro_batch_size
        == 2
    )
    assert (
        policy_workload(
            STEP, Setup(algorithm="kto", trainer="trl", reference="none")
        ).micro_batch_size
        == 1
    )


def test_a_reference_is_a_whole_copy_on_the_card_on_the_host_or_the_frozen_base():
    resident = stage(Setup(algorithm="dpo", trainer="trl", reference="resident"))
    offloaded = stage(Setup(algorithm="dpo", trainer="trl", reference="offloaded"))
    shared = stage(
        Setup(algorithm="dpo", trainer="trl", reference="adapter"), replace(STEP, method="lora")
    )
    none = stage(Setup(algorithm="dpo", trainer="trl", reference="none"))
    copy = 2 * SPEC.parameters
    assert named(resident, "backward")["reference_weights"] == copy
    assert offloaded.host_bytes - resident.host_bytes == copy
    assert "reference_weights" not in named(offloaded, "backward") | named(shared, "backward")
    assert "log_probs" in shared.phases
    assert "log_probs" not in none.phases
    assert resident.phases["backward"] - none.phases["backward"] == copy


def test_the_phases_of_dpo_hold_the_policys_saved_activations_while_the_reference_runs():
    found = stage(Setup(algorithm="dpo", trainer="trl", reference="resident"))
    moment = named(found, "log_probs")
    logits = 2 * 2 * 1024 * SPEC.vocabulary_size
    assert moment["activations"] >= logits
    assert moment["inference_activations"] >= logits


def test_under_fsdp_the_reference_runs_beside_what_layers_of_16_bit_saved():
    setup = Setup(algorithm="dpo", trainer="trl", reference="resident")
    sharded = replace(STEP, framework="fsdp", zero_stage=3, data_parallel=4)
    half, mixed = (
        named(stage(setup, replace(sharded, precision=precision)), "log_probs")
        for precision in ("bf16", "mixed_bf16")
    )
    for name in ("activations", "inference_activations"):
        assert half[name] == mixed[name] > 0


def test_a_reward_model_and_a_critic_have_no_head_of_the_vocabulary():
    assert SPEC.parameters - headless(SPEC).parameters == SPEC.vocabulary_size * SPEC.hidden_size
    assert headless(SPEC) is headless(SPEC)
    reward = stage(Setup(algorithm="reward", trainer="trl", reference="none"))
    (tuned,) = training_stages(SPEC, replace(STEP, micro_batch_size=2), PROFILE)
    assert reward.phases["backward"] < tuned.phases["backward"]


def test_ppo_under_trl_trains_the_critic_in_the_same_pass_and_elsewhere_after_the_policy():
    settings = {
        "algorithm": "ppo",
        "reference": "none",
        "criticized": True,
        "prompt_length": 512,
        "completion_length": 512,
    }
    joint = stage(Setup(trainer="trl", **settings))
    apart = stage(Setup(trainer="openrlhf", **settings))
    assert "critic_update" not in joint.phases
    assert "critic_activations" in named(joint, "backward")
    assert "critic_activations" not in named(apart, "backward")
    assert {"weights", "optimizer_states", "critic_gradients"} <= set(named(apart, "critic_update"))


def test_trls_ppo_keeps_the_logits_of_every_sampled_token_twice_while_it_samples_and_once_after():
    rollout = Rollout(engine="transformers", memory_utilization=1.0)
    setup = Setup(
        algorithm="ppo",
        trainer="trl",
        reference="none",
        prompt_length=768,
        completion_length=256,
        rollout=rollout,
    )
    found = stage(setup, replace(STEP, micro_batch_size=2, micro_batches=4))
    once = 2 * 4 * 256 * SPEC.vocabulary_size * 4
    assert named(found, "rollout")["rollout_logits"] == 2 * once
    assert named(found, "log_probs")["rollout_logits"] == once
    assert "rollout_logits" not in named(found, "backward")


def test_states_that_rest_leave_the_card_while_completions_are_sampled_and_are_there_for_the_step():
    settings = {
        "algorithm": "grpo",
        "trainer": "verl",
        "reference": "none",
        "prompt_length": 512,
        "completion_length": 512,
    }
    stays = stage(Setup(**settings))
    optimizer = stage(Setup(**settings, rests="optimizer"))
    everything = stage(Setup(**settings, rests="all"))
    assert named(stays, "rollout") == {
        "weights": 2 * SPEC.parameters,
        "optimizer_states": 4 * SPEC.parameters,
    }
    assert named(optimizer, "rollout") == {"weights": 2 * SPEC.parameters}
    assert named(everything, "rollout") == {}
    assert named(everything, "log_probs")["weights"] == 2 * SPEC.parameters
    assert everything.phases["optimizer_step"] == stays.phases["optimizer_step"]
    assert everything.host_bytes == 6 * SPEC.parameters


def test_logits_are_made_of_completions_alone_under_trl_and_of_everything_under_verl():
    settings = {
        "algorithm": "grpo",
        "reference": "none",
        "prompt_length": 768,
        "completion_length": 256,
    }
    kept, every = (
        policy_workload(STEP, Setup(trainer=trainer, **settings)) for trainer in ("trl", "verl")
    )
    assert kept.logits_tokens == 257
    assert every.logits_tokens is None
    assert segments(SPEC, kept).head.backward.peak < segments(SPEC, every).head.backward.peak


@pytest.mark.parametrize(("precision", "copies"), [("bf16", 4), ("mixed_bf16", 8)])
def test_log_probabilities_take_four_copies_of_the_logits_going_back(precision, copies):
    """As measured under FakeTensorMode on trl's selective_log_softmax and entropy_from_logits:
    3.99 and 7.98 of 16-bit logits."""
    workload = replace(STEP, loss="log_probs", precision=precision, micro_batch_size=8)
    bare = segments(SPEC, replace(workload, loss="none")).head
    head = segments(SPEC, workload).head
    logits = 2 * workload.tokens * SPEC.vocabulary_size
    weight = SPEC.vocabulary_size * SPEC.hidden_size * (2 if precision == "bf16" else 6)
    whole = head.backward.peak + head.forward.end - bare.backward.peak
    assert whole == pytest.approx(copies * logits, abs=weight + 0.02 * copies * logits)


def served(utilization):

    card = load().get("h100-sxm-80gb")
    model = Model(id="m", source="snapshot", spec=SPEC)
    profile = load_engines().profile("vllm", None)
    asked = FitRequest(
        model="m",
        gpu="",
        engine="vllm",
        context_length=1024,
        gpu_memory_utilization=utilization,
        tensor_parallel=1,
    )
    workload = serving_workload(asked, SPEC, card, 1, profile)
    return ENGINES["vllm"].estimate(
        SPEC, WeightCache().prepare(model, None, "vllm").sharded, workload, card, profile
    )


@pytest.mark.parametrize("sleep", ["off", "level_1", "level_2"])
def test_a_rollout_engine_takes_its_share_while_it_samples_and_sleeping_leaves_its_graphs(sleep):
    estimate = served(0.5)
    rollout = Rollout(engine="vllm", memory_utilization=0.5, sleep=sleep)
    setup = Setup(
        algorithm="grpo",
        trainer="trl",
        reference="none",
        prompt_length=512,
        completion_length=512,
        rollout=rollout,
    )
    found = stage(setup, rollout=estimate)
    sampling, learning = named(found, "rollout"), named(found, "optimizer_step")
    assert {"rollout_weights", "rollout_kv_cache"} <= set(sampling)
    assert (
        sum(size for name, size in sampling.items() if name.startswith("rollout_"))
        <= estimate.budget.expected + 2 * 2**30
    )
    assert "rollout_activations" not in learning
    assert ("rollout_kv_cache" in learning) == (sleep == "off")
    assert "rollout_cuda_graphs" in learning
    weights = sampling["rollout_weights"]
    assert found.host_bytes >= weights if sleep == "level_1" else found.host_bytes == 0
    assert "rollout_runtime" not in sampling


def test_terms_of_the_worst_phase_add_up_to_what_is_required():
    rollout = Rollout(engine="vllm", memory_utilization=0.5)
    setup = Setup(
        algorithm="grpo",
        trainer="openrlhf",
        reference="resident",
        prompt_length=512,
        completion_length=512,
        rollout=rollout,
    )
    found = stage(setup, rollout=served(0.5))
    assert sum(term.bytes for term in found.terms) == pytest.approx(
        found.need.expected, abs=len(found.terms)
    )
    for phase, terms in found.phase_terms.items():
        assert sum(term.bytes for term in terms) == found.phases[phase]
