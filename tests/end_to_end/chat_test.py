"""The interactive chat on a pseudo-terminal: memory, commands, Ctrl-C, line editing."""

import os
import pty
import select
import signal
import subprocess
import time

from harness import MICRO, PROGRAM, Case, main


class Chat(Case):
    def start(self, *flags, term="xterm"):
        self.master, slave = pty.openpty()
        self.process = subprocess.Popen(
            [PROGRAM, "run", MICRO, "--temperature", "0", "--max-tokens", "4", *flags],
            stdin=slave, stdout=slave, stderr=slave, start_new_session=True,
            env=self.environment({"TERM": term}), preexec_fn=self.take_terminal)
        os.close(slave)
        self.addCleanup(self.end)
        self.screen = b""
        self.wait_for(b"> ")

    @staticmethod
    def take_terminal():
        import fcntl
        import termios

        fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    def end(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self.master)

    def read_some(self, seconds):
        ready, _, _ = select.select([self.master], [], [], seconds)
        if not ready:
            return b""
        try:
            return os.read(self.master, 4096)
        except OSError:  # the other side is closed
            return b""

    def wait_for(self, words, seconds=30):
        """Reads until the words are on the screen after what was waited for before; gives all until then."""
        deadline = time.monotonic() + seconds
        while words not in self.screen:
            self.assertLess(time.monotonic(), deadline, f"waited for {words!r}, got {self.screen!r}")
            self.screen += self.read_some(0.2)
        before, _, self.screen = self.screen.partition(words)
        return before + words

    def type(self, text):
        os.write(self.master, text)

    def leave(self, code=0):
        self.type(b"/exit\r")
        while self.process.poll() is None and self.read_some(5):
            pass
        self.assertEqual(self.process.wait(timeout=30), code)

    def test_it_remembers_and_forgets(self):
        self.start()
        self.type(b"/history\r")
        self.wait_for(b"nothing was said yet")
        self.type(b"hello\r")
        self.wait_for(b"tokens/s")
        self.type(b"/history\r")
        self.wait_for(b"user: hello")
        self.wait_for(b"assistant: ")
        self.type(b"/clear\r")
        self.wait_for(b"forgotten")
        self.type(b"/history\r")
        self.wait_for(b"nothing was said yet")
        self.leave()

    def test_a_line_that_is_not_utf8_is_forgotten_and_the_chat_goes_on(self):
        self.start()
        self.type(b"hello\r")
        self.wait_for(b"tokens/s")
        self.type(b"caf\xe9 hi\r")
        said = self.wait_for(b"the line is forgotten").rpartition(b"quern: ")[2]
        self.assertIn(b"not UTF-8", said)
        self.assertEqual(said.replace(b"\r\n", b"").count(MICRO.encode()), 1)
        self.type(b"/history\r")
        before = self.wait_for(b"assistant: ")
        self.assertIn(b"user: hello", before)
        self.assertNotIn(b"caf", before)
        self.type(b"again\r")
        self.wait_for(b"tokens/s")
        self.leave()

    def test_help_lists_the_commands_and_an_unknown_one_is_said_to_be_so(self):
        self.start()
        self.type(b"/help\r")
        for command in (b"/history", b"/clear", b"/exit"):
            self.wait_for(command)
        self.type(b"/nonesuch\r")
        self.wait_for(b"unknown command '/nonesuch'")
        self.leave()

    def test_ctrl_c_at_the_prompt_drops_the_line_and_not_the_program(self):
        self.start()
        self.type(b"half a line")
        self.wait_for(b"half a line")
        self.type(b"\x03")
        time.sleep(0.2)
        self.type(b"\x03")
        time.sleep(0.2)
        self.assertIsNone(self.process.poll())
        self.type(b"/history\r")
        self.wait_for(b"nothing was said yet")
        self.leave()

    def test_ctrl_c_stops_an_answer_and_not_the_program(self):
        self.start()
        self.type(b"hello\r")
        os.kill(self.process.pid, signal.SIGINT)  # before, during or after the answer: the chat goes on
        time.sleep(1)
        self.assertIsNone(self.process.poll())
        self.type(b"\x15/help\r")
        self.wait_for(b"/exit")
        self.leave()

    def test_the_up_key_brings_back_a_line_and_ctrl_d_leaves(self):
        self.start()
        self.type(b"/histori\x7fy\r")
        self.wait_for(b"nothing was said yet")
        self.wait_for(b"> ")  # keys are keys at the prompt only; before it the terminal itself edits the line
        self.type(b"\x1b[A\r")
        self.wait_for(b"nothing was said yet")
        self.wait_for(b"> ")
        self.type(b"\x04")
        while self.process.poll() is None and self.read_some(5):
            pass
        self.assertEqual(self.process.wait(timeout=30), 0)

    def test_a_dumb_terminal_works_too(self):
        self.start(term="dumb")
        self.type(b"/help\n")
        self.wait_for(b"/exit")
        self.type(b"/exit\n")
        while self.process.poll() is None and self.read_some(5):
            pass
        self.assertEqual(self.process.wait(timeout=30), 0)

    def test_the_chat_has_no_json(self):
        master, slave = pty.openpty()
        done = subprocess.run([PROGRAM, "run", MICRO, "--json"], stdin=slave, capture_output=True,
                              env=self.environment(), timeout=60)
        os.close(slave)
        os.close(master)
        self.assertEqual(done.returncode, 2)
        self.assertIn(b"--json", done.stderr)


if __name__ == "__main__":
    main()
