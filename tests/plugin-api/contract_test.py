#!/usr/bin/env python3
"""CONTRACT.md is whole, and what cites it cites rules that are there."""
import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
CONTRACT = (ROOT / "plugin-api" / "CONTRACT.md").read_text()
RULES = {int(n): body for n, body in re.findall(r"^### C(\d+) .*?\n(.*?)(?=^##|\Z)", CONTRACT, flags=re.M | re.S)}


class Contract(unittest.TestCase):
    def test_rules_are_numbered_without_a_gap(self):
        self.assertEqual(sorted(RULES), list(range(1, len(RULES) + 1)))
        self.assertGreaterEqual(len(RULES), 25)

    def test_each_rule_says_who_what_when_broken_and_how_tested(self):
        for number, body in RULES.items():
            for part in ("- Who: ", "- Broken: ", "- Tested: "):
                self.assertEqual(body.count(part), 1, f"C{number}: {part}")

    def test_the_tests_that_it_names_exist(self):
        named = set(re.findall(r"tests/plugin-api/[\w.]+\.(?:cpp|py)", CONTRACT))
        self.assertGreater(len(named), 4)
        for path in named:
            self.assertTrue((ROOT / path).is_file(), path)

    def test_every_rule_of_the_design_and_of_the_scenarios_is_placed(self):
        table = CONTRACT[CONTRACT.index("## Where the design's rules are"):]
        cells = [[c.strip() for c in line.split("|")[1:-1]] for line in table.splitlines() if line.startswith("|")]
        placed = {row[i]: row[i + 1] for row in cells[2:] for i in (0, 3, 6) if row[i]}
        wanted = [str(n) for n in range(1, 26)] + [f"R{n}" for n in range(1, 16)]
        self.assertEqual(sorted(placed), sorted(wanted))
        for rules in placed.values():
            for rule in rules.split():
                self.assertIn(int(rule[1:]), RULES)

    def test_citations_name_rules_that_are_there(self):
        cited = 0
        for folder in ("plugin-api", "loader", "backends", "runtime", "conformance", "tests"):
            for path in (ROOT / folder).rglob("*"):
                if path.suffix not in {".h", ".hpp", ".c", ".cpp", ".py", ".md"}:
                    continue
                for number in re.findall(r"\[C(\d+)\]", path.read_text(errors="replace")):
                    cited += 1
                    self.assertIn(int(number), RULES, f"{path}: [C{number}]")
        self.assertGreater(cited, 10)

    def test_status_codes_and_names_that_it_uses_are_in_the_headers(self):
        headers = "".join(p.read_text() for p in (ROOT / "plugin-api" / "include" / "quern").glob("*.h"))
        for name in set(re.findall(r"\bQUERN_[A-Z_]+[A-Z]\b", CONTRACT)) - {"QUERN_ALLOW_DEV_PLUGINS", "QUERN_MIN_SIZE"}:
            self.assertRegex(headers, rf"\b{name}\b")


if __name__ == "__main__":
    unittest.main()
