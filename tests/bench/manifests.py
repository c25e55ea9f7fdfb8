"""A thousand Deployments, each with a question of its own, in seconds of one core."""

import asyncio
import time

from bundled_models import SNAPSHOT, offline_questions
from fitgauge.commands.manifests import manifest_checker
from fitgauge.services.manifests.service import Source

SERVERS = 1000
PRODUCTS = ("NVIDIA-H100-80GB-HBM3", "NVIDIA-A100-SXM4-80GB", "NVIDIA-L40S", "Tesla-T4")
DEPLOYMENT = """apiVersion: apps/v1
kind: Deployment
metadata: {{name: chat-{number}}}
spec:
  template:
    spec:
      nodeSelector: {{nvidia.com/gpu.product: {product}}}
      containers:
      - name: vllm
        image: vllm/vllm-openai:v0.11.0
        args: [{model}, --max-model-len, "{length}"]
        resources: {{limits: {{nvidia.com/gpu: "1"}}}}
"""


def sources():
    models = sorted(SNAPSHOT.own_ids)
    for number in range(SERVERS):
        text = DEPLOYMENT.format(
            number=number,
            product=PRODUCTS[number % len(PRODUCTS)],
            model=models[number % len(models)],
            length=2048 + number,
        )
        yield Source(f"{number}.yaml", text)


def lines():
    """Return the line to print."""
    checker, files = manifest_checker(offline_questions()), list(sources())
    start = time.process_time()
    answer = asyncio.run(checker.check(files, {}))
    seconds = time.process_time() - start
    yield f"manifests, {len(answer.servers):,} servers       {seconds:8.1f} s of CPU   (at most 60)"
