#!/usr/bin/env python3
"""Tests of plugin-api/tools: what the checks accept and, above all, what they refuse."""
import contextlib
import io
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parents[2] / "plugin-api"
TOOLS = ROOT / "tools"
sys.path.insert(0, str(TOOLS))
import headers  # noqa: E402
import layout  # noqa: E402
import mechanisms  # noqa: E402


def run(tool, *arguments):
    done = subprocess.run([sys.executable, TOOLS / tool, *map(str, arguments)], capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


class AppendCheck(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.old = pathlib.Path(self.folder.name, "old.inc")
        self.assertEqual(run("layout.py", "--all", self.old)[0], 0)
        self.text = self.old.read_text()

    def check(self, text):
        new = pathlib.Path(self.folder.name, "new.inc")
        new.write_text(text)
        return run("check_abi_append.py", self.old, new)

    def edit(self, old, new):
        self.assertEqual(self.text.count(old), 1, old)
        return self.text.replace(old, new)

    def refused(self, text, words):
        code, output = self.check(text)
        self.assertEqual(code, 1, output)
        self.assertIn(words, output)

    def test_accepts_the_same_layout(self):
        self.assertEqual(self.check(self.text)[0], 0)

    def test_accepts_a_member_at_the_end_of_a_struct_with_a_new_minor(self):
        last = re.search(r"QUERN_LAYOUT_MEMBER\(quern_plan_info, schedules.*\n", self.text)[0]
        size = int(re.search(r"STRUCT\(quern_plan_info, (\d+)\)", self.text)[1])
        text = self.edit(last, last + f'QUERN_LAYOUT_MEMBER(quern_plan_info, cost, {size}, 8, "double")\n')
        text = text.replace(f"STRUCT(quern_plan_info, {size})", f"STRUCT(quern_plan_info, {size + 8})")
        self.refused(text, "QUERN_ABI_MINOR did not grow")
        minor = int(re.search(r"VALUE\(QUERN_ABI_MINOR, (\d+)ull\)", text)[1])
        code, output = self.check(text.replace(f"VALUE(QUERN_ABI_MINOR, {minor}ull)", f"VALUE(QUERN_ABI_MINOR, {minor + 1}ull)"))
        self.assertEqual(code, 0, output)

    def test_accepts_a_new_op_with_a_new_op_set(self):
        row = "QUERN_LAYOUT_ROW(op, broadcast,"
        text = self.text.replace(row, 'QUERN_LAYOUT_ROW(op, brandnew, "x -> y | ")\n' + row)
        self.refused(text, "QUERN_OPSET_VERSION did not grow")
        version = int(re.search(r"VALUE\(QUERN_OPSET_VERSION, (\d+)ull\)", text)[1])
        code, output = self.check(text.replace(f"VALUE(QUERN_OPSET_VERSION, {version}ull)", f"VALUE(QUERN_OPSET_VERSION, {version + 1}ull)"))
        self.assertEqual(code, 0, output)

    def test_refuses_a_function_in_the_middle_of_the_table(self):
        at = re.search(r"QUERN_LAYOUT_MEMBER\(quern_plugin_api, probe,.*\n", self.text)[0]
        self.refused(self.edit(at, at.replace("probe,", "early,") + at), "at its place stands early")

    def test_refuses_a_member_that_is_gone(self):
        at = re.search(r"QUERN_LAYOUT_MEMBER\(quern_run, flags,.*\n", self.text)[0]
        self.refused(self.edit(at, ""), "quern_run.flags: removed")

    def test_refuses_another_type_of_the_same_size(self):
        self.refused(self.edit('quern_error, native_code, 24, 4, "int32_t"', 'quern_error, native_code, 24, 4, "uint32_t"'),
                     "quern_error.native_code: was 'int32_t'")

    def test_refuses_another_signature(self):
        at = re.search(r"QUERN_LAYOUT_MEMBER\(quern_plugin_api, trim,.*\n", self.text)[0]
        self.refused(self.edit(at, at.replace("uint32_t level", "uint64_t level")), "quern_plugin_api.trim: was")

    def test_refuses_a_renumbered_constant(self):
        self.refused(self.edit("VALUE(QUERN_OP_ADD, 1ull)", "VALUE(QUERN_OP_ADD, 3ull)"), "QUERN_OP_ADD: renumbered from 1 to 3")

    def test_refuses_a_constant_that_is_gone(self):
        self.refused(self.edit("QUERN_LAYOUT_VALUE(QUERN_BUSY, 8ull)\n", ""), "QUERN_BUSY: removed")

    def test_refuses_growth_of_a_struct_held_by_value(self):
        last = re.search(r"QUERN_LAYOUT_MEMBER\(quern_span, bytes.*\n", self.text)[0]
        text = self.edit(last, last + 'QUERN_LAYOUT_MEMBER(quern_span, more, 32, 8, "uint64_t")\n')
        self.refused(text.replace("STRUCT(quern_span, 32)", "STRUCT(quern_span, 40)"), "is held by value in another struct")

    def test_refuses_an_op_with_another_meaning(self):
        row = re.search(r"QUERN_LAYOUT_ROW\(op, rms_norm, .*\n", self.text)[0]
        self.refused(self.edit(row, row.replace("epsilon", "epsilon=1")), "op rms_norm: was")

    def test_refuses_a_format_with_another_hash(self):
        row = re.search(r"QUERN_LAYOUT_ROW\(format, q4_0, .*\n", self.text)[0]
        self.refused(self.edit(row, row.replace("0x", "0x1")), "format q4_0: was")

    def test_says_so_when_a_file_is_no_layout(self):
        code, output = run("check_abi_append.py", self.old, TOOLS / "layout.py")
        self.assertEqual(code, 2)
        self.assertIn("holds no QUERN_LAYOUT_STRUCT line", output)


class HeaderStyle(unittest.TestCase):
    def layout_of(self, old, new, header="quern_plan.h"):
        with tempfile.TemporaryDirectory() as scratch:
            folder = pathlib.Path(scratch, "quern")
            shutil.copytree(ROOT / "include" / "quern", folder)
            text = (folder / header).read_text()
            self.assertEqual(text.count(old), 1, old)
            (folder / header).write_text(text.replace(old, new))
            return layout.layout(folder)

    def refused(self, old, new, words):
        with self.assertRaisesRegex(headers.HeaderError, words):
            self.layout_of(old, new)

    def test_refuses_types_whose_size_or_meaning_varies(self):
        for bad in ("bool", "long", "size_t", "int", "enum quern_kind"):
            self.refused("  uint64_t runs;", f"  {bad} runs;", f"quern_counters.runs has the type '{bad}'")

    def test_refuses_padding_without_a_name(self):
        self.refused("  uint32_t symbol; /* index into quern_graph.symbols */\n  uint32_t reserved;\n",
                     "  uint32_t symbol;\n", "quern_bound: 4 bytes without a name before upper")

    def test_refuses_a_bit_field_and_two_members_on_a_line(self):
        self.refused("  uint64_t runs;", "  uint64_t runs : 3;", "cannot read the member")
        self.refused("  uint64_t runs;", "  uint64_t runs, more;", "cannot read the member")

    def test_sees_a_member_that_moved(self):
        text, _ = self.layout_of("  uint64_t runs;\n  uint64_t device_allocations;",
                                 "  uint64_t device_allocations;\n  uint64_t runs;")
        self.assertNotEqual(layout.pinned(text, headers.include_folder()), (ROOT / "layout" / "quern_layout.inc").read_text())

    def test_a_new_op_changes_what_a_release_keeps_and_not_the_committed_layout(self):
        row = 'QUERN_OP(175, NORM, norm, reduction, "x", "y", "", "mul")\n'
        text, _ = self.layout_of(row, row + 'QUERN_OP(176, BRANDNEW, brandnew, reduction, "x", "y", "", "-")\n', "ops.def")
        self.assertIn('QUERN_LAYOUT_ROW(op, brandnew, "x -> y | ")', text)
        self.assertIn("QUERN_LAYOUT_VALUE(QUERN_OP_BRANDNEW, 176ull)", text)
        with tempfile.TemporaryDirectory() as scratch:
            folder = pathlib.Path(scratch, "quern")
            shutil.copytree(ROOT / "include" / "quern", folder)
            (folder / "ops.def").write_text((folder / "ops.def").read_text().replace(row, row + 'QUERN_OP(176, BRANDNEW, brandnew, reduction, "x", "y", "", "-")\n'))
            self.assertEqual(layout.pinned(text, folder), (ROOT / "layout" / "quern_layout.inc").read_text())


class OpTables(unittest.TestCase):
    def check(self, file=None, old=None, new=None):
        with tempfile.TemporaryDirectory() as scratch:
            folder = pathlib.Path(scratch)
            for path in (ROOT / "OPS.md", ROOT / "include/quern/ops.def", ROOT / "include/quern/keys.def"):
                shutil.copy(path, folder)
            if file:
                text = (folder / file).read_text()
                self.assertGreaterEqual(text.count(old), 1, old)
                (folder / file).write_text(text.replace(old, new, 1))
            return run("check_ops.py", "--def", folder, "--table", folder / "OPS.md")

    def test_accepts_what_is_committed(self):
        code, output = self.check()
        self.assertEqual(code, 0, output)

    def test_refuses_each_kind_of_difference(self):
        for file, old, new, words in [
            ("OPS.md", "| 60 | rms_norm |", "| 59 | rms_norm |", "op 60 rms_norm: in ops.def, not in OPS.md"),
            ("OPS.md", "| 60 | rms_norm |", "| 60 | rmsnorm |", "op is 'rms_norm' in ops.def"),
            ("OPS.md", "x[..,h] weight[h]? | y |", "x[..,h] weight[h] | y |", "inputs is 'x weight?'"),
            ("OPS.md", "epsilon weight_offset=0 | f32", "epsilon weight_offset=1 | f32", "attributes is"),
            ("OPS.md", "weight f32 | rms_norm_backward |", "weight f32 | - |", "gradient is 'rms_norm_backward'"),
            ("OPS.md", "| *x | y | axis=0 |", "| x | y | axis=0 |", "inputs is '*x'"),
            ("ops.def", "QUERN_OP(2, SUB, sub,", "QUERN_OP(1, SUB, sub,", "ids do not ascend"),
            ("ops.def", '"alpha=1", "add")', '"alpha=one", "add")', "is not a number"),
            ("ops.def", '"alpha=1", "add")', '"alpha=1", "addd")', "is no op"),
            ("ops.def", '"kind=0", "gelu_backward")', '"kind=0.5", "gelu_backward")', "is not an integer"),
            ("ops.def", '"kind=0", "gelu_backward")', '"colour=0", "gelu_backward")', "has no key in keys.def"),
            ("ops.def", "QUERN_FORM(SQR,", "QUERN_FORM(SQUARE,", "forms and ops differ: SQR, SQUARE"),
            ("ops.def", '"x:float dy:float=x", "dx:float=x"', '"x:float dz:float=x", "dx:float=x"', "has the inputs x dz, its row x dy"),
            ("ops.def", "weight:f32[h]", "weight:f32[n]", "weight is [n], and [h] in OPS.md"),
            ("ops.def", "weight:f32[h]", "weight:f32(h)", "cannot read"),
            ("keys.def", "QUERN_KEY(53, ROOT, root, I64)", "QUERN_KEY(53, ROOF, roof, I64)", "is used by no op"),
        ]:
            code, output = self.check(file, old, new)
            self.assertEqual(code, 1, f"{old} -> {new}: {output}")
            self.assertIn(words, output)


class MechanismTable(unittest.TestCase):
    def refusals(self, **changed):
        """What the check says where a part of the tool's sight is another."""
        told = io.StringIO()
        with mock.patch.multiple(mechanisms, **changed), mock.patch.object(sys, "argv", ["", "--check"]), contextlib.redirect_stdout(told):
            self.assertEqual(mechanisms.main(), 1)
        return told.getvalue()

    def test_a_mechanism_that_nobody_has_needs_a_mark(self):
        self.assertIn("fill: no plugin of ours has it: use it, or mark it", self.refusals(PLUGINS=("plugin-api/sample/c99",)))
        self.assertIn("submit: no host code of ours uses it", self.refusals(HOST=("runtime/graph/src",)))

    def test_a_mark_of_what_is_used_is_refused(self):
        words = self.refusals(experimental=lambda text: {"submit"})
        self.assertRegex(words, "submit: is marked as experimental, but .* uses it and .* has it: take the mark away")
        self.assertIn("submit: is marked as experimental, but rule C30 does not name it", words)
        self.assertIn("nobody: is marked in a header and no mechanism", self.refusals(experimental=lambda text: {"nobody"}))

    def test_a_function_without_a_rule_is_refused(self):
        rules = {name: rule for name, rule in mechanisms.RULES.items() if name != "fill"}
        self.assertIn("fill: the tool has no rule of CONTRACT.md", self.refusals(RULES=rules))

    def test_a_page_that_is_not_what_the_tree_gives_is_refused(self):
        other = pathlib.Path(mechanisms.ROOT, "plugin-api/README.md")
        self.assertIn("README.md is not what the tree gives: run plugin-api/tools/mechanisms.py", self.refusals(PAGE=other))


if __name__ == "__main__":
    unittest.main()
