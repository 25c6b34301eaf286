#!/usr/bin/env python3
"""Fails where an ordinary test sets a bound to time by the clock on the wall, or orders what happens by sleeping.

A machine may be busy: then a bound on such a time fails without a fault, and a sleep is too short. What work costs is counted, or measured in
processor time (tests/support/processor_time.hpp); the clock may be the test's own (tests/support/test_clock.hpp); what happens first is an event
(a file, a pipe, a thread that sleeps: tests/support/asleep.hpp). A limit that only ends a hang is no bound: a loop gives up and the test fails.

  that a time is at least so long may be checked: a busy machine makes it longer
  a sleep between two looks of a loop may stand: the loop waits for an event

Run from anywhere; with each run it proves that it can fail.
"""
import ast
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]

# Sleeps outside a loop: function of a file, and why.
MAY_SLEEP = {
    ("tests/end_to_end/hub_server.py", "answer"): "a server that stalls; the program's own limit ends the wait",
}

WALL = re.compile(r"(?<!file_time_type::)\b(?:steady|system|high_resolution)_clock::now|\bCLOCK_(?:MONOTONIC|REALTIME|BOOTTIME)\w*|\bgettimeofday\b|"
                  r"\bstd::time\s*\(|(?<![\w:.>])time\s*\(\s*(?:nullptr|NULL|0)\s*\)|\.milliseconds\b")
CLOCK_ALIAS = re.compile(r"\busing\s+(\w+)\s*=\s*std::chrono::(?:steady|system|high_resolution)_clock\b")
ASSIGNED = re.compile(r"\b(\w+)(?:\[\w*\])?\s*(?:=(?!=)|\{|\()\s*([^;]*)")
CHECK = re.compile(r"\b(?:EXPECT|ASSERT)_(\w+)\s*\(")
SLEEP = re.compile(r"\b(?:sleep_for|sleep_until|usleep|nanosleep)\s*\(|(?<![\w.>:])(?:::)?sleep\s*\(")
LOOP = re.compile(r"\b(?:while|for)\s*\(|\bdo\b")
FUNCTION = re.compile(r"\b(\w+)\s*\([^;{}]*\)\s*(?:const\s*|noexcept\s*|override\s*|->\s*[\w:<>]+\s*)*\{|\b(\w+)\s*=\s*\[[^\]]*\]\s*(?:\([^;{}]*\))?[^;{}]*\{")


def without_comments_and_texts(code):
    """The same length and lines: blanks for comments, and for what stands between quotes."""
    def blank(match):
        return re.sub(r"[^\n]", " ", match[0])

    return re.sub(r'R"(\w*)\(.*?\)\1"|//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|(?<!\w)\'(?:\\.|[^\'\\\n])\'', blank, code, flags=re.DOTALL)


def ends(code):
    """For each opening bracket the place of its closing one."""
    found, open_at = {}, []
    for at, character in enumerate(code):
        if character in "({[":
            open_at.append(at)
        elif character in ")}]" and open_at:
            found[open_at.pop()] = at
    return found


def blocks_around(code, closing, at):
    """The opening braces of the blocks around a place, the outermost first."""
    return [start for start, end in sorted(closing.items()) if code[start] == "{" and start < at < end]


def arguments_of(text):
    """The arguments of a macro: commas between brackets, of templates too, divide nothing."""
    text = re.sub(r"<[\w:,\s]*>", lambda m: m[0].replace(",", " "), text)
    parts, depth, start = [], 0, 0
    for at, character in enumerate(text):
        depth += (character in "({[") - (character in ")}]")
        if character == "," and depth == 0:
            parts.append(text[start:at])
            start = at + 1
    return [*parts, text[start:]]


def line_of(code, at):
    return code.count("\n", 0, at) + 1


