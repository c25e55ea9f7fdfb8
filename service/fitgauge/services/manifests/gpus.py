"""The GPUs that a container asks for: resources, MIG slices, claims, and what its pod selects."""

import re
from collections.abc import Iterator, Mapping

from msgspec import Struct

from fitgauge.services.manifests.containers import Container, Note
from fitgauge.services.manifests.quantities import count_of
from fitgauge.services.manifests.yaml_text import (
    Block,
    Node,
    Text,
    block_at,
    blocks_at,
    items_at,
    text_at,
)

_PRODUCT_LABELS = (
    "nvidia.com/gpu.product", "amd.com/gpu.product-name", "cloud.google.com/gke-accelerator",
    "karpenter.k8s.aws/instance-gpu-name", "eks.amazonaws.com/instance-gpu-name",
    "gpu.nvidia.com/class", "gpu.nvidia.com/model",
    "node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type",
)  # fmt: skip
"""Labels of nodes that name a GPU or a machine, the plainest first."""
_LABEL_VALUES = {("cloud.google.com/gke-accelerator", "nvidia-tesla-a100"): "A100 40GB"}
"""Values of labels that mean less than they say elsewhere. Source: the A100 40GB manifests of
GoogleCloudPlatform/kubernetes-engine-samples, ai-ml/llm-serving-gemma/vllm."""
_OTHER_LABEL = re.compile(r"gpu|accelerator|instance-type", re.IGNORECASE)
_NAMES_A_GPU = re.compile(r"(?=.*[A-Za-z])(?=.*\d)[\w. /:-]{2,63}")
_WHOLE = re.compile(
    r"(?:nvidia\.com|amd\.com)/gpu|gpu\.intel\.com/(?:i915|xe)|habana\.ai/gaudi"
    r"|google\.com/tpu"
)
_KINDS = {"habana.ai/gaudi": ("Gaudi 2", "Gaudi 3")}
"""GPUs that a resource may be, where nothing else names one: those in the catalog."""
_SHARED = re.compile(r"nvidia\.com/(?:gpu|mig-[\w.]+)\.shared")
_SLICE = re.compile(r"nvidia\.com/mig-(?P<slice>\d{1,2}g\.\d{1,3}gb)[\w.+-]*")
_DRA_CLASS = re.compile(r"gpu|mig|gaudi|npu|tpu|accelerator")
_DRA_PRODUCT = re.compile(r"(?:productName|model)[^'\"]{0,80}['\"](?P<name>[^'\"]{2,80})['\"]")
_DRA_SLICE = re.compile(r"profile[^'\"]{0,40}['\"](?P<slice>\d{1,2}g\.\d{1,3}gb)['\"]")
_DRA_MEMORY = re.compile(r"memory[^'\"]{0,80}['\"](?P<size>\d{1,6}(?:Gi|G))['\"]")
_PATTERN_SIGNS = re.compile(r"\(\?i\)|\.[*+]|[\^$()\\]")
_SHARED_PRODUCT = "-SHARED"


class Gpus(Struct, frozen=True):
    """The GPUs of one pod."""

    names: tuple[Text, ...] = ()
    """What may be a GPU's name, the plainest first; those of one label are alternatives."""
    count: int | None = None
    """How many; None where the manifest says none."""
    mig_slice: Text | None = None
    """The MIG slice that is asked for in place of a whole GPU."""
    line: int | None = None
    """The line that asks for them."""
    notes: tuple[Note, ...] = ()
    """What is shared with others."""


def gpus_of(container: Container, claims: Mapping[str, Block]) -> Gpus:
    """Return the GPUs of a container. claims: resource claims and their templates by name."""
    names = [container.gpu] if container.gpu is not None else []
    names += _selected(container.pod) or _selected(container.followers)
    notes: list[Note] = []
    count, mig_slice, line = container.gpu_count, None, None
    for resource, value in _resources(container.resources):
        quantity = count_of(value)
        found_slice = _SLICE.fullmatch(resource)
        shared = _SHARED.fullmatch(resource)
        if not (quantity and (found_slice or shared or _WHOLE.fullmatch(resource))):
            continue
        count, line = (count or quantity), value.line
        names = names or [_text(name, value) for name in _KINDS.get(resource, ())]
        if found_slice:
            mig_slice = _text(found_slice["slice"], value)
        if shared:
            notes.append(_shared_note(value.line, resource))
    for request in _claimed(container, claims):
        count, mig_slice, line = _of_claim(request, names, count, mig_slice, line)
    if any(name.endswith(_SHARED_PRODUCT) for name in names) and not notes:
        shared_name = next(name for name in names if name.endswith(_SHARED_PRODUCT))
        notes.append(_shared_note(shared_name.line, shared_name))
    return Gpus(tuple(names), count, mig_slice, line, tuple(notes))


