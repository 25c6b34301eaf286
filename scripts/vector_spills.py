"""Lists innermost loops of kernels that keep vectors on the stack; exits with 1 if there are any, with 2 if it finds no hot loop.

    vector_spills.py OBJECT...

A compiler that runs out of vector registers stores and reloads sums in the loop that does the products, which costs a third of
the speed and no test of results sees it. Innermost loops are found in the disassembly: a jump back and all that leads to it from
its target, with no other loop inside. Those with eight products or more are the hot ones, and the innermost that multiply AMX's tiles,
which may have loops of vectors inside. Kernels whose sums wait in memory on purpose keep them in the caller's scratch, so that a vector at the stack pointer, or at the frame pointer of a function that has
one, is the compiler's own.
"""

import re
import subprocess
import sys

PRODUCTS = re.compile(r"\bv(pdpbusd|pdpwssd|pmaddubsw|pmaddwd|fn?madd\d+ps|dpbf16ps)\b")
TILE_PRODUCT = re.compile(r"\btdpb[su][su]d\b")
VECTOR = re.compile(r"%[xyz]mm\d+")
FRAME_POINTER = re.compile(r"^(mov\s+%rsp,%rbp|lea\s+\S*\(%rsp\),%rbp)")
INSTRUCTION = re.compile(r"^\s*([0-9a-f]+):\s+(\S.*)$")
JUMP = re.compile(r"^(j\w+)\s+([0-9a-f]+)\b")
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


def successors(body):
    """For each instruction, the indices of those that may run next within the function."""
    index = {address: i for i, (address, _) in enumerate(body)}
    after = []
    for i, (_, text) in enumerate(body):
        targets = []
        if found := JUMP.match(text):
            target = index.get(int(found[2], 16))
            targets += [target] if target is not None else []
        if i + 1 < len(body) and not re.match(r"(repz? )?ret|ud2|jmp\b|notrack jmp", text):
            targets.append(i + 1)
        after.append(targets)
    return after


def reached(after, first, last):
    """What runs from `first` on without leaving first .. last."""
    seen, waiting = set(), [first]
    while waiting:
        at = waiting.pop()
        if first <= at <= last and at not in seen:
            seen.add(at)
            waiting += after[at]
    return seen


def loops_of(body):
    """The indices of the instructions of each natural loop."""
    after = successors(body)
    before = [[] for _ in body]
    for i, targets in enumerate(after):
        for target in targets:
            before[target].append(i)
    loops = {}  # by first instruction; several jumps back to it are one loop
    for i, targets in enumerate(after):
        for head in targets:
            if head > i:
                continue
            inside, waiting = {head}, [i]
            while waiting:  # all that reaches the jump without passing the head
                at = waiting.pop()
                if at not in inside:
                    inside.add(at)
                    waiting += before[at]
            if 0 in inside and head != 0:  # it is entered past the head: a loop only if the head leads to the jump
                inside = reached(after, head, i)
                if i not in inside:
                    continue
            loops.setdefault(head, set()).update(inside)
    return list(loops.values())


def innermost(loops):
    """Those that have no other of them inside, sorted."""
    return [sorted(a) for a in loops if not any(b < a for b in loops)]


def hot_loops(body):
    """(products, sorted indices) of each loop that has to be free of spills."""
    def count(loop, pattern):
        return sum(1 for i in loop if pattern.search(body[i][1]))

    loops = loops_of(body)
    by_vectors = [(count(loop, PRODUCTS), loop) for loop in innermost(loops)]
    by_tiles = [(count(loop, TILE_PRODUCT), loop) for loop in innermost([loop for loop in loops if count(loop, TILE_PRODUCT)])]
    return [(products, loop) for products, loop in by_vectors if products >= 8] + by_tiles


def stack_pattern(body):
    """What an operand on this function's stack looks like: %rbp is a general register unless the function points it there."""
    bases = "rsp|rbp" if any(FRAME_POINTER.match(text) for _, text in body) else "rsp"
    return re.compile(rf"\(%(?:{bases})[,)]")


def main(paths):
    hot = bad = 0
    for path in paths:
        for name, body in functions(path):
            on_stack = stack_pattern(body)
            for products, loop in hot_loops(body):
                instructions = [body[i][1] for i in loop]
                hot += 1
                spills = [text for text in instructions if VECTOR.search(text) and on_stack.search(text)]
                if spills:
                    bad += 1
                    print(f"{path.split('/')[-1]}: {name}: {len(spills)} vector stack references beside {products} products "
                          f"in {len(instructions)} instructions, as in: {spills[0]}")
    print(f"{hot} hot loops, {bad} with vectors on the stack")
    if hot == 0:
        print("no hot loop was found: the check sees nothing", file=sys.stderr)
        return 2
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