class Cpp:
    """One file: which names hold times of the wall's clock, and where."""

    def __init__(self, text, functions):
        self.code = without_comments_and_texts(text)
        self.closing = ends(self.code)
        self.clocks = set(CLOCK_ALIAS.findall(self.code))
        self.functions = functions  # names whose results are such times, in any file
        self.times = []             # (name, from, to)
        grown = True
        while grown:
            grown = self.follow()

    def is_time(self, text, at):
        if WALL.search(text) or any(re.search(rf"\b{clock}::now\b", text) for clock in self.clocks):
            return True
        if any(re.search(rf"\b{name}\s*\(", text) for name in self.functions):
            return True
        return any(start <= at <= end and re.search(rf"\b{name}\b", text) for name, start, end in self.times)

    def follow(self):
        known = len(self.times) + len(self.functions)
        for statement in re.finditer(r"[^;{}]+(?=[;{}])", self.code):
            for match in ASSIGNED.finditer(statement[0]):
                at = statement.start() + match.start()
                if match[1] in ("if", "while", "for", "return", "switch") or CHECK.search(statement[0]) or not self.is_time(match[2], at):
                    continue
                if "=" not in match[0][:match.start(2) - match.start()] and not re.search(r"(?:auto|duration<[^>]*>|time_point|double)\s+$", statement[0][:match.start()]):
                    continue  # a call, not a declaration
                around = blocks_around(self.code, self.closing, at)
                if not re.search(r"[\w>&*\]]\s+$", statement[0][:match.start()]):  # no declaration: of a name of a block around
                    function = [start for start in around if not re.search(r"\b(?:namespace|class|struct)\b[^;{}()]*$", self.code[:start])]
                    around = function[:1]
                entry = (match[1], at if around else 0, self.closing[around[-1]] if around else len(self.code))
                if not any(name == entry[0] and start <= entry[1] and entry[2] <= end for name, start, end in self.times):
                    self.times.append(entry)
        for function in FUNCTION.finditer(self.code):
            name, start = function[1] or function[2], function.end() - 1
            if name in ("if", "while", "for", "switch", "catch") or name.startswith("TEST") or start not in self.closing:
                continue
            for result in re.finditer(r"\breturn\b([^;]*);", self.code[start:self.closing[start]]):
                if self.is_time(result[1], start + result.start()):
                    self.functions.add(name)
        return len(self.times) + len(self.functions) > known

    def bounds(self):
        """Lines of checks that fail on a busy machine."""
        for check in CHECK.finditer(self.code):
            start = check.end() - 1
            arguments = arguments_of(self.code[start + 1:self.closing.get(start, start + 1)])
            times = [self.is_time(argument, check.start()) for argument in arguments]
            kind = check[1]
            if kind in ("LT", "LE"):
                late = times[:1]
            elif kind in ("GT", "GE"):
                late = times[1:2]
            else:
                late = times
            if any(late):
                yield line_of(self.code, check.start())

    def sleeps(self):
        for sleep in SLEEP.finditer(self.code):
            around = blocks_around(self.code, self.closing, sleep.start())
            heads = [re.split(r"[;{}]", self.code[:start])[-1] for start in around]
            for at, start in enumerate(around):  # `for (...; ...; ...) {` has semicolons in its head
                before = self.code[:start].rstrip()
                if before.endswith(")"):
                    opening = next(o for o, c in self.closing.items() if c == len(before) - 1)
                    heads[at] = self.code[max(0, opening - 8):opening + 1]
            before = re.sub(r"(?:\bstd::this_thread::|::)$", "", self.code[:sleep.start()].rstrip()).rstrip()
            if before.endswith(")"):  # the whole body of a loop without braces
                opening = next(o for o, c in self.closing.items() if c == len(before) - 1)
                heads.append(self.code[max(0, opening - 8):opening + 1])
            if not any(LOOP.search(head) for head in heads):
                yield line_of(self.code, sleep.start())


