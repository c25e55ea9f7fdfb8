"""What a question is about: one pattern for each topic."""

import re
from collections.abc import Mapping
from typing import Literal

Topic = Literal[
    "question", "gpus", "need", "memory", "models", "count of gpus", "it fits", "plan", "log",
    "suggestions", "longest context", "most requests", "copies", "largest batch",
    "longest sequence", "time", "disk", "merging", "format", "largest", "comparison",
    "all weights", "price of tokens", "price", "as published", "fastest", "text alone", "rate",
    "cache", "layers", "no gpu", "one gpu", "whole context", "nodes", "month", "coding",
]  # fmt: skip

_WORDS = r"(?:\s+(?!(?:for|to|do|does|can|would|will|are|of|on|and)\b)[\w.-]+){0,7}\s+"
_SENDERS = (
    r"users|requests|people|clients|sessions|sequences|streams|chats|agents|conversations|dev\w+"
)
_OTHERS = (
    rf"{_WORDS}(?:{_SENDERS}|hours|days|weeks|layers|tokens|adapters|replicas|copies"
    r"|instances|models)\b"
)
"""What is counted where it is no GPU: "how many users can an A100 serve"."""

_FEWEST = (
    r"\b(?:fewest|least|minim(?:um|al)|min\.?)\s+(?:(?:number|count|amount) of\s+)?"
    r"(?:gpus?|cards?|[a-z]{1,2}\d{1,3}s?|(?:[rg]tx )?\d{4}s)\b"
)
"""As few GPUs as will do: "minimum number of H200s"."""


