"""A plan is started as it is judged, and what its framework cannot run is refused."""

import pytest

from fitgauge.errors import InvalidRequestError
from fitgauge.services.training_fit.tool_settings import tool_settings

QWEN, MIXTURE = "Qwen/Qwen3-8B", "Qwen/Qwen3-30B-A3B"


def selective(answer):
    """Return the frameworks of the plans that checkpoint selectively."""
    return {
        one.settings["framework"]
        for one in answer.plans
        if one.settings["activation_checkpointing"] == "selective"
    }


def test_plans_checkpoint_selectively_only_where_their_command_can(plan):
    asked = {"gpu": "A100 80GB", "sequence_length": 8192, "limit": 100}
    assert selective(plan(model=QWEN, **asked)) <= {"megatron"}
    for tool in ("openrlhf", "llama-factory", "torchtune"):
        assert not selective(plan(model=QWEN, framework=tool, **asked)), tool
    assert selective(plan(model=QWEN, framework="torchtitan", **asked)) == {"fsdp"}


def test_a_plan_keeps_selective_checkpointing_that_is_asked_for(plan):
    answer = plan(
        model=QWEN, gpu="A100 80GB", framework="fsdp", activation_checkpointing="selective"
    )
    assert selective(answer) == {"fsdp"}


@pytest.mark.parametrize(
    ("trainer", "warned"), [("torchtune", True), ("openrlhf", True), ("torchtitan", False)]
)
def test_a_command_without_selective_checkpointing_says_so(train, trainer, warned):
    answer = train(
        model=QWEN,
        gpu="8x H100",
        method="full",
        trainer=trainer,
        activation_checkpointing="selective",
    )
    fields = [one.field for one in answer.warnings if one.code == "command-lacks-flag"]
    assert ("activation_checkpointing" in fields) == warned


@pytest.mark.parametrize("framework", ["fsdp", "megatron"])
def test_nvme_is_refused_where_only_host_memory_is_offloaded_to(train, framework):
    asked = {"model": QWEN, "gpu": "2x RTX 4090", "method": "full"}
    with pytest.raises(InvalidRequestError, match="NVMe"):
        train(framework=framework, offload="nvme", **asked)
    assert train(offload="nvme", **asked).understood_as["framework"] == "deepspeed"


def test_plans_offload_to_nvme_under_deepspeed_alone_on_one_gpu_too(plan):
    answer = plan(model=QWEN, gpu="RTX 4090", offload="nvme", max_gpu_count=4)
    assert {one.settings["framework"] for one in answer.plans} == {"deepspeed"}
    assert answer.min_gpu_count == 1


def test_plans_without_a_tool_say_what_their_command_lacks_too(plan):
    answer = plan(model=QWEN, gpu="A100 80GB", framework="megatron", method="dora")
    (note,) = [one for one in answer.warnings if one.code == "command-lacks-flag"]
    assert note.field == "method"
    plain = plan(model=QWEN, gpu="A100 80GB", framework="deepspeed")
    assert "command-lacks-flag" not in [one.code for one in plain.warnings]


def test_megatron_is_planned_with_the_optimizers_that_it_has_alone(train, plan):
    """The command's Adam would need more than was judged."""
    asked = {"model": QWEN, "gpu": "4x A100 40GB", "method": "full", "optimizer": "adamw_8bit"}
    assert plan(**asked).plans
    assert "megatron" not in {one.settings["framework"] for one in plan(**asked).plans}
    with pytest.raises(InvalidRequestError, match="Megatron has no adamw_8bit"):
        train(**asked, framework="megatron")


def test_fsdp_offloads_everything_as_its_one_switch_does(train, plan):
    asked = {"model": QWEN, "gpu": "4x A100 40GB", "method": "full", "trainer": "torchtitan"}
    everything = train(**asked, offload="cpu")
    answer = train(**asked, offload="optimizer")
    assert answer.understood_as["offload"] == "cpu"
    assert answer.terms == everything.terms
    assert {one.settings["offload"] for one in plan(**asked, offload="optimizer").plans} == {"cpu"}


@pytest.mark.parametrize("asked", [{}, {"sequence_length": 32768}], ids=str)
def test_what_is_understood_of_qlora_without_a_tool_gives_the_same_bytes(train, plan, asked):
    asked = {"model": QWEN, "gpu": "A100 40GB", "method": "qlora", **asked}
    first = train(**asked)
    again = train(**first.understood_as)
    assert again.per_gpu.required_bytes.expected == first.per_gpu.required_bytes.expected
    for one in plan(**asked, limit=3).plans:
        checked = train(**one.settings)
        assert checked.per_gpu.required_bytes.expected == one.required_bytes.expected, one.layout


def test_what_shards_sequences_is_read_back(train, plan):
    asked = {"model": QWEN, "gpu": "4x A100 80GB", "method": "lora", "context_parallel": 2}
    (one, *_) = plan(**asked, framework="fsdp").plans
    text = "\n".join([one.launch.command, *one.launch.files.values()])
    assert tool_settings(text)["context_parallel"] == 2
    for other in ({"framework": "deepspeed"}, {"framework": "fsdp", "trainer": "ms-swift"}):
        command = train(**asked, **other).launch.command
        assert tool_settings(command)["context_parallel"] == 2