class Python:
    CLOCKS = {"time", "monotonic", "perf_counter", "time_ns", "monotonic_ns", "perf_counter_ns"}

    def __init__(self, text):
        self.tree = ast.parse(text)
        self.parents = {child: node for node in ast.walk(self.tree) for child in ast.iter_child_nodes(node)}
        self.times = set()  # (function, name)
        grown = True
        while grown:
            grown = self.follow()

    def function_of(self, node):
        while node in self.parents and not isinstance(node, (ast.FunctionDef, ast.Lambda)):
            node = self.parents[node]
        return node

    def is_call(self, node, module, names):
        return (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Name)
                and node.func.value.id == module and node.func.attr in names)

    def is_time(self, node):
        for part in ast.walk(node):
            if self.is_call(part, "time", self.CLOCKS):
                return True
            if isinstance(part, ast.Name) and (self.function_of(node), part.id) in self.times:
                return True
            if isinstance(part, ast.Call) and isinstance(part.func, ast.Name) and (None, part.func.id) in self.times:
                return True
        return False

    def follow(self):
        known = len(self.times)
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Assign) and self.is_time(node.value):
                for target in node.targets:
                    names = target.elts if isinstance(target, ast.Tuple) else [target]
                    self.times |= {(self.function_of(node), name.id) for name in names if isinstance(name, ast.Name)}
            if isinstance(node, ast.Return) and node.value is not None and self.is_time(node.value):
                function = self.function_of(node)
                if isinstance(function, ast.FunctionDef):
                    self.times.add((None, function.name))
        return len(self.times) > known

    def bounds(self):
        for node in ast.walk(self.tree):
            late = []
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr.startswith("assert"):
                kind, arguments = node.func.attr, node.args
                if kind in ("assertLess", "assertLessEqual"):
                    late = arguments[:1]
                elif kind in ("assertGreater", "assertGreaterEqual"):
                    late = arguments[1:2]
                elif kind == "assertAlmostEqual":
                    late = arguments[:2]
                elif kind in ("assertTrue", "assertFalse"):
                    late = [side for compare in ast.walk(node) if isinstance(compare, ast.Compare) for side in self.smaller_sides(compare)]
            elif isinstance(node, ast.Assert):
                late = [side for compare in ast.walk(node.test) if isinstance(compare, ast.Compare) for side in self.smaller_sides(compare)]
            if any(self.is_time(side) for side in late):
                yield node.lineno

    @staticmethod
    def smaller_sides(compare):
        sides = [compare.left, *compare.comparators]
        for left, operator, right in zip(sides, compare.ops, sides[1:]):
            if isinstance(operator, (ast.Lt, ast.LtE)):
                yield left
            elif isinstance(operator, (ast.Gt, ast.GtE)):
                yield right

    def sleeps(self):
        for node in ast.walk(self.tree):
            if not self.is_call(node, "time", {"sleep"}):
                continue
            above = node
            while above in self.parents and not isinstance(above, (ast.While, ast.For, ast.FunctionDef)):
                above = self.parents[above]
            if not isinstance(above, (ast.While, ast.For)):
                yield node.lineno, getattr(self.function_of(node), "name", "")


def problems_of(files):
    """Sentences about files, by path relative to the tree. Those of C++ know each other's functions."""
    found, used, functions = [], set(), set()
    for _ in range(2):
        cpp = {path: Cpp(text, functions) for path, text in files.items() if path.endswith((".cpp", ".hpp", ".c", ".h"))}
    for path, file in cpp.items():
        found += [f"{path}:{line}: fails where the machine is busy: count, or measure processor time" for line in file.bounds()]
        found += [f"{path}:{line}: orders by sleeping: wait for an event in a loop" for line in file.sleeps()]
    for path, text in files.items():
        if not path.endswith(".py"):
            continue
        file = Python(text)
        found += [f"{path}:{line}: fails where the machine is busy: count, or measure processor time" for line in file.bounds()]
        for line, function in file.sleeps():
            if (path, function) in MAY_SLEEP:
                used.add((path, function))
            else:
                found.append(f"{path}:{line}: orders by sleeping: wait for an event in a loop")
    return found, used


