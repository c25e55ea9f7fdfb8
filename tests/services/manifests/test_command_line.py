"""Commands of containers: programs, scripts, variables, spellings of flags."""

import pytest

from fitgauge.engine.serving.registry import ENGINES
from fitgauge.services.manifests.command_line import lora_fields, server_command
from fitgauge.services.manifests.containers import Container
from fitgauge.services.manifests.yaml_text import Block, Text, text_of


def container(command=None, arguments=(), image=None, **environment):
    return Container(
        name="x",
        line=1,
        image=Text(image) if image else None,
        command=[Text(word) for word in command] if command else None,
        arguments=[Text(word) for word in arguments],
        environment={name: Text(value) for name, value in environment.items()},
        resources=Block(),
        pod=Block(),
        group_size=3,
    )


@pytest.mark.parametrize(
    "command, engine, model, flags",
    [
        (["vllm", "serve", "a/b", "-tp", "2"], "vllm", "a/b", {"tensor_parallel": 2}),
        (
            ["/opt/venv/bin/vllm", "serve", "a/b", "--max-model-len=32k"],
            "vllm",
            "a/b",
            {"context_length": 32000},
        ),
        (
            ["python3", "-m", "vllm.entrypoints.openai.api_server", "--model", "a/b"],
            "vllm",
            "a/b",
            {},
        ),
        (
            ["python3", "-m", "sglang.launch_server", "--model=a/b", "--tensor-parallel-size=4"],
            "sglang",
            "a/b",
            {"tensor_parallel": 4},
        ),
        (
            ["/app/llama-server", "--hf-repo", "a/b-GGUF:Q4_K_M", "-c", "8192", "-np", "2"],
            "llama.cpp",
            "a/b-GGUF:Q4_K_M",
            {"context_length": 4096, "n_parallel": 2, "concurrency": 2},
        ),
        (
            ["text-generation-launcher", "--model-id", "a/b", "--num-shard", "2"],
            "tgi",
            "a/b",
            {"tensor_parallel": 2},
        ),
        (
            ["trtllm-serve", "a/b", "--tp_size", "2", "--max_seq_len", "4096"],
            "tensorrt-llm",
            "a/b",
            {"tensor_parallel": 2, "context_length": 4096},
        ),
    ],
)  # fmt: skip
def test_each_engine_is_read_by_the_parser_of_its_log(command, engine, model, flags):
    read = server_command(container(command))
    assert (read.engine.name, read.log.model) == (engine, model)
    assert {name: read.log.flags[name] for name in flags} == flags


def test_a_script_is_read_command_by_command():
    script = text_of(
        'set -e\nMODEL=a/b  # the model\nexport TP=2\nif [ -n "$X" ]; then echo it\'s; fi\n'
        "exec vllm serve $MODEL \\\n  --tensor-parallel-size ${TP} \\\n"
        "  --max-model-len ${LEN:-4096}\n",
        10,
    )
    held = container(["/bin/bash", "-c"])
    held.arguments = [script]
    read = server_command(held)
    assert read.log.model == "a/b"
    assert read.log.flags == {"tensor_parallel": 2, "context_length": 4096}
    assert read.line == 15


def test_a_variable_that_is_not_set_is_named():
    read = server_command(container(["vllm", "serve", "a/b", "--max-model-len", "$(LONGEST)"]))
    assert "context_length" not in read.log.flags
    assert [note.message.split("`")[1::2] for note in read.notes] == [
        ["--max-model-len", "$(LONGEST)"]
    ]


def test_the_size_of_a_group_of_pods_is_a_variable():
    command = ["vllm", "serve", "a/b", "--pipeline-parallel-size", "$(LWS_GROUP_SIZE)"]
    assert server_command(container(command)).log.flags == {"pipeline_parallel": 3}


def test_an_image_starts_its_engine_with_the_arguments():
    read = server_command(
        container(arguments=["--model", "a/b"], image="docker.io/vllm/vllm-openai:v0.11.0")
    )
    assert (read.engine.name, read.log.model, read.release) == ("vllm", "a/b", "0.11.0")


def test_the_tag_of_another_projects_image_is_no_release():
    read = server_command(container(arguments=["a/b"], image="lmcache/vllm-openai:v0.3.7"))
    assert (read.engine.name, read.release) == ("vllm", None)


def test_an_image_with_another_command_starts_no_server():
    assert (
        server_command(container(["sleep", "infinity"], image="vllm/vllm-openai:v0.11.0")) is None
    )
    assert server_command(container(["nginx"], image="nginx")) is None


