#!/usr/bin/env python3
"""Lists where a library ends its process if memory runs out, and fails if there is such a place that ALLOWED does not name.

A destructor, a function marked noexcept and the clean-up of an exception may not throw: what throws there calls std::terminate. The compiler
says so in the tables by which exceptions are unwound: a call in a function that has a table, which no row of it covers, ends the process if it
throws. This reads the tables and the calls of built libraries (GCC or Clang, x86-64 or AArch64), finds what may allocate, through however many
functions and past no handler, and reports
  - each such call that no row covers,
  - each exported C function that lets std::bad_alloc out to its host.
Calls through pointers (virtual functions, std::function) are not followed.

usage: check_noexcept.py LIBRARY...      needs binutils (objdump, c++filt; addr2line for lines of the sources)
       check_noexcept.py --self-test CXX  compiles samples, and proves that it finds and that it does not
"""
import bisect
import pathlib
import re
import struct
import subprocess
import sys
import tempfile

# Regular expression of the demangled function -> why it may stay. Short: a reason is a proof that the call cannot come to an allocation.
ALLOWED = {
    r"^quern::runtime::KvPages::truncate\(unsigned int, unsigned int\)$": "a page that is given back goes to a list that has room for all pages since it was made",
}

# What a library takes from elsewhere and allocates with, or passes a caught exception on with.
SOURCES = re.compile(r"^(_Zn[wa]m|_Zn[wa]mSt11align_val_t|__cxa_rethrow|_ZSt17rethrow_exception.*)$")
# Functions of libstdc++ that neither allocate nor throw std::bad_alloc. All others of it count as sources.
HARMLESS = re.compile(
    r"^(_Zd[la]Pv.*"  # operator delete
    r"|_Zn[wa]m.*RKSt9nothrow_t"
    r"|_ZSt(9terminate|20__throw|1[0-9]__throw|2[0-9]__throw|1[0-9]_Rb_tree|2[0-9]_Rb_tree|3[0-9]_Rb_tree|11_Hash_bytes|18uncaught|19uncaught).*"
    r"|_ZNSt8__detail15_List_node_base.*"
    r"|_ZNKSt8__detail20_Prime_rehash_policy.*"
    r"|_ZNSt15__exception_ptr13exception_ptr.*|_ZNKSt15__exception_ptr.*|_ZSt17current_exception.*"
    r"|_ZN?K?S[^v]*D[0-2]Ev"  # destructors
    r"|_ZNSt.*[CD][0-2]E[vOS]*$"  # constructors without arguments, and moves
    r"|_ZNSt18condition_variable.*|_ZNSt6chrono.*|_ZNSt6thread4joinEv|_ZNSt6thread6detachEv|_ZNSt6thread20hardware.*"
    r"|_ZNSt3_V2(15system|16generic).*|_ZNKSt3_V214error_category.*|_ZNSt6localeD.*|_ZNSt6locale7classic.*"
    r"|_ZNSt7__cxx1112basic_string.*(10_M_dispose|13_M_set_length|9_M_assign_never|5clear|4swap|8pop_back|5erase|8_M_eraseEmm).*"
    r"|_ZNKSt7__cxx1112basic_string.*"  # const: compare, find
    r"|_ZNKSt.*(4what|4code)Ev"
    r"|_ZNSt28__atomic_futex.*|_ZNKSt(5ctype|8time_put).*"
    r"|_ZNSt13runtime_errorC[12]E(RK|O)S_"  # a copy shares its text
    # Declared noexcept there, and without allocations inside; an emptied or moved path splits no text into parts.
    r"|_ZNKSt10filesystem7__cxx114path(5_List|7compare|17_M_find_extension|15has_parent_path|1[0-9]has_).*|_ZNSt10filesystem7__cxx114path14_M_split_cmptsEv"
    r"|_ZNSt10filesystem(6remove|9file_size|6status|14symlink_status|15last_write_time|6rename|10equivalent).*RSt10error_code"
    r"|_ZSt(8to_chars|10from_chars).*|_ZNSt13random_device.*|_ZNKSt7codecvt.*"
    r"|_ZNSt8ios_base.*|_ZNKSt9basic_ios.*)$")


