#!/usr/bin/env python3
"""Writes tests/data/formats/<format>.bin for the block formats of Hugging Face directories: random blocks, and what their rule says.

A file is as those of make_format_goldens.py: n blocks as bytes, then n * block elements little-endian f32. The rule is that of the packers:
(code - zero) * scale, in exact arithmetic. Scales are f16 or bf16, those of the first blocks at the edges. Needs nothing but Python.
"""
import argparse
import pathlib
import random
import struct

EDGES = [0x0000, 0x8000, 0x0001, 0x8001, 0x03FF, 0x0400, 0x7BFF, 0xFBFF]


def half(bits):
    return struct.unpack("<e", struct.pack("<H", bits))[0]


def scale_of(rng, row):
    """An f16 or a bf16 that is finite, and no product of which is infinite in f32."""
    if row < len(EDGES):
        return half(EDGES[row])
    if row % 2:
        return struct.unpack("<f", struct.pack("<I", (rng.randrange(2) << 31) | rng.randrange(64, 192) << 23 | rng.randrange(128) << 16))[0]
    return half(rng.randrange(0x7C00) | rng.randrange(2) << 15)


def f32(value):
    return struct.pack("<f", value)


def head_of(scale, zero):
    """The upper 24 bits of the scale, and the zero point below them."""
    bits = struct.unpack("<I", f32(scale))[0]
    assert bits & 255 == 0
    return struct.pack("<I", bits | zero)


def nibbles(codes):
    """Byte j of 16 has elements j and j + 16 of 32."""
    return bytes(codes[i + j] | codes[i + 16 + j] << 4 for i in range(0, len(codes), 32) for j in range(16))


def zero_point_block(elements):
    def block(rng, row):
        scale, zero = scale_of(rng, row), rng.randrange(256 if row % 5 == 4 else 16)
        codes = [rng.randrange(16) for _ in range(elements)]
        return head_of(scale, zero) + nibbles(codes), [(code - zero) * scale for code in codes]
    return block


def zero_point_bytes(elements):
    def block(rng, row):
        scale, zero = scale_of(rng, row), rng.randrange(256)
        codes = [rng.randrange(256) for _ in range(elements)]
        return head_of(scale, zero) + bytes(codes), [(code - zero) * scale for code in codes]
    return block


def e4m3(code):
    exponent, eighths = code >> 3 & 15, code & 7
    size = eighths * 2.0**-9 if exponent == 0 else (8 + eighths) * 2.0**(exponent - 10)
    return -size if code & 128 else size


def signed_bytes(rng, row):
    scale, codes = scale_of(rng, row), [rng.randrange(256) for _ in range(128)]
    return f32(scale) + bytes(codes), [(code - 256 if code > 127 else code) * scale for code in codes]


def small_floats(rng, row):
    scale, codes = scale_of(rng, row), [code & 128 | min(code & 127, 126) for code in (rng.randrange(256) for _ in range(128))]
    return f32(scale) + bytes(codes), [e4m3(code) * scale for code in codes]


# bitsandbytes 0.48, functional.py.
NF4 = [-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635, -0.18477343022823334, -0.09105003625154495, 0.0,
       0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224, 0.44070982933044434, 0.5626170039176941,
       0.7229568362236023, 1.0]
FP4 = [struct.unpack("<f", struct.pack("<f", sign * twelfths / 12))[0] for sign in (1, -1) for twelfths in (0.0, 0.0625, 8, 12, 4, 6, 2, 3)]


def table_nibbles(table):
    def block(rng, row):
        scale = rng.uniform(0.001, 8) if row >= len(EDGES) else abs(scale_of(rng, row))
        scale = struct.unpack("<f", f32(scale))[0]
        codes = [rng.randrange(16) for _ in range(64)]
        return f32(scale) + nibbles(codes), [table[code] * scale for code in codes]
    return block


# name: (block, blocks)
FORMATS = {"q4_z32": (zero_point_block(32), 64), "q4_z64": (zero_point_block(64), 48), "q4_z128": (zero_point_block(128), 32),
           "q8_z32": (zero_point_bytes(32), 64), "q8_z128": (zero_point_bytes(128), 32), "q8_128": (signed_bytes, 32),
           "f8_128": (small_floats, 32), "nf4_64": (table_nibbles(NF4), 32), "fp4_64": (table_nibbles(FP4), 32)}


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--out", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parents[2] / "data" / "formats")
    options = arguments.parse_args()
    for name, (block, count) in FORMATS.items():
        rng = random.Random(name)
        made = [block(rng, row) for row in range(count)]
        values = b"".join(f32(value) for _, numbers in made for value in numbers)
        (options.out / f"{name}.bin").write_bytes(b"".join(head for head, _ in made) + values)
        print(f"{name}: {count} blocks")


if __name__ == "__main__":
    main()
