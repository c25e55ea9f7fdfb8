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

DATA = Path(__file__).parent.parent / "service/fitgauge/catalog/data/instances.jsonl"

AWS_GPUS = {
    ("a100", 40): "a100-40gb-sxm", ("a100", 80): "a100-80gb-sxm", ("a10g", 22): "a10g-24gb",
    ("b200", 179): "b200-192gb",
    ("b300", 268): "b300-288gb", ("h100", 80): "h100-sxm-80gb", ("h200", 141): "h200-sxm-141gb",
    ("l4", 22): "l4-24gb",
    ("l40s", 44): "l40s-48gb", ("rtx-pro-4500", 32): "rtx-pro-4500-blackwell-server-32gb",
    ("rtx-pro-server-6000", 96): "rtx-pro-6000-blackwell-server-96gb", ("t4", 16): "t4-16gb",
    ("t4g", 16): "t4g-16gb", ("v100", 32): "v100-32gb", ("inferentia2", 0): "inferentia-2-32gb",
    ("trainium", 0): "trainium-1-32gb",
    ("trainium2", 0): "trainium-2-96gb",
}  # fmt: skip
"""The label of a card and its memory [GiB]; slices of an L4 have less and are left out."""

AZURE_GPUS = {
    r"NC\d+s_v3|NC\d+rs_v3": "v100-16gb", r"ND40rs_v2": "v100-32gb", r"NC\d+as_T4_v3": "t4-16gb",
    r"NC\d+ads_A10_v4": "a10-24gb",
    r"NV(36|72)adm?s_A10_v5": "a10-24gb", r"NC\d+ads_A100_v4": "a100-80gb-pcie",
    r"ND96asr_v4": "a100-40gb-sxm",
    r"ND96amsr_A100_v4": "a100-80gb-sxm", r"NCC?\d+adi?s_H100_v5": "h100-nvl-94gb",
    r"ND96isr_H100_v5": "h100-sxm-80gb",
    r"ND96isr_H200_v5": "h200-sxm-141gb", r"ND96isr_MI300X_v5": "mi300x-192gb",
    r"ND128isr_NDR_GB200_v6": "gb200-192gb",
}  # fmt: skip

GCP_GPUS = {
    "a100": "a100-40gb-sxm", "a100-80gb": "a100-80gb-sxm", "h100-80gb": "h100-sxm-80gb",
    "h100-80gb-mega": "h100-sxm-80gb",
    "l4": "l4-24gb", "rtx6000": "rtx-pro-6000-blackwell-server-96gb",
}  # fmt: skip

TPU_SLICES = {
    "TPU v5e": ("tpu-v5e-16gb", {"v5litepod-{}": 1, "ct5lp-hightpu-{}t": 1}, (1, 4, 8)),
    "TPU v6e": ("tpu-v6e-trillium-32gb", {"v6e-{}": 1, "ct6e-standard-{}t": 1}, (1, 4, 8)),
    "TPU v5p": ("tpu-v5p-95gb", {"v5p-{}": 2, "ct5p-hightpu-{}t": 1}, (4,)),
    "TPU v4 pod": ("tpu-v4-32gb", {"v4-{}": 2, "ct4p-hightpu-{}t": 1}, (4,)),
}
"""Slices of one host and the machines of Kubernetes: names with what they count a chip as, and
the chips of those that are sold."""

OCI_GPUS = {
    "GPU2": "p100-16gb", "GPU3": "v100-16gb", "GPU4": "a100-40gb-sxm", "GPU.A10": "a10-24gb",
    "GPU.A100-v2": "a100-80gb-sxm",
    "GPU.L40S": "l40s-48gb", "GPU.H100": "h100-sxm-80gb", "GPU.H200": "h200-sxm-141gb",
    "GPU.B200": "b200-192gb",
    "GPU.GB200": "gb200-192gb", "GPU.MI300X": "mi300x-192gb", "GPU.MI355X": "mi355x-288gb",
}  # fmt: skip

