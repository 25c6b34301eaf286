#!/usr/bin/env python3
"""Reads every message of the library, its plugins and its commands from the sources, and holds them to length, tone and form.

The table is what --list prints: file:line, what it is thrown as, and the text, with X for each value. A sentence (what stands between full stops
and semicolons) has at most 25 words. Run from anywhere; with each run it proves that it can fail.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDERS = ("base", "backends", "cli", "conformance/src", "loader", "models", "plugin-api", "runtime")
NO_MESSAGES = ("backends/cpu/bench", "backends/cuda/tools", "conformance/mutant", "runtime/examples", "/tests/")
MOST_WORDS = 25

STRING = r'"(?:[^"\\\n]|\\.)*"'
# What makes a message; the first group is what it is thrown as. Words of a log line and of standard error are messages too.
STARTS = re.compile(r"\b(?:(?:Failure|Error)\s*\(\s*(?P<code>(?:exit|QUERN|quern::exit)_?\w+|[a-z_.]+(?:\([^()]*\))?)\s*,"
                    r"|(?<![.:>\w])(?P<helper>refuse|malformed|decline)\s*\(|(?P<verdict>Verdict::no)\s*\(|(?P<part>concat)\s*\("
                    r"|(?P<line>write_error(?:_line)?)\s*\(|(?P<usage>UsageError)\s*\(|CLI::(?P<check>ValidationError)\s*\(|->(?P<log>log)\s*\(\s*QUERN_\w+\s*,)")
# Files, cards and drivers do none of these; and what a reader needs is neither an apology nor a shout.
TONE = {
    r"\b(?:says|said|tells|told|wants|wanted|believes|thinks|knows|likes|complains|refuses to talk)\b": "a thing does not say, tell, want or believe",
    r"\b(?:please|sorry|oops|unfortunately|whoops)\b": "neither please nor sorry",
    r"!(?!=)": "no exclamation mark",
    r"\b(?:an? error occurred|something went wrong|unknown error|internal error)\b": "what was found, not that something was",
    r"\b(?:invalid|illegal)\b": "what was found and what is taken, in place of invalid",
    r"\b(?:failed to|unable to|couldn't|can't|won't|doesn't|isn't)\b": "'cannot be read', in place of failed to, unable to and can't",
}
ONE_OF = re.compile(rf"[^,()\"]*\?\s*({STRING})\s*:\s*({STRING})")
A_AN = re.compile(r"\b(?:[Aa] (?!one|is|of|u[nst]|eu)[aeiou][a-z]+|[Aa]n (?!hour|hon|http|nvidia)[bcdfghjklmnpqrstvwxyz][a-z]+)")
# What a mistake in usage is answered with: what is taken in its place.
REMEDY = re.compile(r"; \w|\b(?:is not (?:a|an|of|taken|one) |X is not X|give|needs?|takes|belongs|not both|above|see quern|is more than)")
TWICE = re.compile(r"\b(\w{2,}) \1\b", re.I)


def argument_text(text, at):
    """From `at`, inside a parenthesis, to where that one closes."""
    depth, begin = 1, at
    pattern = re.compile(rf'{STRING}|\'(?:[^\'\\]|\\.)\'|//[^\n]*|[(){{}}]')
    while depth and (found := pattern.search(text, at)):
        at = found.end()
        depth += {"(": 1, "{": 1, ")": -1, "}": -1}.get(found[0], 0)
    return text[begin : at - 1]


def words_of(argument):
    """The text of an argument: string literals in their order, X for what is between them."""
    argument = re.sub(r"//[^\n]*", "", argument)
    argument = ONE_OF.sub(lambda m: max(m[1], m[2], key=len), argument)
    out, at, value = "", 0, False
    for literal in re.finditer(STRING, argument):
        between = re.sub(r"[\s,+()]|std::string|concat", "", argument[at : literal.start()])
        if between and not out.endswith("X"):
            out += "X"
        out += literal[0][1:-1]
        at = literal.end()
    if re.sub(r"[\s,+()]", "", argument[at:]):
        out += "X"
    return re.sub(r"\\[nt]", " ", out).replace('\\"', '"')


def messages_of(path, text):
    found, end = [], 0
    for start in STARTS.finditer(text):
        if start["part"] and start.start() < end:  # inside a message that was read whole
            continue
        if re.match(r"\s*//", text[text.rfind("\n", 0, start.start()) + 1 :]):
            continue
        what = start["code"] or start["line"] or start["check"] or start["log"] or start["helper"] or start["verdict"] or start["part"] or start["usage"]
        argument = argument_text(text, start.end())
        end = max(end, start.end() + len(argument))
        message = words_of(argument)
        if re.search(r"[a-z]{2,} [a-z]", message):
            found.append((path, text.count("\n", 0, start.start()) + 1, what, message))
    return found


def problems_of(message, what=""):
    found = []
    part = what == "concat"  # of a message, which may begin anywhere in it
    for sentence in re.split(r"[;.?](?:\s|$)|\s\((?=\w{3,} \w)", message):
        count = len(re.findall(r"[\w'/<>=:.\-]*\w[\w'/<>=:.\-]*", sentence))
        if count > MOST_WORDS:
            found.append(f"a sentence of {count} words: {sentence.strip()}")
    plain = re.sub(r"'[^']*'|\"[^\"]*\"", "X", message)
    found += [reason + f" ({match[0]})" for rule, reason in TONE.items() if (match := re.search(rule, plain, re.I))]
    if not part and message.rstrip().endswith(".") and not message.rstrip().endswith("..."):
        found.append("no full stop at the end")
    first = re.match(r"(?!X)[A-Z][a-z]+ ", message)
    if first and not part and not what.startswith("write_error"):
        found.append(f"begins lower case ({first[0].strip()})")
    if match := TWICE.search(plain):
        found.append(f"a word twice ({match[0]})")
    if match := A_AN.search(plain):
        found.append(f"a or an ({match[0]})")
    if what in ("exit_usage", "ValidationError") and not REMEDY.search(message):
        found.append("what is taken in its place, or what to do")
    # The fact before the remedy: nobody is told what to do before what was found.
    if not part and re.match(r"(?:X: )?(?:use|give|set|install|try|run|choose|load|write) \w", message, re.I):
        found.append("the fact before the remedy")
    return found


def self_test():
    source = '''throw Error(QUERN_IO, concat(name, " has ", count, " bytes; ", more ? "a" : "several words", in_quotes(x, (2)), " are there"));'''
    assert messages_of("a.cpp", source) == [("a.cpp", 1, "QUERN_IO", "X has X bytes; several wordsX are there")], messages_of("a.cpp", source)
    assert messages_of("a.cpp", '  // throw Error(QUERN_IO, "it is a remark");') == []
    bad = ["X: " + "word " * 26, "the file says that it is short", "please give a model", "it does not work.", "The file is short", "the the file is short",
           "a error in line X", "an model is needed", "use another model, since X is short", "failed to open X now", "invalid tensor data in X", "it is short!"]
    for text in bad:
        assert problems_of(text), text
    assert problems_of("run: the prompt was odd", "exit_usage")
    for text in ("X: there is no such file; did you mean X?", "X has X bytes, and X are needed", "run: --top-k: X is not a whole number of at least 1",
                 "a URL, a unit, a one-row step, an hour, an X and an MXFP4 block"):
        assert not problems_of(text), (text, problems_of(text))


def main():
    self_test()
    table = []
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.cpp")):
            name = path.relative_to(ROOT).as_posix()
            if not any(part in "/" + name for part in NO_MESSAGES):
                table += messages_of(name, path.read_text())
    if "--list" in sys.argv:
        for path, line, what, message in table:
            print(f"{path}:{line}\t{what}\t{message}")
        return 0
    bad = 0
    for path, line, what, message in table:
        for problem in problems_of(message, what):
            bad += 1
            print(f"{path}:{line}: {problem}\n    {message}")
    print(f"{len(table)} messages, {bad} problems")
    return 1 if bad or len(table) < 500 else 0


if __name__ == "__main__":
    sys.exit(main())
