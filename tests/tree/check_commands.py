#!/usr/bin/env python3
"""Runs the commands of the documents, and fails where one names a verb or a flag that is not there.

    check_commands.py --programs BIN --model TINY.gguf COMPLETIONS.fish...

A fenced block without a language, or in sh, whose first words are programs is a block of commands. It runs in a folder of its own with MODEL.gguf,
notes.txt and an empty home, and each line must end with 0. A comment in front of a block that runs elsewhere or nowhere says so:

    <!-- run by: tests/packages/install_test.py -->     the file must be there
    <!-- not run: it installs packages -->

Verbs and flags of quern and quern-conformance are compared in every block, and in code spans that begin with such a command. A span that begins with
a flag names one of ours, or of a script of the tree.
"""
import argparse
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

from tree_pages import pages

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXEMPT = re.compile(r"docs/lab/|CHANGELOG\.md$")
PROGRAMS = re.compile(r"(?:\$ )?(?:[A-Z_]+=\S+ )*(?:sudo )?(?:quern|quern-conformance|scripts/\S+|\./a\.out|cmake|ctest|cc|c\+\+|g\+\+|pip|python3|apt|apt-get|mkdocs|"
                      r"cp|cat|tar|build/\S+|pkg-config)(?= |$)")
MARK = re.compile(r"<!-- (run by|not run): (.+?) -->$")
OURS = ("quern", "quern-conformance")
OF_OTHERS = {"--gpus", "--with", "--preset", "--list-presets"}  # docker, rpmbuild, cmake


def flags_of_scripts():
    """Every flag that a script of the tree has in its text."""
    paths = [path for folder in ("scripts", "docs/tools", "plugin-api/tools", "runtime/tools", "tests/tree", "tests/models", "packaging", "conformance/onnx",
             "conformance/tools")
             for path in (ROOT / folder).rglob("*") if path.is_file() and path.suffix in ("", ".py", ".sh", ".cpp")]
    return {flag for path in paths for flag in re.findall(r"--[a-z][a-z0-9-]+", path.read_text(encoding="utf-8", errors="replace"))}


class Grammar:
    """Verbs and flags of one program, from its completions for fish, which come from its parser."""

    def __init__(self, script):
        text = script.read_text()
        self.program = re.search(r"^complete -c (\S+)", text, re.M)[1]
        self.flags = {"": set()}
        for verb in re.findall(r"-n '?__fish_use_subcommand'? -a (\S+)", text):
            self.flags[verb] = set()
        for line in text.split("\n"):
            names = {f"--{name}" for name in re.findall(r" -l ([\w-]+)", line)} | {f"-{name}" for name in re.findall(r" -s (\w)(?= )", line)}
            verbs = re.search(r"__fish_seen_subcommand_from ([\w -]+?)'", line)
            for verb in verbs[1].split() if verbs else [""]:
                self.flags.setdefault(verb, set()).update(names)
            if not verbs and "__fish_use_subcommand" not in line:  # flags of every verb
                for verb in self.flags:
                    self.flags[verb].update(names)
        if len(self.flags) < 5:
            sys.exit(f"{script}: {len(self.flags)} verbs were understood")

    def problem(self, words):
        """Why the command is none, or None. `words` are those behind the program's name."""
        verb = ""
        for word in words:
            if word.startswith("-") and word != "-" and not re.match(r"-\d", word):
                flag = word.split("=")[0]
                if flag == "--":
                    return None
                if flag not in self.flags[verb] and flag not in ("--help", "-h", "--version"):
                    return f"{self.program} {verb} has no flag {flag}"
            elif not verb:
                if word not in self.flags:
                    return f"{self.program} has no verb {word}"
                verb = word
        return None


def blocks(text):
    """(line, mark or None, language, lines) of each fenced block."""
    lines, at = text.split("\n"), 0
    while at < len(lines):
        opened = re.match(r"\s*```(.*)$", lines[at])
        if opened:
            end = next((i for i in range(at + 1, len(lines)) if lines[i].strip() == "```"), len(lines))
            mark = MARK.match(lines[at - 1].strip()) if at else None
            yield at + 1, mark, opened[1].strip(), lines[at + 1:end]
            at = end
        at += 1


def commands(language, lines):
    """The commands of a block: its lines behind "$ ", or all of them; [] where it has none."""
    if language not in ("", "sh"):
        return []
    joined = re.sub(r"\\\n\s*", "", "\n".join(lines)).split("\n")
    if any(line.startswith("$ ") for line in joined):
        return [line[2:] for line in joined if line.startswith("$ ")]
    return [line for line in joined if line.strip()] if PROGRAMS.match(next((line for line in joined if line.strip()), "")) else []


