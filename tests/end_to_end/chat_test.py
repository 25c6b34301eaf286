"""The interactive chat on a pseudo-terminal: memory, commands, Ctrl-C, line editing."""

import base64
import json
import os
import pty
import re
import select
import signal
import stat
import subprocess
import time

from harness import MICRO, PROGRAM, Case, main

STYLE = re.compile(rb"\x1b\[\d+m")


class Chat(Case):
    def start(self, *flags, term="xterm", env=None, tokens=4):
        self.master, slave = pty.openpty()
        self.process = subprocess.Popen(
            [PROGRAM, "run", MICRO, "--temperature", "0", "--max-tokens", str(tokens), *flags],
            stdin=slave, stdout=slave, stderr=slave, start_new_session=True,
            env=self.environment({"TERM": term, **(env or {})}), preexec_fn=self.take_terminal, cwd=self.folder)
        os.close(slave)
        self.addCleanup(self.end, self.process, self.master)
        self.screen = b""
        self.wait_for(b"> ")

    @staticmethod
    def take_terminal():
        import fcntl
        import termios

        fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    @staticmethod
    def end(process, master):
        if process.poll() is None:
            process.kill()
        process.wait()
        os.close(master)

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
            if time.monotonic() > deadline:
                self.fail(f"waited for {words!r}, got {self.screen!r}")
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
        for _ in range(2):
            self.type(b"\x03")
            self.wait_for(b"> ")
        self.type(b"/history\r")
        self.wait_for(b"nothing was said yet")
        self.leave()

    def test_ctrl_c_stops_an_answer_and_not_the_program(self):
        self.start()
        self.type(b"hello\r")
        os.kill(self.process.pid, signal.SIGINT)  # before, during or after the answer: the chat goes on
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

    PROMPT = b"\x1b[?2004h"  # from here on keys are keys

    def ask(self, text, words=b"tokens/s"):
        """Types a line, and waits for the words and the next prompt."""
        self.type(text + b"\r")
        return self.wait_for(words) + self.wait_for(self.PROMPT)

    def test_a_turn_is_taken_back_asked_anew_and_changed(self):
        self.start()
        self.ask(b"one")
        self.ask(b"/undo", b"are forgotten")
        self.ask(b"/undo", b"there is no message yet")
        self.ask(b"two")
        self.ask(b"/regenerate")
        self.ask(b"/history", b"user: two\r\nassistant: ")
        self.ask(b"/edit", b"/edit")
        self.ask(b" more")
        self.ask(b"/history", b"user: two more\r\n")
        self.ask(b"/edit", b"/edit")
        self.type(b"x\x03")
        self.wait_for(b"stays as it was")
        self.ask(b"/history", b"user: two more\r\n")
        self.ask(b"/undo", b"are forgotten")
        self.ask(b"/history", b"nothing was said yet")
        self.leave()

    def test_settings_and_the_system_message_can_be_changed(self):
        self.start("--system", "be brief")
        self.ask(b"/history", b"system: be brief")
        self.ask(b"/system be long", b"is set")
        self.ask(b"/clear", b"forgotten")
        self.ask(b"/history", b"system: be long")
        self.ask(b"/set max-tokens 7", b"set\r\n")
        self.ask(b"/set max-tokns 7", b"did you mean max-tokens?")
        self.ask(b"/set top-k x", b"is not a whole number")
        self.ask(b"/set", b"max-tokens         7\r\n")
        self.ask(b"/show", b"kernels")
        self.ask(b"/system off", b"no system message")
        self.ask(b"/context", b"0 of 256 tokens")
        self.ask(b"hello", b"7 tokens")
        self.ask(b"/stats", b"answers   1")
        self.ask(b"/context", b"1 message of yours")
        self.type(b"/models\r/exit\r")
        self.leave()

    def test_a_chat_is_saved_and_loaded(self):
        self.start("--system", "be brief")
        self.ask(b"hello")
        self.ask(b"/save a.json", b"saved to a.json")
        saved = self.folder / "a.json"
        self.assertEqual(stat.S_IMODE(saved.stat().st_mode), 0o600)
        messages = json.loads(saved.read_bytes())["messages"]
        self.assertEqual([message["role"] for message in messages], ["system", "user", "assistant"])
        self.assertEqual(self.quern("tokenize", MICRO, "--messages", saved).code, 0)
        self.ask(b"/clear", b"forgotten")
        self.ask(b"/load a.json", b"1 message of yours")
        self.ask(b"/history", b"user: hello")
        (self.folder / "link").symlink_to("b.json")
        os.mkfifo(self.folder / "pipe")
        self.write("bad.json", '[{"role": "tool", "content": ""}]')
        self.write("big.json", "[" * (17 << 20))
        for line, words in ((b"/save link", b"link: is a link"), (b"/load pipe", b"pipe: is a pipe"), (b"/load bad.json", b"the role 'tool'"),
                            (b"/load big.json", b"quern: big.json: "), (b"/load none.json", b"quern: none.json: "), (b"/save no/where", b"quern: the chat is not saved: no/where")):
            self.assertIn(b"quern: ", self.ask(line, words))
        self.ask(b"/history", b"user: hello")  # what could not be loaded changed nothing
        self.leave()

    def test_files_stand_behind_the_message_that_names_them(self):
        self.write("notes.txt", "the notes")
        self.write("more.txt", "and more")
        self.write("bytes", b"caf\xe9")
        self.start()
        self.ask(b"/file more.txt", b"goes with the next message")
        self.type(b"see @no\t@nots.txt\r")
        self.wait_for(b"@nots.txt stays a word")
        self.wait_for(self.PROMPT)
        self.ask(b"/history", b"user: see @notes.txt @nots.txt\r\n\r\nthe notes\r\n\r\nand more\r\n")
        self.ask(b"/regenerate")
        self.ask(b"/history", b"user: see @notes.txt @nots.txt\r\n\r\nthe notes\r\n\r\nand more\r\nassistant: ")
        self.ask(b"/save a.json", b"saved to")
        self.ask(b"/load a.json", b"loaded")
        self.ask(b"/regenerate")  # the name in a loaded message is text
        self.ask(b"/history", b"user: see @notes.txt @nots.txt\r\n\r\nthe notes\r\n\r\nand more\r\nassistant: ")
        self.assertIn(b"quern: bytes: is not text in UTF-8: byte 4", self.ask(b"see @bytes", b"belongs to no character"))
        self.leave()

    def test_the_answer_goes_to_the_clipboard(self):
        self.start("--prefill", "caf\u00e9 **b**")
        self.ask(b"/copy", b"no answer yet")
        self.ask(b"hello")
        self.type(b"/copy\r")
        self.wait_for(b"\x1b]52;c;")
        copied = base64.b64decode(self.wait_for(b"\x07")[:-1], validate=True).decode()
        self.assertTrue(copied.startswith("caf\u00e9 **b**"), copied)
        self.leave()

    def test_a_full_context_offers_to_forget_the_oldest_and_keeps_the_system_message(self):
        self.start("--context", "120", "--system", "be brief")
        for number in range(20):
            self.type(b"question number %d\r" % number)
            if b"the context is full" in self.wait_for(self.PROMPT):
                break
        self.assertLess(number, 19)
        self.ask(b"n", b"not sent")
        self.ask(b"/history", b"user: question number 0")
        self.ask(b"question number %d" % number, b"there is room")
        self.ask(b"y")
        self.type(b"/history\r")
        said = self.wait_for(b"user: question number %d" % number)
        self.assertIn(b"system: be brief", said)
        self.assertNotIn(b"question number 0", said)
        self.wait_for(self.PROMPT)
        self.ask(b"word " * 100, b"your message is too long: the context holds 120 tokens")
        self.leave()

    def test_ctrl_c_twice_leaves(self):
        self.start()
        self.type(b"\x03\x03")
        self.wait_for(b"Ctrl-C again leaves")
        while self.process.poll() is None and self.read_some(5):
            pass
        self.assertEqual(self.process.wait(timeout=30), 0)

    def test_typed_lines_are_there_the_next_time_unless_they_are_not_to_be(self):
        file = self.folder / ".local/state/quern/chat_history"
        for flags in ((), ("--no-history",)):
            self.start(*flags)
            self.ask(b"/history", b"nothing was said yet")
            self.leave()
            self.assertEqual(file.is_file(), flags == ())
            if file.is_file():
                self.assertEqual(stat.S_IMODE(file.stat().st_mode), 0o600)
                self.start()
                self.ask(b"\x1b[A\x1b[A", b"nothing was said yet")
                self.leave()
                file.unlink()

    def test_an_answer_is_styled_unless_that_is_not_wanted(self):
        answer = "**b** `c`"
        for flags, env, wanted in (((), {}, b"\x1b[1mb\x1b[0m \x1b[36mc\x1b[0m"), (("--plain",), {}, answer.encode()), ((), {"NO_COLOR": "1"}, answer.encode())):
            self.start("--prefill", answer + " ", *flags, env=env)
            seen = self.ask(b"hello", wanted)
            if env:
                self.assertNotRegex(seen, STYLE)
            self.leave()

    def test_what_is_typed_during_an_answer_is_not_in_it(self):
        self.start("--logit-bias", "2=-inf", "--prefill", "yes ", tokens=60)
        self.type(b"hello\r")
        self.wait_for(b"yes")
        self.type(b"/history\r")
        self.assertNotIn(b"/history", self.wait_for(b"tokens/s"))
        self.wait_for(b"user: hello")
        self.leave()

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