_PATTERNS: Mapping[Topic, str] = {
    "question": (
        r"\?|吗|吧|呢|多少|几[张卡块台]|能否|可否|是否|如何|怎么|什么|哪[些个种]|能不能"
        r"|可以.{0,20}不|够不|行不|까요|나요|ますか|ですか|ますでしょうか"
        r"|^\W*(?:how|what|which|can|could|does|do|is|are|will|would|should|may)\b"
    ),
    "gpus": (
        r"\b(?:please size|sizing)\b"
        r"|\bwhat (?:(?:should|shall|do|would|could|must) (?:i|we|you)|to) (?:buy|get|rent|order"
        r"|purchase)\b|\bwhat (?:do|would|will|does) (?:i|we|you|one|it) (?:need|take|require)\b"
        r"|\bhow many (?:for|to|do (?:i|we|you) need|would (?:i|we) need|are needed)\b"
        r"|\bhow many\W*$|\bhow many (?:rtx |gtx )?\d{4}\b"
        r"|\bhow many of (?:each|them|those|these)\b"
        rf"|\bhow (?:many|much)\b(?!{_OTHERS})[^.?]{{0,30}}"
        r"\b(?:gpus?|cards?|nodes?|machines?|(?:[rg]tx )?\d{4}s|blocks)\b"
        rf"|\bhow many\b(?!{_OTHERS})[^.?]{{0,30}}\b(?!q\d)[a-z]{{1,2}}\d{{1,3}}s?\b"
        r"|\b(?:which|what)(?:'s| is| are)?\s+(?:\w+\s+){0,6}(?:gpus?|(?:graphics? )?cards?"
        r"|hardware|setup|config(?:uration)?s?|instance|machine|device)\b|\b(?:gpu|card) count\b"
        r"|\brecommendations?\W*$"
        r"|\b(?:minimum|minimal|min|recommended|required|suitable|optimal|cheapest|smallest"
        r"|special)\b[^.?]{0,40}\b(?:gpus?|cards?|hardware|vram|setup|config\w*|requirements?"
        r"|instance|memory)\b|\b(?:hardware|gpu|vram|memory|system) requirements?\b"
        r"|\brequirements\b"
        rf"|{_FEWEST}"
        r"|多少(?:张|块|片|个|台|卡)|几(?:张|块|片|台|卡|个)|什么(?:样的)?(?:显卡|卡|配置|gpu|硬件)"
        r"|哪些(?:显卡|卡|gpu)|哪[种个](?:显卡|卡|gpu)|多少\s*(?:个)?\s*(?:gpu|a100|h100|资源|算力)"
        r"|最低.{0,6}(?:配置|要求|算力|显卡)|配置(?:推荐|要求)|推荐.{0,6}(?:配置|显卡|gpu)"
        r"|硬件(?:要求|配置|需求)|몇\s*[장대개]|(?:どの|どんな|何の)(?:gpu|グラボ)|何枚"
        r"|\bwhat is the compute\b|\bcompute (?:is )?(?:needed|required)\b"
    ),
    "need": (
        r"\bhow (?:much|many|big|large)\b[^.?]{0,60}\b(?:memory|vram|gpu|ram|gbs?|gib|gigabytes)\b"
        r"|\b(?:memory|vram|ram)\b[^.?]{0,30}\b(?:need|require|cost|usage|necessary)"
        r"|\bhow much (?:would|does|do|is|need)\b|多[大少].{0,4}(?:显存|内存|现存|資源|资源)"
        r"|(?:显存|内存).{0,8}多[大少]|얼마|どれくらい|必要な?\s*(?:vram|メモリ|gpu)"
        r"|(?:vram|メモリ).{0,8}必要"
    ),
    "memory": (
        r"\b(?:memory|vram|oom\w*|gpus?|cards?|fits?|hardware|ram|cuda out of|runs?|running|load"
        r"|loading|rig|workstation|laptop|steam deck|on-?prem|budget|kv[- ]?cache"
        r"|max[-_ ]model[-_ ]len|compute (?:is )?(?:needed|required)|deploy\w*|host"
        r"|graphics? cards?|serve|serving|infer\w*|enough|train\w*|fine-?\s?tun\w*|finetun\w*"
        r"|require\w*|lora|qlora)\b|显存|内存|现存|爆|跑|部署|运行|推理|训练|微调|显卡|够|学习|학습"
        r"|메모리|動(?:く|き|か)|メモリ|足り|載(?:る|り)|乗(?:る|り)|推論|学習|チューニング"
        r"|raspberry|phone|android|ipad"
    ),
    "models": (
        r"\brun (?:\w+ )?(?:ai|llms?|(?:local|language) (?:models?|llms?|ai)|models? locally)\b"
        r"|\b(?:which|what)\s+(?:\w+\s+){0,2}models?\b(?!\s+(?:of|require))"
        r"|\bany\s+(?:\w+\s+)?model\b"
        r"|\b(?:largest|biggest|best|smartest|strongest|most (?:capable|powerful|intelligent)"
        r"|max(?:imum)?)\s+(?:\w+\s+){0,2}(?:models?|llms?|size|thing|one)\b"
        r"|\b(?:which|what)\s+(?:\w+\s+){0,2}(?:llms?|ais?)\b"
        r"|\banything (?:useful|good|decent|worth)\b|\b(?:what|which)\b[^.?]{0,30}\bmodel sizes?\b"
        r"|\bwhich ones\b|\bhow many (?:billion )?param(?:eter)?s can\b|\bwhat (?:runs|fits)\b"
        r"|\bhow (?:big|large)(?: of)? an? (?:\w+ )?(?:model|llm)\b"
        r"|\bwhat (?:can|could|will|would|does)\b[^.?]{0,40}\b(?:run|fit|hold|train|fine-?tune)\b"
        r"|\bwhat (?:can|could|should) (?:i|we) (?:use|run|serve|host|deploy)\b"
        r"|\b(?:can|could) (?:do|run|handle) wh?[au]t\b"
        r"|\b(?:do|for|run|handle|try|host|train) (?:some |any(?:thing)? |local |with |good )*(?:ai"
        r"|llms?)\b"
        r"|\b(?:my|our|your|an?) own (?:\w+ )?(?:ai|llms?|(?:language )?models?|chat ?bots?|gpt)\b"
        r"|\bwhich of them\b"
        r"|\bwhat (?:can|could) (?!i\b|we\b|you\b|one\b)[^.?]{1,40}\b(?:do|handle)\b"
        r"|\bwhat(?:'s| is)? the (?:best|biggest|largest|most) (?:that )?(?:i|we|you)\b"
        r"|\b(?:select|choose|pick|recommend)\b[^.?]{0,40}\bmodels?\b"
        r"|\b(?:good|decent|ok(?:ay)?|enough|suitable|useful|powerful)\b[^.?]{0,12}\b(?:for"
        r"|to run)\b[^.?]{0,30}\b(?:models|llms?|ai)\b|哪些(?:大?模型|型号)|什么(?:大?模型|型号)"
        r"|多大(?:参数|规模|尺寸)?(?:量)?的?模型|最大(?:能|可以)?.{0,6}模型|多少[bB]的?模型"
        r"|哪个模型|어떤\s*모델|(?:どの|どんな|何の|最大の)モデル|一番[^。?]{0,6}モデル"
    ),
    "count of gpus": (
        r"\b(?:please size|sizing)\b|"
        rf"\bhow many\b(?!{_OTHERS})|\b(?:gpu|card) count\b|{_FEWEST}"
        r"|多少[张块片个卡]|几[张块片卡台]|最少.{0,4}[张块片卡台]|몇"
    ),
    "it fits": (
        r"\b(?:will|does|can|would|could) (?:it|this|that|they|these) (?:\w+ )?"
        r"(?:fit|oom|work|run|start)\b"
    ),
    "plan": (
        r"\b(?:parallel(?:ism|ization)? (?:strategy|layout|config\w*|plan)|lay ?out|layout|tp/pp|"
        r"(?:which|what) (?:kind of )?parallel\w*|best way to (?:train|shard|split|distribute)|"
        r"which zero|what zero|zero stage should|how (?:should|do) i (?:shard|split|parallelize))\b"
        r"|^\W*(?:please )?(?:help me )?plan\b(?! to\b)|\bplan (?:it|this|that|the training)\b"
        r"|并行策略|怎么切分|如何切分|训练方案|并行配置"
    ),
    "log": (
        r"tried to allocate\s+[\d.]+\s*[gm]i?b|model loading took|model weights take\s+[\d.]+\s*gib"
        r"|no available memory for the cache blocks|free memory on device"
        r"|to serve at least one request with the model|tokens that can be stored in kv cache"
        r"|# ?gpu blocks|kv cache size:|llama_model_load|ggml_\w+|mem usage="
    ),
    "suggestions": (  # what is asked for at the end of a text that names GPUs alone
        r"\b(?:suggestions?|recommendations?|ideas)\W*$"
    ),
    "longest context": (
        r"\b(?:what|which|how (?:long|much|big|large|many|far)|max(?:imum|imal)?|longest|largest"
        r"|biggest)\b[^.?,;]{0,24}?\b(?:context|ctx|tokens of context)\b"
        r"|\b(?:max|maximum)(?: tokens|[ _-]model[ _-]len(?:gth)?)\b"
        r"|\bhow many tokens (?:of context|can)\b|\bcontext maximum\b"
        r"|\b(?:as (?:much|long|large)(?: an?)?|the most) (?:context|ctx)\b|最大コンテキスト"
        r"|최대 ?컨텍스트|컨텍스트.{0,4}(?:얼마|몇)|コンテキスト.{0,6}(?:どこまで|いくつ|どれ)"
        r"|(?:多长|多大|多少|最长|最大)(?:的)?上下文|上下文.{0,8}(?:多长|多大|多少)"
    ),
    "most requests": (
        rf"\bhow many{_WORDS}(?:{_SENDERS}|concurrent|parallel|simultaneous)\b"
        r"|\bmax(?:imum)? (?:concurren\w+|number of (?:concurrent )?(?:users|requests))\b"
        r"|\b(?:max(?:imum)?|largest|biggest|how (?:big"
        r"|large)(?: of)? a)\b[^.?,;]{0,12}\bbatch(?:es)?\b|\bwhat concurrency\b"
        r"|\bmax[- _]num[- _]seqs?\b(?!\W*\d)|(?:多少|几)(?:个|路)?(?:并发|用户|人)|何人|몇\s*명"
        r"|(?:最大|最高)并发|并发.{0,4}(?:多少|几|多大|到哪)"
    ),
    "copies": (
        r"\bhow many\b[^.?,;]{0,16}?\b(?:replicas|copies|instances)\b|多少(?:个)?(?:副本|实例)"
        r"|\b(?:\d{1,3}|two|three|four) (?:replicas|copies)\b"
    ),
    "layers": r"\bhow many layers\b|多少层",
    "no gpu": (
        r"\b(?:no|don't have an?|do (?:i|we|you) (?:really |even )?need an?|without (?:an? |any )?)"
        r" ?gpu\b|\bcpu[- ]only\b|\bonly (?:have |got )?(?:an? |my )?cpus?\b"
        r"|\bon (?:a |the |my )?cpu\b(?! ?ram)|\b(?:raspberry pi|iphone|(?:smart|mobile)?phone"
        r"|android|ipad|pixel \d)\b|(?:没有?|无)(?:显卡|gpu)|纯 ?cpu|只有 ?cpu"
    ),
    "largest batch": (
        r"\b(?:max(?:imum|imal)?|largest|biggest|what|which|how (?:big|large))\b[^.?,;]{0,16}?"
        r"\b(?:micro[- ]?)?batch(?:[- _]?size)?\b(?!\W*\d)"
        r"|最大(?:的)?(?:批|batch)|batch ?size?.{0,6}(?:多大|多少)"
    ),
    "longest sequence": (
        r"\b(?:max(?:imum|imal)?|longest|largest|what|which"
        r"|how long(?: of)?(?: an?)?)\b[^.?,;]{0,16}?"
        r"\b(?:seq(?:uence)?s?(?:[- _]?len(?:gth)?)?|context(?: length)?|ctx)\b(?!\W*\d)"
        r"|\b(?:seq(?:uence)?s?(?:[- _]?len(?:gth)?)?|context(?: length)?|ctx)\W{0,2}max(?:imum)?\b"
        r"|(?:最长|最大|多长)(?:的)?(?:序列|上下文|长度)|(?:序列|长度|max_?len\w*).{0,6}(?:多长|多大|多少)"
    ),
    "time": (  # how long something takes, or what it costs
        r"\bhow (?:long|much time|many (?:\w+[ -])?(?:hours|days|minutes))\b"
        r"|\b(?:training|train|run) ?time\b|\btime (?:to|for) (?:train|fine)"
        r"|\bcosts? (?:to|of) (?:train|fine)|\btraining costs?\b"
        r"|how much (?:does it|will it|would it|is it to|to) (?:cost|train|fine)|多久|多长时间"
        r"|训练时间|多少钱|얼마나 걸"
    ),
    "disk": (
        r"\b(?:disk|storage)\b|\bcheckpoints? size\b|\bsize of (?:a |the )?checkpoints?\b|磁盘|硬盘"
    ),
    "merging": (  # adapters that are merged into their base
        r"\bmerg(?:e|ing)\s+(?:\w+\s+){0,2}(?:lora|adapters?|qlora|peft)\b|\bmerge_and_unload\b"
        r"|合并\s*(?:lora|适配器|权重)"
    ),
    "format": (  # which number format of the weights to take
        r"\b(?:best|which|what|right|highest|largest|biggest|recommended)\s+(?:\w+\s+){0,2}"
        r"(?:quants?|quanti[sz]ations?(?: level)?|bit ?width|bpw|gguf|precision)\b"
        r"|\bany (?:kind of |sort of )?quant\w*"
        r"|\b(?:lower(?:ing)?|reduc\w+|drop(?:ping)?)(?: the| my)? (?:quant\w*|precision)"
        r"|(?:什么|哪[种个]|多少位?)的?量化|量化(?:到|成)?(?:什么|多少|几)"
    ),
    "largest": (  # the largest model
        r"largest|biggest|\bhow (?:big|large)(?: of)? an?\b|\bmax(?:imum)? (?:model )?size\b"
        r"|最大的?|多大(?:参数|规模|尺寸)?(?:量)?的?模型"
    ),
    "comparison": (  # things side by side
        r"\bcompare\b|\bvs\.?\b|\bversus\b|\bor\b|\bdifference\b|\bbetter\b|\bthan\b|\bbetween\b"
        r"|\bwhich of (?!them|these|those)|\bworth\b|\bpoint (?:in|of)\b|\bupgrad\w+"
        r"|\bover (?:an?|the|my)\b"
        r"|对比|比较|还是|或者?|哪个好|아니면|중에|それとも|または|どちら|どっち"
    ),
    "all weights": (  # that are trained, which "full" alone says: "training Mistral 7B full"
        r"(?<!in )\bfull\b(?!(?:[ -]\w+)?[ -](?:context|ctx|length|precision|sequence|window"
        r"|epochs?|checkpoint\w*|recompute|shard\w*|dataset|data|node|nodes|gpus?|size|speed"
        r"|batch)\b)|\bfully\b(?=\s*(?:$|[.?!,;]|on\b|with\b|train|f[iu]ne|tun))"
    ),
    "price of tokens": (
        r"\b(?:price|cost|usd|dollars?|\$)\b[^.?]{0,16}\bper\b[^.?]{0,16}\btokens?\b"
        r"|\bper (?:million|1m|m|mtok|billion) ?(?:output |input )?tok(?:en)?s?\b"
        r"|/ ?m ?tok(?:en)?s?\b"
    ),
    "price": (  # what is the cheapest
        r"\bcheap\w*|\b(?:less|least|most|more) (?:expensive|cost[- ]effective)"
        r"|\bbest (?:value|price)"
        r"|\b(?:what|how much)\b[^.?]{0,24}\bcosts?\b[^.?]{0,24}\b(?:run|serve|host|rent"
        r"|deploy)\w*\b|\bcosts?\b[^.?]{0,24}\bto (?:run|serve|host|rent|deploy)\b|便宜|划算|性价比"
        r"|安い"
    ),
    "as published": (  # weights as they are published
        r"\bfull[- ]precision\b|\b(?:un|non-?)quanti[sz]ed\b|\b(?:without|no) quanti[sz]ation\b"
        r"|\bnative precision\b|不量化|非量化|全精度"
    ),
    "fastest": (  # what is the fastest
        r"\bfast(?:er|est)\b|\bquicke(?:r|st)\b|更快|最快"
    ),
    "text alone": (  # a model served for text alone, whatever else it reads
        r"\b(?:text|language[ -]?model)[ -]?only\b|\bonly (?:for )?text\b|\bnur text\b"
        r"|\bsolo texto\b"
        r"|\b(?:no|without|w/o|disabl\w+|skip\w*|drop\w*) (?:the |any )?(?:vision|images?|mmproj)\b"
        r"|纯文本|只[用需要]?文[本字]"
    ),
    "rate": (  # how fast a launch is
        r"\bhow (?:fast|quick|slow)\b|^\W*(?:tok/s|tokens?/s|tokens? (?:per|a) second|t/s|tps)\b"
        r"|\bhow many (?:tokens?|tok|t|texts|embeddings|documents|passages|sentences)\b(?! can"
        r"| does it hold)|\b(?:speed|throughput)\b"
        r"|\b(?:what|which)\b[^.?]{0,30}\b(?:tokens?/s|tok/s|t/s|tps)\b"
        r"|\b(?:tok/s|tokens?/s(?:ec)?|t/s|tps)\s*\?"
        r"|(?<!\b\d )(?<!\b\d\d )(?<!\d\d\d )(?<!\d)\b(?:tok/s|tokens?/s(?:ec)?|tokens? (?:per"
        r"|a) second|t/s|tps)\W*$|多快|速度|每秒多少|多少 ?(?:个 ?)?tokens? ?(?:每秒|/ ?s|一秒)"
        r"|(?:何|몇) ?(?:トークン|tokens?|토큰)|(?:トークン|tokens?) ?/ ?秒|초당"
    ),
    "cache": (  # how large the KV cache is
        r"\b(?:how (?:much|big|large|many)|what(?:'s| is)?|size of)\b[^.?,;]{0,32}\bkv[- ]?cache\b"
        r"|\bkv[- ]?cache (?:of|for)\b"
        r"|\bkv[- ]?cache\b[^.?,;]{0,16}\b(?:size|per token|usage|take|need|how)\b"
        r"|kv ?cache ?.{0,6}(?:多大|多少)"
    ),
    "one gpu": (  # several models on one GPU
        r"\bon the same\b|\bnext to\b|\bbesides? (?:an?|the|it)\b|\btogether\b(?! ai)"
        r"|\bside[- ]by[- ]side\b|\balongside\b|\bconcurrently\b|\bsame (?:gpu|card|machine)\b"
        r"|\bboth (?:of them )?(?:on|in) (?:one|a single|an?)\b|\bat the same time\b"
        r"|\bsimultaneously\b|\bat once\b"
        r"|\w \+ [^?.]{0,60}\bon (?:one|a single)\b|同一[张块台]|同时"
    ),
    "whole context": (  # all the tokens that the model reads, without their number
        r"(?:\b(?:(?:with|at|for|on|use|using|support\w*|needs?|wants?)\s+|w/\s*)(?:(?:its|the|a"
        r"|my)\s+)?(?:max(?:imum|imal)?|longest)|\b(?:full|whole|entire"
        r"|native))\s+(?:possible\s+)?(?:context|ctx)(?:\s+(?:length|window|size))?\b(?!\s*(?:of|is"
        r"|=|:)?\s*\d)|(?:满|全|最大)上下文(?!.{0,6}(?:多少|多大|多长|是什么))"
    ),
    "month": r"\b(?:per|an?|each|every) month\b|\bmonthly\b|/ ?mo(?:nth)?\b|每个?月",
    "nodes": (  # how many nodes are needed, each of the GPUs that it counts
        r"\bhow many (?:nodes|machines|servers|hosts|boxes)\b"
    ),
    "coding": (
        r"\b(?:for|best|good|top|local|decent) (?:\w+ )?(?:coding|programming)\b"
        r"|\bcod(?:ing|e)[ -](?:models?|llms?|assistants?|agents?|tasks?|generation|completion)\b"
        r"|写代码|编程|コーディング|코딩|программирован\w*|\bprogramaci[oó]n\b"
    ),
}
_TOPICS = {topic: re.compile(pattern, re.IGNORECASE) for topic, pattern in _PATTERNS.items()}


def is_about(text: str, *topics: Topic) -> bool:
    """Return whether a text is about one of some topics, whatever else it is about."""
    return any(_TOPICS[topic].search(text) for topic in topics)
