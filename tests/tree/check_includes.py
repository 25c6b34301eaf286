#!/usr/bin/env python3
"""Fails if an #include crosses an arrow of ARCHITECTURE.md backwards.

Each folder may include its own files, the folders in its row, the standard library and its named third parties.
Run from anywhere; with --self-test it proves that it can fail.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]

# folder -> folders whose headers it may include; the order is that of ARCHITECTURE.md. The base of runtime/graph is what needs no graph:
# error.hpp and file_error.hpp, which the loader throws, JSON, folders and sha256.hpp.
ALLOWED = {
    "base": set(),
    "plugin-api": set(),
    "loader": {"plugin-api", "runtime/graph/base", "base"},
    "runtime/graph": {"plugin-api", "base"},
    "models": {"plugin-api", "runtime/graph", "base"},
    "runtime/training": {"plugin-api", "runtime/graph", "models", "base"},
    "runtime": {"plugin-api", "runtime/training", "loader", "runtime/graph", "models", "base"},
    "cli": {"runtime/public", "plugin-api/status", "base"},
    "backends": {"plugin-api", "base"},
    "conformance": {"plugin-api", "loader", "runtime/graph/base", "base"},
}
THIRD_PARTY = {
    "boost/": {"loader"},
    "CLI/": {"cli"},
    "nlohmann/": {"cli", "conformance"},
    "curl/": {"models"},
    "utf8proc.h": {"cli", "models"},
    "yaml-cpp/": {"cli"},
    "zlib.h": {"runtime/training"},
}


def component_of(path):
    text = path.as_posix()
    for name in sorted(ALLOWED, key=len, reverse=True):
        if text.startswith(name + "/"):
            return name
    return None


# A program of its own: it opens the runtime by dlopen and knows its stable C API alone.
PROGRAMS = {"conformance/audit": {"runtime/public"}}


def target_of(include):
    """The component that an include belongs to, or None for the standard library and files of one's own."""
    if include == "quern.h":
        return "runtime/public"
    if include == "quern/quern_status.h":
        return "plugin-api/status"
    if re.match(r"quern/(quern_|sdk/|ops\.def|keys\.def)", include) or re.match(r"quern_\w+\.h(pp)?$", include):
        return "plugin-api"
    if include in tuple(f"quern/graph/{name}.hpp" for name in ("error", "file_error", "folder", "json", "json_writer", "sha256", "stack")):
        return "runtime/graph/base"
    for prefix, name in (("quern/base/", "base"), ("quern/graph/", "runtime/graph"), ("quern/loader/", "loader"), ("quern/models/", "models"),
                         ("quern/training/", "runtime/training")):
        if include.startswith(prefix):
            return name
    return None


def check(component, path, include):
    allowed = ALLOWED[component] | next((more for folder, more in PROGRAMS.items() if path.as_posix().startswith(folder + "/")), set())
    for prefix, users in THIRD_PARTY.items():
        if include.startswith(prefix) and component not in users:
            return f"{path}: {component} includes <{include}>, which only {', '.join(sorted(users))} may"
    target = target_of(include)
    if target is None:
        if ".." in include.split("/"):
            resolved = (ROOT / path).parent.joinpath(include).resolve()
            if resolved.is_relative_to(ROOT) and component_of(resolved.relative_to(ROOT)) not in (component, None):
                return f"{path}: {component} reaches into another component by '{include}'"
        return None
    base = target.split("/")[0] if target in ("plugin-api/status",) else target
    if target == component or target in allowed or base in allowed:
        return None
    if target == "runtime/graph/base" and "runtime/graph" in allowed | {component}:
        return None
    if target == "runtime/public" and component == "runtime":
        return None
    if target == "plugin-api" and component == "plugin-api":
        return None
    return f"{path}: {component} may not include '{include}' ({target})"


def violations():
    found, files = [], 0
    for component in ALLOWED:
        for path in sorted((ROOT / component).rglob("*")):
            if path.suffix not in {".h", ".hpp", ".c", ".cpp", ".cu", ".def"} or not path.is_file():
                continue
            relative = path.relative_to(ROOT)
            if component_of(relative) != component:
                continue
            files += 1
            for include in re.findall(r'^\s*#\s*include\s*[<"]([^">]+)[">]', path.read_text(errors="replace"), re.M):
                problem = check(component, relative, include)
                if problem:
                    found.append(problem)
    return found, files


def self_test():
    bad = [("backends", "quern/graph/graph.hpp"), ("backends", "quern/loader/loader.hpp"), ("cli", "quern/models/gguf.hpp"),
           ("runtime/graph", "quern/loader/loader.hpp"), ("plugin-api", "quern/graph/error.hpp"), ("models", "boost/dll.hpp"),
           ("conformance", "quern/graph/graph.hpp"), ("models", "quern/training/settings.hpp"), ("cli", "quern/training/settings.hpp"),
           ("runtime/training", "quern/loader/loader.hpp"), ("runtime", "yaml-cpp/parser.h"), ("plugin-api", "quern/base/files.hpp"), ("base", "quern/quern_status.h"),
           ("base", "quern/graph/error.hpp"), ("runtime/training", "quern.h")]
    good = [("runtime", "quern/training/order.hpp"), ("runtime/training", "quern/models/chat.hpp"), ("cli", "quern/base/files.hpp"), ("cli", "quern/base/terminal_output.hpp"), ("backends", "quern/base/files.hpp"), ("runtime", "quern/loader/loader.hpp"), ("runtime", "quern/training/settings.hpp"), ("cli", "quern.h"), ("models", "quern/graph/graph.hpp"), ("backends", "quern/quern_plan.h")]
    for component, include in bad:
        assert check(component, pathlib.Path(component) / "x.cpp", include), (component, include)
    assert check("conformance", pathlib.Path("conformance/src/audit/x.cpp"), "quern.h")
    assert not check("conformance", pathlib.Path("conformance/audit/x.cpp"), "quern.h")
    for component, include in good:
        assert not check(component, pathlib.Path(component) / "x.cpp", include), (component, include)


if __name__ == "__main__":
    self_test()
    problems, count = violations()
    print(*problems, sep="\n")
    if count == 0:
        sys.exit("no source file was found")
    print(f"{count} files, {len(problems)} violations")
    sys.exit(1 if problems else 0)