# Inlined functions in which a call of a source cannot allocate -> why.
INLINED = {
    r"^std::(__cxx11::)?to_string\((int|unsigned( int)?)\)$": "each number of 32 bits has a place within the string, for which the function is noexcept",
}


class Library:
    def __init__(self, path):
        self.path = pathlib.Path(path)
        self.bytes = self.path.read_bytes()
        self.read_sections()
        self.read_symbols()
        self.functions = {}  # start -> (end, address of the table or None)
        self.read_frames()
        self.starts = sorted(self.functions)
        self.tables = {start: self.read_table(start, table) for start, (_, table) in self.functions.items() if table}
        self.calls = self.read_calls()

    # ELF.
    def read_sections(self):
        assert self.bytes[:6] == b"\x7fELF\x02\x01", f"{self.path}: not a little-endian 64-bit ELF file"
        offset, = struct.unpack_from("<Q", self.bytes, 40)
        size, count, names = struct.unpack_from("<HHH", self.bytes, 58)
        rows = [struct.unpack_from("<IIQQQQIIQQ", self.bytes, offset + i * size) for i in range(count)]
        text = lambda at: self.bytes[at:self.bytes.index(b"\0", at)].decode()
        self.sections = {}
        self.loaded = []
        for name, kind, flags, address, where, length, link, _, _, entry in rows:
            self.sections[text(rows[names][4] + name)] = (kind, address, where, length, link, entry)
            if flags & 2 and kind != 8:
                self.loaded.append((address, where, length))
        self.rows = rows

    def at(self, address):
        for start, where, length in self.loaded:
            if start <= address < start + length:
                return where + address - start
        raise ValueError(f"{self.path}: no byte at {address:#x}")

    def read_symbols(self):
        self.names = {}
        self.places = {}  # of functions, by name: calls of exported ones go through a table of names
        self.exported = set()
        for section in (".symtab", ".dynsym"):
            if section not in self.sections:
                continue
            _, _, where, length, link, entry = self.sections[section]
            texts = self.rows[link][4]
            for at in range(where, where + length, entry):
                name, info, _, index, value, _ = struct.unpack_from("<IBBHQQ", self.bytes, at)
                if index == 0 or not name:
                    continue
                text = self.bytes[texts + name:self.bytes.index(b"\0", texts + name)].decode()
                if info & 15 in (0, 1, 2):
                    self.names.setdefault(value, text)
                if info & 15 == 2:
                    self.places[text] = value
                if section == ".dynsym" and info & 15 == 2:
                    self.exported.add((value, text))

    # DWARF and the tables of exceptions.
    def unsigned(self, at):
        result = shift = 0
        while True:
            byte = self.bytes[at]
            at += 1
            result |= (byte & 127) << shift
            shift += 7
            if not byte & 128:
                return result, at

    def signed(self, at):
        begin = at
        value, at = self.unsigned(at)
        bits = 7 * (at - begin)
        return (value - (1 << bits) if self.bytes[at - 1] & 64 else value), at

    def encoded(self, at, encoding, address):
        """A pointer at file offset `at`, whose own address is `address`: its value, and where the next thing is."""
        form = encoding & 15
        if form == 1:
            value, end = self.unsigned(at)
        else:
            letter = {0: "Q", 2: "H", 3: "I", 4: "Q", 9: None, 10: "h", 11: "i", 12: "q"}[form]
            value, = struct.unpack_from("<" + letter, self.bytes, at)
            end = at + struct.calcsize("<" + letter)
        if value and encoding & 0x70 == 0x10:
            value += address
        return value, end

    def read_frames(self):
        _, base, where, length, _, _ = self.sections[".eh_frame"]
        entries = {}
        at = where
        while at < where + length:
            size, = struct.unpack_from("<I", self.bytes, at)
            if size == 0:
                break
            body = at + 4
            pointer, = struct.unpack_from("<I", self.bytes, body)
            if pointer == 0:
                entries[at] = self.read_common(body + 4)
            else:
                pointers, table = entries[body - pointer]
                position = body + 4
                start, position = self.encoded(position, pointers, base + position - where)
                span, position = self.encoded(position, pointers & 15, 0)
                _, position = self.unsigned(position)
                found = None
                if table is not None:
                    found, _ = self.encoded(position, table, base + position - where)
                if span:
                    self.functions[start] = (start + span, found or None)
            at = body + size

    def read_common(self, at):
        at += 1
        end = self.bytes.index(b"\0", at)
        letters = self.bytes[at:end].decode()
        _, at = self.unsigned(end + 1)
        _, at = self.signed(at)
        _, at = self.unsigned(at)
        pointers, table = 0, None
        if letters.startswith("z"):
            _, at = self.unsigned(at)
            for letter in letters[1:]:
                if letter == "R":
                    pointers = self.bytes[at]
                    at += 1
                elif letter == "L":
                    table = self.bytes[at]
                    at += 1
                elif letter == "P":
                    _, at = self.encoded(at + 1, self.bytes[at] & 15, 0)
        return pointers, table

    def read_table(self, function, table):
        """Rows (begin, end, landing pad, what it catches) of a function; addresses."""
        at = self.at(table)
        landing = function
        encoding = self.bytes[at]
        at += 1
        if encoding != 255:
            landing, at = self.encoded(at, encoding, table + 1)
        types = self.bytes[at]
        at += 1
        type_base = None
        if types != 255:
            distance, at = self.unsigned(at)
            type_base = at + distance
        places = self.bytes[at]
        size, at = self.unsigned(at + 1)
        actions = at + size
        rows = []
        while at < actions:
            begin, at = self.encoded(at, places, 0)
            length, at = self.encoded(at, places, 0)
            pad, at = self.encoded(at, places, 0)
            action, at = self.unsigned(at)
            caught = self.read_action(actions + action - 1, types, type_base, table) if action else set()
            rows.append((function + begin, function + begin + length, landing + pad if pad else 0, caught))
        return rows

    def read_action(self, at, types, base, table):
        caught = set()
        while True:
            kind, after = self.signed(at)
            step, _ = self.signed(after)
            if kind > 0:
                size = {0: 8, 2: 2, 3: 4, 4: 8, 10: 2, 11: 4, 12: 8}[types & 15]
                where = base - kind * size
                address = table + where - self.at(table)
                value, _ = self.encoded(where, types, address)
                caught.add(self.names.get(value, "?") if value else "all")
            if step == 0:
                return caught
            at = after + step

    # Code.
    def function_of(self, address):
        at = bisect.bisect_right(self.starts, address) - 1
        if at < 0 or address >= self.functions[self.starts[at]][0]:
            return None
        return self.starts[at]

    def read_calls(self):
        """(function, address of the call, callee: a start or a name, whether it is a jump)"""
        run = subprocess.run(["objdump", "-d", "--no-show-raw-insn", "--section=.text", self.path], stdout=subprocess.PIPE, text=True, check=True)
        calls = []
        line_form = re.compile(r"^\s*([0-9a-f]+):\s+(?:bnd |notrack )?(call|jmp|j[a-z]+|bl|b)\s+(?:([0-9a-f]+) <([^>]+)>|\*.*# [0-9a-f]+ <([^>]+)>)")
        for line in run.stdout.splitlines():
            match = line_form.match(line)
            if not match:
                continue
            at = int(match[1], 16)
            jump = match[2] not in ("call", "bl")
            name = match[4] or match[5]
            external = re.match(r"([^+]+?)(?:@@?[A-Z][\w.]*|@plt)+$", name)
            if external:
                callee = self.places.get(external[1], external[1])
            elif match[3]:
                callee = int(match[3], 16)
                if jump and self.function_of(callee) == self.function_of(at):
                    continue
                callee = self.function_of(callee)
            else:
                continue
            function = self.function_of(at)
            if function is not None and callee is not None and callee != function:
                calls.append((function, at, callee, jump))
        return calls

    def row_of(self, function, at):
        for begin, end, pad, caught in self.tables.get(function, ()):
            if begin <= at < end:
                return pad, caught
        return None


