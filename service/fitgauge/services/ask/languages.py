"""Words of other languages by what they mean in English, so that every rule is of one language.

Chinese, Japanese and Korean have no spaces between words: their phrases are in `vocabulary`."""

import re
from collections.abc import Mapping

_COUNTED = (
    r"(?= (?:(?:видео)?карт|kart|gpu|\w+(?:s|en|ern|i|ów|ов|ей|ий)\b"
    r"|(?:rtx |gtx |rx )?(?:[a-z]{1,2}\d{1,3}|\d{4})\b))"
)
"""What follows where things are counted, and no memory."""

_WORDS: Mapping[str, str] = {
    # What is asked
    "how long": (
        r"wie lange|combien de temps|cu[aá]nto (?:tiempo|tarda\w*)|quanto tempo"
        r"|сколько времени|jak długo|ne kadar sür\w*"
    ),
    "largest model": (
        r"(?:modell[oi]|modelos?|mod[eè]les?) (?:pi[ùu]|m[áa]s|mais|(?:le |les )?plus)"
        r" (?:grand[ei]?s?|gros|potent[ei]s?|capa[zc]\w*)"
    ),
    "largest": (
        r"grootste|gr(?:ö|oe)(?:ß|ss)te[rnms]?|(?:le |la |les )?plus gr(?:and|os)(?:e|se)?s?"
        r"|pi[ùu] grand[ei]|m[áa]s grandes?|maior(?:es)?(?! (?:que|do))"
        r"|сам\w{2,3} (?:больш|мощн)\w+|наибольш\w+|największ\w+|en büyük|सबसे बड़ा"
    ),
    "longest": (r"längste[rnms]?|(?:le |la )?plus long(?:ue)?|самый длинный|najdłuższ\w+|en uzun"),
    "maximum": (
        r"maximale[rnms]?|m[aá]xim[oa]s?|massim[oa]|maximale?|максимальн\w+|maksymaln\w+"
        r"|maksimum|azami"
    ),
    "model": r"modell|modell[oi]|modelo|mod[eè]le|модел[ьией]\w*|modelu|मॉडल",
    "models": r"modelle|modellen|modelos|mod[eè]les|modele|modeller(?:i)?",
    "which": (
        r"welche[rsnm]?|quel(?:le)?s?|cu[aá]l(?:es)?|qual[ei]?|quais"
        r"|qu[eé](?= (?:model|gpu|tarjet|placa))|как(?:ая|ую|ой|ие|ое)|który|która|które"
        r"|jaki\w?|hangi|कौन सा"
    ),
    "how many": (
        r"wie ?viele|cu[aá]nt[oa]s|quant[ie](?! (?:gb|gib|vram|memoria))|quant[oa]s"
        rf"|combien de{_COUNTED}|сколько{_COUNTED}|ile{_COUNTED}|kaç(?! gi?b)|कितने"
    ),
    "how much": (
        r"wie ?viel|hoeveel|combien(?: de)?|cu[aá]nt[oa]|quant[oa](?: de)?|сколько|kaç(?= gi?b)"
        r"|ne kadar|ile(?= (?:vram|gi?b|ram|gpu|pami|trzeba|potrzeb))|कितनी|कितना"
    ),
    "cheapest": (
        r"(?:billig|günstig)ste[rnms]?|(?:le |la )?moins ch[eè]re?s?"
        r"|(?:m[áa]s|mais) barat[oa]s?|più economic[oa]|дешевле|сам\w{2,3} дешев\w+"
        r"|najtańsz\w+|en ucuz"
    ),
    "best": (
        r"beste[rnms]?|meilleure?s?|(?:mejor|melhor|miglior)(?=e? ?mod)|лучш\w+|najlepsz\w+"
        r"|en iyi"
    ),
    "better": r"besser|mieux|mejor|melhor|migliore|lepiej|lepsz\w+|daha iyi",
    "versus": (
        r"gegenüber|verglichen mit|par rapport (?:à|aux?)|rispetto a(?:lla)?|frente a"
        r"|comparad[oa] (?:con|a|com)|по сравнению с"
    ),
    "or": r"oder|ou|oppure|или|lub|veya|o(?= (?:una?|dos|due|tres?)\b)",
    "faster": (
        r"schneller\w*|plus rapides?|(?:m[áa]s|mais) r[áa]pid[oa]s?|più veloc[ei]|быстре\w+"
        r"|szybsz\w+"
    ),
    "per second": r"por segundo|par seconde|pro sekunde|al secondo|в секунду|na sekundę|saniyede",
    "second": r"zweite[rnms]?|deuxième|segund[oa]|втор(?:ая|ую|ой)|drug(?:a|ą|i|iej)|ikinci",
    "need": (
        r"brauch\w*|benötig\w*|faut|necesit\w+|precis[oa]m?(?:os)?|нужн\w+|potrzeb\w+|gerek\w*"
        r"|lazım|चाहिए"
    ),
    # What is done
    "fits": (
        r"passt|passen|tient|rentrent?|cabe[mn]?|ci sta(?:nno)?|помест\w+|влез\w+|zmieści"
        r"|zmieszcz\w+|sığar\w*"
    ),
    "runs": (
        r"läuft|laufen|draaien|draait|tourne|tourner|gira(?:re)?|rodar?|funcionar?[áa]?|funktioniert|потянет"
        r"|запуст\w+|пойд[её]т|działa|uruchomi\w*|çalış\w+|corre[rn]?|चल\w*|chale(?:ga|gi|ga kya)"
    ),
    "enough": (
        r"reicht|reichen|suffi(?:t|sent|sant)|bastan?|alcanzan?|достаточно|хват(?:ит|ает)"
        r"|wystarcz\w+|genoeg|yeter\w*"
    ),
    "fine-tuning": (
        r"feintun\w+|feinabstimm\w+|nachtrainier\w+|affin(?:er|age)|afinar|finetunen"
        r"|ajuste fino|дообуч\w*|dostr[oa][ij]\w*|ince ayar\w*"
    ),
    "training": (
        r"(?:an)?trainier\w+|entra[iî]ne\w+|entren\w+|trein(?:ar|o|amento|ando)|addestra\w+"
        r"|обуч\w*|(?:wy)?tren(?:ow\w+|ing\w*)|eğit\w+|ट्रेन"
    ),
    "lower quantization": (
        r"(?:bajo|bajar|baj[aá]ndo\w*|reduzc?o|reducir|baixar|reduzir|riduco|baisser)"
        r" (?:la |a |o )?(?:c|q)uanti\w+"
    ),
    "lora": r"лор(?:а|ы|у|ой|е)",
    "quantization": r"quantisierung\w*|quantification|cuantización|quantização|quantizzazione",
    "quantized": r"quantisiert\w*|quantifié\w*|cuantizad\w+|quantizad\w+|квантован\w+",
    "full": (
        r"vollständig\w*|complet(?:o|a|amente|ement)?|complète(?:ment)?"
        r"|полн(?:ое|ого|ый|остью)|pełn\w+|tam(?= fine)"
    ),
    # What is named and counted
    "context": (
        r"kontext(?:länge|fenster)?|contexte|contexto|contesto|контекст\w*|kontekst\w*"
        r"|bağlam\w*"
    ),
    "sequence length": r"sequenzlänge|longueur de séquences?|длин\w+ последовательност\w+",
    "batch size": r"batch-?größe|taille de (?:batch|lot)|размер\w* бат?ча",
    "concurrent": (
        r"gleichzeitig\w*|simultan[ée]e?s?|simult[âaá]ne[oa]s|simultane[ie]|contemporane[ie]"
        r"|одновременн\w+|jednoczesn\w+|eşzamanlı"
    ),
    "users": (
        r"nutzern?|benutzern?|anwendern?|utilisateurs?|usu[aá]rios|utenti|пользовател\w*"
        r"|użytkownik\w*|kullanıcı\w*"
    ),
    "people": (
        r"leuten?|person(?:en|as|e|nes)|pessoas|personnes|mitarbeiter\w*|kolleg\w+"
        r"|empleados|funcion[áa]rios|человек\w*|людей|сотрудник\w*|os[oó]b|kişi\w*"
    ),
    "requests": r"anfragen|requêtes|richieste|peticiones|запрос\w*",
    "samples": r"beispielen?|exemples|ejemplos|exemplos|esempi|przykład\w*",
    "epochs": r"epochen|époques|épocas|epoche",
    "tokens": r"токен\w*|tokenów|tokeny|jetons",
    "gpu": (
        r"grafikkarten?|karten?|cartes? graphiques?|tarjetas?(?: gr[áa]ficas?)?"
        r"|placas?(?: de v[íi]deo)?|sched[ae](?: video| grafic[ah]e?)?|видеокарт\w*"
        r"|карт(?:а|е|ы|у|ой|ах)?|kart(?:y|ę|ach)(?: graficzn\w+)?|ekran kart\w+"
    ),
    "vram": r"videospeichers?|grafikspeichers?|видеопамят\w*",
    "ram": r"arbeitsspeichers?|оперативн\w+(?: памят\w*)?|озу",
    "memory": r"speichers?|mémoire|mem[oó]ria|памят\w*|pamięc\w+|bellek\w*",
    "bit": r"бит\w*|bit(?:ach|y|ów|ow\w+)",
    "laptop": r"port[aá]til|ordinateurs? portables?|portatile|ноутбук\w*|laptopie|dizüstü",
    "one": r"jedn(?:ą|ej|ym|a)|одн(?:а|у|ой|ом)",
    "used": (
        r"gebraucht\w*|alte[nr]?|neue[nr]?|usad[oa]s?|viej[oa]s?|nuev[oa]s?|velh[oa]s?|vieilles?"
        r"|стар(?:ые|ых)|used(?= [a-z]*\d)"
    ),
    "two": r"twee|dw(?:ie|óch)|дв(?:а|е|ух)|iki|due(?= (?:nvidia |rtx |gtx |[a-z]?\d))",
    "three": r"trzech|trzy|тр(?:и|[её]х)|üç",
    "four": r"cztery|czterech|четыр(?:е|[её]х)|quattro|dört",
    "without": r"ohne|sans|senza|без|bez|s(?:in|em)(?= (?:gpu|tarjeta|placa|uma? |una? ))",
    "per month": r"pro monat|im monat|par mois|al mes|por m[eê]s|al mese|в месяц",
}
"""Forms of words, by their meaning."""

