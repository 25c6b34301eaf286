"""What all verbs share: the program itself, settings, refusals, faults of backends."""

import json
import os
import pathlib
import shutil
import struct
import subprocess

from harness import DATA, MICRO, PROGRAM, VERBS, Case, main, unittest


class Program(Case):
    def test_version_names_build_and_abi(self):
        result = self.quern("--version")
        self.assertEqual(result.code, 0)
        self.assertRegex(result.out.decode(), r"^quern \d+\.\d+\.\d+\n.*build .+\n.*ABI 1\.\d+")

    def test_help_of_every_verb_is_on_standard_output(self):
        for verb in VERBS:
            result = self.quern(verb, "--help")
            self.assertEqual(result.code, 0)
            self.assertIn(b"--json", result.out)
            self.assertEqual(result.err, "")

    def test_a_mistake_in_usage_is_2(self):
        self.assert_fails(2, "--help", "-v")
        self.assert_fails(2, "walk", "walk")
        self.assert_fails(2, "--fast", "run", MICRO, "x", "--fast")
        self.assert_fails(2, "MODEL", "bench")
        self.assert_fails(2, "--top-k", "run", MICRO, "x", "--top-k", "many")

    def test_a_full_disk_is_an_error(self):
        with open("/dev/full", "wb") as full:
            done = subprocess.run(
                [PROGRAM, "tokenize", MICRO, "x"], stdout=full, stderr=subprocess.PIPE, env=self.environment()
            )
        self.assertEqual(done.returncode, 4)
        self.assertIn(b"standard output", done.stderr)


