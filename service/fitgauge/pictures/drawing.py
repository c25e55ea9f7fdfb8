"""What every picture is drawn with: its size, the colours of a theme, texts and sizes."""

from typing import Literal, NamedTuple
from xml.sax.saxutils import escape

from fitgauge.engine.quantity import GIB

Theme = Literal["light", "dark"]

WIDTH = 960
LEFT = 40
BAR = WIDTH - 2 * LEFT
"""Width of a bar."""
PARTS = ("#3b6fb6", "#d98032", "#4f9d69", "#9467bd", "#c0504d", "#8c7a5b", "#3aa6a6", "#888e96")
"""Colours of a bar's parts."""


class Palette(NamedTuple):
    """The colours of a theme."""

    back: str
    """Ground."""
    ink: str
    """Text and the capacity line."""
    dim: str
    """Text of less weight, and the interval."""
    track: str
    """What is left of the memory."""
    fits: str
    """Verdict `fits`."""
    tight: str
    """Verdict `tight`."""
    refused: str
    """The other verdicts, and what passes the capacity line."""

    def of(self, verdict: str | None) -> str:
        """Return the colour of a verdict; None: what is needed, without one."""
        if verdict is None:
            return self.ink
        return {"fits": self.fits, "tight": self.tight}.get(verdict, self.refused)


PALETTES: dict[Theme, Palette] = {
    "light": Palette("#ffffff", "#1c2024", "#545b64", "#e9ebee", "#1b6e3c", "#8a5300", "#b02a2a"),
    "dark": Palette("#15181c", "#e8eaed", "#a5adb6", "#2a2f36", "#7ed79c", "#f2bd5b", "#ff9c93"),
}


def document(body: str, height: int, title: str, palette: Palette) -> str:
    """Return a picture."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}"'
        f' viewBox="0 0 {WIDTH} {height}" role="img" font-family="Noto Sans CJK SC, sans-serif">'
        f"<title>{escape(title)}</title>"
        f'<rect width="{WIDTH}" height="{height}" fill="{palette.back}"/>{body}</svg>'
    )


def label(x: float, y: float, content: str, fill: str, size: int, anchor: str = "start") -> str:
    """Return a line of text."""
    return (
        f'<text x="{x:.2f}" y="{y}" font-size="{size}" fill="{fill}" text-anchor="{anchor}">'
        f"{escape(content)}</text>"
    )


def shortened(content: str, longest: int) -> str:
    """Return a text of at most so many characters."""
    return content if len(content) <= longest else f"{content[: longest - 1]}…"


def gib(size: int) -> str:
    """Return a size in GiB as the page writes it (web/format.js)."""
    return f"{size / GIB:.1f} GiB" if size >= 10 * GIB else f"{size / GIB:.2f} GiB"


def whole(number: object) -> str:
    """Return a whole number with separators."""
    return f"{number:,}" if isinstance(number, int) else str(number)
