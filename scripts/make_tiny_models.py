#!/usr/bin/env python3
"""Write the tiny models of tests/data/gguf, or check that the committed ones are what this writes.

    make_tiny_models.py [--check] [FOLDER]
"""
import argparse
import pathlib
import sys
import tempfile

import make_gguf

MODELS = (  # name, type, further settings
    ("micro-llama-f32", "F32", {"tied": True}),
    ("micro-llama-q4_0", "Q4_0", {}),
    ("micro-llama-q8_0", "Q8_0", {}),
    ("micro-qwen2-f16", "F16", {"arch": "qwen2", "tied": True}),
    ("micro-qwen3-q8_0", "Q8_0", {"arch": "qwen3", "tied": True, "head_dim": 32}),
    ("micro-split", "Q8_0", {"split": 2}),
)


def write_all(folder):
    paths = []
    for name, kind, settings in MODELS:
        paths += make_gguf.make("micro", kind, folder / f"{name}.gguf", **settings)
    return paths


def check(folder):
    """The names of files that are missing, changed or not from here."""
    with tempfile.TemporaryDirectory() as temporary:
        made = {path.name: path.read_bytes() for path in write_all(pathlib.Path(temporary))}
    found = {path.name: path.read_bytes() for path in folder.glob("*.gguf")}
    return sorted(name for name in made.keys() | found.keys() if made.get(name) != found.get(name))


def main():
    here = pathlib.Path(__file__).resolve().parent
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("folder", nargs="?", type=pathlib.Path, default=here.parent / "tests/data/gguf")
    arguments = parser.parse_args()
    if arguments.check:
        wrong = check(arguments.folder)
        if wrong:
            sys.exit(f"make_tiny_models.py: not as this script writes them: {', '.join(wrong)}; run it without --check")
        return
    arguments.folder.mkdir(parents=True, exist_ok=True)
    for path in write_all(arguments.folder):
        print(path, path.stat().st_size)


if __name__ == "__main__":
    main()
