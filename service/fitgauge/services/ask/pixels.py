"""Sizes of images in a question: "1024x1024 images"."""

import re

IMAGE = r"(?:images?|pictures?|photos?|screenshots?)"
PIXELS = re.compile(
    rf"\b(\d{{3,5}}) ?[x*] ?(\d{{3,5}})(?= ?(?:px|pixels?)?[ -]{IMAGE}\b)"
    rf"|(?<=\b)(?:{IMAGE} (?:are |is |of |at |with |sized? )*)(\d{{3,5}}) ?[x*] ?(\d{{3,5}})\b",
    re.IGNORECASE,
)
"""Pixels next to a word for images."""


def image_size(text: str) -> str | None:
    """Return the first size of an image that a text names, as "1024x768"; None without one."""
    match = PIXELS.search(text)
    return None if match is None else "x".join(side for side in match.groups() if side)


def without_pixels(text: str) -> str:
    """Return a text of the same length with sizes of images blanked: 1080 is a GPU too."""
    return PIXELS.sub(lambda match: re.sub(r"[\dx*]", " ", match[0]), text)