def self_test():
    bad = {
        "a.cpp": ["TEST(A, B) { const auto start = std::chrono::steady_clock::now(); work(); EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(2)); }",
                  "TEST(A, B) { const auto start = std::chrono::steady_clock::now(); work(); const std::chrono::duration<double, std::milli> all = std::chrono::steady_clock::now() - start;"
                  " EXPECT_GT(3.0, all.count()) << all.count(); }",
                  "double seconds_of(F f) { const auto start = Clock::now(); f(); return (Clock::now() - start).count(); } using Clock = std::chrono::steady_clock;"
                  " TEST(A, B) { EXPECT_LE(seconds_of([&] { work(); }), 2.0); }",
                  "TEST(A, B) { double took = 0; { timespec now; clock_gettime(CLOCK_MONOTONIC, &now); took = CLOCK_MONOTONIC; EXPECT_TRUE(took < 2); } }",
                  "TEST(A, B) { EXPECT_LT(entry.milliseconds, 2000); }",
                  "namespace { TEST(A, B) { auto best = max(); for (;;) { const auto start = std::chrono::steady_clock::now(); work();"
                  " best = std::min(best, std::chrono::steady_clock::now() - start); } const double ms = best.count(); EXPECT_LT(ms, 200); } }",
                  "TEST(A, B) { std::thread t([&] { std::this_thread::sleep_for(std::chrono::milliseconds(100)); cancel(); }); t.join(); }",
                  "TEST(A, B) { if (ready) { usleep(100); } go(); }",
                  "TEST(A, B) { for (int i = 0; i < 9; ++i) work(); usleep(100); if (ready) ::usleep(100); }"],
        "a.py": ["def test(self):\n    began = time.monotonic()\n    work()\n    self.assertLess(time.monotonic() - began, 2)\n",
                 "def test(self):\n    def timed():\n        began = time.time()\n        work()\n        return time.time() - began, 1\n    took, _ = timed()\n    assert took < 2\n",
                 "def test(self):\n    began = time.perf_counter()\n    self.assertTrue(2 > time.perf_counter() - began)\n",
                 "def test(self):\n    start()\n    time.sleep(1)\n    stop()\n"],
    }
    good = {
        "a.cpp": ["TEST(A, B) { const double start = processor_seconds(); work(); EXPECT_LT(processor_seconds() - start, 2 * reference); }",
                  "TEST(A, B) { const auto start = std::chrono::steady_clock::now(); work(); EXPECT_GE(std::chrono::steady_clock::now() - start, std::chrono::seconds(2)); }",
                  "TEST(A, B) { while (!done) std::this_thread::sleep_for(std::chrono::milliseconds(1)); }",
                  "TEST(A, B) { for (int i = 0; i < 9 && !done; ++i)\n    std::this_thread::sleep_for(std::chrono::milliseconds(1)); while (!go) ::usleep(1); }",
                  "TEST(A, B) { for (int i = 0; i < 9 && !done; ++i) { std::this_thread::sleep_for(std::chrono::milliseconds(1)); } }",
                  "TEST(A, B) { const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20); while (!in && std::chrono::steady_clock::now() < limit) look(); EXPECT_TRUE(in); }",
                  "TEST(A, B) { { const auto start = std::chrono::steady_clock::now(); log(start); } const int start = 1; EXPECT_LT(start, 2); }",
                  "// EXPECT_LT(std::chrono::steady_clock::now(), 1)\n",
                  "TEST(A, B) { fs::last_write_time(f, fs::file_time_type::clock::now()); EXPECT_GT(fs::last_write_time(f), fs::file_time_type::clock::now() - std::chrono::hours(1)); }"],
        "a.py": ["def test(self):\n    began = time.monotonic()\n    work()\n    self.assertGreaterEqual(time.monotonic() - began, 1.9)\n",
                 "def test(self):\n    deadline = time.monotonic() + 30\n    while not there():\n        if time.monotonic() > deadline:\n            self.fail('hung')\n        time.sleep(0.01)\n",
                 "def test(self):\n    began = time.process_time()\n    work()\n    self.assertLess(time.process_time() - began, 2)\n"],
    }
    for path, texts in bad.items():
        for text in texts:
            assert problems_of({path: text})[0], text
    for path, texts in good.items():
        for text in texts:
            assert not problems_of({path: text})[0], (text, problems_of({path: text})[0])
    across = {"a.cpp": "Cost cost_of(F f) { const auto start = std::chrono::steady_clock::now(); f(); return {0, std::chrono::steady_clock::now() - start}; }",
              "b.cpp": "TEST(A, B) { const Cost cost = cost_of([] {}); EXPECT_LT(cost.seconds, 2); }"}
    assert len(problems_of(across)[0]) == 1, problems_of(across)


def main():
    self_test()
    files = {path.relative_to(ROOT).as_posix(): path.read_text(errors="replace") for path in sorted((ROOT / "tests").rglob("*"))
             if path.suffix in (".cpp", ".hpp", ".c", ".h", ".py") and "data" not in path.parts and path != pathlib.Path(__file__).resolve()}
    found, used = problems_of(files)
    found += [f"{path}: MAY_SLEEP of {pathlib.Path(__file__).name} has {function}, which does not sleep" for path, function in MAY_SLEEP if (path, function) not in used]
    print(*found, sep="\n")
    if not files:
        sys.exit("nothing to check: no file was found")
    print(f"{len(files)} files, {len(found)} problems")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