class Settings(Case):
    def test_a_missing_backend_is_3_from_flag_environment_and_file(self):
        self.assert_fails(3, "nonesuch", "run", MICRO, "x", "--backend", "nonesuch")
        refused = self.assert_fails(3, "nonesuch", "run", MICRO, "x", env={"QUERN_BACKEND": "nonesuch"})
        self.assertEqual(len(refused.err.splitlines()), 1, refused.err)  # said once
        self.write("config/quern/quern.conf", "backend = nonesuch\n")
        self.assert_fails(3, "nonesuch", "run", MICRO, "x")
        for verb in (("eval", MICRO, MICRO), ("bench", MICRO)):
            self.assert_fails(3, "nonesuch", *verb)

    def test_flag_beats_environment_beats_file(self):
        self.write("config/quern/quern.conf", "backend = from-file\n")
        run = ("run", MICRO, "x", "--max-tokens", "1")
        self.assertEqual(self.quern(*run, "--backend", "cpu", env={"QUERN_BACKEND": "from-environment"}).code, 0)
        self.assert_fails(3, "from-environment", *run, env={"QUERN_BACKEND": "from-environment"})
        self.assertEqual(self.quern(*run, env={"QUERN_BACKEND": "cpu"}).code, 0)
        self.assert_fails(3, "from-file", *run)

    @unittest.skipUnless(os.geteuid() == 0, "only root makes a program that runs with more rights than its user")
    def test_with_more_rights_than_its_user_no_path_of_the_environment_counts(self):
        self.write("config/quern/quern.conf", "no such line\n")
        self.assertEqual(self.quern("list").code, 2)
        program = self.folder / "quern"
        shutil.copy(PROGRAM, program)
        program.chmod(0o4755)
        self.folder.chmod(0o755)
        done = subprocess.run([program, "list"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=self.environment(), user=65534, timeout=60)
        if b"error while loading shared libraries" in done.stderr:
            self.skipTest("this build finds its library by a variable")
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_show_config_names_the_origin_of_each_value_and_runs_nothing(self):
        path = self.write("config/quern/quern.conf", "backend = nonesuch\n")
        env = {"QUERN_TOP_K": "7"}
        shown = self.quern_json("run", "--show-config", "--threads", "3", env=env)
        self.assertEqual(shown["verb"], "run")
        by_flag = {one["flag"]: one for one in shown["settings"]}
        self.assertEqual((by_flag["--threads"]["value"], by_flag["--threads"]["origin"]), ("3", "flag"))
        self.assertEqual((by_flag["--top-k"]["value"], by_flag["--top-k"]["where"]), ("7", "QUERN_TOP_K"))
        self.assertEqual((by_flag["--backend"]["value"], by_flag["--backend"]["where"]), ("nonesuch", path + ":1"))
        self.assertEqual(by_flag["--temperature"]["origin"], "default")
        self.assertEqual(shown["files"], [{"path": path, "exists": True}, {"path": "/etc/quern/quern.conf", "exists": os.path.exists("/etc/quern/quern.conf")}])
        for verb in [()] + [(verb,) for verb in VERBS]:
            page = self.quern(*verb, "--show-config", env=env)
            self.assertEqual(page.code, 0, page.err)
            self.assertRegex(page.out.decode(), r"(?m)^--(log +warn|verbose +off) +default$")  # monitor logs nothing
        self.assert_fails(2, "QUERN_TOP_K", "run", MICRO, "x", env={"QUERN_TOP_K": "many"})

    def test_show_config_has_the_values_that_a_run_would_have(self):
        shown = {one["flag"]: one["value"] for one in self.quern_json("run", MICRO, "--show-config")["settings"]}
        self.assertEqual((shown["--context"], shown["--backend"], shown["--device"]), ("256", "cpu", "cpu:0"))
        self.assertEqual(shown["--threads"], str(self.quern_json("bench", MICRO, "-p", "8", "-n", "4", "-r", "1", code=None)["threads"]))
        self.assertEqual(shown["--cache-dir"], f"{self.folder}/cache/quern")
        with_file = self.write("config/quern/quern.conf", "temperature = 0.25\n[micro-llama-f32]\ntemperature = 0\n")
        for model, value, line in ((MICRO, "0", 3), (DATA / "gguf/micro-llama-q8_0.gguf", "0.25", 1)):
            rows = {one["flag"]: one for one in self.quern_json("run", model, "--show-config")["settings"]}
            self.assertEqual((rows["--temperature"]["value"], rows["--temperature"]["where"]), (value, f"{with_file}:{line}"))

    def test_a_misspelt_variable_warns_and_a_misspelt_key_is_refused(self):
        result = self.quern("run", MICRO, "x", "-n", "1", "-q", env={"QUERN_THREDS": "1", "QUERN_TOP_K": "1"})
        self.assertEqual((result.code, result.err), (0, "warning: environment: QUERN_THREDS is not a variable of quern; did you mean QUERN_THREADS?\n"))
        self.assertEqual(self.quern("run", MICRO, "x", "-n", "1", "-q", "--log", "error", env={"QUERN_THREDS": "1"}).err, "")
        self.write("config/quern/quern.conf", "temprature = 1\n")
        self.assert_fails(2, "did you mean temperature?", "doctor")

    def test_a_misspelt_model_or_backend_is_answered_with_the_nearest(self):
        self.assert_fails(4, ["there is no such file", f"did you mean {MICRO}?"], "run", MICRO.replace("llama", "lama"), "x")
        self.assert_fails(3, "did you mean cpu?", "run", MICRO, "x", "--backend", "cpuu")

    def test_a_missing_device_is_3(self):
        self.assert_fails(3, "cpu:9", "run", MICRO, "x", "--device", "cpu:9")

    def test_a_disabled_backend_is_not_used(self):
        self.assert_fails(3, "cpu", "run", MICRO, "x", "--backend-disable", "cpu")

    def test_force_cpu_contradicts_a_demand_for_another_backend(self):
        environment = {"CUDA_FORCE_CPU": "1", "QUERN_BACKEND": "cuda"}
        self.assert_fails(3, ["CUDA_FORCE_CPU", "QUERN_BACKEND"], "run", MICRO, "x", env=environment)
        self.assertEqual(self.quern("run", MICRO, "x", "--max-tokens", "1", env={"CUDA_FORCE_CPU": "1"}).code, 0)

    def test_a_bad_value_is_2_and_names_its_origin(self):
        self.assert_fails(2, "--threads", "run", MICRO, "x", "--threads", "none")
        self.assert_fails(2, "QUERN_THREADS", "run", MICRO, "x", env={"QUERN_THREADS": "none"})
        self.assert_fails(2, "QUERN_MEMORY", "run", MICRO, "x", env={"QUERN_MEMORY": "lots"})
        self.assert_fails(2, "--memory", "run", MICRO, "x", "--memory", "lots")
        path = self.write("config/quern/quern.conf", "# mine\nthreds = 2\n")
        self.assert_fails(2, [path + ":2", "threds"], "doctor")

    def test_a_limit_that_is_too_small_is_5(self):
        self.assert_fails(5, MICRO, "run", MICRO, "x", "--memory", "cpu:0=64K")

    def test_packed_weights_are_kept_and_mapped_by_the_next_run(self):
        run = ("run", MICRO, "x", "--max-tokens", "8", "--temperature", "0", "--json")
        plain = json.loads(self.quern(*run).out)
        self.assertFalse((self.folder / "cache/quern/weights").exists())
        first = self.quern(*run, "-v", "--weights-cache", "on")
        self.assertIn("kept in", first.err)
        files = list((self.folder / "cache/quern/weights").iterdir())
        self.assertEqual([f.suffix for f in files], [".weights"])
        for how in ({"env": {"QUERN_WEIGHTS_CACHE": "1"}}, {"env": {"QUERN_WEIGHTS_CACHE": "verify"}}):
            second = self.quern(*run, "-v", **how)
            self.assertIn(f"mapped from {files[0]}", second.err)
            self.assertEqual(json.loads(second.out)["ids"], plain["ids"])
        self.write("config/quern/quern.conf", "weights-cache = on\n")
        self.assertIn("mapped from", self.quern(*run, "-v").err)
        files[0].write_bytes(files[0].read_bytes()[:-1])
        damaged = self.quern(*run, "-v")
        self.assertIn("instead of", damaged.err)
        self.assertEqual(json.loads(damaged.out)["ids"], plain["ids"])
        self.assert_fails(2, "--weights-cache", *run[:-1], "--weights-cache", "maybe")
        self.assert_fails(2, "QUERN_WEIGHTS_CACHE_LIMIT", *run[:-1], env={"QUERN_WEIGHTS_CACHE_LIMIT": "much"})

    def test_threads_reach_the_backend(self):
        result = self.quern("bench", MICRO, "-p", "8", "-n", "4", "-r", "1", "--json", env={"QUERN_THREADS": "1"})
        self.assertEqual(json.loads(result.out)["threads"], 1)

    def test_verbose_logs_to_standard_error_only(self):
        quiet = self.quern("run", MICRO, "x", "--max-tokens", "1", "--temperature", "0")
        loud = self.quern("run", MICRO, "x", "--max-tokens", "1", "--temperature", "0", "-v")
        self.assertEqual(loud.out, quiet.out)
        self.assertGreater(len(loud.err), len(quiet.err))


class Refusals(Case):
    """Bad model files: exit 4, the file as given, a reason; on each verb that reads one."""

    def refused(self, path, mentions=()):
        for verb in (("run", path, "x"), ("tokenize", path, "x"), ("show", path), ("estimate", path), ("bench", path),
                     ("eval", path, __file__)):
            self.assert_fails(4, [path, *mentions], *verb)

    def test_a_missing_file(self):
        self.refused("no/such/model.gguf")

    def test_a_folder(self):
        self.refused(str(self.folder))

    def test_an_empty_file(self):
        self.refused(self.write("empty.gguf", b""))

    def test_a_text_file(self):
        self.refused(self.write("text.gguf", b"this is no model\n" * 10))

    def test_a_file_cut_inside_its_header(self):
        self.refused(self.write("cut.gguf", pathlib.Path(MICRO).read_bytes()[:1000]))

    def test_a_file_cut_inside_its_tensors(self):
        path = self.write("cut.gguf", pathlib.Path(MICRO).read_bytes()[:-1000])
        for verb in (("run", path, "x"), ("bench", path), ("eval", path, __file__)):
            self.assert_fails(4, path, *verb)

    def test_an_unknown_architecture_is_refused_by_name_with_the_known_ones(self):
        content = pathlib.Path(MICRO).read_bytes()
        key = b"general.architecture" + struct.pack("<IQ", 8, 5)
        self.assertIn(key + b"llama", content)
        path = self.write("other.gguf", content.replace(key + b"llama", key + b"lhama"))
        self.assert_fails(4, [path, "lhama", "llama", "qwen2", "qwen3"], "run", path, "x")


class BackendFaults(Case):
    """What a backend says against the runtime's own calls is no mistake of whoever typed the command."""

    def test_arguments_that_a_plugin_refuses_are_70_and_named(self):
        for call, doing in (("prepare", "preparing"), ("submit", "running")):
            environment = {"QUERN_BACKEND_PATH": os.environ["QUERN_TEST_REFUSING"], "QUERN_BACKEND": "refusing", "QUERN_REFUSED": call}
            self.assert_fails(70, ["refusing:0", doing, "this binding is none of mine"], "run", MICRO, "x", "--raw", "--max-tokens", "1",
                              env=environment)


if __name__ == "__main__":
    main()