CATCHES = {"all", "_ZTISt9bad_alloc", "_ZTISt9exception", "DW.ref._ZTISt9bad_alloc", "DW.ref._ZTISt9exception"}


def is_source(name):
    return bool(SOURCES.match(name)) or (name.startswith(("_ZNSt", "_ZNKSt", "_ZSt", "_ZNSa", "_ZNSs")) and not HARMLESS.match(name))


def check(library):
    """Places that end the process: (function, address of the call, callee), and exported functions that let an exception out."""
    calls_of = {}
    for function, at, callee, jump in library.calls:
        calls_of.setdefault(callee, []).append((function, at, jump))
    escapes = {}  # function or external name -> the callee that it comes from
    work = [callee for callee in calls_of if isinstance(callee, str) and is_source(callee)]
    for name in work:
        escapes[name] = None
    terminal = []
    while work:
        callee = work.pop()
        for function, at, jump in calls_of.get(callee, ()):
            row = library.row_of(function, at)
            has_table = function in library.tables
            if has_table and row is None and not jump:
                terminal.append((function, at, callee))
                continue
            if row is not None and not jump and row[1] & CATCHES:
                continue
            # Clang has a row whose landing pad only ends the process.
            if row is not None and not jump and row[0] and any(f == function and begin <= row[0] + 16 and row[0] <= begin < row[0] + 16 and
                                                               name == "__clang_call_terminate" for f, begin, name in library.terminations()):
                terminal.append((function, at, callee))
                continue
            if function not in escapes:
                escapes[function] = callee
                work.append(function)
    outer = [(address, name) for address, name in library.exported if name.startswith("quern_") and address in escapes]
    return terminal, outer, escapes


