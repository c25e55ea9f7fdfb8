"""Disaggregated serving in manifests: prefill and decode have servers of their own."""


def transfers(server):
    return [remark.rule for remark in server.remarks].count("kv-transfer")


PREFILL_AND_DECODE = """kind: LLMInferenceService
metadata: {name: a}
spec:
  model: {uri: hf://Qwen/Qwen3-32B}
  parallelism: {tensor: 4}
  template:
    containers: [{name: main, resources: {limits: {nvidia.com/gpu: 4}}}]
    nodeSelector: {nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3}
  prefill:
    parallelism: {tensor: 2}
    template:
      containers: [{name: main, resources: {limits: {nvidia.com/gpu: 2}}}]
      nodeSelector: {nvidia.com/gpu.product: NVIDIA-L40S}
"""


def test_prefill_and_decode_have_parallelism_and_gpus_of_their_own(check):
    decode, prefill = check(PREFILL_AND_DECODE).servers
    assert (decode.name, decode.gpu, decode.gpu_count) == (
        "LLMInferenceService/a/decode", "H100 SXM", 4,
    )  # fmt: skip
    assert (prefill.name, prefill.gpu, prefill.gpu_count) == (
        "LLMInferenceService/a/prefill", "L40S", 2,
    )  # fmt: skip


def test_both_halves_are_told_in_one_sentence(check):
    answer = check(PREFILL_AND_DECODE)
    assert answer.summary == "Prefill fits on 2 x L40S; decode fits on 4 x H100 SXM."
    decode, prefill = answer.servers
    assert prefill.request["disaggregation"] == "prefill"
    assert transfers(prefill) == 1
    assert transfers(decode) == 0
    worse = check(PREFILL_AND_DECODE.replace("NVIDIA-L40S", "NVIDIA-L4"))
    assert worse.summary.startswith("Prefill does not fit on 2 x L4;")


def test_halves_of_ray_serve_are_read(check):
    half = """
      {POOL}_config:
        model_loading_config: {{model_id: Qwen/Qwen3-8B}}
        accelerator_type: L40S
        engine_kwargs: {{tensor_parallel_size: {RANKS}, max_model_len: 8192}}"""
    text = "applications:\n- import_path: ray.serve.llm:build_pd_openai_app\n  args:"
    halves = [
        half.format(POOL=pool, RANKS=ranks) for pool, ranks in (("prefill", 1), ("decode", 2))
    ]
    answer = check(text + "".join(halves))
    assert answer.summary == "Prefill fits on 1 x L40S; decode fits on 2 x L40S."
