"""Words of questions about memory, in English, Chinese, Japanese and Korean, by what they mean;
those of other languages are in `languages`.

No GPU and no model stands here: those words come from the catalog and the snapshot."""

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from fitgauge.engine.serving.registry import ENGINES

Phrase = tuple[str, ...]
"""Latin words in small letters, without what separates them: ("max", "model", "len")."""

_SETTINGS: Mapping[str, str] = {
    "LENGTH": (
        "context|context length|context window|context size|ctx|ctx size|num ctx|n ctx|max ctx|"
        "max model len|max model length|model max length|max seq len|max seq length|seq len|"
        "seq length|max len|max seq|max sequence length|sequence length|sequence len|"
        "sequences length|max length|max tokens|max input length|max context|max context length|"
        "maximum context length|maximum model length|session len|cutoff len|cutoff length|"
        "max words|seq|len|length|contextsize|long context|seqlen|seqence length|"
        "ollama context length|max total tokens|context len|sequence|"
        "per user|per request|per session|per person|per client|per chat|per query|per dev"
    ),
    "PROMPT": (
        "prompt|prompts|prompt length|prompt tokens|prompt size|prompt len|input|inputs|"
        "input length|input tokens|input len|input size|max prompt length|max prompt tokens"
    ),
    "OUTPUT": (
        "output|outputs|output length|output tokens|output len|max new tokens|new tokens|"
        "response|responses|completion|completions|completion length|completion tokens|"
        "max completion length|"
        "answers|answer|replies|reply|"
        "response length|response tokens|generated tokens|generation length|max output tokens"
    ),
    "USERS": (
        "users|user|concurrent users|concurrent requests|concurrent|concurrency|concurrently|"
        "at once|at a time|at the same time|in parallel|"
        "parallel users|parallel requests|simultaneous users|simultaneous requests|simultaneous|"
        "chats|simultaneous chats|concurrent chats|clients|client|"
        "concurrent clients|requests|sessions|devs|developers|engineers|employees|colleagues|"
        "analysts|students|agents|coders|parallel sequences|max num seqs|max num seq|people|"
        "ppl|folks|num parallel|n parallel|requests concurrently|streams|"
        "running requests|max running requests"
    ),
    "BATCH": (
        "batch|batch size|batchsize|micro batch|micro batch size|microbatch|mbs|max batch size|"
        "per device train batch size|per device batch size|batch size per device|"
        "batch size per gpu|per gpu batch size|batch per gpu|batch per device|per gpu batch|"
        "micro batch size per gpu|train batch size|bs"
    ),
    "GLOBAL_BATCH": "global batch size|global batch|total batch size|gbs|effective batch size",
    "ACCUMULATION": "gradient accumulation|gradient accumulation steps|grad accum",
    "TP": "tp|tensor parallel|tensor parallel size|tensor parallelism|tp size",
    "PP": "pp|pipeline parallel|pipeline parallel size|pipeline parallelism|pp size",
    "DP": "dp|data parallel|data parallel size|data parallelism",
    "EP": "ep|expert parallel|expert parallel size|expert parallelism",
    "RANK": "lora rank|lora r|rank",
    "ZERO": "zero|zero stage|zero3|zero2|zero1",
    "UTILIZATION": "gpu memory utilization|mem fraction static|gpu memory fraction",
    "KV": (
        "kv|cache|kv cache|kv cache in|kv in|kvcache|kv cache dtype|kv cache quantization|"
        "cache type k|cache type v|ctk|ctv"
    ),
    "RATE": "tokens s|tokens per second|tok s|token s|t s|tps|tokens sec|tokens second",
    "FIRST_TOKEN": (
        "ttft|ttft in|time to first token|time to first token in|first token|first token in|"
        "first token latency|time to the first token|time to the first token in"
    ),
    "CACHED": (
        "cache hit|cache hits|cache hit rate|prefix cache hit|prefix cache hits|"
        "prefix cache hit rate|prefix hit rate|prefix cache|prefix caching hit rate|"
        "prompt cache hit rate|hit rate"
    ),
    "TOKENS": "tokens|token|tok|ctx tokens|context tokens",
    "GPUS": (
        "gpu|gpus|card|cards|graphics card|graphics cards|graphic card|graphic cards|vcard|vram|"
        "video memory|gpu memory|graphics memory|video card|video cards|gpu ram|gfx card|"
        "unified memory|gpu vram|npu|npus|accelerators|vram gpu"
    ),
    "RAM": "ram|system memory|cpu memory|host memory|cpu ram|system ram|ddr4|ddr5",
    "MACHINES": "node|nodes|machine|machines|server|servers|hosts",
    "HOURLY": "per hour|an hour|hour|hr|hourly|a hour|h",
    "MONTHLY": "per month|a month|monthly|month|mo",
    "MONEY": "usd|dollars|dollar|bucks",
    "DISK": "ssd|disk|storage|hdd|nvme|swap",
    "SAMPLES": (
        "samples|sample|examples|training samples|training examples|rows|records|conversations|"
        "dialogues|data points|datapoints"
    ),
    "EPOCHS": "epochs|epoch|num train epochs|num epochs",
    "OTHER": "|".join(  # machines whose numbers count nothing
        [f"raspberry pi {number}" for number in range(3, 6)]
        + ["atlas 300", "atlas 800", "atlas 900", "per gpu", "per card", "each gpu"]
    ),
    "UNIT": (  # what a number may count that no request has a field for
        "layers|layer|steps|step|iterations|hours|minutes|seconds|"
        "days|weeks|months|years|times|core|cores|threads|experts|percent|adapters|images|"
        "workers|bits|instances|points|frames|requests per second|requests a second|"
        "queries per second|prompts per second|rps|qps"
    ),
}

