"""quern pull, list, rm and names of models, against a hub on this machine that has every fault a network has."""

import datetime
import json
import os
import pty
import signal
import subprocess

from harness import PROGRAM, main
from hub_case import FILES, MODEL, OTHER, PARTS, STORE, HubCase, sha256
from hub_server import Repository, stalled, status


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
    """The cache is shared with huggingface_hub, in both directions."""

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
