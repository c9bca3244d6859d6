"""A heat map as a PNG file, with the standard library alone."""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Sequence

import numpy as np

# dark to light, even steps in lightness, readable by colour-blind people
_ANCHORS = (
    (0x44, 0x01, 0x54),
    (0x41, 0x44, 0x87),
    (0x2A, 0x78, 0x8E),
    (0x22, 0xA8, 0x84),
    (0x7A, 0xD1, 0x51),
    (0xFD, 0xE7, 0x25),
)


def colours(values: np.ndarray) -> np.ndarray:
    """RGB bytes of values in [0, 1]; a trailing axis of length 3 is added."""
    table = np.array(_ANCHORS, dtype=np.float64)
    place = np.clip(np.nan_to_num(values), 0.0, 1.0) * (len(table) - 1)
    low = np.minimum(place.astype(np.intp), len(table) - 2)
    share = (place - low)[..., None]
    return np.rint(table[low] * (1 - share) + table[low + 1] * share).astype(np.uint8)


def heat_map_png(values: np.ndarray, scale: int = 1, lines: Sequence[int] = ()) -> bytes:
    """PNG of a matrix of values in [0, 1], `scale` pixels per cell, white lines before rows and columns `lines`."""
    pixels = np.repeat(np.repeat(colours(values), scale, axis=0), scale, axis=1)
    for line in lines:
        place = line * scale
        if 0 < place < len(pixels):
            pixels[place] = 255
            pixels[:, place] = 255
    return png(pixels)


def png_uri(image: bytes) -> str:
    """A PNG file as a data URI."""
    return "data:image/png;base64," + base64.b64encode(image).decode()


def png(pixels: np.ndarray) -> bytes:
    """Bytes of shape (height, width, 3), RGB, or (height, width), gray, as a PNG file."""
    height, width = pixels.shape[:2]
    colour_type = 2 if pixels.ndim == 3 else 0
    rows = np.concatenate([np.zeros((height, 1), np.uint8), pixels.reshape(height, -1)], axis=1)
    return b"".join(
        [
            b"\x89PNG\r\n\x1a\n",
            _chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, colour_type, 0, 0, 0)),
            _chunk(b"IDAT", zlib.compress(rows.tobytes(), 9)),
            _chunk(b"IEND", b""),
        ]
    )


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
