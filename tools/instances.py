"""Rebuilds the rows of service/fitgauge/catalog/data/instances.jsonl that follow from public
repositories.

    python tools/instances.py CHECKOUTS

CHECKOUTS holds git clones named as in `READERS`. Machines that are read are replaced; all others
stay. A clone that is not there leaves its rows as they are."""

import json
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import msgspec

from fitgauge.catalog.accelerators import load
from fitgauge.catalog.instances import Offer
from instance_names import (
    ALIBABA_GPUS,
    AWS_GPUS,
    AZURE_GPUS,
    COREWEAVE_GPUS,
    CRUSOE_MACHINES,
    GCP_GPUS,
    LAMBDA_MACHINES,
    LISTED_CLOUDS,
    LISTED_GPUS,
    LISTED_SIZES,
    LISTED_SIZES_OF,
    OCI_GPUS,
    TPU_SLICES,
)

DATA = Path(__file__).parent.parent / "service/fitgauge/catalog/data/instances.jsonl"


class Clone:
    """A git clone: its files, and the name of its newest commit."""

    def __init__(self, folder: Path, owner: str) -> None:
        self._folder, self._owner = folder, owner

    def text(self, path: str) -> str:
        """Return the file at `path`, as committed last."""
        return self._git("show", f"HEAD:{path}")

    def source(self, *paths: str) -> str:
        """Return how a row names the files at `paths`."""
        commit = self._git("log", "-1", "--format=%h", "--abbrev=10").strip()
        return f"{self._owner}/{self._folder.name}@{commit}:{', '.join(paths)}"

    def day(self, path: str, text: str = "") -> str:
        """Return the day the file at `path` was committed, or `text` came into it."""
        return self._git(
            "log", "-1", "--format=%cs", *((f"-S{text}",) if text else ()), "--", path
        ).strip()

    def _git(self, *arguments: str) -> str:
        return subprocess.run(
            ("git", "-C", str(self._folder), *arguments), check=True, capture_output=True, text=True
        ).stdout


def _range(prices: list[float], day: str) -> dict[str, Any]:
    """Return the fields of a price over regions; a price of nothing is none."""
    positive = [price for price in prices if price > 0]
    if not positive:
        return {}
    low, high = (float(f"{price:.6g}") for price in (min(positive), max(positive)))
    return {
        "usd_per_hour_low": low,
        "usd_per_hour_high": high,
        "as_of": day,
        "regions": len(positive),
    }


def _go_types(text: str) -> dict[str, dict[str, int]]:
    """Instance types of the cluster autoscaler's tables: vCPUs, memory and accelerators by name."""
    entries = re.findall(r'"([^"]+)": \{([^}]*)\}', text)
    return {
        name: {
            key: int(value)
            for key, value in re.findall(r"(VCPU|MemoryMb|MemoryKi|GPU): +(\d+)", body)
        }
        for name, body in entries
    }


