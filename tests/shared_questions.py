"""Writes docs/questions.md: three questions asked of the running service and in the terminal, with
arithmetic that anybody can repeat.

PYTHONPATH=service:plugin:tests python tests/shared_questions.py
"""

import json
import os
import tempfile
from pathlib import Path

import httpx
from click.testing import CliRunner

from fitgauge.cli import main
from fitgauge.engine.performance.decode import (
    EFFICIENCY,
    LAYER_SECONDS,
    NVLINK_SECONDS,
    PCIE_SECONDS,
)
from fitgauge.engine.performance.prefill import LINK_EFFICIENCY, PCIE_GBPS
from hub_stand_in import HubStandIn
from live import client, serving

PAGE = Path(__file__).parents[1] / "docs" / "questions.md"
LLAMA = "meta-llama/Llama-3.3-70B-Instruct"
FIVE = (
    LLAMA,
    "Qwen/Qwen3-32B",
    "google/gemma-3-27b-it",
    "openai/gpt-oss-20b",
    "meta-llama/Llama-3.1-8B-Instruct",
)
CHEAPEST = {
    "model": LLAMA,
    "context_length": 32768,
    "concurrency": 16,
    "objective": "cheapest",
    "limit": 5,
}
ON_A_3090 = {
    "gpu": "RTX 3090",
    "task": "generate",
    "quantizations": "as published, awq",
    "limit": 8,
}
OF_FIVE = {"models": ", ".join(FIVE), "gpus": "2x L40S", "context_lengths": 32768}

LAYERS, HIDDEN, WIDE, VOCABULARY, KV_HEADS, HEAD_DIM = 80, 8192, 28672, 128256, 8, 128
"""config.json of Llama-3.3-70B-Instruct."""
MATRICES = LAYERS * (2 * HIDDEN * HIDDEN + 2 * HIDDEN * KV_HEADS * HEAD_DIM + 3 * HIDDEN * WIDE)
BITS = {
    "as published": 16.0,
    "fp8": 8.0,
    "w8a8": 8.0,
    "awq": 4 + 20 / 128,
    "gptq": 4 + 20 / 128,
    "nvfp4": 4.5,
    "mxfp4": 4.25,
    "q8_0": 8.5,
}
"""Bits of a weight with its scales: AWQ and GPTQ keep 16 + 4 bits for each 128 weights, NVFP4 8
for 16, MXFP4 8 for 32, Q8_0 16 for 32."""


def page(http: httpx.Client) -> str:
    """Return the whole document, from what the service answers now."""
    return "\n\n".join([_INTRODUCTION, _cheapest(http), _on_a_3090(http), _of_five(http)]) + "\n"


def _cheapest(http: httpx.Client) -> str:
    answer = _asked(http, "/v1/recommend", CHEAPEST)
    best = answer["items"][0]
    rows = [
        (
            f"{item['gpu']['count']} x {item['gpu']['name']}",
            item["engine"],
            item["quantization"],
            f"{item['cost']['usd_per_hour_low']:.2f}",
            f"{item['cost']['usd_per_million_output_tokens']['expected']:.2f}",
            f"{item['decode']['tokens_per_second']['expected']:.0f}",
            f"{item['prefill']['seconds_to_first_token']['expected']:.1f}",
            (
                f"{item['quality']['low']:.1f} to {item['quality']['high']:.1f}"
                if item["quality"]
                else "not measured"
            ),
        )
        for item in answer["items"]
    ]
    head = (
        "GPUs",
        "engine",
        "weights",
        "USD an hour",
        "USD per 10^6 tokens",
        "tokens/s",
        "first token, s",
        "quality recovered, %",
    )
    arguments = (
        "recommend",
        LLAMA,
        "--context-length",
        "32768",
        "--concurrency",
        "16",
        "--objective",
        "cheapest",
        "--limit",
        "5",
    )
    parts = (
        "## The cheapest way to serve Llama-3.3-70B at 32k for 16 users",
        _request("/v1/recommend", CHEAPEST),
        f"{answer['summary']}",
        _table(head, rows),
        _terminal(*arguments),
        "### Check it",
        *_derived(http, best),
    )
    return "\n\n".join(parts)