COREWEAVE_GPUS = {
    "b200-8x": "b200-192gb", "gd-1xgh200": "gh200-96gb", "gd-8xa100-i128": "a100-80gb-sxm",
    "gd-8xh100ib-i128": "h100-sxm-80gb",
    "gd-8xh200ib-i128": "h200-sxm-141gb", "gd-8xl40-i128": "l40-48gb",
    "gd-8xl40s-i128": "l40s-48gb",
    "rtxp6000-8x": "rtx-pro-6000-blackwell-server-96gb",
}  # fmt: skip

ALIBABA_GPUS = {
    r"gn5-": "p100-16gb", r"gn5i-": "p4-8gb", r"(ebm)?gn6i[.-]": "t4-16gb",
    r"(ebm)?gn6v[.-]": "v100-16gb", r"gn6e-": "v100-32gb",
    r"gn7i-": "a10-24gb", r"ebmgn7ix\.": "a10-24gb", r"gn7e-": "a100-80gb-sxm",
    r"ebmgn7ex?\.": "a100-80gb-sxm",
}  # fmt: skip
"""Families with whole cards; vgn and sgn rent out slices."""

LISTED_CLOUDS = {
    "digitalocean": "digitalocean", "hyperstack": "hyperstack", "jarvis-labs": "jarvislabs",
    "lambda": "lambda", "runpod": "runpod",
    "verda": "verda", "vultr": "vultr",
}  # fmt: skip

LISTED_GPUS = {
    ("A10", 24): "a10-24gb", ("A16", 16): "a16-16gb", ("A30", 24): "a30-24gb",
    ("A40", 48): "a40-48gb",
    ("A100 PCIe", 40): "a100-40gb-pcie", ("A100 SXM", 40): "a100-40gb-sxm",
    ("A100 SXM4", 40): "a100-40gb-sxm",
    ("A100 PCIe", 80): "a100-80gb-pcie", ("A100 NVLink", 80): "a100-80gb-pcie",
    ("A100 SXM", 80): "a100-80gb-sxm",
    ("A100 SXM4 80GB", 80): "a100-80gb-sxm", ("A6000", 48): "rtx-a6000-48gb",
    ("RTX A4000", 16): "rtx-a4000-16gb",
    ("RTX A6000", 48): "rtx-a6000-48gb", ("B200", 180): "b200-192gb",
    ("B200 SXM6", 180): "b200-192gb",
    ("HGX B300", 288): "b300-288gb", ("B300 SXM6", 262): "b300-288gb",
    ("GB300 SXM6", 288): "gb300-288gb", ("GH200", 96): "gh200-96gb",
    ("H100 PCIe", 80): "h100-pcie-80gb", ("H100 NVLink", 80): "h100-pcie-80gb",
    ("H100 NVL", 94): "h100-nvl-94gb",
    ("H100 SXM", 80): "h100-sxm-80gb", ("H100 SXM5", 80): "h100-sxm-80gb",
    ("HGX H100", 80): "h100-sxm-80gb",
    ("H200", 141): "h200-sxm-141gb", ("HGX H200", 141): "h200-sxm-141gb",
    ("H200 SXM", 141): "h200-sxm-141gb",
    ("H200 SXM5", 141): "h200-sxm-141gb", ("L4", 24): "l4-24gb", ("L40", 48): "l40-48gb",
    ("L40S", 48): "l40s-48gb",
    ("MI300X", 192): "mi300x-192gb", ("MI350X", 288): "mi350x-288gb",
    ("Quadro RTX 6000", 24): "quadro-rtx-6000-24gb",
    ("RTX 3090", 24): "rtx-3090-24gb", ("RTX 5090", 32): "rtx-5090-32gb",
    ("RTX A5000", 24): "rtx-a5000-24gb",
    ("RTX 4000 Ada", 20): "rtx-4000-ada-20gb", ("RTX 4090", 24): "rtx-4090-24gb",
    ("RTX 6000 Ada", 48): "rtx-6000-ada-48gb",
    ("RTX Pro 6000 SE", 96): "rtx-pro-6000-blackwell-server-96gb", ("Tesla V100", 16): "v100-16gb",
}  # fmt: skip
"""What a list of prices by the card calls a card, and its memory [GB]; names that leave the card
open are not here."""