def _text(value: str, at: Text) -> Text:
    text = Text(value)
    text.line = at.line
    return text


def _shared_note(line: int, name: str) -> Note:
    return Note(
        line,
        f"`{name}` is a GPU in time slices: its memory is shared, and what others hold of it is"
        " not counted.",
    )


def _resources(resources: Block) -> Iterator[tuple[str, Text]]:
    """Yield each resource once, limits before requests."""
    seen = set()
    for kind in ("limits", "requests"):
        for name, value in block_at(resources, kind).items():
            if name not in seen and isinstance(value, Text):
                seen.add(name)
                yield name.strip(), value


def _claimed(container: Container, claims: Mapping[str, Block]) -> Iterator[Block]:
    """Yield the device requests of the claims that a container uses."""
    used = {text_at(claim, "name") for claim in blocks_at(container.resources, "claims")}
    for claim in blocks_at(container.pod, "resourceClaims"):
        if text_at(claim, "name") not in used:
            continue
        name = text_at(claim, "resourceClaimTemplateName") or text_at(claim, "resourceClaimName")
        spec = block_at(claims.get(name or ""), "spec")
        spec = block_at(spec, "spec") or spec
        for request in blocks_at(spec, "devices", "requests"):
            alternatives = blocks_at(request, "firstAvailable")
            yield block_at(request, "exactly") or (alternatives[0] if alternatives else request)


def _of_claim(
    request: Block, names: list[Text], count: int | None, mig_slice: Text | None, line: int | None
) -> tuple[int | None, Text | None, int | None]:
    """Add what a device request names to `names`; return count, MIG slice and line with it."""
    if not _DRA_CLASS.search(text_at(request, "deviceClassName") or ""):
        return count, mig_slice, line
    number = count_of(text_at(request, "count"))
    count = (count or 0) + (1 if number is None else number)
    for selector in blocks_at(request, "selectors"):
        expression = text_at(selector, "cel", "expression")
        if expression is None:
            continue
        product, profile = _DRA_PRODUCT.search(expression), _DRA_SLICE.search(expression)
        memory = _DRA_MEMORY.search(expression)
        if product:
            names.append(_text(_PATTERN_SIGNS.sub(" ", product["name"]).strip(), expression))
        elif memory:
            names.append(_text(memory["size"].replace("Gi", "GiB"), expression))
        if profile:
            mig_slice = _text(profile["slice"], expression)
    share = text_at(request, "capacity", "requests", "memory")
    if share is not None:
        names.insert(0, _text(share.replace("Gi", "GiB"), share))
    return count, mig_slice, line or request.line


def _selected(pod: Block) -> list[Text]:
    """Return the values of labels that a pod selects its nodes by and that may name a GPU."""
    labels: dict[str, list[Text]] = {}
    for name, value in block_at(pod, "nodeSelector").items():
        _label(labels, name, value)
    accelerators = block_at(pod, "acceleratorTypes")
    for value in items_at(accelerators, "labelValues"):
        _label(labels, text_at(accelerators, "labelKey") or "", value)
    affinity = block_at(pod, "affinity", "nodeAffinity")
    required = block_at(affinity, "requiredDuringSchedulingIgnoredDuringExecution")
    terms = blocks_at(required, "nodeSelectorTerms") + blocks_at(pod, "nodeSelectorTerms")
    for preferred in blocks_at(affinity, "preferredDuringSchedulingIgnoredDuringExecution"):
        terms.append(block_at(preferred, "preference"))
    for term in terms:
        for expression in blocks_at(term, "matchExpressions"):
            values = expression.get("values")
            if text_at(expression, "operator") == "In" and isinstance(values, list):
                for value in values:
                    _label(labels, text_at(expression, "key") or "", value)
    ordered = [name for name in _PRODUCT_LABELS if name in labels]
    ordered += [name for name in labels if name not in _PRODUCT_LABELS]
    return [value for name in ordered for value in labels[name]]


def _label(labels: dict[str, list[Text]], name: str, value: Node) -> None:
    if (
        isinstance(value, Text)
        and (name in _PRODUCT_LABELS or _OTHER_LABEL.search(name))
        and _NAMES_A_GPU.fullmatch(value)
    ):
        meaning = _LABEL_VALUES.get((name, value))
        labels.setdefault(name, []).append(_text(meaning, value) if meaning else value)