def _derived(http: httpx.Client, best: dict) -> list[str]:
    """Return the arithmetic behind the first option, from config.json, the GPU's row and the
    price alone."""
    gpu, count = http.get(f"/v1/gpus/{best['gpu']['id']}").json(), best["gpu"]["count"]
    fit = http.post("/v1/fit", json={**best["request"], "detail": "full"}).json()
    tensor = fit["understood_as"]["tensor_parallel"]
    cache = 2 * LAYERS * KV_HEADS * HEAD_DIM * 2 * 32768 * 16
    weights = MATRICES * BITS[best["quantization"]] / 8
    head = VOCABULARY * HIDDEN * 2
    step = (weights + head + cache) / tensor
    latency = NVLINK_SECONDS if gpu.get("nvlink") else PCIE_SECONDS
    sent = (
        2
        * LAYERS
        * 16
        * HIDDEN
        * 2
        * 2
        * (tensor - 1)
        / tensor
        / ((gpu["interconnect_gbps"] or PCIE_GBPS) * 1e9 * LINK_EFFICIENCY)
    )
    exchanged = 2 * LAYERS * latency + sent if tensor > 1 else 0.0
    read, layers = step / (gpu["bandwidth_gbps"] * 1e9 * EFFICIENCY), LAYERS * LAYER_SECONDS
    speed = 16 / (read + layers + exchanged)
    told, cost = best["decode"]["tokens_per_second"]["expected"], best["cost"]
    rental = cost["rentals"][0]
    price = rental["usd_per_hour_low"]
    _near(speed, told, 0.02)
    _near(price * 1e6 / 3600 / told, cost["usd_per_million_output_tokens"]["expected"], 0.01)
    terms = {term["name"]: term["bytes"] for term in fit["terms"]}
    _near(cache / count, terms["kv_cache"], 0.02)
    _near(sum(terms.values()), best["required_bytes"]["expected"], 1e-9)
    listed = _table(
        ("of the fullest GPU", "GiB"),
        [(name, f"{size / 2**30:.2f}") for name, size in terms.items()],
    )
    bits, dollars = BITS[best["quantization"]], price * 1e6 / 3600 / told
    placeholder = best["launch"]["placeholder"]
    needs, has = best["required_bytes"]["expected"] / 2**30, best["budget_bytes"] / 2**30
    return [
        (
            f"- KV cache: 2 x {LAYERS} layers x {KV_HEADS} heads x {HEAD_DIM} numbers x 2 bytes x"
            f" 32,768 tokens x 16 requests = {cache / 1e9:.2f} x 10^9 bytes, over {count} GPUs"
            f" {cache / count / 2**30:.2f} GiB each."
        ),
        (
            f"- Weights: {MATRICES / 1e9:.2f} x 10^9 in the layers' matrices at {bits:.4g} bits ="
            f" {weights / 1e9:.2f} x 10^9 bytes; the output head {VOCABULARY:,} x {HIDDEN:,} x 2 ="
            f" {head / 1e9:.2f} x 10^9 bytes."
        ),
        (
            f"- A step reads both and the cache: {step * tensor / 1e9:.1f} x 10^9 bytes, tensor"
            f" parallel {tensor}, pipeline stages in turn, at {gpu['bandwidth_gbps']:g} x 10^9"
            f" bytes/s x {EFFICIENCY}: {read * 1e3:.1f} ms. Its layers take {LAYERS} x"
            f" {LAYER_SECONDS * 1e6:.0f} us = {layers * 1e3:.1f} ms more, its {2 * LAYERS}"
            f" all-reduces {exchanged * 1e3:.1f} ms ({latency * 1e6:.0f} us each, and their bytes):"
            f" 16 tokens in {16 / speed:.3f} s = {speed:.1f} tokens/s (the answer: {told:.1f})."
        ),
        (
            f"- Price: {rental['gpus']} x {rental['instance']} of {rental['cloud']}"
            f" ({rental['as_of']}, {rental['source']}): {price:.2f} USD an hour; per 10^6 tokens"
            f" {price:.2f} x 10^6 / 3600 / {told:.1f} = {dollars:.2f} USD."
        ),
        (
            "- Memory of the fullest GPU, from `POST /v1/fit` with the option's `request` and"
            f" `detail: full`: {needs:.2f} of {has:.2f} GiB.\n\n{listed}"
        ),
        f"- Start it: `{best['launch']['command']}`"
        + (f", with {placeholder[1:-1]}." if placeholder else "."),
    ]


