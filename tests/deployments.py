"""A Kubernetes deployment of a server, with arguments of its own."""

DEPLOYMENT = """apiVersion: apps/v1
kind: Deployment
metadata:
  name: chat
spec:
  template:
    spec:
      containers:
      - name: vllm
        image: vllm/vllm-openai:v0.11.0
        args: [ARGS]
        resources:
          limits: {LIMITS}
      nodeSelector: {nvidia.com/gpu.product: PRODUCT}
"""


def deployment(arguments, limits='nvidia.com/gpu: "1"', product="NVIDIA-L4"):
    text = DEPLOYMENT.replace("ARGS", arguments).replace("LIMITS", limits)
    return text.replace("PRODUCT", product)


def rules(server):
    return [remark.rule for remark in server.remarks]
