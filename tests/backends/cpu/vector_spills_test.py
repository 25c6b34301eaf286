"""Shows that scripts/vector_spills.py sees what it is for: vector_spills_test.py SCRIPT CLEAN SPILLING FRAME TILES EMPTY (five objects)."""

import subprocess
import sys

script, clean, spilling, frame, tiles, empty = sys.argv[1:]


def expect(objects, status, text):
    run = subprocess.run([sys.executable, script, *objects], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if run.returncode != status or text not in run.stdout:
        sys.exit(f"{objects}: expected status {status} and '{text}', got {run.returncode} and:\n{run.stdout}")


expect([clean], 0, "1 hot loops, 0 with vectors on the stack")
expect([spilling], 1, "spilling_loop")
expect([spilling], 1, "1 hot loops, 1 with vectors on the stack")
expect([frame], 1, "1 hot loops, 1 with vectors on the stack")
expect([tiles], 1, "1 hot loops, 1 with vectors on the stack")
expect([clean, spilling], 1, "2 hot loops, 1 with vectors on the stack")
expect([empty], 2, "no hot loop was found")
