"""Text of files, variables, servers, plugins and command lines on a terminal: no byte of it moves a cursor or begins a sequence.

Each test plants the same bytes wherever such text can stand. On a pseudo-terminal standard output and standard error are both looked at; through
pipes standard error alone, since results keep their bytes there.
"""

import contextlib
import json
import os
import pathlib
import pty
import random
import re
import select
import struct
import subprocess
import time

from harness import MICRO, PROGRAM, VERBS, Case, controls, main
from hub_server import Hub as HubServer
from hub_server import Repository, status

SUITE = os.environ["QUERN_TEST_SUITE"]
ZOO = os.environ["QUERN_TEST_ZOO"]
# A title, a cleared screen, C1 alone and as UTF-8, directions, separators, a surrogate, a forged line.
PLANT = (b"\x1b[2J\x07\x1b]0;pwned\x07\x9b2J\xc2\x9b2J\xe2\x80\xae\xe2\x81\xa6\xd8\x9c\xe2\x80\x8f\xe2\x80\xa8\xed\xa0\x80\x7f\rX\nquern: forged")
WORD = PLANT.replace(b"\n", b"")
# What the program itself draws: styles, an erased line, rows and columns, marks of pastes.
OWN = re.compile(rb"\x1b\[\d+m|\r\x1b\[K|\x1b\[\d+A|\r\x1b\[J|\r\x1b\[\d+C|\x1b\[\?2004[hl]|\r(?=\r|\n|\x1b|$)")


class TerminalCase(Case):
    def on_terminal(self, *command, env=None, typed=(), seconds=60):
        """What a raw terminal gets. `typed`: pieces, one at each "> " of the program."""
        import termios
        import tty

        master, slave = pty.openpty()
        tty.setraw(slave, termios.TCSANOW)
        process = subprocess.Popen(command, stdin=slave if typed else subprocess.DEVNULL, stdout=slave, stderr=slave, start_new_session=True,
                                   env=self.environment({"TERM": "xterm", **(env or {})}))
        os.close(slave)
        screen, waiting, seen = b"", list(typed), 0
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if select.select([master], [], [], 0.05)[0]:
                try:
                    piece = os.read(master, 1 << 20)
                except OSError:
                    break
                if not piece:
                    break
                screen += piece
            elif process.poll() is not None:
                break
            at = screen.find(b"> ", seen)
            if waiting and at >= 0:
                seen = len(screen)
                os.write(master, waiting.pop(0))
        if process.poll() is None:
            process.kill()
        process.wait()
        os.close(master)
        return screen

    def assert_quiet(self, screen, what):
        screen = OWN.sub(b"", screen)
        self.assertEqual(controls(screen), [], (what, screen[-300:]))

    def check(self, *arguments, env=None, program=PROGRAM, terminal=True, code=None):
        """On a terminal, and through pipes."""
        done = subprocess.run([program, *arguments], stdin=subprocess.DEVNULL, capture_output=True, env=self.environment(env), timeout=100)
        self.assertNotIn(done.returncode, (70, -6, -11), (arguments, done.stderr[-300:]))
        if code is not None:
            self.assertEqual(done.returncode, code, (arguments, done.stderr[-300:]))
        self.assertEqual(controls(done.stderr), [], (arguments, done.stderr[-300:]))
        for line in done.stderr.splitlines():
            self.assertFalse(line.startswith(b"quern: forged"), (arguments, done.stderr[-300:]))
        if terminal:
            self.assert_quiet(self.on_terminal(program, *arguments, env=env), arguments)
        return done


def strings_of(content):
    """(what, offset, size) of each text of a GGUF file."""
    at, sizes = 4, {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}

    def number(form):
        nonlocal at
        at += struct.calcsize("<" + form)
        return struct.unpack_from("<" + form, content, at - struct.calcsize("<" + form))[0]

    def text(what):
        nonlocal at
        size = number("Q")
        found.append((what, at, size))
        at += size
        return content[at - size : at].decode()

    def value(kind, what):
        nonlocal at
        if kind == 8:
            text(what)
        elif kind == 9:
            element, count = number("I"), number("Q")
            for index in range(count):
                value(element, f"{what} {index}")
        else:
            at += sizes[kind]

    found = []
    number("I")
    tensors, keys = number("Q"), number("Q")
    for _ in range(keys):
        name = text("key")
        value(number("I"), "value of " + name)
    for _ in range(tensors):
        text("tensor")
        dimensions = number("I")
        at += 8 * dimensions + 12
    return found


