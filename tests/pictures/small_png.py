"""A PNG of a browser as one of 256 colours: a third of the bytes, and nobody sees the difference on a page of text and lines.

    shrunk(bytes) -> bytes        8-bit RGB or RGBA without interlace in, a palette out. Seconds for a screen.
"""

import collections
import struct
import zlib

SIGNATURE = b"\x89PNG\r\n\x1a\n"


def _chunks(png):
    at = len(SIGNATURE)
    while at < len(png):
        size, kind = struct.unpack(">I4s", png[at:at + 8])
        yield kind, png[at + 8:at + 8 + size]
        at += size + 12


def _chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def _paeth(left, up, corner):
    guess = left + up - corner
    return min((abs(guess - left), 0, left), (abs(guess - up), 1, up), (abs(guess - corner), 2, corner))[2]


def _rows(raw, width, height, pixel):
    """The lines without their filters."""
    before = bytearray(width * pixel)
    for y in range(height):
        begin = y * (width * pixel + 1)
        kind, row = raw[begin], bytearray(raw[begin + 1:begin + 1 + width * pixel])
        if kind == 2:
            row = bytearray((a + b) & 255 for a, b in zip(row, before))
        elif kind in (1, 3, 4):
            for i, value in enumerate(row):
                left = row[i - pixel] if i >= pixel else 0
                up, corner = before[i], before[i - pixel] if i >= pixel else 0
                row[i] = (value + (left if kind == 1 else (left + up) // 2 if kind == 3 else _paeth(left, up, corner))) & 255
        yield row
        before = row


def _palette(colours):
    """The 256 most frequent, and for each colour the place of the nearest of them."""
    palette = [colour for colour, _ in colours.most_common(256)]
    place = {colour: i for i, colour in enumerate(palette)}
    for colour in colours:
        if colour not in place:
            place[colour] = min(range(len(palette)), key=lambda i, c=colour: sum((a - b) ** 2 for a, b in zip(c, palette[i])))
    return palette, place


def shrunk(png):
    chunks = list(_chunks(png))
    width, height, depth, kind, _, _, interlace = struct.unpack(">IIBBBBB", dict(chunks)[b"IHDR"])
    if depth != 8 or kind not in (2, 6) or interlace:
        raise ValueError("a PNG of depth %d and colour type %d" % (depth, kind))
    pixel = 3 if kind == 2 else 4
    raw = zlib.decompress(b"".join(data for name, data in chunks if name == b"IDAT"))
    rows = [list(zip(row[0::pixel], row[1::pixel], row[2::pixel])) for row in _rows(raw, width, height, pixel)]
    colours = collections.Counter(colour for row in rows for colour in row)
    palette, place = _palette(colours)
    packed = zlib.compress(b"".join(b"\0" + bytes(place[colour] for colour in row) for row in rows), 9)
    return (SIGNATURE + _chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)) +
            _chunk(b"PLTE", b"".join(bytes(colour) for colour in palette)) + _chunk(b"IDAT", packed) + _chunk(b"IEND", b""))