def aws(karpenter: Clone, autoscaler: Clone) -> Iterator[Offer]:
    """Specifications and labels of GPUs from Karpenter's documentation, prices of us-east-1
    from its table."""
    types = "website/content/en/docs/reference/instance-types.md"
    prices = "pkg/providers/pricing/zz_generated.pricing_aws.go"
    specifications = "cluster-autoscaler/cloudprovider/aws/ec2_instance_types.go"
    table = karpenter.text(prices)
    day = re.search(r"generated at ([\d-]{10})", table)[1]  # type: ignore[index]
    cost = {name: float(price) for name, price in re.findall(r'"([\w.-]+)": ([\d.]+)', table)}
    for block in karpenter.text(types).split("### `")[1:]:
        labels = dict(re.findall(r"\|karpenter\.k8s\.aws/instance-([\w-]+)\|([^|]+)\|", block))
        gpu = labels.get("gpu-name") or labels.get("accelerator-name", "")
        accelerator = AWS_GPUS.get((gpu, int(labels.get("gpu-memory", 0)) // 1024))
        if accelerator:
            name = block[: block.index("`")]
            yield Offer(
                cloud="aws",
                instance=name,
                accelerator_id=accelerator,
                count=int(labels.get("gpu-count") or labels["accelerator-count"]),
                vcpus=int(labels["cpu"]),
                memory_gib=int(labels["memory"]) / 1024,
                source=karpenter.source(types, prices),
                **_range([cost.get(name, 0)], day),
            )
    for name, spec in _go_types(autoscaler.text(specifications)).items():
        if name.startswith("p3."):
            yield Offer(
                cloud="aws",
                instance=name,
                accelerator_id="v100-16gb",
                count=spec["GPU"],
                vcpus=spec["VCPU"],
                memory_gib=spec["MemoryMb"] / 1024,
                source=f"{autoscaler.source(specifications)}; {karpenter.source(prices)}",
                **_range([cost.get(name, 0)], day),
            )


def azure(karpenter: Clone, autoscaler: Clone) -> Iterator[Offer]:
    """Prices of every region from Karpenter's table, specifications from the cluster
    autoscaler's."""
    path = "pkg/providers/pricing/zz_generated.pricing.go"
    specifications = "cluster-autoscaler/cloudprovider/azure/azure_instance_types.go"
    table = karpenter.text(path)
    day = re.search(r"generated at ([\d-]{10})", table)[1]  # type: ignore[index]
    cost = defaultdict(list)
    for name, price in re.findall(r'"(Standard_N\w+)":\s*([\d.]+)', table):
        cost[name].append(float(price))
    for name, spec in _go_types(autoscaler.text(specifications)).items():
        gpu = next(
            (
                gpu
                for pattern, gpu in AZURE_GPUS.items()
                if re.fullmatch(f"Standard_({pattern})", name)
            ),
            None,
        )
        if gpu and spec["GPU"]:
            yield Offer(
                cloud="azure",
                instance=name,
                accelerator_id=gpu,
                count=spec["GPU"],
                vcpus=spec["VCPU"],
                memory_gib=spec["MemoryMb"] / 1024,
                source=f"{autoscaler.source(specifications)}; {karpenter.source(path)}",
                **_range(cost[name], day),
            )


def gcp(karpenter: Clone, calculator: Clone, gpuhunt: Clone) -> Iterator[Offer]:
    """Prices of every region from Karpenter's table, specifications from a cost calculator; TPU
    slices by the chip."""
    path = "pkg/providers/pricing/initial-prices.json"
    regions = json.loads(karpenter.text(path))["prices"].values()
    machines = re.findall(
        r"(?m)^    ((?:a\d|g\d)\w*-[\w-]+):\n((?:      .*\n)+)", calculator.text("build/gcp.yml")
    )
    for name, body in machines:
        spec = dict(re.findall(r"      ([\w-]+): ([\d.]+)", body))
        gpu = next((key for key in GCP_GPUS if key in spec), None)
        if gpu and float(spec[gpu]) >= 1:
            yield Offer(
                cloud="gcp",
                instance=name,
                accelerator_id=GCP_GPUS[gpu],
                count=int(spec[gpu]),
                vcpus=int(spec["cpu"]),
                memory_gib=float(spec["ram"]),
                source=f"{calculator.source('build/gcp.yml')}; {karpenter.source(path)}",
                **_range(
                    [region["on_demand"].get(name, 0) for region in regions], karpenter.day(path)
                ),
            )
    path = "src/gpuhunt/resources/tpu_pricing.json"
    for version, prices in json.loads(gpuhunt.text(path)).items():
        accelerator, names, sizes = TPU_SLICES.get(version, ("", {}, ()))
        for (name, counted), chips in product(names.items(), sizes):
            yield Offer(
                cloud="gcp",
                instance=name.format(chips * counted),
                accelerator_id=accelerator,
                count=chips,
                source=gpuhunt.source(path),
                **_range(
                    [price["On Demand (USD)"] * chips for price in prices.values()],
                    gpuhunt.day(path),
                ),
            )


def oci(karpenter: Clone) -> Iterator[Offer]:
    """Yield one price in every region, by the accelerator."""
    path = "chart/config/oci-shape-meta.json"
    for row in json.loads(karpenter.text(path))["prices"]:
        shape = re.fullmatch(r"((?:VM|BM)\.(GPU[\w.-]*)\.(\d+))(?: .*)?", row["shapeName"])
        if shape and (gpu := OCI_GPUS.get(shape[2])):
            price = _range([row["ocpuUnitPrice"] * int(shape[3])], karpenter.day(path)) | {
                "regions": None
            }
            yield Offer(
                cloud="oci",
                instance=shape[1],
                accelerator_id=gpu,
                count=int(shape[3]),
                source=karpenter.source(path),
                **price,
            )


def coreweave(autoscaler: Clone) -> Iterator[Offer]:
    """Specifications; no price is public there."""
    path = "cluster-autoscaler/cloudprovider/coreweave/coreweave_instance_types.go"
    for name, spec in _go_types(autoscaler.text(path)).items():
        if name in COREWEAVE_GPUS:
            yield Offer(
                cloud="coreweave",
                instance=name,
                accelerator_id=COREWEAVE_GPUS[name],
                count=spec["GPU"],
                vcpus=spec["VCPU"],
                memory_gib=round(spec["MemoryKi"] / 2**20, 1),
                source=autoscaler.source(path),
            )


def alibaba(priceserver: Clone) -> Iterator[Offer]:
    """Specifications; the list prices there are in yuan, so none is given in dollars."""
    path = "pkg/client/builtin-data/alibabacloud_price.json"
    seen: set[str] = set()
    for region in json.loads(priceserver.text(path)).values():
        for name, spec in region["instanceTypePrices"].items():
            gpu = next(
                (
                    gpu
                    for pattern, gpu in ALIBABA_GPUS.items()
                    if re.match(rf"ecs\.{pattern}", name)
                ),
                None,
            )
            if gpu and spec["gpu"] and name not in seen:
                seen.add(name)
                yield Offer(
                    cloud="alibaba",
                    instance=name,
                    accelerator_id=gpu,
                    count=spec["gpu"],
                    vcpus=spec["vcpu"],
                    memory_gib=spec["memory"],
                    source=priceserver.source(path),
                )


def listed(pricing: Clone) -> Iterator[Offer]:
    """Clouds that price one GPU at a time; where machines have no names, "by the card". GPUs
    that strangers lend are left out."""
    path = "src/data/offerings.json"
    for row in json.loads(pricing.text(path)):
        name = row["gpu_model"].removeprefix("NVIDIA ").removeprefix("AMD ")
        cloud = LISTED_CLOUDS.get(row["provider_id"])
        gpu = LISTED_GPUS.get((name, row["vram_gb"]))
        lent = row["is_spot"] or row["tier"] == "community" or "Bare Metal" in (row["notes"] or "")
        if cloud and gpu and not lent:
            yield Offer(
                cloud=cloud,
                instance=LAMBDA_MACHINES[name] if cloud == "lambda" else f"{name} by the card",
                accelerator_id=gpu,
                count=1,
                sizes=LISTED_SIZES_OF.get((cloud, name), LISTED_SIZES.get(cloud, ())),
                vcpus=row["vcpu"],
                memory_gib=row["ram_gb"],
                source=f"{pricing.source(path)} ({row['source_url']})",
                **_range([row["price_usd_hour"]], row["collected_at"]) | {"regions": None},
            )


def crusoe(gpuhunt: Clone) -> Iterator[Offer]:
    """Machines of eight, priced by the GPU."""
    path = "src/gpuhunt/providers/crusoe.py"
    day = gpuhunt.day(path, "GPU_PRICING: dict")
    for name, price in re.findall(r'"([\w-]+)": \((\d+\.\d+), ', gpuhunt.text(path)):
        if name in CRUSOE_MACHINES:
            accelerator, machine = CRUSOE_MACHINES[name]
            cost = _range([8 * float(price)], day) | {"regions": None}
            yield Offer(
                cloud="crusoe",
                instance=machine,
                accelerator_id=accelerator,
                count=8,
                source=gpuhunt.source(path),
                **cost,
            )


READERS: tuple[tuple[Callable[..., Iterator[Offer]], tuple[str, ...]], ...] = (
    (aws, ("aws/karpenter-provider-aws", "kubernetes/autoscaler")),
    (azure, ("Azure/karpenter-provider-azure", "kubernetes/autoscaler")),
    (
        gcp,
        (
            "cloudpilot-ai/karpenter-provider-gcp",
            "Cyclenerd/google-cloud-pricing-cost-calculator",
            "dstackai/gpuhunt",
        ),
    ),
    (oci, ("oracle/karpenter-provider-oci",)),
    (coreweave, ("kubernetes/autoscaler",)),
    (alibaba, ("cloudpilot-ai/priceserver",)),
    (crusoe, ("dstackai/gpuhunt",)),
    (listed, ("tardellirs/gpu-pricing",)),
)


def main(checkouts: Path) -> None:
    """Write the file anew, ordered by cloud, accelerator, count and name."""
    rows = [msgspec.json.decode(line, type=Offer) for line in DATA.read_bytes().splitlines()]
    for reader, repositories in READERS:
        clones = [
            Clone(checkouts / name, owner)
            for owner, name in (repository.split("/") for repository in repositories)
        ]
        if all((checkouts / repository.split("/")[1]).exists() for repository in repositories):
            read = list(reader(*clones))
            rows = [
                row
                for row in rows
                if (row.cloud, row.instance) not in {(one.cloud, one.instance) for one in read}
            ] + read
    rows.sort(key=lambda row: (row.cloud, row.accelerator_id, row.count, row.instance))
    for row in rows:
        load().get(row.accelerator_id)
    offers = (
        {key: value for key, value in msgspec.to_builtins(row).items() if value not in (None, ())}
        for row in rows
    )
    DATA.write_text("".join(json.dumps(row) + "\n" for row in offers), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
