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
            if time.monotonic() > deadline:
                self.fail(f"waited for {text!r}, the screen is:\n{now}")
            time.sleep(0.05)
        return now

    def wait_for_columns(self, columns, seconds=30):
        """Until the terminal of the program has that width, of which the program is then signalled."""
        terminal = os.open(self.tmux("display-message", "-p", "#{pane_tty}").strip(), os.O_RDWR | os.O_NOCTTY)
        deadline = time.monotonic() + seconds
        while os.get_terminal_size(terminal).columns != columns:
            if time.monotonic() > deadline:
                self.fail(f"waited for {columns} columns")
            time.sleep(0.02)
        os.close(terminal)

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
                self.wait_for_columns(int(columns))  # tmux passes the new size on after a while
                self.type("x")
                self.assertEqual(self.see("endx"), "> " + words + "x")

    def test_a_paste_of_200_lines_is_one_message(self):
        for columns in (40, 80, 200):
            with self.subTest(columns=columns):
                self.start(columns)
                self.tmux("set-buffer", "".join(f"line {i}\n" for i in range(200)) + "last")
                self.tmux("paste-buffer", "-p")
                self.see("last")
                self.assertEqual(self.screen().count("line 199"), 1)
                self.key("C-c")
                self.type("/history")
                self.key("Enter")
                self.see("nothing was said yet")  # the paste asked nothing

    def test_wide_and_combining_characters_leave_the_cursor_where_the_text_ends(self):
        for columns in (40, 80, 200):
            with self.subTest(columns=columns):
                self.start(columns)
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

    def answered(self, columns, answer, *flags):
        """A screen with one answer that begins so, and the rows of it."""
        self.begin_server()
        self.tmux("-f", "/dev/null", "new-session", "-d", "-x", str(columns), "-y", "30",
                  f"'{PROGRAM}' run '{MICRO}' --temperature 0 --max-tokens 2 --no-history {' '.join(flags)} --prefill '{answer} '")
        self.see(">")
        self.type("hello")
        self.key("Enter")
        self.see("tokens/s")
        self.see("full]")
        return self.tmux("capture-pane", "-p").split("\n")

    def test_words_of_an_answer_are_wrapped_and_its_marks_are_styles(self):
        answer = "# Title\n\n- **one** two three four five six seven eight nine ten\n\n日本語日本語日本語日本語日本語日本語日本語"
        for columns, item in ((40, ["\u2022 one two three four five six seven", "  eight nine ten"]), (80, ["\u2022 one two three four five six seven eight nine ten"]),
                              (200, ["\u2022 one two three four five six seven eight nine ten"])):
            with self.subTest(columns=columns):
                rows = self.answered(columns, answer)
                at = rows.index("> hello")
                self.assertEqual(rows[at + 1 : at + 3 + len(item)], ["Title", "", *item])
                self.assertLessEqual(len(rows[0]), columns)  # a banner of two lines
                self.assertEqual(at, 2)
                self.assertEqual(rows[at + 4 + len(item)][:20], ("日本語" * 7)[: 20])
        rows = self.answered(40, "**one** two", "--plain")
        self.assertTrue(rows[rows.index("> hello") + 1].startswith("**one** two"))

    def test_tab_completes_a_command_and_lists_files(self):
        for name in ("notes-a.txt", "notes-b.txt"):
            self.write(name, "text")
        self.start(80)
        self.type("/hist")
        self.key("Tab", "Enter")
        self.see("nothing was said yet")
        self.type(f"see @{self.folder}/no")
        self.key("Tab", "Tab")
        self.see("notes-b.txt")
        self.type("a")
        self.key("Tab")
        self.type("please")
        self.assertIn(f"> see @{self.folder}/notes-a.txt please", self.see("please"))

    def test_ctrl_c_stops_an_answer_and_the_next_one_at_once_leaves(self):
        self.begin_server()
        # No token ends the answer, so that it lasts. The shell and sleep take no notice of Ctrl-C. How the program ended goes to a file: a Ctrl-C behind
        # its end makes the terminal forget what was written to it and not shown yet.
        left = self.folder / "left"
        self.tmux("-f", "/dev/null", "new-session", "-d", "-x", "80", "-y", "30",
                  f"trap '' INT; '{PROGRAM}' run '{MICRO}' --temperature 0 --no-history --logit-bias 2=-inf --prefill 'begun ' -q; "
                  f"echo $? > '{left}.part'; mv '{left}.part' '{left}'; sleep 60")
        self.see(">")
        self.type("hello")
        self.key("Enter")
        self.see("begun")
        deadline = time.monotonic() + 30
        while not left.exists() and time.monotonic() < deadline:
            self.key("C-c")  # two that come before the program runs again are one
        self.assertTrue(left.exists(), self.screen())
        self.assertIn(left.read_text().strip(), ("0", "130"))

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