def terminations(self):
    if not hasattr(self, "_terminations"):
        ends = {start for start in self.starts if self.names.get(start) == "__clang_call_terminate"}
        self._terminations = [(function, at, "__clang_call_terminate") for function, at, callee, _ in self.calls if callee in ends]
    return self._terminations


Library.terminations = terminations


def demangle(names):
    if not names:
        return []
    run = subprocess.run(["c++filt"], input="\n".join(names), stdout=subprocess.PIPE, text=True, check=True)
    return run.stdout.splitlines()


def report(library):
    terminal, outer, escapes = check(library)
    name = lambda thing: thing if isinstance(thing, str) else library.names.get(thing, f"{thing:#x}")

    def way(thing):
        names = []
        while thing is not None and len(names) < 6:
            names.append(name(thing))
            thing = escapes.get(thing)
        return " -> ".join(re.sub(r"\(.*", "", text) for text in demangle(names))

    found = []
    for (function, at, callee), frames in zip(sorted(terminal), frames_of(library, [at for _, at, _ in sorted(terminal)])):
        if any(re.search(pattern, inlined) for pattern in INLINED for inlined, _ in frames):
            continue
        found.append((demangle([name(function)])[0], at, f"ends the process if memory runs out in {way(callee)}"))
    for address, exported in sorted(outer, key=lambda pair: pair[1]):
        found.append((exported, address, f"lets an exception out to its host, from {way(address)}"))
    bad = {}
    used = set()
    for function, at, text in found:
        function = function.replace(" [clone .cold]", "")
        reason = next((pattern for pattern in ALLOWED if re.search(pattern, function)), None)
        if reason:
            used.add(reason)
        else:
            bad.setdefault(f"{library.path.name}: {function}: {text}", at)
    return [line + place_of(frames) for line, frames in zip(sorted(bad), frames_of(library, [bad[line] for line in sorted(bad)]))], used, len(library.tables)


