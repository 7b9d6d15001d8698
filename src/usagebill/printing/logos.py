"""Logos: pictures from data URLs, opened as PNG or JPEG and as nothing else, whatever they are labelled.

Pillow knows dozens of formats, and hands PostScript to an interpreter outside; none of that is for what callers send.
"""

from __future__ import annotations

import base64
import binascii
from io import BytesIO

from PIL import Image

__all__ = ["LARGEST", "MOST_PIXELS", "BadLogo", "opened"]

# Bytes of the file; pixels of the picture, which takes four bytes for each while a page is drawn.
LARGEST = 800 * 1024
MOST_PIXELS = 4_000_000
_FORMATS = ("PNG", "JPEG")


class BadLogo(ValueError):
    """No logo: `code` is `invalid_content_type` or `invalid_size`."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


def opened(data_url: str) -> Image.Image:
    """The picture of a data URL, whole, in RGB with or without transparency. Raises `BadLogo`."""
    if len(data_url) > 2 * LARGEST:
        raise BadLogo("invalid_size")
    try:
        content = base64.b64decode(data_url.partition(",")[2], validate=True)
    except (binascii.Error, ValueError) as problem:
        raise BadLogo("invalid_content_type") from problem
    if len(content) > LARGEST:
        raise BadLogo("invalid_size")
    try:
        # Only the head is read here; the pixels are once it is known how many there are.
        picture = Image.open(BytesIO(content), formats=_FORMATS)
        if picture.width * picture.height > MOST_PIXELS:
            raise BadLogo("invalid_size")
        return picture.convert("RGBA" if picture.has_transparency_data else "RGB")
    except BadLogo:
        raise
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as problem:
        raise BadLogo("invalid_size") from problem
    except Exception as problem:
        # There is no end to what Pillow raises for damaged files.
        raise BadLogo("invalid_content_type") from problem
