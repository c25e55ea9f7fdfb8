"""fitgauge measure against llama.cpp and transformers themselves, and train-measure against PyTorch
and PEFT, on the CPU, with models of random weights that are made here.

Without their environment (`make .engines/.done`) these tests are skipped, unless FITGAUGE_SYSTEM is
set, as `make system` does."""

import json
import os
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from fitgauge.cli import main

ROOT = Path(__file__).parents[2]
PYTHON = ROOT / ".engines" / "bin" / "python"
CONTEXT = 512
pytestmark = pytest.mark.skipif(
    not PYTHON.exists() and not os.environ.get("FITGAUGE_SYSTEM"),
    reason="no engines: make .engines/.done",
)

MAKE_FOLDER = """
import sys, torch
from transformers import LlamaConfig, LlamaForCausalLM
torch.manual_seed(0)
LlamaForCausalLM(LlamaConfig(hidden_size=512, intermediate_size=1536, num_hidden_layers=4,
    num_attention_heads=8, num_key_value_heads=4, vocab_size=4096, max_position_embeddings=2048,
    tie_word_embeddings=False)).to(torch.bfloat16).save_pretrained(sys.argv[1])
"""
MAKE_FILE = """
import sys, gguf, numpy
random, hidden, layers = numpy.random.default_rng(0), 512, 4
tokens = [b"<unk>", b"<s>", b"</s>"] + [f"<0x{byte:02X}>".encode() for byte in range(256)]
writer = gguf.GGUFWriter(sys.argv[1], "llama")
writer.add_context_length(2048)
writer.add_embedding_length(hidden)
writer.add_block_count(layers)
writer.add_feed_forward_length(1536)
writer.add_head_count(8)
writer.add_head_count_kv(4)
writer.add_layer_norm_rms_eps(1e-5)
writer.add_rope_dimension_count(64)
writer.add_tokenizer_model("llama")
writer.add_token_list(tokens)
writer.add_token_scores([0.0] * len(tokens))
writer.add_token_types([2, 3, 3] + [6] * 256)
def add(name, *shape):
    writer.add_tensor(name, random.standard_normal(shape, dtype=numpy.float32) * 0.02)
add("token_embd.weight", len(tokens), hidden)
add("output.weight", len(tokens), hidden)
add("output_norm.weight", hidden)
shapes = {"attn_q": (512, 512), "attn_k": (256, 512), "attn_v": (256, 512),
    "attn_output": (512, 512), "ffn_gate": (1536, 512), "ffn_up": (1536, 512),
    "ffn_down": (512, 1536), "attn_norm": (512,), "ffn_norm": (512,)}
for layer in range(layers):
    for name, shape in shapes.items():
        add(f"blk.{layer}.{name}.weight", *shape)
writer.write_header_to_file()
writer.write_kv_data_to_file()
writer.write_tensors_to_file()
"""
SERVE_FILE = """
import sys, xllamacpp
settings = xllamacpp.CommonParams()
settings.model.path, settings.n_ctx, settings.n_parallel = sys.argv[1], int(sys.argv[2]), 1
settings.verbosity = 4
server = xllamacpp.Server(settings)
print("server is listening", flush=True)
"""
"""llama.cpp's own server, as xllamacpp builds it."""

EMBEDDING_BYTES = 259 * 512 * 4
"""Of MAKE_FILE's model: beside a GPU llama.cpp keeps it in host memory, on a CPU with the rest."""


def made(script, *arguments):
    subprocess.run([PYTHON, "-c", script, *map(str, arguments)], check=True, timeout=300)


def measured(*arguments):
    """Return the rows of a comparison by name, and the row of truth."""
    result = CliRunner().invoke(
        main, ["measure", *map(str, arguments), "--cpu", "--json", "--context-length", str(CONTEXT)]
    )
    assert result.exit_code == 0, result.output
    answer = json.loads(result.stdout)
    return {row["name"]: row for row in answer["comparison"]["rows"]}, answer["row"]


@pytest.fixture(autouse=True)
def offline(monkeypatch, tmp_path):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hub"))


def test_transformers_takes_what_is_estimated(tmp_path):
    folder = tmp_path / "model"
    made(MAKE_FOLDER, folder)
    rows, row = measured(folder, "--engine", "transformers", "--python", PYTHON,
                         "--concurrency", 2)  # fmt: skip
    assert rows["weights"]["measured"] == rows["weights"]["estimated"]
    assert rows["kv_cache"]["measured"] == rows["kv_cache"]["estimated"]
    assert str(tmp_path) not in json.dumps(row)


def test_llama_cpp_takes_what_is_estimated(tmp_path):
    file = tmp_path / "model-F32.gguf"
    made(MAKE_FILE, file)
    script = tmp_path / "serve.py"
    script.write_text(SERVE_FILE)
    rows, row = measured(file, "--engine", "llama.cpp",
                         "--command", f"{PYTHON} {script} {file} {CONTEXT}")  # fmt: skip
    printed = 0.01 * 2**20
    assert rows["weights"]["measured"] == pytest.approx(
        rows["weights"]["estimated"] + EMBEDDING_BYTES, abs=printed
    )
    assert rows["kv_cache"]["measured"] == pytest.approx(rows["kv_cache"]["estimated"], abs=printed)
    assert rows["activations"]["within"]
    assert row["outcome"] == "served"
    assert str(tmp_path) not in json.dumps(row)


@pytest.mark.parametrize(
    "settings",
    [
        ("--method", "full"),
        ("--method", "full", "--precision", "bf16", "--activation-checkpointing", "none"),
        ("--method", "full", "--precision", "fp32", "--attention", "eager"),
        ("--method", "lora"),
        ("--method", "lora", "--precision", "bf16", "--lora-rank", "32", "--lora-targets",
         "attention"),
    ],
    ids=lambda settings: " ".join(settings),
)  # fmt: skip
def test_a_training_step_takes_what_is_estimated(tmp_path, settings):
    folder = tmp_path / "model"
    made(MAKE_FOLDER, folder)
    arguments = [folder, *settings, "--sequence-length", 512, "--micro-batch-size", 2,
                 "--python", PYTHON, "--cpu", "--json"]  # fmt: skip
    result = CliRunner().invoke(main, ["train-measure", *map(str, arguments)])
    assert result.exit_code == 0, result.output
    answer = json.loads(result.stdout)
    assert str(tmp_path) not in json.dumps(answer["row"])
    terms = {term["name"]: term for term in answer["terms"]}
    for name in ("weights", "optimizer_states"):
        assert terms[name]["measured"] == terms[name]["estimated"]
    for name in ("forward", "backward", "optimizer_step"):
        assert terms[name]["measured"] == pytest.approx(terms[name]["estimated"], rel=0.02)