_MEANINGS = tuple(_WORDS)
_FORMS = re.compile(
    r"(?<!\w)(?:"
    + "|".join(rf"(?P<w{at}>{forms})" for at, forms in enumerate(_WORDS.values()))
    + r")(?!\w)",
    re.IGNORECASE,
)
"""Where a word begins alone: every form is tried there, and nowhere else."""
_GIGABYTES = re.compile(r"(?<=\d)(\s?)(?:Go\b|[ГгGg][Бб]|gigas?\b|гиг\w*|ギガ(?:バイト)?)")
"""As French, Russian and Japanese write them: "80 Go"."""
_BITS = re.compile(r"(?<=\d)\s?(?:비트|ビット|比特)")
_K = re.compile(r"(?<=\d)\s?к\b", re.IGNORECASE)
_THOUSANDS = re.compile(
    r"(?<=\d) ?(?:thousand|mil(?:le|a)?|tausend|тыс\w*\.?|bin)(?!\w)", re.IGNORECASE
)
_ELIDED = re.compile(r"\b(combien d)['’](?=\w)", re.IGNORECASE)
"""French: "combien d'utilisateurs"."""
_ENDING = re.compile(r"(?<=\d)(?:ern|er|'?s(?= met)|ах|'?(?:de|da|te|ta))(?= |$)")
"""What German and Turkish add to a number: "zwei 3090ern"."""


def in_english(text: str) -> str:
    """Return a text with words of other languages by their meaning, in the order that they have."""
    text = _ELIDED.sub(r"\1e ", text)
    text = _GIGABYTES.sub(r"\1GB", text)
    text = _THOUSANDS.sub("000", _K.sub("k", _BITS.sub("bit", text)))
    return _FORMS.sub(lambda match: _MEANINGS[int(str(match.lastgroup)[1:])], _ENDING.sub("", text))