def end_of_head(content):
    """Where the names end; each tensor has behind its name the number of its dimensions, these, its type and its offset."""
    _, offset, size = strings_of(content)[-1]
    return offset + size + 4 + 8 * struct.unpack_from("<I", content, offset + size)[0] + 12


def rewritten(content, texts):
    """The file with other texts of any size; `texts`: (what, offset, size) -> bytes. The data begins at a multiple of 32, as before."""
    head, at = b"", 0
    for (_, offset, size), text in sorted(texts.items(), key=lambda item: item[0][1]):
        head += content[at : offset - 8] + struct.pack("<Q", len(text)) + text
        at = offset + size
    end = end_of_head(content)
    head += content[at:end]
    return head + b"\0" * (-len(head) % 32) + content[end + -end % 32 :]


class Model(TerminalCase):
    def plant(self, places, name="planted.gguf", plant=PLANT):
        content = bytearray(pathlib.Path(MICRO).read_bytes())
        for _, offset, size in places:
            content[offset : offset + size] = (plant * (size // len(plant) + 1))[:size]
        return self.write(name, bytes(content))

    def test_each_text_of_a_model(self):
        found = strings_of(pathlib.Path(MICRO).read_bytes())
        seen = set()
        for place in found:
            kind = " ".join(word for word in place[0].split(" ") if not word.isdigit())
            if place[2] < 3 or kind in seen and kind not in ("key", "tensor"):
                continue  # of tokens and merges one
            seen.add(kind)
            with self.subTest(place=place):
                path = self.plant([place])
                self.check("show", path, "--tensors", terminal=kind not in ("key", "tensor"))
                self.check("run", path, "hi", "--max-tokens", "2", "-v", terminal=False)
        self.assertGreaterEqual(len(seen), 7)

    def test_all_names_at_once_on_a_terminal(self):
        found = strings_of(pathlib.Path(MICRO).read_bytes())
        unneeded = [p for p in found if p[0] == "value of general.name"]
        self.assertTrue(unneeded)
        path = self.plant(unneeded)
        for arguments in (("show", path, "--tensors"), ("show", path, "--json"), ("estimate", path), ("tokenize", path, "hi"), ("run", path, "hi", "-v")):
            self.check(*arguments)

    def test_tokens_of_an_answer(self):
        """Words that are sequences; among them the byte tokens of the vocabulary, which split characters over tokens."""
        content = pathlib.Path(MICRO).read_bytes()
        found = [p for p in strings_of(content) if p[0].startswith("value of tokenizer.ggml.tokens ")]
        words = {place: b"\x1b]0;pwned%d\x07\x1b[2J\xc2\x9b2J\xe2\x80\xae" % index for index, place in enumerate(found[259:])}
        self.assertGreater(len(words), 50)
        path = self.write("tokens.gguf", rewritten(content, words))
        screen = b""
        for seed in "123":
            screen += self.on_terminal(PROGRAM, "run", path, "hi", "--max-tokens", "40", "--temperature", "3", "--seed", seed)
        self.assert_quiet(screen, "tokens")
        self.assertIn(b"\\x1b]0;pwned", screen)
        self.assertIn(b"\\u009b2J\\u202e", screen)
        out = self.quern("run", path, "hi", "--max-tokens", "40", "--temperature", "3", "--seed", "1", "-q").out
        self.assertIn(b"\x1b]0;pwned", out)  # a pipe gets the model's bytes

    def test_a_template_that_raises_or_renders_sequences(self):
        content = pathlib.Path(MICRO).read_bytes()
        place = next(p for p in strings_of(content) if p[0] == "value of tokenizer.chat_template")
        escaped = b"".join(b"\\x%02x" % byte for byte in PLANT if byte < 128) + b"\\u009b\\u202e\\u2028"
        for template in (b"{{ raise_exception('" + escaped + b"') }}", b"{{ raise_exception('" + escaped + b"' * 100000) }}",
                         b"{{ '" + escaped + b"' | nonesuch }}", b"{{ {}['" + escaped + b"'].x.y }}", b"{{ " + WORD, b"{% " + PLANT + b" %}"):
            path = self.write("template.gguf", rewritten(content, {place: template}))
            done = self.check("run", path, "hi", "--max-tokens", "1")
            self.assertLess(len(done.stderr), 10_000)
            if b"raise_exception" in template:
                self.assertEqual(done.returncode, 4)
                self.assertIn(b"\\x1b[2J", done.stderr)
            self.check("show", path)

    def test_the_name_of_a_file(self):
        name = WORD.replace(b"/", b"")[:60] + b".gguf"
        path = os.fsencode(self.folder) + b"/" + name
        with open(path, "wb") as file:
            file.write(pathlib.Path(MICRO).read_bytes())
        for arguments in ((b"show", path), (b"run", path, b"hi", b"--max-tokens", b"2"), (b"eval", path, path), (b"estimate", path), (b"show", path + b"x")):
            self.check(*arguments)


class Variables(TerminalCase):
    def test_each_variable_of_each_flag(self):
        words = WORD.decode("utf-8", "surrogateescape")
        seen = set()
        for verb in VERBS:
            done = subprocess.run([PROGRAM, verb, "--show-config", "--json"], capture_output=True, env=self.environment(), timeout=60)
            for setting in json.loads(done.stdout)["settings"]:
                name = setting["variable"]
                if not name or name in seen:
                    continue
                seen.add(name)
                self.check(verb, "--show-config", env={name: words}, terminal=False)
                # What computes is not started: the value is refused, or the model is missing.
                operand = {"devices": [], "doctor": [], "list": [], "ps": [], "monitor": ["--count", "1", "--interval", "0.05"], "estimate": ["none.gguf"],
                           "eval": ["none.gguf", "none.txt"]}.get(verb, ["none.gguf"])
                self.check(verb, *operand, env={name: words, "HF_HUB_OFFLINE": "1"} if name != "HF_HUB_OFFLINE" else {name: words},
                           terminal=name.startswith(("QUERN_B", "QUERN_D", "QUERN_M", "HF_")))
        self.assertGreater(len(seen), 30)

    def test_the_variables_without_a_flag(self):
        words = WORD.decode("utf-8", "surrogateescape")
        for name in ("HF_HOME", "HF_TOKEN", "HF_TOKEN_PATH", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "HOME", "HUGGINGFACE_HUB_CACHE", "http_proxy"):
            value = words if name in ("HF_TOKEN", "http_proxy") else "/" + words.replace("/", "")
            extra = {"HF_ENDPOINT": "http://127.0.0.1:1"}
            self.check("pull", "me/micro", env={**extra, name: value})
            self.check("list", env={name: value})

    def test_all_at_once_as_a_page(self):
        words = WORD.decode("utf-8", "surrogateescape")
        done = subprocess.run([PROGRAM, "run", "--show-config", "--json"], capture_output=True, env=self.environment(), timeout=60)
        names = {setting["variable"]: words for setting in json.loads(done.stdout)["settings"] if setting["variable"]}
        names.pop("QUERN_SHOW_CONFIG", None)
        for arguments in (("run", "--show-config"), ("--show-config",)):
            self.assert_quiet(self.on_terminal(PROGRAM, *arguments, env=names), arguments)


class Words(TerminalCase):
    def test_words_of_a_command_line(self):
        for arguments in ((WORD,), (b"run", b"--" + WORD), (b"run", b"--top-k", WORD, b"m"), (b"show", WORD), (b"pull", WORD), (b"rm", WORD), (b"run", WORD, b"hi"),
                          (b"pull", b"http://127.0.0.1:1/" + WORD), (b"show", os.fsencode(MICRO), WORD), (b"run", os.fsencode(MICRO), b"--messages", WORD)):
            self.check(*arguments)
        for arguments in ((WORD,), (b"run", b"--" + WORD), (b"verify", WORD), (b"report", WORD), (b"run", b"--backend", WORD), (b"list", b"--filter", WORD)):
            self.check(*arguments, program=SUITE)

    def test_a_configuration_file(self):
        keys = [setting["key"] for setting in json.loads(subprocess.run(
            [PROGRAM, "--show-config", "--json"], capture_output=True, env=self.environment(), timeout=60).stdout)["settings"] if setting["key"]]
        self.assertGreater(len(keys), 15)
        for line in [WORD + b" = 1", WORD, b"threads = 1\nthreads = " + WORD, *(key.encode() + b" = " + WORD for key in keys)]:
            self.write("config/quern/quern.conf", line + b"\n")
            self.check("show", MICRO, terminal=line.startswith((WORD, b"memory")))

    def test_messages_and_texts(self):
        for content in (b'[{"role": "' + WORD + b'", "content": "x"}]', b'[{"' + WORD + b'": 1}]', b"{" + WORD, json.dumps([{"role": "u\x1b", "content": "\x1b[2J"}]).encode()):
            path = self.write("messages.json", content)
            self.check("tokenize", MICRO, "--messages", path)
            self.check("run", MICRO, "--messages", path, "--max-tokens", "1")

    def test_a_journal_of_the_suite(self):
        path = self.write("journal", b'{"kind": "' + WORD + b'"}\n' + WORD + b"\n")
        for verb in ("report", "verify"):
            self.check(verb, path, program=SUITE)


class Plugin(TerminalCase):
    def test_all_that_a_plugin_says(self):
        environment = {"QUERN_BACKEND_PATH": ZOO}
        self.assertTrue(list(pathlib.Path(ZOO).glob("*.so")))
        for arguments in (("doctor",), ("devices",), ("devices", "--log", "trace"), ("doctor", "--json"), ("run", MICRO, "hi"), ("estimate", MICRO),
                          ("devices", "--device", "nonesuch")):
            self.check(*arguments, env=environment)
        done = self.check("doctor", env=environment)
        self.assertIn(b"Zoo Zero", done.stdout)
        self.assertEqual(controls(done.stdout), [])  # words, not a result
        self.check("run", "--profile", "quick", "--filter", "abi.simple*", program=SUITE, env=environment)


class Chat(TerminalCase):
    def test_what_is_typed_and_said(self):
        screen = self.on_terminal(PROGRAM, "run", MICRO, "--temperature", "3", "--seed", "1", "--max-tokens", "8", typed=(
            b"\x9b2J\xff\xe4\x15a\xc2\x9b2J\xe2\x80\xae\xe4\xb8\xad\r", b"/history\r", b"/n\xc2\x9bone\r", b"\x04"))
        self.assert_quiet(screen, "chat")
        self.assertIn("\u4e2d".encode(), screen)
        self.assertIn(b"user: a", screen)


class Hub(TerminalCase):
    def setUp(self):
        super().setUp()
        stack = contextlib.ExitStack()
        self.addCleanup(stack.close)
        self.hub = stack.enter_context(HubServer({"me/micro": Repository({"m-Q4_K_M.gguf": pathlib.Path(MICRO).read_bytes()})}))

    def environment(self, extra=None):
        return {**super().environment(), "HF_ENDPOINT": self.hub.url, "NO_PROXY": "*", "no_proxy": "*", "QUERN_HUB_TRIES": "1", **(extra or {})}

    def test_all_that_a_hub_says(self):
        header = "".join(chr(byte) for byte in WORD if byte not in (13, 10))
        listing = "/api/models/me/micro/revision/main"
        wide = "\x1b[2J\u009b\u202e\u2028"
        siblings = {"sha": "a" * 40, "siblings": [{"rfilename": name, "size": 4, "blobId": "b" * 40}
                                                 for name in (f"a{wide}-F16.gguf", "a\u009b2J.gguf", "b\u202egguf.exe.gguf", "c\x7f.gguf")]}
        answers = [status(code, "x" + wide, X_Error_Message=header, X_Error_Code=header, Retry_After=header) for code in (401, 403, 404, 429, 500)]
        answers += [status(302, Location=header), status(302, Location="gopher://" + header), status(301, Location="http://" + header),
                    status(200, "{" + wide), status(200, json.dumps(siblings)), status(200, json.dumps({"sha": wide, "siblings": []}))]
        for answer in answers:
            self.hub.faults[listing] = [answer, answer]
            self.check("pull", "me/micro", code=4)

    def test_a_file_of_the_cache_that_another_client_wrote(self):
        self.assertEqual(self.quern("pull", "me/micro").code, 0)
        snapshot = next((self.folder / "cache/huggingface/hub/models--me--micro/snapshots").iterdir())
        with open(os.fsencode(snapshot) + b"/x\xc2\x9b2J\x1b[2J\xe2\x80\xae-Q8_0.gguf", "wb") as file:
            file.write(b"GGUF")
        with open(os.fsencode(snapshot) + b"/y\x1b[2J-Q8_0.gguf", "wb") as file:
            file.write(b"GGUF")
        self.check("list", code=0)
        self.check("show", "me/micro:Q8_0", code=4)
        self.check("rm", "me/micro:Q9", code=4)
        self.check("pull", "me/micro", code=0)


class Much(TerminalCase):
    """Random bytes, many of them, in each text."""

    BYTES = 16 << 20

    def setUp(self):
        super().setUp()
        self.noise = random.Random(30).randbytes(self.BYTES)

    def quick(self, *arguments, env=None, stdin=b""):
        """Standard error is bounded whatever it quotes."""
        done = subprocess.run([PROGRAM, *arguments], input=stdin, capture_output=True, env=self.environment(env), timeout=100)
        self.assertNotIn(done.returncode, (70, -6, -11), done.stderr[-300:])
        self.assertEqual(controls(done.stderr), [])
        self.assertLess(len(done.stderr), 100_000)
        return done

    def test_texts_of_a_model(self):
        content = pathlib.Path(MICRO).read_bytes()
        found = strings_of(content)
        for what, size in (("value of general.name", self.BYTES), ("value of tokenizer.chat_template", self.BYTES), ("value of general.architecture", 1 << 20),
                           ("value of tokenizer.ggml.tokens 300", 1 << 20), ("key", 1 << 20), ("tensor", 1 << 20)):
            place = next(p for p in found if p[0] == what)
            path = self.write("much.gguf", rewritten(content, {place: self.noise[:size]}))
            self.quick("tokenize", path, "hi")
            if size == self.BYTES:
                self.assert_quiet(self.on_terminal(PROGRAM, "show", path), what)
                self.quick("run", path, "hi", "--max-tokens", "1")
            else:
                self.quick("show", path)

    def test_messages_configuration_and_variables(self):
        self.quick("tokenize", MICRO, "--messages", self.write("noise.json", self.noise))
        self.quick("tokenize", MICRO, "--messages", "-", stdin=b'[{"role": "' + self.noise.replace(b'"', b"") + b'", "content": ""}]')
        self.quick("show", MICRO, env={"QUERN_MEMORY": self.noise[:100_000].replace(b"\0", b"").decode("utf-8", "surrogateescape")})
        self.write("config/quern/quern.conf", self.noise)
        self.quick("show", MICRO)

    def test_an_answer_of_a_hub(self):
        with HubServer() as hub:
            hub.faults["/api/models/me/micro/revision/main"] = [lambda handler: handler.reply(200, self.noise), lambda handler: handler.reply(404, self.noise)]
            for _ in range(2):
                done = self.quick("pull", "me/micro", env={"HF_ENDPOINT": hub.url, "NO_PROXY": "*", "no_proxy": "*", "QUERN_HUB_TRIES": "1"})
                self.assertEqual(done.returncode, 4)


if __name__ == "__main__":
    main()