_HAN: Mapping[str, str] = {
    "LENGTH": (
        "上下文长度|上下文窗口|上下文|序列长度|最大长度|输入长度|文本长度|长度|长文本|컨텍스트|문맥|"
        "시퀀스길이|시퀀스|コンテキスト長|コンテキスト|シーケンス長"
    ),
    "USERS": (
        "并发请求|并发数|并发量|个并发|并发|路并发|个用户|用户数|用户|个人|人同时|人|동시|명|"
        "同時接続数|同時接続|同時|ユーザー"
    ),
    "BATCH": "バッチサイズ|バッチ|批大小|批次大小|批次|批量大小|배치",
    "GPUS": (
        "显卡内存|显卡|显存|现存|卡|显卡显存|计算卡|加速卡|顯卡|顯存|视频内存|그래픽카드|"
        "비디오메모리"
    ),
    "RAM": "系统内存|主机内存|内存|记忆体|記憶體|메모리",
    "DISK": "硬盘|磁盘|固态",
    "TOKENS": "个token|词元|토큰|トークン",
    "FIRST_TOKEN": "首字延迟|首词延迟|首token延迟|首包延迟",
    "CACHED": "前缀缓存命中率|缓存命中率|命中率",
    "MONEY": "以内预算|预算|万元|元",
    "ONE": "单机单卡|单卡|单张|单块|单个|단일",
    "RATE": "每秒",
    "SAMPLES": "条数据|条样本|个样本|条|샘플",
    "EPOCHS": "个epoch|个轮次|轮|에폭",
    "UNIT": "层|步|小时|分钟|天|个月|年|핵|부|芯|次|倍|分|题|级|行|个",
}

_ENGINES: Mapping[str, str] = {
    "lmdeploy": "lmdeploy",
    "djl-serving": "djl|djl serving",
    "lm studio": "lm studio|lmstudio",
    "ktransformers": "ktransformers",
    "exllama": "exllama|exllamav2|exllamav3|tabbyapi|exl",
    "koboldcpp": "koboldcpp|kobold",
    "mlc-llm": "mlc|mlc llm",
    "triton": "triton",
    "nim": "nim",
}
"""Engines as people name them that are no engine of the registry: most have no estimate."""

