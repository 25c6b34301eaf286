"""Reads and writes safetensors files, for tests that look at what was written or change it."""
import json
import pathlib
import struct

LETTERS = {"F32": "f", "F16": "e"}  # of the module struct


def read_safetensors(path):
    """Name to (dtype, shape, bytes)."""
    content = pathlib.Path(path).read_bytes()
    size = struct.unpack("<Q", content[:8])[0]
    return {name: (t["dtype"], t["shape"], content[8 + size + t["data_offsets"][0]:8 + size + t["data_offsets"][1]])
            for name, t in json.loads(content[8:8 + size]).items() if name != "__metadata__"}


def numbers_of(path):
    """Name to the numbers of each tensor; all are f32 or f16."""
    return {name: struct.unpack(f"<{len(data) // struct.calcsize(LETTERS[dtype])}{LETTERS[dtype]}", data)
            for name, (dtype, _, data) in read_safetensors(path).items()}


def write_safetensors(path, tensors):
    """The other way round: name to (dtype, shape, bytes)."""
    header, at = {}, 0
    for name, (dtype, shape, data) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(header).encode()
    pathlib.Path(path).write_bytes(struct.pack("<Q", len(text)) + text + b"".join(data for _, _, data in tensors.values()))
