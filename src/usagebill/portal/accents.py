"""The seller's color as accents of the portal: readable on its ground, in light and in dark."""

from __future__ import annotations

from functools import lru_cache

Channels = tuple[int, int, int]

BLACK, WHITE = (0, 0, 0), (255, 255, 255)
# The grounds of the style sheet on which accents stand out least.
LIGHT_GROUND, DARK_GROUND = (0xF5, 0xF6, 0xF8), (0x19, 0x1D, 0x25)
# WCAG 2, level AA.
LOWEST_CONTRAST = 4.5
_STEPS = 20


@lru_cache(maxsize=256)
def style_of(color: str) -> str:
    """A style sheet that replaces the accents of the portal's; `color` is `#rrggbb`."""
    light, dark = accent_on(LIGHT_GROUND, color), accent_on(DARK_GROUND, color)
    return f":root {{ {_tokens(light)} }}\n@media (prefers-color-scheme: dark) {{ :root {{ {_tokens(dark)} }} }}\n"


def accent_on(ground: Channels, color: str) -> Channels:
    """The color, mixed with as little black or white as makes it readable on the ground."""
    wanted = channels_of(color)
    other = BLACK if contrast(BLACK, ground) > contrast(WHITE, ground) else WHITE
    mixed = (_mixed(wanted, other, step) for step in range(_STEPS + 1))
    return next(accent for accent in mixed if contrast(accent, ground) >= LOWEST_CONTRAST)


def text_on(accent: Channels) -> Channels:
    """Black or white, whichever is easier to read on it."""
    return max(WHITE, BLACK, key=lambda text: contrast(text, accent))


def contrast(one: Channels, other: Channels) -> float:
    """The contrast ratio of two colors, from 1 to 21 (WCAG 2)."""
    darker, lighter = sorted((_luminance(one), _luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


def channels_of(color: str) -> Channels:
    """Red, green and blue of `#rrggbb`, each from 0 to 255."""
    return int(color[1:3], 16), int(color[3:5], 16), int(color[5:7], 16)


def _mixed(color: Channels, other: Channels, step: int) -> Channels:
    red, green, blue = (round(own + (to - own) * step / _STEPS) for own, to in zip(color, other, strict=True))
    return red, green, blue


def _luminance(color: Channels) -> float:
    shares = (channel / 255 for channel in color)
    red, green, blue = (share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4 for share in shares)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _tokens(accent: Channels) -> str:
    named = {"--accent": accent, "--bar": accent, "--on-accent": text_on(accent)}
    return " ".join(f"{name}: #{red:02x}{green:02x}{blue:02x};" for name, (red, green, blue) in named.items())
