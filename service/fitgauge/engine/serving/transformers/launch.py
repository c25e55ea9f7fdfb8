"""How to load a model with transformers. Source: transformers 5.23, modeling_utils.py,
from_pretrained."""

from fitgauge.engine.model.model import Model
from fitgauge.engine.serving.launch import Flags, Launch, shell

ONLINE_FORMATS = {
    "int8": "load_in_8bit=True",
    "nf4": "load_in_4bit=True, bnb_4bit_quant_type='nf4'",
    "fp4": "load_in_4bit=True",
}

DTYPES = {"F16": "float16", "BF16": "bfloat16", "F32": "float32"}


def command(launch: Launch) -> str:
    """Return the command line. device_map spreads layers over GPUs; tensor parallelism (tp_plan)
    takes a process per GPU."""
    model, ranks = launch.model, launch.workload.tensor_parallel
    imported, config = f"{_auto_class(model)} as M", ""
    if launch.quantization:
        imported = f"{imported}, BitsAndBytesConfig as B"
        config = f", quantization_config=B({launch.quantization})"
    if launch.revision:
        config += f", revision={launch.revision!r}"
    spread = "tp_plan='auto'" if ranks > 1 else "device_map='auto'"
    load = (
        f"from transformers import {imported}; M.from_pretrained({launch.repository!r},"
        f" dtype={launch.dtype or 'auto'!r}, {spread}{config})"
    )
    launcher: Flags = ["torchrun", "--nproc-per-node", ranks, "--no-python"] if ranks > 1 else []
    return shell([*launcher, "python", "-c", load])


def _auto_class(model: Model) -> str:
    """Return the class of transformers that loads the whole model. Source: transformers 5.23,
    models/auto/modeling_auto.py."""
    if model.spec.task == "encode":
        return "AutoModel"
    if model.spec.task == "encoder_decoder":
        speech = model.spec.model_type == "whisper"
        return "AutoModelForSpeechSeq2Seq" if speech else "AutoModelForSeq2SeqLM"
    return "AutoModelForImageTextToText" if model.spec.sees_images else "AutoModelForCausalLM"
