"""What clouds call their GPUs and machines, by cloud: the rows of the catalog they mean."""

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
"""The label of a GPU and its memory [GiB]; slices of an L4 have less and are left out."""

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
"""Families with whole GPUs; vgn and sgn rent out slices."""

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
"""What a list of prices by the GPU calls a GPU, and its memory [GB]; names that leave the GPU
open are not here."""

LISTED_SIZES: dict[str, tuple[int, ...]] = {
    "verda": (1, 2, 4, 8), "hyperstack": (1, 2, 4, 8), "digitalocean": (1, 8),
    "runpod": tuple(range(1, 9)), "vultr": (1, 2, 4),
}  # fmt: skip
"""How many GPUs the machines of clouds that price one GPU hold; of others one is known.

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
"""What the list of prices calls a GPU, and its machine of eight (public files 37832678595,
54617544455)."""
