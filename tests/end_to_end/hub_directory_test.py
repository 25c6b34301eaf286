"""quern pull of repositories with safetensors: what is chosen, and every fault that a network has."""

import os
import random
import subprocess
import threading

from harness import DATA, PROGRAM, main
from hub_case import MODEL, HubCase, sha256
from hub_server import Repository, corrupted, cut_after, git_hash, status

DOES_NOT_FIT = 5
WRITE_DIRECTORY = os.environ["QUERN_TEST_WRITE_DIRECTORY"]
SHARDS = [f"model-0000{n}-of-00003.safetensors" for n in (1, 2, 3)]
OTHERS = ["config.json", "model.safetensors.index.json", "tokenizer.json", "tokenizer_config.json", "README.md", "LICENSE"]
LEFT = {"pytorch_model.bin": b"pickle", "original/consolidated.00.pth": b"pickle", "consolidated.safetensors": b"twice", "fp8/model.safetensors": b"other",
        "model.fp16.safetensors": b"other", "onnx/model.onnx": b"other", ".gitattributes": b"* text"}


class DirectoryCase(HubCase):
    def setUp(self):
        super().setUp()
        folder = self.folder / "written"
        subprocess.run([WRITE_DIRECTORY, DATA / "gguf/micro-llama-f32.gguf", folder, "3"], check=True)
        self.written = {path.name: path.read_bytes() for path in folder.iterdir()}
        self.written |= {"README.md": b"---\nlicense: mit\n---\n", "LICENSE": b"MIT\n"}
        self.hub.repositories["me/dir"] = self.repository = Repository({**self.written, **LEFT})
        self.snapshot = self.cache / "models--me--dir/snapshots" / self.repository.commit

    def pull_directory(self, name="me/dir", *flags, **how):
        result = self.quern("pull", name, *flags, **how)
        self.assertEqual(result.code, 0, result.err)
        self.assertEqual(result.out.decode(), f"{self.snapshot}\n")
        for name, content in self.written.items():
            self.assertEqual((self.snapshot / name).read_bytes(), content, name)
        return result

    def store(self, shard):
        return f"/store/me/dir/{shard}"

    def resolve(self, name):
        return f"/me/dir/resolve/{self.repository.commit}/{name}"


class Directories(DirectoryCase):
    def test_it_has_what_a_run_needs_and_nothing_else(self):
        result = self.pull_directory()
        self.assertEqual(sorted(path.name for path in self.snapshot.rglob("*")), sorted(self.written))
        self.assertLessEqual(set(SHARDS + OTHERS), set(self.written))
        total = sum(map(len, self.written.values()))
        self.assertIn(f"me/dir has {total / 2**20:.1f} MiB" if total >= 2**20 else f"me/dir has {total / 2**10:.1f} KiB", result.err)
        flags = ("hello", "--raw", "--temperature", "0", "--max-tokens", "4")
        self.assertEqual(self.quern_json("run", "me/dir", *flags)["ids"], self.quern_json("run", self.folder / "written", *flags)["ids"])

    def test_it_is_listed_and_removed_by_its_name(self):
        self.pull_directory()
        (model,) = self.quern_json("list")["models"]
        self.assertEqual((model["name"], model["path"], model["files"]), ("me/dir", str(self.snapshot), len(self.written)))
        self.assertEqual(model["bytes"], sum(map(len, self.written.values())))
        self.assertEqual(model["context_length"], 256)
        self.assertEqual(self.quern_json("rm", "me/dir")["freed_bytes"], model["bytes"])
        self.assertEqual([p for p in self.cache.rglob("*") if ".locks" not in p.parts], [])

    def test_beside_gguf_files_it_has_a_name_of_its_own(self):
        self.repository = self.hub.repositories["me/dir"] = Repository({**self.written, "m-Q4_K_M.gguf": MODEL})
        self.snapshot = self.cache / "models--me--dir/snapshots" / self.repository.commit
        self.assertEqual(self.pull("me/dir").read_bytes(), MODEL)
        self.pull_directory("me/dir:safetensors")
        self.assertEqual(self.names(), ["me/dir:Q4_K_M", "me/dir:safetensors"])
        self.assertEqual(self.quern_json("show", "me/dir:safetensors")["format"], "safetensors")
        self.assertEqual(self.quern("rm", "me/dir:safetensors").code, 0)
        self.assertEqual(self.names(), ["me/dir:Q4_K_M"])

    def test_one_file_of_weights_is_preferred_to_shards(self):
        folder = self.folder / "one"
        subprocess.run([WRITE_DIRECTORY, DATA / "gguf/micro-llama-f32.gguf", folder, "1"], check=True)
        one = (folder / "model.safetensors").read_bytes()
        self.hub.repositories["me/one"] = Repository({**self.written, "model.safetensors": one})
        self.assertEqual(self.quern("pull", "me/one").code, 0)
        fetched = [path for path, _ in self.hub.requested("store")]
        self.assertEqual(fetched, ["/store/me/one/model.safetensors"])

    def test_forms_that_are_not_read_are_refused_by_name(self):
        repositories = {"pickle": {"config.json": b"{}", "pytorch_model.bin": b"x"}, "adapter": {"adapter_config.json": b"{}", "adapter_model.safetensors": b"x"},
                        "nothing": {"README.md": b"x"}, "weights": {"model.safetensors": b"x"}}
        words = {"pickle": ["'pytorch_model.bin'", "may run code"], "adapter": "is an adapter without its base", "nothing": "no whole GGUF model",
                 "weights": "nor config.json with model.safetensors"}
        for name, files in repositories.items():
            self.hub.repositories[f"me/{name}"] = Repository(files)
            self.assert_fails(4, words[name], "pull", f"me/{name}")
        self.assertEqual(self.hub.requested("store"), [])
        self.assert_fails(2, "is a directory of several files", "pull", "me/dir", "--sha256", "a" * 64)

    def test_several_files_come_at_once(self):
        together = threading.Barrier(len(SHARDS), timeout=20)

        def wait_for_the_others(handler, content):
            together.wait()
            handler.send_file(content)

        for shard in SHARDS:
            self.hub.faults[self.store(shard)] = [wait_for_the_others]
        self.pull_directory()