def _on_a_3090(http: httpx.Client) -> str:
    answer = _asked(http, "/v1/models-for-gpu", ON_A_3090)
    rows = [
        (
            item["model"],
            f"{item['parameters'] / 1e9:.2f}",
            item["quantization"],
            item["verdict"],
            *_gib(item),
        )
        for item in answer["items"]
    ]
    first = next(item for item in answer["items"] if item["quantization"] == "awq")
    weights = first["parameters"] * (4 + 20 / 128) / 8
    arguments = (
        "models-for",
        "RTX 3090",
        "--task",
        "generate",
        "--quantizations",
        "as published, awq",
        "--limit",
        "8",
    )
    check = (
        f"- {first['model']} in AWQ: {first['parameters'] / 1e9:.2f} x 10^9 parameters x"
        f" {4 + 20 / 128:.4g} bits are at least {weights / 2**30:.1f} GiB, of"
        f" {first['budget_bytes'] / 2**30:.1f} GiB that vLLM may use of the GPU; its cache of one"
        f" request of {first['context_length']:,} tokens and the engine's own memory make"
        f" {first['required_bytes']['expected'] / 2**30:.1f} GiB."
    )
    parts = (
        "## What can I run on a 3090",
        _request("/v1/models-for-gpu", ON_A_3090),
        (
            f"{answer['total']} models and formats of the bundled list fit or are tight, the"
            " most capable first:"
        ),
        _table(
            ("model", "parameters, 10^9", "weights", "verdict", "needs, GiB", "may use, GiB"), rows
        ),
        _terminal(*arguments),
        "### Check it",
        check,
    )
    return "\n\n".join(parts)


def _of_five(http: httpx.Client) -> str:
    answer = _asked(http, "/v1/compare", OF_FIVE)
    rows = [
        (item["model"], item["verdict"].replace("_", " "), *_gib(item)) for item in answer["items"]
    ]
    cell = next(item for item in answer["items"] if item["model"] == LLAMA)
    weights = (MATRICES + 2 * VOCABULARY * HIDDEN) * 2
    check = (
        f"- {LLAMA}: {weights / 1e9:.1f} x 10^9 bytes of bf16 weights are {weights / 2 / 2**30:.1f}"
        f" GiB on each of two GPUs, more than the {cell['budget_bytes'] / 2**30:.1f} GiB that vLLM"
        " may use: nothing else need be counted."
    )
    parts = (
        "## Which of these 5 models fits on my 2x L40S at 32k",
        _request("/v1/compare", OF_FIVE),
        _table(("model", "verdict", "needs, GiB", "may use, GiB"), rows),
        *(f"- {item['model']}: {item['note']}" for item in answer["items"] if item["note"]),
        _terminal("compare", ", ".join(FIVE), "2x L40S", "--context-lengths", "32768"),
        "### Check it",
        check,
    )
    return "\n\n".join(parts)


def _asked(http: httpx.Client, path: str, question: dict) -> dict:
    answer = http.post(path, json=question)
    answer.raise_for_status()
    return answer.json()


def _request(path: str, question: dict) -> str:
    return f"```\nPOST {path}\n{json.dumps(question)}\n```"


def _terminal(*arguments: str) -> str:
    """Return what the command prints, without a Hub."""
    with tempfile.TemporaryDirectory() as home:
        told = CliRunner().invoke(
            main,
            arguments,
            env={**os.environ, "HF_HUB_OFFLINE": "1", "HF_HOME": home, "COLUMNS": "140"},
        )
    assert told.exit_code == 0, told.output
    command = " ".join(f'"{word}"' if " " in word else word for word in arguments)
    return f"```\n$ fitgauge {command}\n{told.output.rstrip()}\n```"


def _table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, ("---",) * len(head), *rows))


def _gib(item: dict) -> tuple[str, str]:
    return (
        f"{item['required_bytes']['expected'] / 2**30:.1f}",
        f"{item['budget_bytes'] / 2**30:.1f}",
    )


def _near(derived: float, told: float, most: float) -> None:
    """Raise AssertionError where the arithmetic on the page does not give what the service
    answered."""
    assert abs(derived / told - 1) <= most, (derived, told)


_INTRODUCTION = """\
# Three questions, and how to check the answers

Written by `tests/shared_questions.py` from what the service answers over HTTP and prints in a
terminal, without a Hub (models come from the bundled snapshot). A test holds the page to the
service. Prices are dated facts (`service/fitgauge/catalog/data/instances.jsonl`), not quotes."""


def write() -> None:
    """Write the page anew."""
    with HubStandIn() as hub, serving(hub, offline=True) as url, client(url) as http:
        PAGE.write_text(page(http), encoding="utf-8")


if __name__ == "__main__":
    write()