@pytest.mark.parametrize(
    "asked",
    [
        {"model": QWEN, "gpu": "V100 32GB", "method": "lora"},  # a base and adapters in fp16
        # whose configuration of 70B models offloads where the command says that it does not
        {
            "model": "meta-llama/Llama-3.3-70B-Instruct",
            "gpu": "RTX 5090",
            "method": "full",
            "trainer": "torchtune",
        },
    ],
    ids=str,
)
def test_what_a_plans_command_says_is_read_back_to_the_same_bytes(train, plan, asked):
    (one, *_) = plan(**asked, limit=1).plans
    fields = tool_settings(one.launch.command, one.gpu_count)
    again = train(**{**asked, "gpu_count": one.gpu_count} | fields)
    assert again.per_gpu.required_bytes.expected == one.required_bytes.expected


@pytest.mark.parametrize("divided", [{"offload": "cpu"}, {"zero_stage": 2}], ids=str)
def test_a_mac_has_no_plans_that_only_deepspeed_starts(plan, divided):
    with pytest.raises(InvalidRequestError, match="DeepSpeed does not run"):
        plan(model=QWEN, gpu="M3 Max 64GB", method="lora", **divided)
    assert plan(model=QWEN, gpu="M3 Max 64GB", method="lora").plans


def test_deepspeed_does_not_run_on_a_tpu(train):
    asked = {"model": QWEN, "gpu": "16x TPU v5e", "method": "full"}
    assert train(framework="deepspeed", **asked).verdict == "unsupported"
    assert train(framework="fsdp", **asked).verdict != "unsupported"


@pytest.mark.parametrize("trainer", ["ms-swift", "trl"])
def test_adapters_on_experts_have_no_dropout_unless_it_is_sent(train, plan, trainer):
    asked = {"model": MIXTURE, "gpu": "A100 80GB", "gpu_count": 8, "method": "lora"}
    answer = train(trainer=trainer, lora_experts=True, **asked)
    assert answer.understood_as["lora_dropout"] == 0
    assert plan(framework=trainer, lora_experts=True, **asked).plans
    with pytest.raises(InvalidRequestError, match="dropout"):
        train(trainer=trainer, lora_experts=True, lora_dropout=0.1, **asked)
    assert train(trainer="ms-swift", **asked).understood_as["lora_dropout"] == 0.05


def test_a_layout_names_the_ranks_of_its_experts(plan):
    answer = plan(model=MIXTURE, gpu="H100", framework="megatron", expert_parallel=8)
    assert "experts over 8" in answer.plans[0].layout


@pytest.mark.parametrize(
    "settings",
    [
        {"framework": "fsdp", "tensor_parallel": 2},
        {"framework": "fsdp", "context_parallel": 4, "sequence_length": 32_768},
        {"framework": "fsdp", "context_parallel": 2, "sequence_length": 32_768, "method": "lora"},
        {"framework": "torchtitan", "tensor_parallel": 4},
        {"trainer": "torchtitan", "tensor_parallel": 2, "context_parallel": 2},
    ],
    ids=str,
)
def test_plans_under_fsdp_divide_tensors_and_sequences_as_training_fit_judges(
    plan, train, settings
):
    answer = plan(model=QWEN, gpu="8 x H100", **settings)
    assert answer.plans
    for one in answer.plans:
        degrees = {name: value for name, value in settings.items() if name.endswith("parallel")}
        assert one.settings.items() >= degrees.items()
        judged = train(**one.settings)
        assert judged.per_gpu.required_bytes == one.required_bytes


def test_trl_says_that_its_script_divides_no_tensors_under_fsdp(plan):
    answer = plan(model=QWEN, gpu="8 x H100", framework="fsdp", tensor_parallel=2)
    lacking = [one.message for one in answer.warnings if one.field == "tensor_parallel"]
    assert any("DistributedConfig(tp_size=2)" in message for message in lacking)


@pytest.mark.parametrize("framework", [None, "fsdp"])
def test_a_plan_takes_the_trainer_as_training_fit_does(plan, framework):
    asked = {"model": QWEN, "gpu": "8 x A100 80GB"}
    answer = plan(**asked, trainer="LLaMA-Factory", framework=framework)
    assert answer.understood_as["trainer"] == "llama-factory"
    assert {one.settings["trainer"] for one in answer.plans} == {"llama-factory"}
    assert "llamafactory-cli" in answer.plans[0].launch.command or "src/train.py" in (
        answer.plans[0].launch.command
    )
    if framework:
        assert {one.settings["framework"] for one in answer.plans} == {"fsdp"}
    named = plan(**asked, framework="llama-factory")
    if framework is None:
        assert [one.required_bytes for one in named.plans] == [
            one.required_bytes for one in answer.plans
        ]
    assert plan(**answer.understood_as).plans == answer.plans
