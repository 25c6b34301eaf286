"""Lists innermost loops of kernels that keep vectors on the stack; exits with 1 if there are any.

    vector_spills.py OBJECT...

A compiler that runs out of vector registers stores and reloads sums in the loop that does the products, which costs a third of
the speed and no test of results sees it. Innermost loops are found in the disassembly: a backward jump with no other one inside.
Those with eight products or more are the hot ones.
"""

import re
import subprocess
import sys

PRODUCTS = re.compile(r"\bv(pdpbusd|pmaddubsw|pmaddwd|fmadd\d+ps)\b")
STACK_VECTOR = re.compile(r"\(%r[sb]p[,)].*%[xyz]mm|%[xyz]mm\d+.*\(%r[sb]p[,)]")
INSTRUCTION = re.compile(r"^\s*([0-9a-f]+):\s+(\S.*)$")
JUMP = re.compile(r"^j\w+\s+([0-9a-f]+)\b")
FUNCTION = re.compile(r"^[0-9a-f]+ <(.*)>:$")


def functions(path):
    """(name, [(address, instruction)]) of each function of an object."""
    text = subprocess.run(["objdump", "-d", "--no-show-raw-insn", "-C", path], check=True, stdout=subprocess.PIPE, text=True).stdout
    name, body = None, []
    for line in text.splitlines():
        if found := FUNCTION.match(line):
            if name:
                yield name, body
            name, body = found[1], []
        elif found := INSTRUCTION.match(line):
            body.append((int(found[1], 16), found[2]))
    if name:
        yield name, body


def innermost_loops(body):
    """(first, last) indices of loops without a loop inside."""
    index = {address: i for i, (address, _) in enumerate(body)}
    loops = []
    for i, (address, text) in enumerate(body):
        found = JUMP.match(text)
        if found and (start := index.get(int(found[1], 16))) is not None and start <= i:
            loops.append((start, i))
    return [a for a in loops if not any(b != a and a[0] <= b[0] and b[1] <= a[1] for b in loops)]


def main(paths):
    hot = bad = 0
    for path in paths:
        for name, body in functions(path):
            for first, last in innermost_loops(body):
                instructions = [text for _, text in body[first:last + 1]]
                products = sum(1 for text in instructions if PRODUCTS.search(text))
                if products < 8:
                    continue
                hot += 1
                spills = [text for text in instructions if STACK_VECTOR.search(text)]
                if spills:
                    bad += 1
                    print(f"{path.split('/')[-1]}: {name[:150]}: {len(spills)} vector stack references beside {products} products "
                          f"in {len(instructions)} instructions, as in: {spills[0]}")
    print(f"{hot} hot loops, {bad} with vectors on the stack")
    if hot == 0:
        sys.exit("no hot loop was found: the check sees nothing")
    sys.exit(1 if bad else 0)


main(sys.argv[1:])
