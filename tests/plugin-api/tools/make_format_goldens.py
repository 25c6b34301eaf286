#!/usr/bin/env python3
"""Writes tests/data/formats/<format>.bin: random blocks of each format and what the PyPI package `gguf` decodes them to.

A file is n blocks as bytes, then n * block elements little-endian f32. The first blocks have scales at the edges (zeros of
both signs, subnormal, largest); the others are random bits with a finite scale. Needs numpy and gguf (made with 0.19.0).
"""
import argparse
import pathlib
import sys

import gguf
import numpy as np

# name: (type, byte offsets of the f16 numbers of a block, blocks)
FORMATS = {
    "q4_0": ("Q4_0", [0], 64), "q4_1": ("Q4_1", [0, 2], 64), "q5_0": ("Q5_0", [0], 64), "q5_1": ("Q5_1", [0, 2], 64),
    "q8_0": ("Q8_0", [0], 64), "q4_k": ("Q4_K", [0, 2], 16), "q5_k": ("Q5_K", [0, 2], 16), "q6_k": ("Q6_K", [208], 16),
}
EDGES = [0x0000, 0x8000, 0x0001, 0x8001, 0x03FF, 0x0400, 0x7BFF, 0xFBFF]


def random_blocks(kind, offsets, count, rng):
    elements, size = gguf.GGML_QUANT_SIZES[kind]
    blocks = rng.integers(0, 256, size=(count, size), dtype=np.uint8)
    for row in range(count):
        for place, offset in enumerate(offsets):
            bits = int(rng.integers(0, 0x10000))
            if row < len(EDGES):
                bits = EDGES[(row + 3 * place) % len(EDGES)]
            if bits & 0x7C00 == 0x7C00:  # neither infinity nor NaN
                bits &= ~0x4000
            blocks[row, offset:offset + 2] = np.frombuffer(bits.to_bytes(2, "little"), dtype=np.uint8)
    return blocks


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--out", type=pathlib.Path,
                           default=pathlib.Path(__file__).resolve().parents[2] / "data" / "formats")
    options = arguments.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(20240601)
    for name, (kind_name, offsets, count) in FORMATS.items():
        kind = gguf.GGMLQuantizationType[kind_name]
        blocks = random_blocks(kind, offsets, count, rng)
        values = gguf.quants.dequantize(blocks, kind).astype("<f4")
        assert values.size == count * gguf.GGML_QUANT_SIZES[kind][0] and np.isfinite(values).all(), name
        (options.out / f"{name}.bin").write_bytes(blocks.tobytes() + values.tobytes())
        print(f"{name}: {count} blocks")
    return 0


if __name__ == "__main__":
    sys.exit(main())
