"""Every file that Quern writes, from one list, through links, hard links, pipes, folders, a full disk and kill -9 at each step; and every file
that it reads, where a folder, a pipe, a device, a link to nowhere or an I/O error stands in its place."""

import dataclasses
import functools
import json
import os
import pathlib
import resource
import signal
import stat
import subprocess
import sys
import unittest
from typing import Callable, List

from hub_server import Hub, Repository
from harness import DATA, MICRO, PROGRAM, SANITIZER, SOURCE, Case, main

TINY = str(DATA / "gguf/micro-llama-q8_0.gguf")
MODEL = pathlib.Path(MICRO).read_bytes()
STEPS = os.environ["QUERN_TEST_STEPS"]
SUITE = os.environ.get("QUERN_TEST_SUITE", "")
SAVE = """import sys, quern
with quern.Runtime() as runtime, runtime.load(sys.argv[1], context=64) as model, model.session() as session:
    session.evaluate([1, 2, 3])
    try:
        session.save_file(sys.argv[2])
    except quern.Error as error:
        sys.exit(str(error))
"""
# A chat on a terminal: /save to the second argument. What the program writes goes to standard error; how it ends is passed on.
CHAT = """import os, pty, signal, sys
process, terminal = pty.fork()
if process == 0:
    os.environ["TERM"] = "dumb"
    os.execv(sys.argv[1], [sys.argv[1], "run", sys.argv[2], "-q", "--no-history", "--system", "be brief, but not too brief"])
os.write(terminal, f"/save {sys.argv[3]}\\n/exit\\n".encode())
said = b""
while True:
    try:
        piece = os.read(terminal, 4096)
    except OSError:
        break
    if not piece:
        break
    said += piece
sys.stderr.buffer.write(said)
sys.stderr.flush()
status = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
if status < 0:
    os.kill(os.getpid(), -status)
sys.exit(status or (1 if b"quern: " in said else 0))
"""
PART = ".quern-"
CASE = "elementwise.add.f32.1.plain.packed.gaussian"
SUITE_RUN = [SUITE, "run", "--profile", "quick", "--jobs", "1", "--filter", CASE, "--journal"]


@dataclasses.dataclass
class Writer:
    name: str
    command: Callable[[str], List[str]]  # of a path; a cache's writer has its own
    named: bool                          # by the user: what cannot be written is an error; a cache that cannot be kept is none
    is_whole: Callable[[bytes], bool]
    pattern: str = ""                    # of a cache's file, below the test's folder


def is_json(content):
    return isinstance(json.loads(content), (dict, list))


WRITERS = [
    Writer("trace", lambda path: [PROGRAM, "run", TINY, "hi", "--max-tokens", "1", "-q", "--trace", path], True,
           lambda content: content.endswith(b"\n") and is_json(content)),
    Writer("page of a trace", lambda path: [PROGRAM, "trace", str(SOURCE / "tests/data/trace/two_steps.json"), "--html", path], True,
           lambda content: content.startswith(b"<!doctype html>") and content.endswith(b"</html>\n")),
    Writer("plot", lambda path: [PROGRAM, "bench", TINY, "-p", "1", "-n", "1", "-r", "1", "-q", "--plot", path], True,
           lambda content: content.startswith(b"<?xml") and content.endswith(b"</svg>\n")),
    Writer("logits", lambda path: [PROGRAM, "eval", TINY, f"{os.path.dirname(path)}/text", "--logits", path, "-q"], True,
           lambda content: len(content) > 0 and len(content) % 4 == 0),
    Writer("saved session", lambda path: [sys.executable, "-c", SAVE, TINY, path], True, lambda content: content.startswith(b"QRNS")),
    Writer("saved chat", lambda path: [sys.executable, "-c", CHAT, PROGRAM, TINY, path], True, lambda content: content.endswith(b"\n") and is_json(content)),
    Writer("a file of the suite", lambda path: [SUITE, "list", "--profile", "quick", "--write-manifest", path], True, lambda content: len(content) > 1000),
    Writer("probe result", lambda path: [PROGRAM, "devices"], False, is_json, "cache/quern/probe/*.json"),
    Writer("weights cache", lambda path: [PROGRAM, "run", TINY, "hi", "--max-tokens", "1", "-q", "--weights-cache", "on"], False,
           lambda content: content.startswith(b"QUERNWI1"), "cache/quern/weights/*.weights"),
    Writer("downloaded file", lambda path: [PROGRAM, "pull", "me/micro", "-q"], False, lambda content: content == MODEL,
           "cache/huggingface/hub/models--me--micro/blobs/*"),
    Writer("ref of the hub", lambda path: [PROGRAM, "pull", "me/micro", "-q"], False, lambda content: len(content) == 40,
           "cache/huggingface/hub/models--me--micro/refs/main"),
]


