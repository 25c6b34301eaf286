#!/usr/bin/env python3
"""Holds the documents together: each link leads to a file and a heading that are there, each folder of components has a page that a reader
reaches, and the pages that are written by a script are what it writes.

    check_pages.py      it proves first that it can fail
"""
import pathlib
import re
import subprocess
import sys
import tempfile

from tree_pages import pages

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDERS_WITH_A_PAGE = ("backends", "backends/cpu", "backends/cuda", "backends/vulkan", "base", "cli", "cmake", "conformance", "docs", "docs/lab",
                       "loader", "models", "models/architecture", "models/chat_template", "models/gguf", "models/hub", "models/peft", "models/safetensors", "models/tokenizer", "packaging",
                       "plugin-api", "plugin-api/sample", "python", "runtime", "runtime/examples", "runtime/graph", "runtime/training", "scripts", "tests", "tests/models")
WRITERS = ("docs/tools/codes.py", "docs/tools/models.py", "plugin-api/tools/reference.py", "runtime/tools/reference.py")
FOLDERS_WITHOUT = {"debian"}  # packaging/README.md has it; Debian gives names in that folder a meaning
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")


def without_code(text):
    text = re.sub(r"^\s*```.*?^\s*```", "", text, flags=re.M | re.S)
    return re.sub(r"`[^`\n]*`", lambda code: re.sub(r"[\[\]()]", "", code[0]), text)


def anchors(text):
    """The names that headings have on GitHub; those of the site are the same for the headings of this tree."""
    found = set()
    for heading in re.findall(r"^#{1,6} (.+?)\s*$", re.sub(r"^\s*```.*?^\s*```", "", text, flags=re.M | re.S), re.M):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").lower()
        slug = re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")
        count = 0
        while (slug if count == 0 else f"{slug}-{count}") in found:
            count += 1
        found.add(slug if count == 0 else f"{slug}-{count}")
    return found


def dead_links(root):
    linked = set()
    for name in pages(root):
        text = (root / name).read_text(encoding="utf-8")
        for target in LINK.findall(without_code(text)):
            if re.match(r"[a-z]+:", target):
                continue
            path, _, anchor = target.partition("#")
            to = (root / name).parent.joinpath(path).resolve() if path else root / name
            if not to.is_file():
                yield f"{name}: the link {target} leads to no file"
                continue
            if to != root / name:
                linked.add(to.relative_to(root).as_posix())
            if anchor and to.suffix == ".md" and anchor not in anchors(to.read_text(encoding="utf-8")):
                yield f"{name}: the link {target} leads to no heading"
    for name in pages(root):
        if name.startswith("docs/") and name not in linked:
            yield f"{name}: no page links to it"


def folders(root):
    for folder in FOLDERS_WITH_A_PAGE:
        if not (root / folder / "README.md").is_file():
            yield f"{folder}: it has no README.md"
    tops = {name.split("/")[0] for name in subprocess.run(["git", "-C", str(root), "ls-files"], capture_output=True, text=True, check=False).stdout.split()
            if "/" in name and not name.startswith(".")}
    for folder in sorted(tops - set(FOLDERS_WITH_A_PAGE) - FOLDERS_WITHOUT):
        yield f"{folder}: a new folder; give it a README.md and a place in tests/tree/check_pages.py"


def prove_that_it_can_fail():
    with tempfile.TemporaryDirectory() as made:
        root = pathlib.Path(made)
        (root / "docs").mkdir()
        (root / "a.md").write_text("# A page\n[b](docs/b.md#two-words) [c](docs/c.md) [d](docs/b.md#absent) `[e](nothing)`\n")
        (root / "docs/b.md").write_text("# B\n## Two words\n```\n# not a heading\n[f](nothing)\n```\n")
        (root / "docs/alone.md").write_text("# Alone\n")
        found = list(dead_links(root))
        assert len(found) == 3 and "c.md" in found[0] and "absent" in found[1] and "alone" in found[2], found


def main():
    prove_that_it_can_fail()
    found = list(dead_links(ROOT)) + list(folders(ROOT))
    for script in WRITERS:
        written = subprocess.run([sys.executable, str(ROOT / script), "--check"], capture_output=True, text=True, check=False)
        if written.returncode:
            found.append(written.stderr.strip())
    print("".join(problem + "\n" for problem in found), end="")
    print(f"{len(pages(ROOT))} pages, {len(found)} problems")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