class DirectoryCuts(DirectoryCase):
    def test_it_goes_on_after_each_of_fifty_cuts(self):
        draw = random.Random(5)
        sizes = {shard: len(self.written[shard]) for shard in SHARDS}
        cuts = 0
        while cuts < 50:
            shard = draw.choice(SHARDS)
            self.hub.faults[self.store(shard)] = [cut_after(draw.randint(1, sizes[shard] // 40))]
            result = self.quern("pull", "me/dir", "-q", "--hub-tries", "1")
            if result.code == 0:  # it was whole already, or what is left is shorter than the cut
                self.assertEqual(self.quern("rm", "me/dir").code, 0)
                continue
            cuts += 1
            self.assertIn("gave up after 1 try", result.err)
            if cuts % 10 == 1:
                self.assertEqual(self.names(), [])
                self.assert_fails(4, "quern pull me/dir", "run", "me/dir", "hello")
        self.hub.faults.clear()
        self.pull_directory()
        self.assertTrue(any("Range" in headers for _, headers in self.hub.requested("store")))


class DirectoryFaults(DirectoryCase):
    def test_a_wrong_sum_is_refused_and_nothing_of_that_file_is_kept(self):
        self.hub.faults[self.store(SHARDS[1])] = [corrupted]
        self.assert_fails(4, ["SHA-256", sha256(self.written[SHARDS[1]]), SHARDS[1]], "pull", "me/dir")
        blobs = self.cache / "models--me--dir/blobs"
        self.assertEqual(list(blobs.glob(sha256(self.written[SHARDS[1]]) + "*")), [])
        self.pull_directory()

    def test_a_small_file_must_have_its_git_hash(self):
        for name in ("tokenizer_config.json", "config.json"):
            content = self.written[name]
            self.hub.faults[self.resolve(name)] = [lambda handler, content=content: handler.send_file(b"[" + content[1:])]
            self.assert_fails(4, [name, "Git hash", git_hash(content)], "pull", "me/dir")
            self.assertFalse((self.snapshot / name).exists())
        self.pull_directory()

    def test_refusals_of_the_server_name_the_file(self):
        self.hub.private = True
        self.assert_fails(4, ["401", "HF_TOKEN"], "pull", "me/dir")
        self.hub.faults[self.resolve(SHARDS[2])] = [status(404, X_Error_Code="EntryNotFound")]
        self.assert_fails(4, ["404", "EntryNotFound", SHARDS[2]], "pull", "me/dir", env={"HF_TOKEN": "secret"})
        self.pull_directory(env={"HF_TOKEN": "secret"})
        for _, headers in self.hub.requested("store"):
            self.assertNotIn("Authorization", headers)

    def test_it_waits_where_there_are_too_many_requests(self):
        self.hub.faults[self.resolve(SHARDS[0])] = [status(429, Retry_After="1")]
        self.hub.faults[self.store(SHARDS[1])] = [lambda handler, content: handler.reply(429, b"", {"Retry-After": "1"})]
        self.assertIn("trying again in 1 s", self.pull_directory().err)

    def test_a_repository_that_was_renamed_is_followed(self):
        self.hub.redirects["/api/models/old/dir/revision/main"] = "/api/models/me/dir/revision/main?blobs=true"
        for name in self.written:
            self.hub.redirects[self.resolve(name).replace("/me/", "/old/", 1)] = self.resolve(name)
        self.snapshot = self.cache / "models--old--dir/snapshots" / self.repository.commit
        self.pull_directory("old/dir")

    def test_two_pulls_at_once_get_each_file_once(self):
        pulls = [subprocess.Popen([PROGRAM, "pull", "me/dir"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=self.environment()) for _ in range(2)]
        for process in pulls:
            out, err = process.communicate(timeout=60)
            self.assertEqual((process.returncode, out.decode()), (0, f"{self.snapshot}\n"), err)
        self.assertEqual(sorted(path for path, _ in self.hub.requested("store")), [self.store(shard) for shard in SHARDS])
        self.pull_directory()

    def test_what_the_disk_cannot_hold_is_refused_before_it_comes(self):
        small = self.folder / "small"
        small.mkdir()
        mounted = ["unshare", "-Urm", "sh", "-c", 'mount -t tmpfs -o size=128k none "$0" && exec "$@"', str(small)]
        try:
            if subprocess.run([*mounted, "true"], capture_output=True).returncode != 0:
                self.skipTest("a small file system cannot be mounted here: no user namespaces")
        except FileNotFoundError:
            self.skipTest("a small file system cannot be mounted here: no unshare")
        done = subprocess.run([*mounted, PROGRAM, "pull", "me/dir"], capture_output=True, env=self.environment({"HF_HUB_CACHE": str(small)}), timeout=60)
        self.assertEqual(done.returncode, 4, done.stderr)
        for words in (b"me/dir needs", b"more, and", b"nothing was downloaded"):
            self.assertIn(words, done.stderr)
        self.assertEqual(self.hub.requested("store"), [])

    def test_what_the_limits_of_memory_cannot_hold_is_refused_before_it_comes(self):
        total = sum(len(self.written[shard]) for shard in SHARDS)
        for name, limits in (("me/dir", f"cpu={total // 2},cuda:0={total // 2 - 1}"), ("me/micro:Q4_K_M", f"cpu={len(MODEL) - 1}")):
            self.assert_fails(DOES_NOT_FIT, [name, "--memory", "nothing was downloaded"], "pull", name, "--memory", limits)
        self.assertEqual(self.hub.requested("store"), [])
        self.pull_directory("me/dir", "--memory", f"cpu={total}")
        self.assert_fails(2, "--memory: '8G' is not a list of limits", "pull", "me/dir", "--memory", "8G")

    def test_an_index_is_checked_before_what_it_names_comes(self):
        index = "model.safetensors.index.json"
        for text, words in ((b"[]", "'weight_map' is missing"), (b"{", "not JSON"), (b'{"weight_map": {}}', "is empty"),
                            (b'{"weight_map": {"a": "model-00009-of-00003.safetensors"}}', ["'model-00009-of-00003.safetensors'", "does not have"]),
                            (b'{"weight_map": {"a": "../../x.safetensors"}}', "not the name of a file of weights beside it"),
                            (b'{"weight_map": {"a": "/etc/passwd"}}', "not the name of a file"), (b'{"weight_map": {"a": 1}}', "has no text for 'a'")):
            self.hub.repositories["me/index"] = Repository({**self.written, index: text})
            self.assert_fails(4, words, "pull", "me/index")
        self.assertEqual(self.hub.requested("store"), [])


class DirectoryClient(DirectoryCase):
    def test_huggingface_hub_reads_what_quern_wrote(self):
        self.pull_directory()
        names = sorted(self.written)
        code = f"for name in {names}:\n    print(hub.hf_hub_download('me/dir', name, local_files_only=True))"
        self.assertEqual(self.client(code).splitlines(), [str(self.snapshot / name) for name in names])
        scan = self.client("scan = hub.scan_cache_dir()\nprint(len(scan.warnings), [r.repo_id for r in scan.repos], scan.size_on_disk)")
        self.assertEqual(scan, f"0 ['me/dir'] {sum(map(len, self.written.values()))}")

    def test_quern_reads_what_it_wrote(self):
        self.client(f"for name in {sorted(self.written)}:\n    hub.hf_hub_download('me/dir', name)")
        before = len(self.hub.requested("store"))
        self.pull_directory()
        self.assertEqual(len(self.hub.requested("store")), before)
        self.assertEqual(self.names(), ["me/dir"])


if __name__ == "__main__":
    main()
