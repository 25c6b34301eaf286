"""The manual beside the program."""

import json
import re

from harness import MICRO, MISTRAL, SOURCE, VERBS, Case, main


class Manual(Case):
    pages = SOURCE / "packaging/man"

    def page(self, name):
        return (self.pages / f"{name}.1").read_text().replace("\\-", "-")

    def test_each_verb_has_a_page_with_its_flags_and_the_common_ones_are_in_quern_1(self):
        common = self.page("quern")
        seen = 0
        for verb in VERBS:
            page = self.page(f"quern-{verb}")
            self.assertIn(f"quern-{verb} - ", page)
            self.assertIn(f".B {verb}\n", common)
            flags = set(re.findall(r"(?<![\w-])--[a-z][a-z0-9-]+", self.quern(verb, "--help-all").out.decode())) - {"--help"}
            seen += len(flags)
            missing = sorted(f for f in flags if not re.search(re.escape(f) + r"(?![\w-])", page + common))
            self.assertEqual(missing, [], verb)
        self.assertGreater(seen, 100)
        for code in ("0", "2", "3", "4", "5", "6", "7", "8", "70"):
            self.assertRegex(common, rf"(?m)^{code}\t")

    def test_every_verb_and_flag_has_its_place_in_c(self):
        page = (SOURCE / "runtime/COMMANDS.md").read_text()
        header = (SOURCE / "runtime/include/quern.h").read_text()
        verbs, flags = (section.split("\n## ")[0] for section in (page.split("## Verbs\n")[1], page.split("## Flags\n")[1]))
        left = " ".join(line.split("|")[1] + line.split("|")[3] for line in flags.splitlines() if line.startswith("|"))
        for verb in VERBS:
            self.assertIn(f"| `{verb}` |", verbs)
            for flag in set(re.findall(r"(?<![\w-])--[a-z][a-z0-9-]+", self.quern(verb, "--help-all").out.decode())):
                self.assertIn(f"`{flag}`", left, verb)
        names = set(re.findall(r"`(quern_\w+|QUERN_\w+)`", page))
        members = {name for line in flags.splitlines() if line.startswith("|") for name in re.findall(r"`([a-z][a-z0-9_]*)`", line.split("|")[2])}
        self.assertGreater(len(names | members), 100)
        self.assertEqual([name for name in sorted(names | members) if not re.search(rf"\b{name}\b", header)], [])

    def test_the_table_of_other_names_has_those_of_the_parser_and_no_others(self):
        """COMMANDS.md, quern.1 and the pages of --help-all, which come from the parser."""
        accepted = {}
        for verb in VERBS:
            for line in self.quern(verb, "--help-all").out.decode().splitlines():
                if line.startswith("  -"):
                    names = re.findall(r"(?<![\w-])--?[a-z][a-z0-9-]*", re.split(r"  |(?<=[a-z]) [A-Z]", line[2:])[0])
                    first = next(name for name in names if name.startswith("--"))
                    accepted.setdefault(first, set()).update(set(names) - {first})
        accepted = {flag: names for flag, names in accepted.items() if names and flag != "--help"}
        self.assertIn("-n", accepted["--max-tokens"])
        rows = [line.split("|") for line in (SOURCE / "runtime/COMMANDS.md").read_text().split("## Flags\n")[1].splitlines() if line.startswith("|")]
        table = {re.findall(r"`(--[a-z-]+)`", row[1])[0]: set(re.findall(r"`(--?[a-z-]+)`", row[3])) for row in rows[2:] if "`" in row[3]}
        self.assertEqual(table, accepted)
        section = self.page("quern").split(".SH OTHER NAMES")[1].split(".SH ")[0]
        manual = {names[0]: set(names[1:]) for names in (re.findall(r"(?<![\w-])--?[a-z][a-z-]*", row) for row in section.splitlines() if "\t" in row)}
        self.assertEqual(manual, accepted)

    def test_each_row_of_values_at_the_edge_is_as_the_manual_says(self):
        section = self.page("quern").split(".SH VALUES AT THE EDGE")[1].split(".SH ")[0]
        rows = [row.split("\t") for row in section.splitlines() if row.startswith("--")]
        self.assertGreater(len(rows), 20)
        run = ("run", MICRO, "hello", "--max-tokens", "8", "--seed", "7", "--min-p", "0", "--temperature", "1")
        verbs = {"--repetitions": ("bench", MICRO), "--batch": ("bench", MICRO), "--prompt-tokens": ("bench", MICRO), "--decode-tokens": ("bench", MICRO),
                 "--depth": ("bench", MICRO, "-p", "8", "-n", "4", "-r", "1"), "--sequences": ("estimate", MICRO),
                 "--kv-heads": ("estimate", *MISTRAL[:-2]), "--head-size": ("estimate", *MISTRAL),
                 "--count": ("monitor", "--show-config"), "--interval": ("monitor", "--count", "1"), "--weights-cache-limit": (*run, "--weights-cache", "on")}
        greedy = self.quern_json(*run[:-1], "0")["ids"]
        plain = self.quern_json(*run)["ids"]
        self.assertNotEqual(plain, greedy)
        for flag, value, meaning in rows:
            with self.subTest(f"{flag} {value}"):
                base = verbs.get(flag, ("list",) if flag.startswith("--hub") else run)
                if flag in base:
                    at = base.index(flag)
                    base = base[:at] + base[at + 2 :]
                arguments = (*base, flag, value)
                if meaning.startswith("refused"):
                    self.assert_fails(2, flag, *arguments)
                    continue
                result = self.quern(*arguments, *(("--json",) if base[0] == "run" else ()))
                self.assertEqual(result.code, 0 if base[0] != "bench" else result.code, result.err)
                self.assertNotEqual(result.code, 2, result.err)
                if base[0] != "run" or meaning.startswith(("a seed", "no limit")):
                    continue
                ids = json.loads(result.out)["ids"]
                if "best token" in meaning:
                    self.assertEqual(ids, greedy)
                elif "to its end" in meaning:
                    self.assertNotEqual(json.loads(result.out)["finish"], "length")
                else:  # off, none: as without the flag
                    self.assertEqual(ids, plain)

    def test_names_every_variable(self):
        page = self.page("quern")
        for variable in re.findall(r'"((?:QUERN|HF)_[A-Z_]+)"', (SOURCE / "cli/src/settings.cpp").read_text()):
            self.assertIn(variable, page)

    def test_has_every_code_of_the_report_with_its_meaning(self):
        rows = re.findall(r'^QUERN_LOADER_CODE\(\w+, "([^"]+)", "([^"]+)", ".*"\)$', (SOURCE / "loader/src/codes.def").read_text(), re.M)
        self.assertGreater(len(rows), 60)
        page, readme = self.page("quern-doctor"), (SOURCE / "loader/README.md").read_text()
        for code, meaning in rows:
            plain = meaning.replace("`", "")
            self.assertIn(f".B {code}\n{plain[0].upper()}{plain[1:]}.\n", page)
            self.assertIn(f"| {code} | {meaning} |", readme)
        self.assertEqual(len(rows), len({code for code, _ in rows}))


if __name__ == "__main__":
    main()