def frames_of(library, addresses):
    """The inlined frames that each address lies in, innermost first: (function, "FILE:LINE"); none where the library has no debug information."""
    if not addresses:
        return []
    run = subprocess.run(["addr2line", "-a", "-f", "-C", "-i", "-e", library.path] + [f"{at:#x}" for at in addresses], stdout=subprocess.PIPE, text=True, check=True)
    texts = [place.strip().split("\n") for place in re.split(r"^0x[0-9a-f]+$", run.stdout, flags=re.M)[1:]]
    return [list(zip(lines[::2], lines[1::2])) for lines in texts]


def place_of(frames):
    """" (FILE:LINE)" of the outermost frame; "" where the library has no lines."""
    place = frames[-1][1].split(" ")[0] if frames else "?"
    return "" if place.startswith("?") else " (" + "/".join(pathlib.PurePath(place).parts[-3:]) + ")"


SAMPLES = {
    # source -> how many places
    "struct G { std::vector<int>& v; ~G() { v.push_back(1); } }; void f(std::vector<int>& v) { G g{v}; v.reserve(9); }": 1,
    "void helper(std::string& s); __attribute__((noinline)) void helper(std::string& s) { s.append(99, 'x'); } void f(std::string& s) noexcept { helper(s); }": 1,
    "void f(std::string& s) noexcept { try { s.append(99, 'x'); } catch (...) { s.clear(); } }": 0,
    "void f(std::string& s) noexcept { try { s.append(99, 'x'); } catch (const std::bad_alloc&) { s.clear(); } catch (...) { s.append(99, 'y'); } }": 1,
    "extern \"C\" __attribute__((visibility(\"default\"))) void quern_out(std::string* s) { s->append(99, 'x'); }": 1,
    "extern \"C\" __attribute__((visibility(\"default\"))) void quern_release(std::string* s) { delete s; }": 0,
    "void eat(const std::string&); void f(int n) { eat(std::to_string(n)); } void g(std::string& s, int n) noexcept { s.append(99, 'x'); eat(std::to_string(n)); }": 1,
    "void f(std::vector<std::string>& v) noexcept { v.clear(); } void g(std::vector<int>& v) { v.push_back(1); }": 0,
}


def self_test(compiler):
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        for number, (source, expected) in enumerate(SAMPLES.items()):
            path = pathlib.Path(folder) / f"sample{number}.cpp"
            path.write_text("#include <string>\n#include <vector>\n" + source + "\n")
            subprocess.run([compiler, "-std=c++20", "-O2", "-g1", "-fPIC", "-shared", path, "-o", path.with_suffix(".so")], check=True)
            lines, _, _ = report(Library(path.with_suffix(".so")))
            if len(lines) != expected:
                print(f"{source}\n  has {expected} such places, and {len(lines)} were found: {lines}")
                wrong += 1
    print(f"{len(SAMPLES)} samples, {wrong} wrong")
    return wrong != 0


def main():
    if len(sys.argv) == 3 and sys.argv[1] == "--self-test":
        return self_test(sys.argv[2])
    if len(sys.argv) < 2:
        print(__doc__)
        return 2
    all_lines, all_used = [], set()
    for path in sys.argv[1:]:
        lines, used, tables = report(Library(path))
        if tables == 0:
            lines = [f"{path}: has no tables of exceptions; nothing was looked at"]
        all_lines += lines
        all_used |= used
        print(f"{pathlib.Path(path).name}: {tables} functions with tables, {len(lines)} places that end the process if memory runs out")
    for line in all_lines:
        print(line)
    for pattern in ALLOWED.keys() - all_used:
        print(f"ALLOWED has '{pattern}', and nothing is like it any more")
    return 1 if all_lines or ALLOWED.keys() - all_used else 0


if __name__ == "__main__":
    sys.exit(main())
