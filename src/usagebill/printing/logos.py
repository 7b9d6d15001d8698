"""Logos: pictures from data URLs, opened only as PNG or JPEG, whatever their label.

Pillow knows dozens of formats and runs an external interpreter for PostScript; none of that may see untrusted input.
"""

from __future__ import annotations

import base64
import binascii
from io import BytesIO

from PIL import Image

# The most bytes of the file, and pixels of the picture: each takes four bytes while a page is drawn.
LARGEST = 800 * 1024
MOST_PIXELS = 4_000_000
_FORMATS = ("PNG", "JPEG")


class BadLogo(ValueError):
    """Not a valid logo: `code` is `invalid_content_type` or `invalid_size`."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


def opened(data_url: str) -> Image.Image:
    """The picture of a data URL, fully decoded, in RGB with or without transparency. Raises `BadLogo`."""
    if len(data_url) > 2 * LARGEST:
        raise BadLogo("invalid_size")
    try:
        content = base64.b64decode(data_url.partition(",")[2], validate=True)
    except (binascii.Error, ValueError) as problem:
        raise BadLogo("invalid_content_type") from problem
    if len(content) > LARGEST:
        raise BadLogo("invalid_size")
    try:
        # Only the header is read here; the pixels follow once their number is known.
        picture = Image.open(BytesIO(content), formats=_FORMATS)
        if picture.width * picture.height > MOST_PIXELS:
            raise BadLogo("invalid_size")
        return picture.convert("RGBA" if picture.has_transparency_data else "RGB")
    except BadLogo:
        raise
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as problem:
        raise BadLogo("invalid_size") from problem
    except Exception as problem:
        # Pillow raises all kinds of errors for damaged files.
        raise BadLogo("invalid_content_type") from problem