LISTED_SIZES: dict[str, tuple[int, ...]] = {
    "verda": (1, 2, 4, 8), "hyperstack": (1, 2, 4, 8), "digitalocean": (1, 8),
    "runpod": tuple(range(1, 9)), "vultr": (1, 2, 4),
}  # fmt: skip
"""How many cards the machines of clouds that price one card hold; of others one is known.

Sources: verda: public files 44312437711, 42739396742 (instance types 1A6000.10V to 8A6000.80V);
hyperstack: public file 13125216791 (flavour n3-RTX-A6000x8),
skypilot-org/skypilot-catalog@d9a304ea01:catalogs/v8/primeintellect/vms.csv (n3-A100x1, x2, x4,
x8-NVLink); digitalocean: public files 19694603138, 67352852188 (gpu-mi300x1, x8); runpod:
docs.runpod.io runpodctl create pods (gpuCount), public file 70515924098 (maxGpuCountSecureCloud
8); vultr: public file 70332790178 (L40S 1, 2, 4)."""
LISTED_SIZES_OF = {
    ("verda", "A100 SXM4"): (1, 8), ("verda", "GB300 SXM6"): (1, 2, 4),
    ("digitalocean", "L40S"): (), ("digitalocean", "RTX 4000 Ada"): (),
    ("digitalocean", "RTX 6000 Ada"): (), ("hyperstack", "A100 NVLink"): (8,),
    ("hyperstack", "H100 NVLink"): (8,),
    ("vultr", "A100 PCIe"): (), ("vultr", "A16"): (), ("vultr", "A40"): (), ("vultr", "GH200"): (),
}  # fmt: skip

LAMBDA_MACHINES = {
    "Quadro RTX 6000": "gpu_1x_rtx6000", "A6000": "gpu_1x_a6000", "A10": "gpu_1x_a10",
    "A100 SXM": "gpu_1x_a100_sxm4",
    "A100 PCIe": "gpu_1x_a100", "GH200": "gpu_1x_gh200", "H100 PCIe": "gpu_1x_h100_pcie",
    "H100 SXM": "gpu_1x_h100_sxm5",
    "B200 SXM6": "gpu_1x_b200_sxm6",
}  # fmt: skip

CRUSOE_MACHINES = {
    "A100-PCIe-80GB": ("a100-80gb-pcie", "a100-80gb.8x"),
    "A100-SXM-80GB": ("a100-80gb-sxm", "a100-80gb-sxm-ib.8x"),
    "H100-SXM-80GB": ("h100-sxm-80gb", "h100-80gb-sxm-ib.8x"),
    "L40S-48GB": ("l40s-48gb", "l40s-48gb.8x"),
    "MI300X-192GB": ("mi300x-192gb", "mi300x-192gb-ib.8x"),
}  # fmt: skip
"""What the list of prices calls a card, and its machine of eight (public files 37832678595,
54617544455)."""


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
    """Specifications and labels of cards from Karpenter's documentation, prices of us-east-1
    from its table."""
    types, prices = (
        "website/content/en/docs/reference/instance-types.md",
        "pkg/providers/pricing/zz_generated.pricing_aws.go",
    )
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
    path, specifications = (
        "pkg/providers/pricing/zz_generated.pricing.go",
        "cluster-autoscaler/cloudprovider/azure/azure_instance_types.go",
    )
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
    """Clouds that price one card at a time; where machines have no names, "by the card". Cards
    that strangers lend are left out."""
    path = "src/data/offerings.json"
    for row in json.loads(pricing.text(path)):
        name = row["gpu_model"].removeprefix("NVIDIA ").removeprefix("AMD ")
        cloud, gpu = (
            LISTED_CLOUDS.get(row["provider_id"]),
            LISTED_GPUS.get((name, row["vram_gb"])),
        )
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
    """Machines of eight, priced by the card."""
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
