"""quern pull, list, rm and names of models, against a hub on this machine that has every fault a network has."""

import contextlib
import datetime
import email.utils
import hashlib
import json
import os
import pathlib
import pty
import resource
import signal
import subprocess
import time
import unittest

from hub_server import Hub, Repository, corrupted, cut_after, longer, stalled, status, without_ranges
from harness import DATA, MICRO, PROGRAM, SANITIZER, Case, controls, main

MODEL = pathlib.Path(MICRO).read_bytes()
OTHER = (DATA / "gguf/micro-llama-q8_0.gguf").read_bytes()
PARTS = {f"big-Q6_K-0000{n}-of-00002.gguf": (DATA / f"gguf/micro-split-0000{n}-of-00002.gguf").read_bytes() for n in (1, 2)}
STORE = "/store/me/micro/micro-Q4_K_M.gguf"
FILES = {"micro-Q4_K_M.gguf": MODEL, "micro.Q8_0.gguf": OTHER, "README.md": b"hello\n", "mmproj-F16.gguf": b"GGUFx", **PARTS}


def sha256(content):
    return hashlib.sha256(content).hexdigest()


class HubCase(Case):
    def setUp(self):
        super().setUp()
        self.cache = self.folder / "cache/huggingface/hub"
        stack = contextlib.ExitStack()
        self.addCleanup(stack.close)
        self.repository = Repository(FILES)
        self.hub = stack.enter_context(Hub({"me/micro": self.repository}))

    def environment(self, extra=None):
        return {**super().environment(), "HF_ENDPOINT": self.hub.url, "NO_PROXY": "*", "no_proxy": "*", **(extra or {})}

    def pull(self, name="me/micro", *flags, **how):
        """Pulls, and gives the path, which must hold a file."""
        result = self.quern("pull", name, *flags, **how)
        self.assertEqual(result.code, 0, result.err)
        path = pathlib.Path(result.out.decode().removesuffix("\n"))
        self.assertTrue(path.is_file(), path)
        return path

    def names(self):
        return [model["name"] for model in self.quern_json("list")["models"]]

    def incomplete(self):
        return sorted(self.cache.glob("models--me--micro/blobs/*.incomplete"))

    def assert_nothing_kept(self):
        self.assertEqual(self.names(), [])
        self.assertEqual(self.incomplete(), [])


class Pull(HubCase):
    def test_a_pulled_model_runs_by_its_name(self):
        path = self.pull("me/micro:Q4_K_M")
        self.assertEqual(path.read_bytes(), MODEL)
        answer = self.quern_json("run", "me/micro:Q4_K_M", "hello", "--temperature", "0", "--max-tokens", "4")
        self.assertEqual(answer["model"], str(path))
        self.assertEqual(self.quern_json("show", "me/micro")["file"], str(path))
        self.assertTrue(self.quern_json("tokenize", "me/micro", "hello")["ids"])

    def test_the_cache_has_the_layout_that_other_clients_know(self):
        path = self.pull()
        folder = self.cache / "models--me--micro"
        self.assertEqual(path, folder / "snapshots" / self.repository.commit / "micro-Q4_K_M.gguf")
        self.assertEqual(os.readlink(path), f"../../blobs/{sha256(MODEL)}")
        self.assertEqual((folder / "refs/main").read_text(), self.repository.commit)
        self.assertEqual([p.name for p in (folder / "blobs").iterdir()], [sha256(MODEL)])

    def test_a_file_in_a_folder_gets_a_link_that_reaches_its_blob(self):
        self.hub.repositories["me/deep"] = Repository({"BF16/weights/m-BF16.gguf": MODEL})
        path = self.pull("me/deep")
        self.assertEqual(os.readlink(path), f"../../../../blobs/{sha256(MODEL)}")
        self.assertEqual(path.read_bytes(), MODEL)

    def test_without_a_quantisation_q4_k_m_is_taken_or_the_only_one(self):
        self.assertEqual(self.pull().name, "micro-Q4_K_M.gguf")
        self.hub.repositories["me/one"] = Repository({"any-IQ2_XXS.gguf": MODEL})
        self.assertEqual(self.pull("me/one").name, "any-IQ2_XXS.gguf")

    def test_a_name_that_means_several_models_lists_them(self):
        self.hub.repositories["me/two"] = Repository({"a-F16.gguf": MODEL, "a-Q8_0.gguf": OTHER})
        self.assert_fails(4, ["me/two:F16", "F16, Q8_0"], "pull", "me/two")
        self.assert_fails(4, ["Q3_K_S", "F16, Q8_0"], "pull", "me/two:Q3_K_S")
        self.assertEqual(self.pull("me/two:q8_0").name, "a-Q8_0.gguf")
        self.assertEqual(self.pull("me/two:a-F16.gguf").name, "a-F16.gguf")

    def test_all_parts_of_a_split_model_come_and_the_first_is_its_path(self):
        path = self.pull("me/micro:big-Q6_K-00001-of-00002.gguf")
        self.assertEqual(path.name, "big-Q6_K-00001-of-00002.gguf")
        self.assertTrue(self.quern_json("run", path, "hello", "--max-tokens", "2")["ids"])
        self.assertEqual(self.quern_json("list")["models"][0]["files"], 2)

    def test_the_json_has_the_model_and_the_bytes(self):
        value = self.quern_json("pull", "me/micro:Q8_0")
        self.assertEqual(value["model"]["bytes"], len(OTHER))
        self.assertEqual(value["model"]["repository"], "me/micro")
        self.assertEqual(value["model"]["revision"], self.repository.commit)

    def test_a_second_pull_downloads_nothing(self):
        self.pull()
        before = len(self.hub.requested("store"))
        self.pull()
        self.assertEqual(len(self.hub.requested("store")), before)

    def test_a_new_revision_shares_what_did_not_change(self):
        self.pull()
        self.hub.repositories["me/micro"] = Repository({**FILES, "README.md": b"changed\n"})
        before = len(self.hub.requested("store"))
        path = self.pull()
        self.assertIn(self.hub.repositories["me/micro"].commit, str(path))
        self.assertEqual(len(self.hub.requested("store")), before)

    def test_a_revision_may_be_named(self):
        self.repository.revisions["v1"] = self.repository.commit
        path = self.pull("me/micro@v1:Q8_0")
        self.assertEqual((self.cache / "models--me--micro/refs/v1").read_text(), self.repository.commit)
        self.assertEqual(self.pull(f"me/micro@{self.repository.commit}:Q8_0"), path)
        self.assert_fails(4, ["me/micro@v2", "404"], "pull", "me/micro@v2")

    def test_a_url_of_the_hub_is_its_name(self):
        for verb in ("resolve", "blob"):
            path = self.pull(f"{self.hub.url}/me/micro/{verb}/main/micro.Q8_0.gguf?download=true")
            self.assertEqual(path.parent.parent.parent, self.cache / "models--me--micro")

    def test_what_is_no_name_is_2(self):
        for name in ("micro", "me/", "/micro", "me/micro:", "me/micro@", "../etc/passwd", "me/..", "me/a--b", "ftp://a/b.gguf", "", "a b/c"):
            self.assert_fails(2, "is not the name of a model", "pull", name)
        self.assert_fails(2, "URL", "pull", "https://")

    def test_a_repository_without_gguf_is_4(self):
        self.hub.repositories["me/other"] = Repository({"model.safetensors": b"x", "half-00001-of-00002.gguf": MODEL})
        self.assert_fails(4, "no whole GGUF model", "pull", "me/other")