_METHODS: Mapping[str, str] = {
    "qlora": "qlora|q lora|fsdp qlora",
    "lora": "lora|peft|rslora|loraconfig|lora config",
    "dora": "dora",
    "full": (
        "full fine tune|full fine tuning|full finetune|full finetuning|full training|fully train|"
        "full param|full parameter|full parameters|full parameter fine tuning|full sft|sft full|"
        "full fine tunning|fully fine tune|fully finetune|full weight|from scratch|pretrain|"
        "pretraining|pre train|pre training|full ft|fft|full weights|all parameters|"
        "fully finetuning|fully fine tuning|fully finetuned|fully fine tuned|full tuning|"
        "fully tune|fully funetuning|full funetuning|full finetunning|full parameter tuning|"
        "full param tuning|full parameter finetuning|full model fine tuning|without any peft"
    ),
    "grpo": "grpo|dapo|gspo",
    "reward": "reward model|reward models|reward modeling|reward modelling",
    "ppo": "ppo",
    "dpo": "dpo",
    "orpo": "orpo",
    "simpo": "simpo",
    "kto": "kto",
    "rloo": "rloo|reinforce",
}
"""Methods and algorithms of training, as the requests name them."""

MEMORY = frozenset(
    {"显存", "现存", "顯存", "显卡显存", "显卡内存", "vram", "gpu memory", "video memory"}
)
"""Words of GPUs that mean their memory, which no number counts."""

METHODS = ("full", "lora", "dora", "qlora")
"""Those that are methods: the others are algorithms."""

_HAN_METHODS: Mapping[str, str] = {
    "full": (
        "全量参数微调|全参数微调|全参微调|全量微调|全量训练|全参数训练|全参训练|全参数|全参|全量|"
        "预训练|从头训练|非lora|전체파인튜닝|풀파인튜닝|사전학습"
    ),
}

TRAINING = (
    "train", "training", "finetune", "finetuning", "finetuned", "fine tune", "fine tuning",
    "fine tuned", "fine tunning", "tune", "tuning", "tuned", "sft", "rlhf", "trainer", "trains",
    "finetunning", "funetuning", "fintuning", "fintune", "finetunig", "traing", "trainings",
    "deepspeed", "backward", "unsloth", "axolotl", "lora",
    "qlora", "galore", "adafactor", "optimizer", "trl",
    "llama factory", "gradient checkpointing", "zero 3", "zero3", "zero 2", "zero2", "accumulation",
    "pretrain", "pretraining", "sequence length", "adamw", "reward", "verl", "openrlhf",
)  # fmt: skip
"""Latin phrases of training."""

HAN_TRAINING = (
    "微调", "训练", "训的", "微調", "訓練", "学习率", "学习", "학습", "파인튜닝", "미세조정",
    "훈련", "ファインチューニング", "学習させ",
)  # fmt: skip

SERVING = (
    "inference", "infer", "serve", "serving", "deploy", "deploying", "deployment", "host", "run",
    "running", "generate", "chat",
)  # fmt: skip


def _phrases(groups: Mapping[str, str]) -> Iterator[tuple[Phrase, str]]:
    for kind, texts in groups.items():
        for text in texts.split("|"):
            yield tuple(text.split()), kind


PHRASES: Mapping[Phrase, str] = MappingProxyType(dict(_phrases(_SETTINGS)))
"""The kind of token that a phrase is."""

ENGINE_PHRASES: Mapping[Phrase, str] = MappingProxyType(
    {
        **dict(_phrases(_ENGINES)),
        **{tuple(text.split()): row.name for row in ENGINES.values() for text in row.phrases},
    }
)
"""The engine that a phrase names."""