def calls(command):
    """The words behind our programs' names in a line: ("quern", ["run", ...])."""
    for part in re.split(r"\s*(?:\||&&|;|, (?=quern))\s*", re.split(r"\s{3,}| # ", command)[0]):
        try:
            words = shlex.split(part)
        except ValueError:
            words = part.split()
        while words and (re.match(r"[A-Z_]+=", words[0]) or words[0] == "sudo"):
            words = words[1:]
        if words and words[0] in OURS:
            yield words[0], words[1:]


def check(name, text, grammars, scripts):
    """Problems of a page's grammar, and [(line, commands)] of the blocks that are to run."""
    problems, to_run = [], []
    for line, mark, language, lines in blocks(text):
        found = commands(language, lines)
        if not found:
            continue
        if mark and mark[1] == "run by" and not (ROOT / mark[2]).is_file():
            problems.append(f"{name}:{line}: {mark[2]} is not there")
        for command in found:
            for program, words in calls(command):
                wrong = grammars[program].problem(words)
                if wrong:
                    problems.append(f"{name}:{line}: {wrong}: {command}")
        if not mark:
            to_run.append((line, found))
    outside = re.sub(r"^\s*```.*?^\s*```", "", text, flags=re.M | re.S)
    for span in re.findall(r"`((?:[A-Z_]+=\S+ )*quern(?:-conformance)? [^`]+)`", outside):
        for program, words in calls(span):
            if words and re.match(r"[a-z-]+$", words[0]):
                wrong = grammars[program].problem(words)
                if wrong:
                    problems.append(f"{name}: {wrong}: {span}")
    known = set().union(scripts, *(flags for grammar in grammars.values() for flags in grammar.flags.values()))
    problems += [f"{name}: nothing has the flag {flag}" for flag in re.findall(r"`(--[a-z][a-z0-9-]+)", outside) if flag not in known]
    return problems, to_run


def run(name, to_run, programs, model):
    """Runs a page's blocks in one folder, as its reader does."""
    with tempfile.TemporaryDirectory() as made:
        folder = pathlib.Path(made)
        shutil.copy(model, folder / "MODEL.gguf")
        (folder / "notes.txt").write_text("Two lines\nof notes.\n")
        (folder / "home").mkdir()
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("QUERN_", "HF_", "XDG_"))}
        environment = {**kept, "HOME": str(folder / "home"), "PATH": f"{programs}:{os.environ['PATH']}"}
        for line, found in to_run:
            for command in found:
                done = subprocess.run(["bash", "-c", command], cwd=folder, env=environment, stdin=subprocess.DEVNULL, capture_output=True, timeout=100,
                                      check=False)
                if done.returncode:
                    yield f"{name}:{line}: exit {done.returncode}: {command}\n{done.stderr.decode(errors='replace')[-500:]}"


def prove_that_it_can_fail(grammars):
    quern = grammars["quern"]
    assert quern.problem(["run", "MODEL", "--top-k", "4", "--", "--no-flag"]) is None
    assert "no verb" in quern.problem(["rum"])
    assert "no flag" in quern.problem(["run", "--no-such-flag"])
    page = "`quern run --absent` `--no-such-flag 3` `--top-k` `--reproducible`\n\n```\nquern devices --nothing\n```\n<!-- run by: no/such/file -->\n```\n$ quern list\n```\n```text\nquern rum\n```\n"
    problems, to_run = check("a", page, grammars, {"--reproducible"})
    assert len(problems) == 4 and to_run == [(3, ["quern devices --nothing"])], (problems, to_run)
    assert commands("", ["an output"]) == [] and commands("c", ["cc a.c"]) == []
    assert commands("", ["cat a \\", "  | quern run"]) == ["cat a | quern run"]


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--programs", required=True)
    options.add_argument("--model", required=True)
    options.add_argument("--list", action="store_true", help="run nothing; print what would run")
    options.add_argument("completions", nargs="+", type=pathlib.Path)
    given = options.parse_args()
    grammars = {grammar.program: grammar for grammar in map(Grammar, given.completions)}
    prove_that_it_can_fail(grammars)
    names = [name for name in pages(ROOT) if not EXEMPT.match(name)]
    problems, ran, scripts = [], 0, flags_of_scripts() | OF_OTHERS
    for name in names:
        wrong, to_run = check(name, (ROOT / name).read_text(encoding="utf-8"), grammars, scripts)
        problems += wrong
        if given.list:
            for line, found in to_run:
                print(*(f"{name}:{line}: {command}" for command in found), sep="\n")
        else:
            problems += list(run(name, to_run, given.programs, given.model))
        ran += sum(len(found) for _, found in to_run)
    print("".join(problem + "\n" for problem in problems), end="")
    print(f"{len(names)} pages, {ran} commands ran, {len(problems)} problems")
    return 1 if problems or ran < 15 else 0


if __name__ == "__main__":
    sys.exit(main())