class Token(HubCase):
    def test_the_token_goes_to_the_hub_and_nowhere_else(self):
        self.hub.private = True
        self.assert_fails(4, ["401", "RepoNotFound", "HF_TOKEN"], "pull", "me/micro")
        self.pull(env={"HF_TOKEN": "secret"})
        self.assertTrue(self.hub.requested("store"))
        for path, headers in self.hub.requested("store"):
            self.assertNotIn("Authorization", headers)

    def test_the_token_is_read_from_the_file_of_other_clients(self):
        self.hub.private = True
        self.write("cache/huggingface/token", "secret\n")
        self.pull()

    def test_a_wrong_token_says_so(self):
        self.hub.private = True
        result = self.assert_fails(4, ["401", "token"], "pull", "me/micro", env={"HF_TOKEN": "wrong"})
        self.assertNotIn("wrong", result.err.replace("Wrong", ""))

    def test_a_gated_repository_says_where_to_ask(self):
        self.hub.faults["/api/models/me/micro/revision/main"] = [status(403, X_Error_Code="GatedRepo", X_Error_Message="Access is restricted")]
        self.assert_fails(4, ["GatedRepo", "ask for access", "HF_TOKEN"], "pull", "me/micro")


class Faults(HubCase):
    def fault(self, *answers, path=STORE):
        self.hub.faults[path] = list(answers)

    def ranges(self):
        return [headers.get("Range") for path, headers in self.hub.requested("store")]

    def test_a_connection_that_ends_is_taken_up_where_it_ended(self):
        self.fault(cut_after(100_000), cut_after(50_000))
        self.assertEqual(self.pull().read_bytes(), MODEL)
        self.assertEqual(self.ranges(), [None, "bytes=100000-", "bytes=150000-"])

    def test_what_came_is_kept_and_the_next_pull_goes_on(self):
        self.fault(cut_after(100_000), *[status(503)] * 2)
        result = self.assert_fails(4, ["503", "gave up after 2 tries"], "pull", "me/micro", "--hub-tries", "2")
        self.assertIn("trying again in 1 s", result.err)
        self.assertEqual([p.stat().st_size for p in self.incomplete()], [100_000])
        self.assertEqual(self.names(), [])
        self.assertEqual(self.pull().read_bytes(), MODEL)
        self.assertEqual(self.ranges()[-1], "bytes=100000-")
        self.assertEqual(self.incomplete(), [])

    def test_a_server_without_ranges_starts_anew(self):
        self.fault(cut_after(100_000), without_ranges)
        self.assertEqual(self.pull().read_bytes(), MODEL)

    def test_a_wrong_sum_is_refused_and_nothing_is_kept(self):
        self.fault(corrupted)
        self.assert_fails(4, ["SHA-256", sha256(MODEL), "removed"], "pull", "me/micro")
        self.assert_nothing_kept()
        self.assertEqual(self.pull().read_bytes(), MODEL)

    def test_a_broken_start_on_the_disk_is_found_by_the_sum(self):
        self.fault(cut_after(100_000))
        self.assert_fails(4, "gave up after 1 try", "pull", "me/micro", "--hub-tries", "1")
        with open(self.incomplete()[0], "r+b") as file:
            file.write(b"spoiled")
        self.assert_fails(4, "SHA-256", "pull", "me/micro")
        self.assert_nothing_kept()

    def test_a_start_that_is_longer_than_the_file_is_dropped(self):
        blobs = self.cache / "models--me--micro/blobs"
        self.write(f"cache/huggingface/hub/models--me--micro/blobs/{sha256(MODEL)}.incomplete", b"x" * (len(MODEL) + 1))
        self.assertEqual(self.pull().read_bytes(), MODEL)
        self.assertEqual([p.name for p in blobs.iterdir()], [sha256(MODEL)])

    def test_a_size_that_is_not_the_stated_one_is_refused(self):
        self.fault(without_ranges)
        self.repository.files["micro-Q4_K_M.gguf"] = MODEL
        sibling = self.repository.sibling
        self.repository.sibling = lambda path: {**sibling(path), "lfs": {"sha256": sha256(MODEL), "size": 5}}
        self.assert_fails(4, ["5 bytes by the hub's list", str(len(MODEL))], "pull", "me/micro")
        self.assert_nothing_kept()

    def test_more_bytes_than_the_file_has_are_refused(self):
        self.fault(longer)
        self.assert_fails(4, "sends more than", "pull", "me/micro")
        self.assert_nothing_kept()

    def test_too_many_requests_waits_as_long_as_the_server_says(self):
        path = "/api/models/me/micro/revision/main"
        then = email.utils.formatdate(time.time() + 2, usegmt=True)
        self.hub.faults[path] = [status(429, Retry_After="1"), status(429, Retry_After=then)]
        started = time.monotonic()
        result = self.quern("pull", "me/micro")
        self.assertEqual(result.code, 0, result.err)
        self.assertGreaterEqual(time.monotonic() - started, 1.9)
        self.assertIn("429", result.err)
        self.assertIn("trying again in 1 s", result.err)

    def test_a_server_that_asks_for_an_hour_is_told_to_the_user(self):
        self.hub.faults["/api/models/me/micro/revision/main"] = [status(429, Retry_After="3600")]
        self.assert_fails(4, ["429", "3600 seconds"], "pull", "me/micro")

    def test_missing_files_and_servers_say_what_is_missing(self):
        self.hub.faults[f"/me/micro/resolve/{self.repository.commit}/micro-Q4_K_M.gguf"] = [status(404, X_Error_Code="EntryNotFound")]
        self.assert_fails(4, ["404", "EntryNotFound", "micro-Q4_K_M.gguf"], "pull", "me/micro")
        self.assert_fails(4, ["401", "does not exist, or it is private"], "pull", "me/none")
        started = time.monotonic()
        self.assert_fails(4, ["http://127.0.0.1:1", "HF_ENDPOINT"], "pull", "me/micro", env={"HF_ENDPOINT": "http://127.0.0.1:1"})
        self.assertLess(time.monotonic() - started, 5 if not SANITIZER else 30)  # no network: said at once

    def test_a_stalled_server_is_left_and_asked_again(self):
        self.fault(stalled(20))
        result = self.quern("pull", "me/micro", "--hub-timeout", "1")
        self.assertEqual(result.code, 0, result.err)
        self.assertIn("nothing came for 1 s", result.err)

    def test_redirects_are_followed_to_an_end(self):
        self.hub.redirects["/api/models/old/micro/revision/main"] = "/api/models/me/micro/revision/main?blobs=true"
        self.hub.redirects[f"/old/micro/resolve/{self.repository.commit}/micro.Q8_0.gguf"] = f"/me/micro/resolve/{self.repository.commit}/micro.Q8_0.gguf"
        self.assertEqual(self.pull("old/micro:Q8_0").read_bytes(), OTHER)
        self.hub.redirects["/api/models/me/loop/revision/main"] = "/api/models/me/loop/revision/main"
        self.assert_fails(4, "redirects", "pull", "me/loop")

    def test_an_answer_that_is_no_hub_is_4(self):
        for body in ("<html>", "[]", "{}", '{"sha": "../../x", "siblings": []}', '{"sha": "%s", "siblings": 3}' % ("a" * 40)):
            self.hub.faults["/api/models/me/micro/revision/main"] = [status(200, body)]
            self.assert_fails(4, "is the endpoint a hub?", "pull", "me/micro")

    def test_names_that_leave_the_cache_are_never_written(self):
        evil = [{"rfilename": name, "size": 4, "lfs": {"sha256": sha256(b"evil"), "size": 4}}
                for name in ("../../../../evil-F16.gguf", "/tmp/evil-F16.gguf", "a/../../evil-F16.gguf", "a\\evil-F16.gguf")]
        evil.append({"rfilename": "evil-F16.gguf", "size": 4, "lfs": {"sha256": "../../evil", "size": 4}})
        self.hub.extra_siblings = evil
        self.assert_fails(4, "has no 'F16'", "pull", "me/micro:F16")
        self.assertEqual(list(self.folder.rglob("*evil*")), [])

    def test_a_full_disk_keeps_what_came(self):
        limit = 100_000
        done = subprocess.run([PROGRAM, "pull", "me/micro"], capture_output=True, env=self.environment(), timeout=100, restore_signals=False,
                              preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)))
        self.assertEqual(done.returncode, 4, done.stderr)
        self.assertIn(b"cannot be written: File too large", done.stderr)
        self.assertEqual([p.stat().st_size for p in self.incomplete()], [limit])
        self.assertEqual(self.pull().read_bytes(), MODEL)
        self.assertEqual(self.ranges()[-1], f"bytes={limit}-")

    def test_a_file_system_without_room_is_said_before_anything_comes(self):
        mount = self.folder / "small"
        mount.mkdir()
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", mount], capture_output=True).returncode != 0:
            self.skipTest("a small file system cannot be mounted by this user")
        self.addCleanup(subprocess.run, ["umount", mount])
        self.assert_fails(4, [f"needs {len(MODEL) / 1024:.1f} KiB more", str(mount), "HF_HUB_CACHE"], "pull", "me/micro", "--hub-cache", mount)

    def test_without_libcurl_everything_else_works_and_pull_says_what_to_install(self):
        for name in ("libcurl.so.4", "libcurl-gnutls.so.4"):
            self.write(f"empty/{name}", b"")
        without = {"LD_LIBRARY_PATH": f"{self.folder}/empty"}
        self.assert_fails(3, ["libcurl", "apt install libcurl4"], "pull", "me/micro", env=without)
        self.assertTrue(self.quern_json("run", MICRO, "hello", "--max-tokens", "2", env=without)["ids"])
        self.assertEqual(self.quern_json("list", env=without)["models"], [])

    def test_two_pulls_at_a_time_download_once(self):
        pulls = [subprocess.Popen([PROGRAM, "pull", "me/micro"], env=self.environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
                 for _ in range(3)]
        paths = {one.communicate(timeout=60)[0] for one in pulls}
        self.assertEqual([one.returncode for one in pulls], [0, 0, 0])
        self.assertEqual(len(paths), 1)
        self.assertEqual(len(self.hub.requested("store")), 1)

    def test_a_killed_pull_leaves_a_start_that_the_next_one_uses(self):
        self.fault(stalled(20))
        one = subprocess.Popen([PROGRAM, "pull", "me/micro"], env=self.environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 30
        while not any(p.stat().st_size == 10 for p in self.incomplete()) and time.monotonic() < deadline:
            time.sleep(0.05)
        one.kill()
        one.wait()
        self.assertEqual(self.pull().read_bytes(), MODEL)
        self.assertEqual(self.ranges()[-1], "bytes=10-")


def endless(code, pause=0.0, piece=b"x" * 65536, head=(), **headers):
    """A body without a stated length that does not end; with `pause` it drips."""

    def answer(handler, content=None):
        handler.send_response(code)
        for name, value in {"Connection": "close", **{k.replace("_", "-"): v for k, v in headers.items()}}.items():
            handler.send_header(name, value)
        handler.end_headers()
        handler.close_connection = True
        handler.wfile.write(b"".join(head))
        while True:
            handler.wfile.write(piece)
            handler.wfile.flush()
            time.sleep(pause)

    return answer


def dripping_head(handler, content=None):
    handler.wfile.write(b"HTTP/1.1 200 OK\r\n")
    for number in range(10_000):
        handler.wfile.write(b"X-%d: 1\r\n" % number)
        handler.wfile.flush()
        time.sleep(0.1)


def long_head(handler, content=None):
    handler.wfile.write(b"HTTP/1.1 200 OK\r\n" + b"".join(b"X-%d: %s\r\n" % (number, b"x" * 1000) for number in range(400)) + b"\r\n")


def interim_heads(handler, content=None):
    while True:
        handler.wfile.write(b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" * 100)


def crumbs(count):
    """`count` bytes more than were there, and the end of the connection."""

    def answer(handler, content):
        first, body = handler.ranged(content)
        handler.send_head(206 if first else 200, len(body), first, len(content))
        handler.wfile.write(body[:count])
        handler.wfile.flush()
        handler.close_connection = True
        handler.connection.shutdown(2)

    return answer


def start_again(handler, content):
    """Takes no ranges and ends half-way, every time."""
    handler.send_head(200, len(content), 0, len(content))
    handler.wfile.write(content[: len(content) // 2])
    handler.wfile.flush()
    handler.close_connection = True
    handler.connection.shutdown(2)


class Hostile(HubCase):
    """A hub that means harm: each ends soon, in little memory, as exit 4 with a sentence that a terminal may get."""

    LIST = "/api/models/me/micro/revision/main"

    def refused(self, mentions, *flags, name="me/micro", env=None):
        """Peak memory in MiB."""
        with open(self.folder / "err", "w+b") as err:
            process = subprocess.Popen([PROGRAM, "pull", name, "--hub-tries", "1", *flags], stdout=subprocess.DEVNULL, stderr=err,
                                       env=self.environment(env))
            _, wait, used = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(wait)
            err.seek(0)
            said = err.read()
        self.assertEqual(process.returncode, 4, said)
        self.assertEqual(controls(said), [], said)
        self.assertLess(len(said), 3000)
        for words in [mentions] if isinstance(mentions, str) else mentions:
            self.assertIn(words, said.decode())
        return used.ru_maxrss >> 10

    def test_a_redirect_to_what_is_no_url_is_refused_in_escapes(self):
        for target in ("gopher://\x1b]0;pwned\x07/x", "file:///etc/passwd", "javascript:\x9b", "http://", "http://[::1", "ftp://127.0.0.1/x", "http://a b/"):
            for path in (self.LIST, STORE):
                self.hub.faults[path] = [status(302, Location=target)]
                self.refused("redirects to '" if path == self.LIST else "" , name="me/micro")
        self.hub.faults[self.LIST] = [status(302)]
        self.refused("names no place")

    def test_an_answer_that_drips_is_given_up(self):
        self.hub.faults[self.LIST] = [endless(200, 0.1, b"[")]
        self.refused("at least 1024 a second", "--hub-timeout", "1")
        self.hub.faults[self.LIST] = [dripping_head]
        self.refused("at least 1024 a second", "--hub-timeout", "1")
        self.hub.faults[STORE] = [endless(200, 0.1, b"x")]
        self.refused("at least 2000 a second", "--hub-timeout", "1", "--hub-rate", "2000")
        self.hub.faults[self.LIST] = [endless(500, 0.1, b"x")]
        self.refused("a second", "--hub-timeout", "1")

    def test_heads_are_bounded(self):
        for head in (long_head, interim_heads):
            self.hub.faults[self.LIST] = [head]
            self.assertLess(self.refused(""), 150)

    def test_a_refusal_or_redirect_with_an_endless_body_ends(self):
        self.hub.faults[self.LIST] = [endless(404)]
        self.refused("404")
        self.hub.faults[self.LIST] = [endless(302, Location="file:///x")]
        self.refused("file:///x")

    def test_a_list_of_files_takes_little_memory(self):
        head = b'{"sha": "' + b"a" * 40 + b'", "siblings": ['
        for body in (b"[" + b"[]," * 9_000_000 + b"[]]", head + b"{}," * 5_000_000 + b"{}]}", head + b'"",' * 5_000_000 + b'""]}', b"[" * 15_000_000,
                     head + b'{"rfilename": "' + b"x" * 15_000_000 + b'"}]}', b'{"a": 1,' * 1_000_000):
            self.hub.faults[self.LIST] = [lambda handler, body=body: handler.reply(200, body)]
            self.assertLess(self.refused(""), 300, body[:40])
        self.hub.faults[self.LIST] = [endless(200, piece=b"[]," * 20_000)]
        self.assertLess(self.refused("longer than"), 300)

    def test_a_body_without_a_length_is_bounded(self):
        place = "/files/m.gguf"
        self.hub.plain[place] = MODEL
        self.hub.faults[place] = [endless(200, head=[b"GGUF"])]
        self.refused(["states no size", "--hub-limit"], "--hub-limit", "4M", name=self.hub.url + place)
        self.assertEqual(list(self.folder.rglob("*.incomplete")), [])

    def test_a_file_of_more_than_the_limit_is_refused_before_it_comes(self):
        self.refused([f"{len(MODEL) / 1024:.1f} KiB", "--hub-limit"], "--hub-limit", "100K")
        self.refused([f"{len(MODEL) / 1024:.1f} KiB", "--hub-limit"], env={"QUERN_HUB_LIMIT": "100K"})
        self.assertEqual(self.quern("pull", "me/micro", "--hub-limit", "0").code, 0)

    def test_a_body_without_a_length_leaves_room_on_the_disk(self):
        place = "/files/m.gguf"
        self.hub.plain[place] = MODEL
        small = self.folder / "small"
        small.mkdir()
        mounted = ["unshare", "-Urm", "sh", "-c", 'mount -t tmpfs -o size=72m none "$0" && exec "$@"', str(small)]
        try:
            if subprocess.run([*mounted, "true"], capture_output=True).returncode != 0:
                self.skipTest("a file system of 72 MiB cannot be mounted here: no user namespaces")
        except FileNotFoundError:
            self.skipTest("a file system of 72 MiB cannot be mounted here: no unshare")
        self.hub.faults[place] = [endless(200, head=[b"GGUF"])]
        done = subprocess.run([*mounted, PROGRAM, "pull", self.hub.url + place, "--hub-tries", "1"], capture_output=True,
                              env=self.environment({"QUERN_CACHE_DIR": str(small)}), timeout=60)
        self.assertEqual(done.returncode, 4, done.stderr)
        self.assertIn(b"stay free; nothing was kept", done.stderr)

    def test_crumbs_are_no_progress(self):
        self.hub.sticky = True
        for fault in (crumbs(1000), start_again):
            self.hub.faults[STORE] = [fault]
            before = len(self.hub.requested("store"))
            result = self.quern("pull", "me/micro", "--hub-tries", "2")
            self.assertEqual(result.code, 4, result.err)
            self.assertIn("gave up after 2 tries", result.err)
            # Half of the file is more than 64 KiB, and counts once.
            self.assertLessEqual(len(self.hub.requested("store")) - before, 3)

    def test_an_encoding_that_was_not_asked_for_is_refused(self):
        self.hub.faults[self.LIST] = [status(200, "{}", Content_Encoding="gzip\x1b")]
        self.refused("which was not asked for")

    def test_names_that_a_terminal_cannot_show_are_refused(self):
        names = ["a\u009b2J-F16.gguf", "a\x1b[2J-F16.gguf", "a\u202egguf-F16.gguf", "a\u2028-F16.gguf", "a\x7f-F16.gguf", "a\u200f-F16.gguf"]
        self.hub.repositories["me/evil"] = Repository({"README.md": b"x"})
        self.hub.extra_siblings = [{"rfilename": name, "size": 4, "lfs": {"sha256": sha256(b"evil"), "size": 4}} for name in names]
        self.refused(f"lists {len(names)} more whose name or sum is refused", name="me/evil")
        self.hub.extra_siblings = [{"rfilename": "\u00fcber-\u4e2d-F16.gguf", "size": len(MODEL), "lfs": {"sha256": sha256(MODEL), "size": len(MODEL)}}]
        self.refused("404", name="me/evil")  # a name of letters is taken and asked for

    def test_the_server_s_words_are_cut_and_escaped(self):
        self.hub.faults[self.LIST] = [status(403, X_Error_Message="\x9b2J\x85" + "m" * 5000, X_Error_Code="\x1b[2J")]
        self.refused("\\x1b[2J")

    def test_another_range_than_the_one_asked_for_is_refused(self):
        def elsewhere(handler, content):
            handler.send_head(206, 5, 7, len(content))
            handler.wfile.write(content[7:12])

        self.hub.faults[STORE] = [elsewhere]
        self.refused("byte 0 was asked for and the server sends byte 7")


class Offline(HubCase):
    def test_offline_asks_no_network(self):
        self.assert_fails(4, ["me/micro", "not in the cache", "HF_HUB_OFFLINE"], "pull", "me/micro", env={"HF_HUB_OFFLINE": "1"})
        self.assert_fails(4, "not in the cache", "pull", "me/micro", "--offline")
        self.assertEqual(self.hub.requests, [])
        path = self.pull()
        count = len(self.hub.requests)
        self.assertEqual(self.pull("me/micro", "--offline"), path)
        self.assertTrue(self.quern_json("run", "me/micro", "hello", "--max-tokens", "2")["ids"])
        self.assertEqual(len(self.hub.requests), count)

    def test_a_name_that_was_not_pulled_says_how(self):
        self.assert_fails(4, ["there is no such file", "quern pull me/micro"], "run", "me/micro", "hello")
        self.assert_fails(4, "quern pull", "show", "me/micro:Q8_0")

    def test_a_name_that_was_not_pulled_is_pulled_where_the_command_line_says_so(self):
        for name in ("me/micro", "hf.co/me/micro:Q8_0", f"{self.hub.url}/me/micro:Q4_K_M"):
            result = self.quern("run", name, "hello", "-n", "2", "--pull", "-q")
            self.assertEqual((result.code, result.err), (0, ""), name)
        self.assertEqual(self.names(), ["me/micro:Q4_K_M", "me/micro:Q8_0"])
        self.assert_fails(4, "did you mean me/micro:Q4_K_M?", "run", "me/mikro:Q4_K_M", "hello")
        count = len(self.hub.requests)
        self.assertEqual(self.quern("run", "me/micro", "hello", "-n", "2", "--pull").code, 0)
        self.assertEqual(len(self.hub.requests), count)

    def test_a_file_is_stronger_than_a_name(self):
        self.pull()
        (self.folder / "me").mkdir()
        (self.folder / "me/micro").write_bytes(OTHER)
        done = subprocess.run([PROGRAM, "show", "me/micro", "--json"], cwd=self.folder, env=self.environment(), capture_output=True)
        self.assertEqual(json.loads(done.stdout)["file"], "me/micro")

    def test_the_folders_follow_the_variables_of_other_clients(self):
        for variables, folder in (({"HF_HUB_CACHE": f"{self.folder}/a"}, "a"), ({"HF_HOME": f"{self.folder}/b"}, "b/hub"),
                                  ({"HF_HOME": "~/c"}, "c/hub"), ({"HUGGINGFACE_HUB_CACHE": f"{self.folder}/d"}, "d")):
            self.assertTrue(self.pull(env=variables).is_relative_to(self.folder / folder), variables)
        self.assertTrue(self.pull("me/micro", "--hub-cache", self.folder / "e").is_relative_to(self.folder / "e"))
        self.write("config/quern/quern.conf", f"hub-cache = {self.folder}/f\n")
        self.assertTrue(self.pull().is_relative_to(self.folder / "f"))
        self.assertTrue(self.quern_json("tokenize", "me/micro", "hello")["ids"])  # found there too


class Asked(HubCase):
    """On a terminal: the bar of a download, Ctrl-C in it, and the question whether to download."""

    def on_terminal(self, *arguments, answer=None, until=None, stop=None):
        """What the terminal shows. `answer` is typed behind the question; SIGINT is sent once `stop` is on the screen."""
        master, slave = pty.openpty()
        process = subprocess.Popen([PROGRAM, *map(str, arguments)], stdin=slave, stdout=slave, stderr=slave, env=self.environment({"TERM": "xterm"}))
        os.close(slave)
        screen = b""
        while True:
            try:
                piece = os.read(master, 65536)
            except OSError:  # the program closed the terminal
                break
            if not piece:
                break
            screen += piece
            if answer is not None and b"[y/N] " in screen:
                os.write(master, answer)
                answer = None
            if stop is not None and stop in screen:
                process.send_signal(signal.SIGINT)
                stop = None
        os.close(master)
        return process.wait(60), screen.decode("utf-8", "replace")

    def test_run_offers_to_download_a_model_that_is_not_here(self):
        code, screen = self.on_terminal("run", "me/micro", "hello", "-n", "2", "-q", answer=b"n\n")
        self.assertEqual(code, 4)
        self.assertIn("me/micro is not on this machine. Download it now? [y/N]", screen)
        self.assertIn("quern pull me/micro", screen)
        self.assert_nothing_kept()
        code, screen = self.on_terminal("run", "me/micro", "hello", "-n", "2", "-q", answer=b"y\n")
        self.assertEqual(code, 0, screen)
        self.assertEqual(self.names(), ["me/micro:Q4_K_M"])
        code, screen = self.on_terminal("show", "me/micro:Q8_0")  # which never asks
        self.assertEqual(code, 4)
        self.assertNotIn("[y/N]", screen)

    def test_the_bar_has_bytes_and_goes_before_the_path_is_printed(self):
        code, screen = self.on_terminal("pull", "me/micro")
        self.assertEqual(code, 0)
        self.assertRegex(screen, r"downloading micro-Q4_K_M.gguf \[#*\.*\] \d+ %, [\d.]+.* of 330\.3 KiB")
        self.assertIn("\r\x1b[K/", screen)  # the line is erased, then the path stands alone

    def test_ctrl_c_in_a_download_leaves_the_sentence_that_it_goes_on(self):
        self.hub.faults[STORE] = [stalled(30)]
        code, screen = self.on_terminal("pull", "me/micro", stop=b"downloading micro")
        self.assertEqual(code, -signal.SIGINT)
        self.assertIn("what came is kept: quern pull me/micro goes on from there", screen)


class Url(HubCase):
    def setUp(self):
        super().setUp()
        self.hub.plain["/files/tiny model.gguf"] = MODEL
        self.url = f"{self.hub.url}/files/tiny%20model.gguf"

    def test_a_file_of_any_server_runs_by_its_url(self):
        path = self.pull(self.url)
        self.assertEqual((path.name, path.read_bytes()), ("tiny model.gguf", MODEL))
        self.assertTrue(path.is_relative_to(self.folder / "cache/quern/models"))
        self.assertEqual(self.names(), [self.url])
        self.assertTrue(self.quern_json("run", self.url, "hello", "--max-tokens", "2")["ids"])
        count = len(self.hub.requests)
        self.assertEqual(self.pull(self.url), path)
        self.assertEqual(len(self.hub.requests), count)

    def test_it_goes_on_if_the_file_is_the_same_and_starts_anew_if_not(self):
        place = "/files/tiny model.gguf"
        # The first 1000 bytes of the file come with its tag, then the server is gone.
        def some(handler, content):
            handler.send_head(200, len(content), 0, len(content), {"ETag": handler.tag_of(content)})
            handler.wfile.write(content[:1000])
            handler.wfile.flush()
            handler.close_connection = True
            handler.connection.shutdown(2)

        self.hub.faults[place] = [some]
        self.assert_fails(4, "gave up after 1 try", "pull", self.url, "--hub-tries", "1")
        path = self.pull(self.url)
        self.assertEqual(path.read_bytes(), MODEL)
        self.assertEqual(self.hub.requests[-1][3].get("Range"), "bytes=1000-")

        self.assertEqual(self.quern("rm", self.url).code, 0)
        self.hub.faults[place] = [some]
        self.assert_fails(4, "gave up after 1 try", "pull", self.url, "--hub-tries", "1")
        self.hub.plain[place] = OTHER
        self.assertEqual(self.pull(self.url).read_bytes(), OTHER)

    def test_a_sum_may_be_demanded(self):
        self.assert_fails(4, ["SHA-256", sha256(OTHER)], "pull", self.url, "--sha256", sha256(OTHER))
        self.assertEqual(self.names(), [])
        self.pull(self.url, "--sha256", sha256(MODEL))
        self.assert_fails(2, "64 hex digits", "pull", self.url, "--sha256", "abc")
        self.assert_fails(4, "was asked for", "pull", "me/micro", "--sha256", sha256(OTHER))

    def test_a_page_is_not_kept_as_a_model(self):
        self.hub.plain["/login"] = b"<!DOCTYPE html>"
        self.assert_fails(4, "not a GGUF file", "pull", f"{self.hub.url}/login")
        self.assertEqual(self.names(), [])

    def test_all_parts_of_a_split_model_come(self):
        for name, content in PARTS.items():
            self.hub.plain["/split/" + name] = content
        path = self.pull(f"{self.hub.url}/split/big-Q6_K-00001-of-00002.gguf")
        self.assertTrue(self.quern_json("run", path, "hello", "--max-tokens", "2")["ids"])


class ListAndRemove(HubCase):
    def test_list_names_what_was_pulled(self):
        self.assertEqual(self.quern("list").out, b"")
        self.pull("me/micro:Q4_K_M")
        self.pull("me/micro:Q8_0")
        self.assertEqual(self.names(), ["me/micro:Q4_K_M", "me/micro:Q8_0"])
        lines = self.quern("list").out.decode().splitlines()
        self.assertEqual(lines[0].split(), ["NAME", "SIZE", "DATE", "FORMAT", "CONTEXT"])
        today = datetime.date.today()
        self.assertRegex(lines[1], rf"^me/micro:Q4_K_M +\d+\.\d KiB  {today.year}-\d\d-\d\d  Q4_K_M +256$")
        self.assertEqual(self.quern("ls", "-q").out.decode().split(), self.names())
        self.assertEqual(self.quern_json("list")["models"][0]["context_length"], 256)

    def test_rm_frees_the_bytes_and_leaves_the_others(self):
        self.pull("me/micro:Q4_K_M")
        self.pull("me/micro:Q8_0")
        self.assertEqual(self.quern_json("rm", "me/micro:Q4_K_M")["freed_bytes"], len(MODEL))
        self.assertEqual(self.names(), ["me/micro:Q8_0"])
        self.assertEqual(self.quern("rm", "me/micro").code, 0)
        self.assertEqual([p for p in self.cache.rglob("*") if ".locks" not in p.parts], [])
        self.assert_fails(4, "is not in", "rm", "me/micro")

    def test_rm_leaves_files_of_other_kinds_and_blobs_that_another_revision_needs(self):
        old = self.repository.commit
        self.pull("me/micro:Q4_K_M")
        self.hub.repositories["me/micro"] = Repository({**FILES, "README.md": b"changed\n"})
        self.pull("me/micro:Q4_K_M")
        self.assertEqual(self.quern_json("rm", f"me/micro@{old[:12]}:Q4_K_M")["freed_bytes"], 0)
        self.assertTrue(self.quern_json("run", "me/micro", "hello", "--max-tokens", "2")["ids"])
        snapshot = self.cache / "models--me--micro/snapshots" / self.hub.repositories["me/micro"].commit
        (snapshot / "config.json").write_text("{}")
        self.assertEqual(self.quern_json("rm", "me/micro")["freed_bytes"], len(MODEL))
        self.assertEqual([p.name for p in snapshot.iterdir()], ["config.json"])

    def test_a_model_that_is_downloaded_just_now_is_not_removed(self):
        import fcntl

        self.pull()
        with open(self.cache / f".locks/models--me--micro/{sha256(MODEL)}.lock") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            self.assertEqual(self.quern("rm", "me/micro").code, 4)

    def test_a_broken_link_is_no_model(self):
        path = self.pull()
        path.resolve().unlink()
        self.assertEqual(self.names(), [])
        self.assertEqual(self.pull().read_bytes(), MODEL)


class RealClient(HubCase):
    """The cache is shared with huggingface_hub, in both directions. QUERN_TEST_HUB_PYTHON names a Python that has it."""

    def client(self, code):
        python = os.environ.get("QUERN_TEST_HUB_PYTHON")
        if not python:
            self.skipTest("QUERN_TEST_HUB_PYTHON is not set: it names a Python with huggingface_hub")
        variables = {"HF_HUB_DISABLE_TELEMETRY": "1", "HF_HUB_DISABLE_XET": "1", "HF_HUB_DISABLE_PROGRESS_BARS": "1"}
        done = subprocess.run([python, "-c", "import huggingface_hub as hub\n" + code], capture_output=True, text=True,
                              env=self.environment(variables), timeout=100)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.strip()

    def test_it_reads_what_quern_wrote(self):
        path = self.pull("me/micro:Q8_0")
        self.assertEqual(self.client("print(hub.hf_hub_download('me/micro', 'micro.Q8_0.gguf', local_files_only=True))"), str(path))
        self.assertEqual(self.client("print(hub.hf_hub_download('me/micro', 'micro.Q8_0.gguf'))"), str(path))
        self.assertEqual(len(self.hub.requested("store")), 1)
        scan = self.client("scan = hub.scan_cache_dir()\nprint(len(scan.warnings), [r.repo_id for r in scan.repos], scan.size_on_disk)")
        self.assertEqual(scan, f"0 ['me/micro'] {len(OTHER)}")

    def test_quern_reads_what_it_wrote(self):
        path = self.client("print(hub.hf_hub_download('me/micro', 'micro-Q4_K_M.gguf'))")
        self.client("print(hub.hf_hub_download('me/micro', 'README.md'))")
        before = len(self.hub.requested("store"))
        self.assertEqual(self.names(), ["me/micro:Q4_K_M"])
        self.assertTrue(self.quern_json("run", "me/micro", "hello", "--max-tokens", "2")["ids"])
        self.assertEqual(str(self.pull()), path)
        self.assertEqual(len(self.hub.requested("store")), before)


if __name__ == "__main__":
    main()