def test_variables_are_settings_where_the_engine_reads_them():
    tgi = server_command(
        container(
            image="ghcr.io/huggingface/text-generation-inference:3.0.1",
            MODEL_ID="a/b", NUM_SHARD="2", MAX_TOTAL_TOKENS="4096",
        )
    )  # fmt: skip
    assert (tgi.log.model, tgi.release) == ("a/b", "3.0.1")
    assert tgi.log.flags == {"tensor_parallel": 2, "context_length": 4096}
    ollama = server_command(
        container(
            ["sh", "-c", "ollama serve & sleep 5; ollama pull llama3:8b; wait"],
            OLLAMA_CONTEXT_LENGTH="16384", OLLAMA_NUM_PARALLEL="2", OLLAMA_KV_CACHE_TYPE="q8_0",
        )
    )  # fmt: skip
    assert (ollama.engine.name, ollama.log.model) == ("ollama", "llama3:8b")
    assert ollama.log.flags == {
        "context_length": 16384, "concurrency": 2, "kv_cache_dtype": "q8_0"
    }  # fmt: skip


def test_a_flag_goes_before_its_variable():
    read = server_command(
        container(["llama-server", "-c", "4096"], LLAMA_ARG_CTX_SIZE="8192", LLAMA_ARG_MODEL="m")
    )
    assert read.log.flags == {"context_length": 4096}


def test_what_bears_on_no_memory_is_not_named_and_what_does_is():
    read = server_command(
        container(
            ["vllm", "serve", "a/b", "--port", "80", "--no-enable-log-requests", "--dtype", "half"]
        )
    )
    assert read.notes == ()
    read = server_command(
        container(["vllm", "serve", "a/b", "--dtype", "float32", "--block-size", "16"])
    )
    assert [note.message.split("`")[1] for note in read.notes] == ["--dtype"]


def test_slots_of_one_buffer_share_its_context():
    read = server_command(
        container(["llama-server", "-hf", "a/b", "-c", "8192", "-np", "2", "--kv-unified"])
    )
    assert read.log.flags == {"context_length": 8192, "n_parallel": 2}
    assert read.notes == ()


def test_keys_and_values_of_two_formats_are_named():
    command = ["llama-server", "-hf", "a/b", "-ctk", "q8_0"]
    (note,) = server_command(container(command)).notes
    assert note.message.startswith("`-ctk`")
    both = server_command(container([*command, "-ctv", "q8_0"]))
    assert (both.log.flags, both.notes) == ({"kv_cache_dtype": "q8_0"}, ())


@pytest.mark.parametrize(
    "draft, fields",
    [
        (
            ["--speculative-config", '{"model": "c/d", "num_speculative_tokens": 3}'],
            {"draft_model": "c/d", "speculative_tokens": 3},
        ),
        (
            ["--speculative-config.method=mtp", "--speculative-config.num_speculative_tokens=1"],
            {"speculative_tokens": 1},
        ),
        (["--speculative-config", '{"model": "/draft", "num_speculative_tokens": 3}'], {}),
        (["--speculative-config", '{"method": "ngram", "num_speculative_tokens": 3}'], {}),
    ],
)
def test_what_drafts_is_no_model_that_is_served(draft, fields):
    read = server_command(container(["vllm", "serve", "a/b", *draft]))
    assert (read.log.model, read.log.flags) == ("a/b", fields)


def test_sglang_drafts_one_token_fewer_than_it_verifies():
    command = [
        "sglang.launch_server", "--model-path", "a/b", "--speculative-algorithm", "EAGLE",
        "--speculative-num-steps", "3", "--speculative-eagle-topk", "1",
        "--speculative-num-draft-tokens", "4",
    ]  # fmt: skip
    draft = ["--speculative-draft-model-path", "c/d"]
    assert server_command(container(command)).notes == ()
    own = server_command(container(command)).log
    with_draft = server_command(container([*command, *draft])).log
    assert (own.model, own.flags) == ("a/b", {"speculative_tokens": 3})
    assert with_draft.flags == {"speculative_tokens": 3, "draft_model": "c/d"}


@pytest.mark.parametrize("word", [["--task", "embed"], ["--runner", "pooling"]])
def test_an_embedding_server_is_told_by_its_flags(word):
    read = server_command(container(["vllm", "serve", "a/b", *word]))
    assert (read.log.flags, read.notes) == ({"pooling": True}, ())


def test_adapters_of_lora_are_slots():
    command = ["vllm", "serve", "a/b", "--enable-lora", "--max-loras", "4", "--max-lora-rank", "32"]
    assert lora_fields(server_command(container(command))) == {"lora_slots": 4, "lora_rank": 32}
    assert (
        lora_fields(server_command(container(["vllm", "serve", "a/b", "--max-loras", "4"]))) == {}
    )


def test_every_engine_with_containers_has_a_parser_of_its_log():
    rows = [row for row in ENGINES.values() if row.container_start is not None]
    assert len(rows) == 6
    assert all(row.log_parser is not None for row in rows)
