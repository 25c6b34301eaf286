"""Reads the C headers of the plugin ABI: structs with their members, constants, rows of the tables.

The headers are written in one plain style (typedef struct NAME { one member a line } NAME;), so no C parser is needed;
what does not fit the style is an error, never skipped.
"""
import pathlib
import re

ABI_HEADERS = ["quern_status.h", "quern_dtypes.h", "quern_abi.h", "quern_device.h", "quern_graph.h", "quern_ops.h",
               "quern_formats.h", "quern_plan.h", "quern_plugin_api.h"]
INTEGERS = {"uint8_t", "uint16_t", "uint32_t", "uint64_t", "int8_t", "int16_t", "int32_t", "int64_t", "double", "char"}


class HeaderError(Exception):
    pass


def without_comments(text):
    return re.sub(r"/\*.*?\*/", " ", text, flags=re.S)


def tidy(text):
    text = re.sub(r"\s+", " ", text).strip()
    return re.sub(r" ?\* ?", " *", text)


def member(declaration, where):
    """(name, type text) of one declaration; a function pointer's type is its whole signature."""
    declaration = re.sub(r"\s+", " ", declaration).strip()
    function = re.fullmatch(r"([^(]+?)\(\*(\w+)\) ?\((.*)\)", declaration)
    if function:
        return function[2], tidy(function[1]) + "(*)(" + tidy(function[3]) + ")"
    declaration = tidy(declaration)
    plain = re.fullmatch(r"(.+?[ *])(\w+)((?:\[\w+\])*)", declaration)
    if not plain or "," in declaration or ":" in declaration:
        raise HeaderError(f"{where}: cannot read the member '{declaration}'; write one member a line")
    return plain[2], tidy(plain[1] + plain[3])


def structs(folder):
    """name -> (header file, [(member, type)]) in the order of the headers."""
    found = {}
    for header in ABI_HEADERS:
        text = without_comments((folder / header).read_text())
        for match in re.finditer(r"typedef struct (\w+) \{(.*?)\} (\w+);", text, flags=re.S):
            if match[1] != match[3]:
                raise HeaderError(f"{header}: struct {match[1]} has the other name {match[3]}")
            members = [member(d, f"{header}: {match[1]}") for d in match[2].split(";") if d.strip()]
            found[match[1]] = (header, members)
        if len(re.findall(r"\bstruct\s+\w*\s*\{", text)) != len(re.findall(r"typedef struct \w+ \{", text)):
            raise HeaderError(f"{header}: a struct that is not written as typedef struct NAME {{ ... }} NAME;")
    return found


def constants(folder):
    """Names of all numeric macros and enumerators, and (name, text) of all string macros."""
    numbers, texts = [], []
    for header in [*ABI_HEADERS, "ops.def"]:
        source = without_comments((folder / header).read_text())
        for match in re.finditer(r"^#define (QUERN_\w+) +(\S.*?) *$", source, flags=re.M):
            if match[2].startswith('"'):
                texts.append((match[1], match[2]))
            elif not match[2].startswith("static "):  # a macro that stands for words of a declaration has no value
                numbers.append(match[1])
        for body in re.findall(r"enum \{(.*?)\}", source, flags=re.S):
            body = re.sub(r"^#.*$", "", body, flags=re.M)
            numbers += re.findall(r"\b(QUERN_\w+) =", body)
    numbers += [f"QUERN_OP_{row['NAME']}" for row in ops(folder)]
    numbers += [f"QUERN_KEY_{row['NAME']}" for row in keys(folder)]
    return numbers, texts


def ops(folder):
    text = without_comments((folder / "ops.def").read_text())
    pattern = r'QUERN_OP\((\d+), (\w+), (\w+), (\w+), "([^"]*)", "([^"]*)", "([^"]*)", "([^"]*)"\)'
    rows = [dict(id=int(m[0]), NAME=m[1], name=m[2], group=m[3], inputs=m[4], outputs=m[5], attributes=m[6], gradient=m[7])
            for m in re.findall(pattern, text)]
    if len(rows) != text.count("QUERN_OP("):
        raise HeaderError("ops.def: a row that is not QUERN_OP(id, NAME, name, group, \"..\", \"..\", \"..\", \"..\")")
    return rows


def forms(folder):
    """NAME: (inputs, outputs, conditions), in the order of the table."""
    text = without_comments((folder / "ops.def").read_text())
    rows = re.findall(r'^QUERN_FORM\((\w+), "([^"]*)", "([^"]*)", "([^"]*)"\)$', text, flags=re.M)
    if len(rows) != len(re.findall(r"^QUERN_FORM\(", text, flags=re.M)):
        raise HeaderError("ops.def: a row that is not QUERN_FORM(NAME, \"..\", \"..\", \"..\")")
    return {row[0]: row[1:] for row in rows}


def keys(folder):
    text = without_comments((folder / "keys.def").read_text())
    rows = [dict(id=int(m[0]), NAME=m[1], name=m[2], type=m[3])
            for m in re.findall(r"QUERN_KEY\((\d+), (\w+), (\w+), (I64|F64)\)", text)]
    if len(rows) != text.count("QUERN_KEY("):
        raise HeaderError("keys.def: a row that is not QUERN_KEY(id, NAME, name, I64 or F64)")
    return rows


def include_folder():
    return pathlib.Path(__file__).resolve().parent.parent / "include" / "quern"
