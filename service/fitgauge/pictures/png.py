"""SVG as PNG, with the font of this package alone: the same picture on every machine."""

from pathlib import Path

import resvg_py

_FONT = Path(__file__).parent / "fonts" / "NotoSansSC-subset.otf"


def png(svg: str, scale: float = 1.0) -> bytes:
    """Return a picture in pixels. scale: pixels for one unit of the SVG."""
    return bytes(
        resvg_py.svg_to_bytes(
            svg_string=svg, zoom=scale, font_files=[str(_FONT)], skip_system_fonts=True
        )
    )
