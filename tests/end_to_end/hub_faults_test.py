"""Downloads from a hub that fails, and from one that means harm."""

import email.utils
import os
import resource
import subprocess
import time

from harness import MICRO, PROGRAM, controls, main
from hub_case import MODEL, OTHER, STORE, HubCase, sha256
from hub_server import Repository, corrupted, cut_after, longer, stalled, status, without_ranges


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
        then = email.utils.formatdate(time.time() + 4, usegmt=True)  # whole seconds; those of the wait are whole too
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
        result = self.assert_fails(4, ["http://127.0.0.1:1", "HF_ENDPOINT"], "pull", "me/micro", env={"HF_ENDPOINT": "http://127.0.0.1:1"})
        self.assertNotIn("trying again", result.err)  # no network: said at once

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

    def test_pulls_that_name_one_blob_at_a_time_all_succeed(self):
        link = self.pull()
        for _ in range(5):
            link.unlink()
            pulls = [subprocess.Popen([PROGRAM, "pull", "me/micro"], env=self.environment(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
                     for _ in range(6)]
            said = [one.communicate(timeout=60)[1] for one in pulls]  # also that another process downloads it
            self.assertEqual([one.returncode for one in pulls], [0] * 6, said)
            self.assertEqual(link.read_bytes(), MODEL)

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
        for fault in (cut_after(1000), start_again):
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


if __name__ == "__main__":
    main()
