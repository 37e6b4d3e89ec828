"""small_png against pictures made by hand, with every filter."""

import random
import struct
import unittest
import zlib

import small_png


def filtered(rows, pixel, kinds):
    """PNG's lines: each row with its filter applied."""
    before, out = bytes(len(rows[0])), b""
    for row, kind in zip(rows, kinds):
        line = bytearray()
        for i, value in enumerate(row):
            left = row[i - pixel] if i >= pixel else 0
            up, corner = before[i], before[i - pixel] if i >= pixel else 0
            guess = left + up - corner
            nearest = sorted((left, up, corner), key=lambda v, g=guess: abs(g - v))[0]
            line.append((value - (0, left, up, (left + up) // 2, nearest)[kind]) & 255)
        out += bytes([kind]) + bytes(line)
        before = row
    return out


def png(width, height, pixel, raw, interlace=0):
    head = struct.pack(">IIBBBBB", width, height, 8, 2 if pixel == 3 else 6, 0, 0, interlace)
    data = zlib.compress(raw)
    return small_png.SIGNATURE + b"".join(small_png._chunk(*c) for c in (
        (b"IHDR", head), (b"IDAT", data[:5]), (b"IDAT", data[5:]), (b"IEND", b"")))


def colours_of(picture):
    """A palette's picture, read the obvious way."""
    chunks = dict(small_png._chunks(picture))
    width, height = struct.unpack(">II", chunks[b"IHDR"][:8])
    raw, palette = zlib.decompress(chunks[b"IDAT"]), chunks[b"PLTE"]
    return [[tuple(palette[3 * i:3 * i + 3]) for i in raw[y * (width + 1) + 1:(y + 1) * (width + 1)]] for y in range(height)]


class SmallPngTest(unittest.TestCase):
    def test_few_colours_stay_as_they_are_whatever_the_filters(self):
        for pixel in (3, 4):
            some = random.Random(pixel)
            colours = [bytes(some.randrange(256) for _ in range(pixel)) for _ in range(200)]
            rows = [b"".join(some.choice(colours) for _ in range(31)) for _ in range(40)]
            kinds = [y % 5 for y in range(40)]
            got = colours_of(small_png.shrunk(png(31, 40, pixel, filtered(rows, pixel, kinds))))
            want = [[tuple(row[i:i + 3]) for i in range(0, len(row), pixel)] for row in rows]
            self.assertEqual(got, want)

    def test_of_many_colours_each_becomes_a_near_one(self):
        rows = [bytes(v for x in range(64) for v in (4 * x, 4 * y, 0)) for y in range(64)]
        got = colours_of(small_png.shrunk(png(64, 64, 3, filtered(rows, 3, [0] * 64))))
        self.assertLessEqual(len({colour for row in got for colour in row}), 256)
        self.assertEqual(len(got), 64)

    def test_what_it_cannot_read_it_refuses(self):
        with self.assertRaises(ValueError):
            small_png.shrunk(png(1, 1, 3, b"\0\0\0\0", interlace=1))


if __name__ == "__main__":
    unittest.main(verbosity=2)
