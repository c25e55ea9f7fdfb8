"""What does not fit is printed with the command of a change that does."""

import pytest
from click.testing import CliRunner

from fitgauge.cli import main


@pytest.mark.parametrize(
    ("asked", "comment", "command"),
    [
        (["check", "Qwen/Qwen3-32B", "RTX 4090"], "# use Qwen/Qwen3-32B-AWQ",
         "vllm serve Qwen/Qwen3-32B-AWQ "),
        # On these GPUs before on more of them, whatever comes first in the list.
        (["check", "moonshotai/Kimi-K2-Instruct", "8x H100"], "# serve it with vllm in awq",
         "vllm serve "),
        (["check", "deepseek-ai/DeepSeek-V3", "M3 Ultra 256GB"],
         "# use deepseek-ai/DeepSeek-V4-Flash in q4_k_m with llama.cpp, a smaller model",
         "llama-server "),
        (["check", "MiniMaxAI/MiniMax-M2", "RTX 4090"], "# take one MI350X instead",
         "vllm serve MiniMaxAI/MiniMax-M2 "),
        (["train-check", "Qwen/Qwen3-32B", "RTX 4060"],
             "# use Qwen/Qwen3-4B, a smaller model", "accelerate launch "),
        # What the first sentence names before a smaller model, and before host memory.
        (["train-check", "openai/gpt-oss-120b", "H100", "--method", "lora"], "# use 5 GPUs",
         "accelerate launch --num_processes 5 "),
        (["train-check", "meta-llama/Llama-3.3-70B-Instruct", "8x RTX 4090", "--method", "full"],
         "# train adapters on a 4-bit base (QLoRA), loaded by", "accelerate launch "),
    ],
    ids=lambda value: value[2] if isinstance(value, list) else "",
)  # fmt: skip
def test_the_last_line_starts_what_fits(asked, comment, command):
    result = CliRunner().invoke(main, asked, env={"HF_HUB_OFFLINE": "1"})
    assert result.exit_code == 1
    said, started = result.output.rstrip().splitlines()[-2:]
    assert said.startswith(comment)
    assert started.startswith(command)