@unittest.skipIf(SANITIZER, "a sanitized program takes no preloaded library")
class Files(Case):
    def setUp(self):
        super().setUp()
        self.work = self.folder / "work"
        self.work.mkdir()
        os.umask(0o022)

    def run_command(self, command, full_at=0, kill_at=0, file_size=None, count=None, timeout=60):
        env = self.environment({"QUERN_THREADS": "1", "QUERN_BACKEND": "cpu", "PYTHONPATH": str(SOURCE / "python"), "QUERN_LIBRARY": os.environ["QUERN_LIBRARY"]})
        if full_at or kill_at or count:
            env.update(LD_PRELOAD=STEPS, QUERN_STEP_FOLDER=str(self.folder), QUERN_STEP_FULL=str(full_at), QUERN_STEP_KILL=str(kill_at))
        if count:
            env["QUERN_STEP_COUNT"] = str(count)
        limits = (lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (file_size, file_size))) if file_size else None
        return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, env=env, timeout=timeout, preexec_fn=limits)

    def environment(self, extra=None):
        hub = {"HF_ENDPOINT": self.hub.url, "NO_PROXY": "*", "no_proxy": "*"} if hasattr(self, "hub") else {}
        return {**super().environment(), **hub, **(extra or {})}

    def for_each_writer(self, check):
        """check(writer, target, run): the target holds what the writer wrote, and run() writes it again."""
        hub = Hub({"me/micro": Repository({"micro-Q4_K_M.gguf": MODEL})})
        self.hub = hub.__enter__()
        self.addCleanup(hub.__exit__, None, None, None)
        for number, writer in enumerate(WRITERS):
            if not writer.command("")[0]:
                continue  # a build without the suite
            with self.subTest(writer.name):
                target = self.work / f"{number}" / "target"
                target.parent.mkdir()
                (target.parent / "text").write_text("some words")
                done = self.run_command(writer.command(str(target)))
                self.assertEqual(done.returncode, 0, done.stderr)
                if not writer.named:
                    found = [path for path in self.folder.glob(writer.pattern) if not path.name.endswith((".lock", ".incomplete"))]
                    self.assertEqual(len(found), 1, found)
                    target = found[0]
                self.assertTrue(writer.is_whole(target.read_bytes()))
                self.assertEqual(stat.S_IMODE(target.stat().st_mode), 0o600)
                check(writer, target, functools.partial(self.run_command, writer.command(str(target))))

    def damage(self, writer, target):
        """Old content that the writer has to replace."""
        old = b"{}old" if writer.name != "downloaded file" else b"old"
        target.unlink()
        target.write_bytes(old)
        target.chmod(0o600)
        return old

    def parts(self):
        return sorted(path for path in self.folder.rglob(PART + "*"))

    def test_a_link_is_never_written_through(self):
        def check(writer, target, run):
            victim = self.work / "victim"
            victim.write_bytes(b"precious")
            target.unlink()
            target.symlink_to(victim)
            done = run()
            self.assertEqual(victim.read_bytes(), b"precious")
            if writer.named:
                self.assertNotEqual(done.returncode, 0)
                self.assertIn(f"{target}: is a link".encode(), done.stderr)
                self.assertEqual(os.readlink(target), str(victim))
            else:
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertFalse(target.is_symlink())
                self.assertTrue(writer.is_whole(target.read_bytes()))
            self.assertEqual(self.parts(), [])

        self.for_each_writer(check)

    def test_another_name_of_a_file_keeps_its_content(self):
        def check(writer, target, run):
            old = self.damage(writer, target)
            other = self.work / "other"
            os.link(target, other)
            done = run()
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertTrue(writer.is_whole(target.read_bytes()))
            self.assertEqual(other.read_bytes(), old)
            self.assertEqual(stat.S_IMODE(target.stat().st_mode), 0o600)
            other.unlink()

        self.for_each_writer(check)

    def test_a_pipe_or_a_folder_stays_and_is_named(self):
        def check(writer, target, run):
            for make, kind in ((os.mkfifo, stat.S_ISFIFO), (os.mkdir, stat.S_ISDIR)):
                target.unlink()
                make(target)
                done = run(timeout=20)
                if writer.named or writer.name == "ref of the hub":
                    self.assertIn(done.returncode, (1, 2, 4), done.stderr)
                    self.assertIn(str(target).encode(), done.stderr)
                    self.assertTrue(kind(target.lstat().st_mode))
                elif writer.name != "downloaded file":
                    self.assertEqual(done.returncode, 0, done.stderr)
                    self.assertTrue(kind(target.lstat().st_mode))
                else:  # a pipe is replaced by the rename; a folder cannot be
                    self.assertIn(done.returncode, (0, 4), done.stderr)
                self.assertEqual(self.parts(), [])
                target.rmdir() if target.is_dir() else target.unlink()
                target.write_bytes(b"")

        self.for_each_writer(check)

    def test_a_full_disk_leaves_the_old_content(self):
        def check(writer, target, run):
            old = self.damage(writer, target)
            for how in ({"full_at": 1}, {"full_at": 2}, {"file_size": 24}):
                done = run(**how)
                if writer.named:
                    self.assertIn(done.returncode, (1, 2, 4), done.stderr)
                    self.assertIn(str(target).encode(), done.stderr)
                    self.assertRegex(done.stderr, b"No space left on device|File too large")
                elif "hub" in str(target):
                    self.assertIn(done.returncode, (0, 4), done.stderr)
                else:
                    self.assertEqual(done.returncode, 0, done.stderr)
                self.assertEqual(target.read_bytes(), old)
                self.assertEqual(self.parts(), [])

        self.for_each_writer(check)

    def test_a_writer_that_is_killed_at_any_step_leaves_the_old_content_or_the_new(self):
        def check(writer, target, run):
            neighbour = target.parent / "neighbour"
            neighbour.write_bytes(b"precious")
            count = self.folder / "count"
            for _ in range(2):  # the first one with the library probes anew, too
                self.damage(writer, target)
                count.unlink(missing_ok=True)
                self.assertEqual(run(count=count).returncode, 0)
            steps = count.stat().st_size
            count.unlink()
            self.assertGreaterEqual(steps, 5)  # made, written, synced, renamed, and the folder synced
            # Of a download the first and the last steps: between them are pieces of one file.
            for at in range(1, steps + 1) if steps <= 12 else [*range(1, 5), *range(steps - 8, steps + 1)]:
                old = self.damage(writer, target)
                done = run(kill_at=at)
                if at > 12 and done.returncode == 0:  # a download comes in other pieces each time
                    self.assertTrue(writer.is_whole(target.read_bytes()))
                    break
                self.assertEqual(done.returncode, -signal.SIGKILL, (at, done.stderr))
                content = target.read_bytes()
                self.assertTrue(content == old or writer.is_whole(content), (at, content[:80]))
                self.assertEqual(stat.S_IMODE(target.stat().st_mode), 0o600)
                self.assertEqual(neighbour.read_bytes(), b"precious")
            done = run()
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertTrue(writer.is_whole(target.read_bytes()))
            left = [path for path in self.parts() if path.parent == target.parent]
            self.assertEqual(left, [], "the next writer removes what killed ones left")
            neighbour.unlink()

        self.for_each_writer(check)

    def test_a_journal_is_written_into_no_other_file(self):
        if not SUITE:
            self.skipTest("this build has no suite")
        victim = self.work / "victim"
        victim.write_bytes(b"precious")
        link, hard, pipe, folder = (self.work / name for name in ("link", "hard", "pipe", "folder"))
        link.symlink_to(victim)
        os.link(victim, hard)
        os.mkfifo(pipe)
        folder.mkdir()
        for path, resume in ((link, []), (link, ["--resume"]), (hard, []), (pipe, []), (folder, [])):
            done = self.run_command([*SUITE_RUN, str(path), *resume])
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(str(path).encode(), done.stderr)
        self.assertEqual(victim.read_bytes(), b"precious")
        journal = self.work / "journal"
        self.assertEqual(self.run_command([*SUITE_RUN, str(journal)]).returncode, 0)
        self.assertEqual(stat.S_IMODE(journal.stat().st_mode), 0o600)
        lines = journal.read_bytes().count(b"\n")
        with open(journal, "rb+") as cut:  # as a process leaves it that is killed while it writes a line
            cut.truncate(journal.stat().st_size - 7)
        self.assertEqual(self.run_command([*SUITE_RUN, str(journal), "--resume"]).returncode, 0)
        self.assertGreaterEqual(journal.read_bytes().count(b"\n"), lines)


