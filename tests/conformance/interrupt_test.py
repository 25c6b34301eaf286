"""On a terminal a run shows how far it is; Ctrl-C ends it by the signal, behind the sentence that it goes on, and it does.

usage: interrupt_test.py PROGRAM FOLDER PLUGIN
"""

import os
import pathlib
import pty
import re
import signal
import subprocess
import sys

program, folder, plugin = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3]
folder.mkdir(parents=True, exist_ok=True)
journal = folder / "interrupted.jsonl"
command = [program, "run", "--plugin", plugin, "--level", "1", "--jobs", "1", "--journal", str(journal)]


def on_terminal(arguments, until):
    """The exit code and what the terminal shows; SIGINT once `until` matches it."""
    master, slave = pty.openpty()
    process = subprocess.Popen(arguments, stdin=subprocess.DEVNULL, stdout=slave, stderr=slave)
    os.close(slave)
    screen = b""
    while True:
        try:
            piece = os.read(master, 65536)
        except OSError:  # closed by the program
            break
        if not piece:
            break
        screen += piece
        if until is not None and re.search(until, screen):
            process.send_signal(signal.SIGINT)
            until = None
    os.close(master)
    return process.wait(), screen.decode()


bar = rb"running \w+ \[#*\.*\] \d+ %, [1-9]\d* of \d+ cases"
code, screen = on_terminal(command, bar)
assert code == -signal.SIGINT, (code, screen[-500:])
assert "the same command with --resume goes on from there" in screen, screen[-500:]
finished = journal.read_text().count('"end"')
assert finished > 0, journal.read_text()[-300:]
assert '"crash"' not in journal.read_text(), "Ctrl-C reached a device process"
code, screen = on_terminal([*command, "--resume"], rb"running \w+ \[#*\.*\] \d+ %, (?!1 of)[1-9]\d* of \d+ cases")
assert code == -signal.SIGINT, (code, screen[-500:])
assert journal.read_text().count('"end"') >= finished, "what had run is kept"
assert "\r\x1b[K" in screen, "the bar is erased in front of the sentence"
short = [program, "run", "--plugin", plugin, "--op", "add", "--level", "1", "--journal", str(folder / "piped.jsonl")]
piped = subprocess.run(short, capture_output=True, text=True)
assert piped.returncode in (0, 7), piped.stderr
assert "running" not in piped.stderr and "\x1b" not in piped.stderr + piped.stdout, piped.stderr
