#!/usr/bin/env python3
"""Writes the plugin headers of a later minor that does not exist yet: each step appends one function to the table and counts one up.

  next_minor.py STEPS OUT      OUT/quern/ becomes the present headers, STEPS minors later

For tests alone (-DQUERN_ABI_LATER=STEPS): plugins of a release have to serve under the hosts that will follow it.
"""
import pathlib
import re
import shutil
import sys

HEADERS = pathlib.Path(__file__).resolve().parent.parent / "include" / "quern"


def replace_once(path, pattern, replacement):
    text, count = re.subn(pattern, replacement, path.read_text(), flags=re.M)
    if count != 1:
        sys.exit(f"{path}: {count} places look like '{pattern}', one was expected")
    path.write_text(text)


def main(arguments):
    if len(arguments) != 2 or not arguments[0].isdigit() or int(arguments[0]) == 0:
        sys.exit(__doc__)
    steps, target = int(arguments[0]), pathlib.Path(arguments[1]) / "quern"
    out = target.with_name("quern.new")
    shutil.rmtree(out, ignore_errors=True)
    shutil.copytree(HEADERS, out)
    minor = int(re.search(r"^#define QUERN_ABI_MINOR (\d+)u", (out / "quern_abi.h").read_text(), re.M).group(1))
    replace_once(out / "quern_abi.h", r"^#define QUERN_ABI_MINOR \d+u", f"#define QUERN_ABI_MINOR {minor + steps}u")
    later = "".join(f"  quern_status (*of_minor_{minor + step})(quern_plugin *plugin, quern_error *error);\n" for step in range(1, steps + 1))
    replace_once(out / "quern_plugin_api.h", r"^\} quern_plugin_api;", later + "} quern_plugin_api;")
    for file in sorted(path.relative_to(out) for path in out.rglob("*") if path.is_file()):
        (target / file).parent.mkdir(parents=True, exist_ok=True)
        if not (target / file).exists() or (target / file).read_bytes() != (out / file).read_bytes():
            shutil.copy2(out / file, target / file)  # those alone, so that a build is not begun anew
    shutil.rmtree(out)


if __name__ == "__main__":
    main(sys.argv[1:])