_TRAINERS: Mapping[str, str] = {
    "trl": "trl|sfttrainer|sft trainer",
    "unsloth": "unsloth",
    "axolotl": "axolotl",
    "llama-factory": "llama factory|llamafactory",
    "ms-swift": "ms swift|msswift",
    "torchtune": "torchtune",
    "torchtitan": "torchtitan",
    "litgpt": "litgpt|lit gpt",
    "lightning": "pytorch lightning|lightning trainer|lightning ai",
    "nemo": "nemo framework|megatron bridge|nvidia nemo",
    "nemo-automodel": "nemo automodel|automodel",
    "verl": "verl",
    "openrlhf": "openrlhf|open rlhf",
}
"""Training tools as people write them: words that are names of models too stay out."""

_FRAMEWORKS: Mapping[str, str] = {
    "fsdp": "fsdp|fsdp1|fsdp2|fully sharded data parallel",
    "deepspeed": "deepspeed|deep speed",
    "megatron": "megatron|megatron lm|megatron core",
}

TRAIN_ALONE = frozenset({"fsdp", "megatron"})
"""Frameworks that train and serve nothing."""

TRAINER_PHRASES: Mapping[Phrase, str] = MappingProxyType(dict(_phrases(_TRAINERS)))
FRAMEWORK_PHRASES: Mapping[Phrase, str] = MappingProxyType(dict(_phrases(_FRAMEWORKS)))
METHOD_PHRASES: Mapping[Phrase, str] = MappingProxyType(dict(_phrases(_METHODS)))

HAN_PHRASES: Mapping[str, tuple[str, str | None]] = MappingProxyType(
    {text: (kind, None) for kind, texts in _HAN.items() for text in texts.split("|")}
    | {
        text: ("METHOD", value)
        for value, texts in _HAN_METHODS.items()
        for text in texts.split("|")
    }
)
"""Phrases of scripts without spaces: the kind of token, and its value where it has one."""

NUMBER_WORDS: Mapping[str, int] = MappingProxyType(
    {
        "one": 1, "single": 1, "two": 2, "dual": 2, "both": 2, "three": 3, "triple": 3, "four": 4,
        "quad": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "ten": 10, "twelve": 12,
        "sixteen": 16, "ein": 1, "eine": 1, "einer": 1, "zwei": 2, "drei": 3, "vier": 4, "acht": 8,
        "un": 1, "une": 1, "deux": 2, "trois": 3, "quatre": 4, "huit": 8,
        "dos": 2, "tres": 3, "cuatro": 4, "ocho": 8, "duas": 2, "dois": 2, "quatro": 4, "oito": 8,
    }
)  # fmt: skip

HAN_NUMBERS: Mapping[str, int] = MappingProxyType(
    {
        "一": 1, "二": 2, "两": 2, "兩": 2, "双": 2, "三": 3, "四": 4, "五": 5, "六": 6, "七": 7,
        "八": 8, "九": 9, "十": 10, "十六": 16, "单": 1, "한": 1, "두": 2, "세": 3, "네": 4,
        "하나": 1,
    }
)  # fmt: skip

NOISE = frozenset(
    {
        "of", "is", "to", "the", "a", "an", "about", "around", "only", "just", "up", "set", "at",
        "as", "by", "with", "approximately", "roughly", "nearly", "each", "per", "my", "nvidia's",
        "even", "length", "size", "mode", "version", "versions", "type", "equal", "equals", "max",
        "maximum", "over", "like", "using", "same", "default", "recommended", "value", "limit",
        "from", "increase", "full", "standard", "total", "local", "google", "free", "was", "be",
        "used", "da", "di", "met", "von", "mit", "der", "die", "das", "de", "la", "le", "avec",
        "installed", "old", "new", "spare", "idle", "modded", "identical", "refurbished", "under",
        "below", "within",
    }
)  # fmt: skip
"""Words between a setting and its number that change nothing."""

HAN_NOISE = frozenset("的为到是设约达至了大小个左右의로の")
"""Signs that stand between a setting and its number and change nothing."""