class Readers(Case):
    """Each reader gets a path that is no file: a sentence with the name, exit 2 or 4, within the time limit."""

    def in_place_of_a_file(self, path):
        """Makes one thing after the other at the path, and gives a word for each. EIO: the kernel gives it for the first page of a process."""
        path.parent.mkdir(parents=True, exist_ok=True)
        for word, make in (("a folder", path.mkdir), ("a pipe", lambda: os.mkfifo(path)), ("a device", lambda: path.symlink_to("/dev/zero")),
                           ("Input/output error", lambda: path.symlink_to("/proc/self/mem")), ("'nowhere'", lambda: path.symlink_to("nowhere")),
                           ("leads back to itself", lambda: path.symlink_to(path.name))):
            make()
            yield word
            path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()

    def assert_named(self, path, word, *arguments, codes=(2, 4), env=None):
        result = self.quern(*arguments, env=env, timeout=20)
        self.assertIn(result.code, codes, result.err)
        self.assertIn(str(path), result.err)
        self.assertIn(word, result.err)

    def test_a_trace(self):
        path = self.folder / "t.json"
        for word in self.in_place_of_a_file(path):
            with self.subTest(word):
                self.assert_named(path, word, "trace", path)

    def test_the_configuration(self):
        path = self.folder / "config/quern/quern.conf"
        for word in self.in_place_of_a_file(path):
            with self.subTest(word):
                self.assert_named(path, word, "show", TINY, codes=(2,))

    def test_messages_and_texts(self):
        path = self.folder / "input"
        for word in self.in_place_of_a_file(path):
            with self.subTest(word):
                wanted = "a pipe that nobody writes to" if word == "a pipe" else word
                self.assert_named(path, wanted, "run", TINY, "--messages", path, codes=(4,))
                self.assert_named(path, wanted, "run", TINY, "hi", "--file", path, codes=(4,))
                self.assert_named(path, wanted, "run", TINY, "hi", "--system-file", path, codes=(4,))
                self.assert_named(path, wanted, "eval", TINY, path, codes=(4,))

    def test_messages_come_through_a_pipe_where_the_user_asks_for_it(self):
        result = self.quern("run", TINY, "--messages", "/dev/stdin", "--max-tokens", "1", "-q", stdin=b'[{"role": "user", "content": "hi"}]')
        self.assertEqual(result.code, 0, result.err)

    def test_models(self):
        path = self.folder / "model.gguf"
        for word in self.in_place_of_a_file(path):
            with self.subTest(word):
                wanted = "is empty" if word == "Input/output error" else word  # /proc has no sizes
                self.assert_named(path, wanted, "run", path, "hi", codes=(4,))
                self.assert_named(path, wanted, "show", path, codes=(4,))

    def test_parts_of_a_split_model(self):
        first = self.folder / "m-00001-of-00002.gguf"
        first.write_bytes((DATA / "gguf/micro-split-00001-of-00002.gguf").read_bytes())
        path = self.folder / "m-00002-of-00002.gguf"
        for word in self.in_place_of_a_file(path):
            with self.subTest(word):
                self.assert_named(path, "is empty" if word == "Input/output error" else word, "show", first, codes=(4,))

    def test_the_hubs_refs_snapshots_and_token(self):
        hub = self.folder / "cache/huggingface/hub/models--me--micro"
        ref = hub / "refs/main"
        for word in self.in_place_of_a_file(ref):
            with self.subTest(word):
                self.assert_named(ref, word, "run", "me/micro", "hi", codes=(4,))
        commit = "0" * 40
        ref.write_text(commit)
        model = hub / "snapshots" / commit / "micro-Q4_K_M.gguf"
        for word in self.in_place_of_a_file(model):
            if word in ("a folder", "Input/output error"):
                continue  # folders are looked into; a file of /proc is a regular one
            with self.subTest(word):
                self.assert_named(model, word, "run", "me/micro", "hi", codes=(4,))
        token = self.folder / "token"
        for word in self.in_place_of_a_file(token):
            with self.subTest(word):
                self.assert_named(token, word, "pull", "me/micro", env={"HF_TOKEN_PATH": str(token), "HF_HUB_OFFLINE": "1"})

    def test_a_path_is_no_name_of_the_hub(self):
        link = self.folder / "x.gguf"
        link.symlink_to("nowhere")
        self.assert_named(link, "is a link to 'nowhere'", "run", link, "hi", codes=(4,))
        for path in ("models/y.gguf", "models/Y.GGUF", "models/y.safetensors"):
            result = self.assert_fails(4, f"{path}: there is no such file", "run", path, "hi")
            self.assertNotIn("quern pull", result.err)
        self.assert_fails(2, "is the path of a file", "pull", "models/y.gguf")

    def test_kept_probes_and_weights_that_are_no_files_stop_nothing(self):
        run = ("run", TINY, "hi", "--temperature", "0", "--max-tokens", "1", "-q", "--weights-cache", "on")
        first = self.quern(*run)
        self.assertEqual(first.code, 0, first.err)
        kept = [*self.folder.glob("cache/quern/probe/*.json"), *self.folder.glob("cache/quern/weights/*.weights")]
        self.assertGreaterEqual(len(kept), 2)  # and one of each GPU backend that was built
        for path in kept:
            path.unlink()
            for word in self.in_place_of_a_file(path):
                with self.subTest(f"{path.suffix}: {word}"):
                    result = self.quern(*run, timeout=20)
                    self.assertEqual(result.code, 0, result.err)
                    self.assertEqual(result.out, first.out)
                    if path.is_file() and not path.is_symlink():  # a link in a cache is replaced by the file
                        path.unlink()
                        path.mkdir()


if __name__ == "__main__":
    main()
