"""The chat in a terminal emulator (tmux): what stands on the screen while a message is typed, pasted, edited and the window resized."""

import os
import shutil
import subprocess
import sys
import time

from harness import MICRO, PROGRAM, Case, main

if shutil.which("tmux") is None:
    print("tmux is not installed: the chat's screen is not tested")
    sys.exit(77)


class Screen(Case):
    servers = 0

    def setUp(self):
        super().setUp()
        self.begin_server()

    def begin_server(self):
        """A tmux server of its own for what follows: one that ends may refuse a next session."""
        type(self).servers += 1
        self.socket = str(self.folder / f"socket{self.servers}")
        self.addCleanup(subprocess.run, ["tmux", "-S", self.socket, "kill-server"], capture_output=True, check=False)

    def start(self, columns, rows=30):
        self.begin_server()
        self.tmux("-f", "/dev/null", "new-session", "-d", "-x", str(columns), "-y", str(rows),
                  f"'{PROGRAM}' run '{MICRO}' --temperature 0 --max-tokens 2 -q")
        self.see(">")

    def tmux(self, *words):
        done = subprocess.run(["tmux", "-S", self.socket, *words], capture_output=True, text=True,
                              env={**self.environment(), "LC_ALL": "C.UTF-8"}, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def type(self, text):
        self.tmux("send-keys", "-l", "--", text)

    def key(self, *names):
        self.tmux("send-keys", *names)

    def screen(self):
        """What stands there; a line that the terminal wrapped is one."""
        lines = self.tmux("capture-pane", "-p", "-J").split("\n")
        return "\n".join(line.rstrip() for line in lines).rstrip("\n")

    def see(self, text, seconds=30):
        """The screen, once the text is on it."""
        deadline = time.monotonic() + seconds
        while text not in (now := self.screen()):
            self.assertLess(time.monotonic(), deadline, f"waited for {text!r}, the screen is:\n{now}")
            time.sleep(0.05)
        return now

    def cursor(self):
        return self.tmux("display-message", "-p", "#{cursor_x} #{cursor_y}").strip()

    def test_a_line_longer_than_the_screen_is_wide_stands_there_once(self):
        for columns in (40, 80, 200):
            with self.subTest(columns=columns):
                self.start(columns)
                words = "".join(f"word{i:02} " for i in range(50)) + "end"
                self.type(words)
                self.assertEqual(self.see("end"), "> " + words)
                self.key("Home")
                self.type("first ")
                self.assertEqual(self.see("first"), "> first " + words)

    def test_a_resize_in_the_middle_leaves_one_copy(self):
        # One resize a terminal: a narrower window pushes rows into tmux's history, which no program can erase.
        for columns in ("50", "120"):
            with self.subTest(columns=columns):
                self.start(80)
                words = "word " * 30 + "end"
                self.type(words)
                self.see("end")
                self.tmux("resize-window", "-x", columns, "-y", "30")
                time.sleep(0.3)  # tmux passes the new size on after a while
                self.type("x")
                self.assertEqual(self.see("endx"), "> " + words + "x")

    def test_a_paste_of_200_lines_is_one_message(self):
        self.start(80)
        self.tmux("set-buffer", "".join(f"line {i}\n" for i in range(200)) + "last")
        self.tmux("paste-buffer", "-p")
        self.see("last")
        self.assertEqual(self.screen().count("line 199"), 1)
        self.key("C-c")
        self.type("/history")
        self.key("Enter")
        self.see("nothing was said yet")  # the paste asked nothing

    def test_wide_and_combining_characters_leave_the_cursor_where_the_text_ends(self):
        self.start(40)
        self.type("日本e\u0301x")
        self.see("x")
        self.assertEqual(self.cursor(), "8 0")  # the prompt 2, the ideographs 4, e with its mark 1, x 1
        self.key("BSpace", "BSpace", "BSpace")
        self.type("z")
        self.see("> 日z")
        self.assertEqual(self.cursor(), "5 0")

    def test_alt_enter_and_three_quotes_make_messages_of_several_lines(self):
        self.start(80)
        self.type("one")
        self.key("M-Enter")
        self.type("two")
        self.see("> one\n  two")
        self.key("C-c")
        self.type('"""')
        self.key("Enter")
        self.type("three")
        self.key("Enter")
        self.type('four"""')
        self.key("Enter")
        self.type("/history")
        self.key("Enter")
        self.see("user: three\nfour\n")

    def test_ctrl_r_finds_what_was_typed_and_ctrl_l_clears(self):
        self.start(80)
        for line in ("/help", "/history"):
            self.type(line)
            self.key("Enter")
        self.see("nothing was said yet")
        self.key("C-r")
        self.type("hel")
        self.see("search 'hel': /help")
        self.key("Enter")
        self.key("C-l")
        self.type("typed")
        self.assertEqual(self.see("> typed"), "> typed")

    def test_suspended_and_brought_back_it_goes_on(self):
        self.tmux("-f", "/dev/null", "new-session", "-d", "-x", "80", "-y", "30", "bash --norc")
        self.type(f"clear; '{PROGRAM}' run '{MICRO}' -q")
        self.key("Enter")
        self.see(">")
        self.type("half")
        self.see("> half")
        self.key("C-z")
        self.see("Stopped")
        self.type("fg")
        self.key("Enter")
        self.type(" and half")
        self.see("> half and half")


if __name__ == "__main__":
    main()
