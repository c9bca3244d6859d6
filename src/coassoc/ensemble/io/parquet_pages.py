"""What the pages of a Parquet file unpack to, from its own metadata (Thrift, compact protocol).

pyarrow checks no page before it unpacks it, and ends the whole process when the metadata of a column is damaged. Here
the metadata of a small file is read without pyarrow. A page unpacks to less than 2 GiB, which a file of `ENOUGH`
bytes may take anyway.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO

from .limits import EXPANSION
from .table import DamagedFile

ENOUGH = (1 << 31) // EXPANSION
_HEADER_BYTES = 1 << 16  # a page header is rarely longer than 100 bytes


def unpacked_bytes(path: Path, places: Sequence[int]) -> int:
    """Bytes of the unpacked pages of the leaf columns at `places`; 0 for a file too large to be harmful."""
    size = path.stat().st_size
    if size >= ENOUGH:
        return 0
    with open(path, "rb") as file:
        if size < 12:
            raise DamagedFile("the file is too short")
        file.seek(-8, 2)
        length = struct.unpack("<I", file.read(4))[0]
        if length > size - 12:
            raise DamagedFile("its footer is longer than the file")
        file.seek(-8 - length, 2)
        footer = file.read(length)
        try:
            groups = _Compact(footer).struct().get(4, [])
            return sum(_pages(file, group[1][place][3], size) for group in groups for place in places)
        except (TypeError, AttributeError) as error:
            raise DamagedFile(f"its metadata has no {error}") from None


def _pages(file: BinaryIO, chunk: dict[int, Any], size: int) -> int:
    """Unpacked bytes of the pages of one column chunk."""
    at = min(start for start in (chunk.get(11, 0), chunk[9]) if start > 0 or start == chunk[9])
    left, values, total = chunk[7], chunk[5], 0
    while left > 0 and values > 0:
        if not 0 < at < size:
            raise DamagedFile("a page is outside the file")
        file.seek(at)
        reader = _Compact(file.read(_HEADER_BYTES))
        header = reader.struct()
        unpacked, packed = header[2], header[3]
        if unpacked < 0 or packed < 0:
            raise DamagedFile("a page has a negative size")
        total += unpacked
        if header[1] != 2:  # not a dictionary
            values -= max(1, header[5 if 5 in header else 8][1])
        at, left = at + reader.at + packed, left - reader.at - packed
    return total


class _Compact:
    """Reads Thrift's compact protocol: structs are dicts from field numbers to values; text and fractions are skipped.

    Every value takes a byte at least, so that lists end with the data, whatever length they declare.
    """

    def __init__(self, data: bytes):
        self.data, self.at = data, 0

    def byte(self) -> int:
        if self.at >= len(self.data):
            raise DamagedFile("its metadata ends too early")
        self.at += 1
        return self.data[self.at - 1]

    def varint(self) -> int:
        value = shift = 0
        while shift <= 63:
            byte = self.byte()
            value |= (byte & 127) << shift
            if byte < 128:
                return value
            shift += 7
        raise DamagedFile("a number is too long")

    def zigzag(self) -> int:
        value = self.varint()
        return (value >> 1) ^ -(value & 1)

    def struct(self) -> dict[int, Any]:
        fields: dict[int, Any] = {}
        number = 0
        while head := self.byte():
            number = number + (head >> 4) if head >> 4 else self.zigzag()
            kind = head & 15
            fields[number] = kind == 1 if kind in (1, 2) else self.value(kind)
        return fields

    def value(self, kind: int) -> Any:
        if kind in (1, 2, 3):
            return self.byte()
        if kind in (4, 5, 6):
            return self.zigzag()
        if kind in (7, 8):
            length = 8 if kind == 7 else self.varint()
            self.at += length
            if self.at > len(self.data):
                raise DamagedFile("its metadata ends too early")
            return None
        if kind in (9, 10):
            head = self.byte()
            length = head >> 4 if head >> 4 < 15 else self.varint()
            return [self.value(head & 15) for _ in range(length)]
        if kind == 11:
            length = self.varint()
            kinds = self.byte() if length else 0
            return [(self.value(kinds >> 4), self.value(kinds & 15)) for _ in range(length)]
        if kind == 12:
            return self.struct()
        raise DamagedFile(f"its metadata has an unknown type {kind}")
