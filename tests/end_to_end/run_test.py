"""quern run."""

import json
import os
import pathlib
import re
import struct
import subprocess

from harness import DATA, MICRO, PROGRAM, Case, main


class Run(Case):
    greedy = ("--temperature", "0", "--max-tokens", "12")

    def test_json_has_the_documented_members(self):
        answer = self.quern_json("run", MICRO, "hello", *self.greedy)
        for member in ("text", "ids", "prompt_ids", "finish", "backend", "device", "kernels", "timings", "statistics"):
            self.assertIn(member, answer)
        self.assertEqual(answer["backend"], "cpu")
        self.assertIn(answer["finish"], ("end", "length"))
        self.assertTrue(0 < len(answer["ids"]) <= 12)
        self.assertGreater(answer["timings"]["prompt_seconds"], 0)
        self.assertEqual(answer["timings"]["generated_tokens"], len(answer["ids"]))

    def test_the_prompt_is_the_same_from_argument_input_and_messages(self):
        messages = self.write_messages(("user", "hello"))
        answers = [
            self.quern_json("run", MICRO, "hello", *self.greedy),
            self.quern_json("run", MICRO, *self.greedy, stdin=b"hello"),
            self.quern_json("run", MICRO, "--messages", messages, *self.greedy),
            self.quern_json(
                "run", MICRO, "--messages", "-", *self.greedy, stdin=b'[{"role": "user", "content": "hello"}]'
            ),
        ]
        for answer in answers:
            self.assertEqual(answer["prompt_ids"], answers[0]["prompt_ids"])
            self.assertEqual(answer["ids"], answers[0]["ids"])

    def test_standard_input_is_taken_byte_for_byte(self):
        with_newline = self.quern_json("run", MICRO, *self.greedy, stdin=b"hello\n")
        without = self.quern_json("run", MICRO, *self.greedy, stdin=b"hello")
        self.assertEqual(len(with_newline["prompt_ids"]), len(without["prompt_ids"]) + 1)

    def test_what_a_pipe_brings_follows_the_prompt(self):
        both = self.quern_json("run", MICRO, "hello", *self.greedy, stdin=b"a word")
        self.assertEqual(both["prompt_ids"], self.quern_json("run", MICRO, "hello\n\na word", *self.greedy)["prompt_ids"])
        self.assertEqual(self.quern_json("run", MICRO, "-", *self.greedy, stdin=b"a word")["prompt_ids"],
                         self.quern_json("run", MICRO, *self.greedy, stdin=b"a word")["prompt_ids"])

    def test_a_pipe_that_brings_nothing_for_seconds_is_told(self):
        with subprocess.Popen([PROGRAM, "run", MICRO, "hello", *self.greedy, "-q"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE, env=self.environment()) as running:
            self.assertIn(b"waiting for the end of standard input", running.stderr.readline())
            running.stdin.close()
            self.assertEqual(running.wait(60), 0)

    def ids_of(self, *arguments, **how):
        return self.quern_json("run", MICRO, *arguments, *self.greedy, **how)["prompt_ids"]

    def test_files_follow_the_prompt_and_the_input(self):
        one, two = self.write("one", "a word\n"), self.write("two", "and more")
        self.assertEqual(self.ids_of("hello", "--file", one, "--file", two), self.ids_of("hello\n\na word\n\nand more"))
        self.assertEqual(self.ids_of("hello", "--file", two, stdin=b"piped"), self.ids_of("hello\n\npiped\n\nand more"))
        self.assertEqual(self.ids_of("--file", one), self.ids_of("a word\n"))
        self.assertEqual(self.ids_of("hello", "--file", "-", stdin=b"piped"), self.ids_of("hello\n\npiped"))
        self.assertEqual(self.ids_of("hello", "--file", one, "--raw"), self.ids_of("hello\n\na word\n", "--raw"))
        self.assertEqual(self.ids_of("hello", "--system-file", two), self.ids_of("hello", "--system", "and more"))

    def test_a_lone_dash_in_the_prompt_is_the_place_of_the_input(self):
        self.assertEqual(self.ids_of("before - after", stdin=b"piped"), self.ids_of("before piped after"))
        self.assertEqual(self.ids_of("- one\n- two", stdin=b"piped"), self.ids_of("- one\n- two\n\npiped"))

    def test_a_file_that_is_no_text_is_refused_by_name_and_byte(self):
        path = self.write("bytes", b"caf\xe9")
        self.assert_fails(4, [path, "byte 4"], "run", MICRO, "hello", "--file", path)
        self.assert_fails(4, [path, "byte 4"], "run", MICRO, "hello", "--system-file", path)
        self.assert_fails(4, ["standard input", "byte 4"], "run", MICRO, "hello", "--file", "-", stdin=b"caf\xe9")
        self.assert_fails(2, "standard input can be read once", "run", MICRO, "-", "--file", "-", stdin=b"x")

    def test_prefill_begins_the_answer_and_the_model_goes_on_from_there(self):
        begun = self.quern_json("run", MICRO, "hello", "--prefill", "yes", *self.greedy)
        self.assertTrue(begun["text"].startswith("yes"), begun["text"])
        bare = self.ids_of("hello")
        self.assertEqual(begun["prompt_ids"][: len(bare)], bare)
        more = self.quern_json("tokenize", MICRO, "yes", "--no-bos")["ids"]
        added = begun["prompt_ids"][len(bare) :]
        self.assertNotEqual(added, more)  # this vocabulary puts a blank in front of a text, but not here
        self.assertEqual(added[1:], more[1:])
        shown = self.quern("run", MICRO, "hello", "--prefill", "yes", *self.greedy, "-q")
        self.assertEqual(shown.out.decode().rstrip("\n"), begun["text"])

    def test_jsonl_is_one_object_an_event(self):
        done = self.quern("run", MICRO, "hello", "--prefill", "yes", "--jsonl", "--logprobs", "2", *self.greedy)
        self.assertEqual(done.code, 0, done.err)
        start, *texts, end = [json.loads(line) for line in done.out.splitlines()]
        whole = self.quern_json("run", MICRO, "hello", "--prefill", "yes", "--logprobs", "2", *self.greedy)
        self.assertEqual([start["event"], end["event"]], ["start", "end"])
        self.assertEqual({event["event"] for event in texts}, {"text"})
        self.assertEqual("".join(event["text"] for event in texts), end["text"])
        self.assertEqual([event["id"] for event in texts if event["id"] is not None], whole["ids"])
        self.assertEqual(len(texts[1]["best"]), 2)
        self.assertEqual(set(end), set(whole) | {"event"})
        self.assert_fails(2, "one of them", "run", MICRO, "hello", "--json", "--jsonl")

    def test_an_error_of_a_prompt_speaks_of_the_prompt(self):
        for flags in ([], ["--raw"]):
            failed = self.assert_fails(6, "the prompt ", "run", MICRO, "word " * 100, "--context", "40", *flags)
            self.assertNotIn("request", failed.err)

    def test_a_prompt_that_is_not_utf8_is_named(self):
        self.assert_fails(4, "the prompt is not text in UTF-8: byte 4", "run", MICRO, os.fsdecode(b"caf\xe9"))
        self.assert_fails(4, "the system message is not text in UTF-8: byte 1", "run", MICRO, "hi", "--system", os.fsdecode(b"\xe9"))
        self.assertEqual(self.quern("run", MICRO, os.fsdecode(b"caf\xe9"), "--raw", *self.greedy).code, 0)

    def test_a_prompt_with_special_text_has_the_ids_of_tokenize(self):
        path = self.write_messages(("user", "a</s>b"))
        for flags in ([], ["--special-in-messages"]):
            ids = self.quern_json("tokenize", MICRO, "--messages", path, *flags)["ids"]
            self.assertEqual(self.quern_json("run", MICRO, "a</s>b", *flags, *self.greedy)["prompt_ids"], ids)

    def test_a_system_message_comes_first(self):
        messages = self.write_messages(("system", "be brief"), ("user", "hello"))
        flag = self.quern_json("run", MICRO, "hello", "--system", "be brief", *self.greedy)
        file = self.quern_json("run", MICRO, "--messages", messages, *self.greedy)
        self.assertEqual(flag["prompt_ids"], file["prompt_ids"])

    def test_raw_takes_the_prompt_as_it_is(self):
        raw = self.quern_json("run", MICRO, "hello", "--raw", *self.greedy)
        tokens = self.quern_json("tokenize", MICRO, "hello")
        self.assertEqual(raw["prompt_ids"], tokens["ids"])

    def test_text_is_streamed_and_one_line_on_standard_error_says_what_ran(self):
        result = self.quern("run", MICRO, "hello", *self.greedy)
        answer = self.quern_json("run", MICRO, "hello", *self.greedy)
        self.assertEqual(result.code, 0)
        # Bytes that are no UTF-8 are written as they are, and as U+FFFD in JSON.
        self.assertEqual(result.out.decode("utf-8", "replace").rstrip("\n"), answer["text"].rstrip("\n"))
        closing = result.err.strip().splitlines()[-1]
        for word in (answer["backend"], answer["device"], answer["kernels"], "tokens/s"):
            self.assertIn(word, closing)
        self.assertEqual(self.quern("run", MICRO, "hello", "-q", *self.greedy).err, "")

    def test_max_tokens_and_context_end_the_answer(self):
        length = self.quern_json("run", MICRO, "hello", "--max-tokens", "3", "--logit-bias", "2=-inf")
        self.assertEqual((length["finish"], len(length["ids"])), ("length", 3))
        context = self.quern_json("run", MICRO, "hello", "--context", "40", "--logit-bias", "2=-inf")
        self.assertEqual(context["finish"], "context")
        self.assertLessEqual(len(context["ids"]) + len(context["prompt_ids"]), 41)

    def test_an_answer_in_circles_is_ended_with_a_reason_unless_it_may_go_on(self):
        content = pathlib.Path(MICRO).read_bytes()
        held = b"llama.context_length" + struct.pack("<I", 4)
        self.assertEqual(content.count(held + struct.pack("<I", 256)), 1)
        longer = self.write("longer.gguf", content.replace(held + struct.pack("<I", 256), held + struct.pack("<I", 1024)))
        circle = ("run", longer, "hello", "--logit-bias", "68=1000", "--temperature", "0", "--max-tokens", "300")
        ended = self.quern(*circle, "--json", "-q")
        self.assertEqual(ended.code, 0)
        self.assertEqual(json.loads(ended.out)["finish"], "loop")
        self.assertEqual(json.loads(ended.out)["ids"], [68] * 257)  # the first, and 256 that repeat it
        self.assertIn("repeated itself", ended.err)
        self.assertIn("--no-loop-guard", ended.err)
        self.assertEqual(self.quern_json(*circle, "--no-loop-guard")["finish"], "length")
        shorter = self.quern_json(*circle[:-1], "256")
        self.assertEqual((shorter["finish"], len(shorter["ids"])), ("length", 256))

    def test_a_forced_end_token_ends_the_answer_and_is_in_the_ids(self):
        answer = self.quern_json("run", MICRO, "hello", "--logit-bias", "2=1000", "--temperature", "0")
        self.assertEqual((answer["finish"], answer["ids"], answer["text"]), ("end", [2], ""))

    def test_a_stop_string_ends_the_answer_and_is_not_in_the_text(self):
        whole = self.quern_json("run", MICRO, "hello", "--logit-bias", "68=1000", "--temperature", "0", "--max-tokens", "8")
        self.assertEqual(whole["ids"], [68] * 8)  # token 68 is the byte A
        self.assertEqual(whole["text"], "AAAAAAAA")
        cut = self.quern_json("run", MICRO, "hello", "--logit-bias", "68=1000", "--temperature", "0", "--stop", "AAA",
                              "--max-tokens", "8")
        self.assertEqual((cut["finish"], cut["text"], cut["ids"]), ("stop", "", [68] * 3))

    def test_the_same_seed_gives_the_same_answer_for_any_thread_count(self):
        def ids(*flags):
            answer = self.quern_json("run", MICRO, "hello", "--max-tokens", "24", "--temperature", "1", *flags)
            return answer["ids"]

        self.assertEqual(ids("--seed", "7"), ids("--seed", "7"))
        self.assertEqual(ids("--seed", "7", "--threads", "1"), ids("--seed", "7", "--threads", "2"))
        self.assertGreater(len({tuple(ids("--seed", str(seed))) for seed in range(4)}), 1)

    def test_a_trace_has_every_step_in_its_order(self):
        file = self.folder / "trace.json"
        answer = self.quern_json("run", MICRO, "hello", "--trace", file, *self.greedy)
        trace = json.loads(file.read_text())
        spans = [event for event in trace["traceEvents"] if event["ph"] == "X"]
        decode = [span for span in spans if span["name"] == "decode step"]
        self.assertEqual(len(decode), len(answer["ids"]) - 1)
        for span in decode:
            self.assertEqual((span["args"]["rows"], span["args"]["bytes_from_devices"]), (1, 8))
        runs = [span for span in spans if span["name"].startswith("run ")]
        self.assertEqual({run["args"]["host_allocations"] + run["args"]["device_allocations"] for run in runs}, {0})
        self.assertEqual({node["device"] for node in trace["nodes"]}, {"cpu:0"})
        self.assertIn("matmul", {node["op"] for node in trace["nodes"]})
        self.assertGreater(sum(kernel["nodes"] for kernel in trace["kernels"]), 0)

    def test_a_trace_that_cannot_be_written_is_refused_before_anything_is_computed(self):
        result = self.quern("run", MICRO, "hello", "--trace", self.folder / "nowhere" / "trace.json", *self.greedy)
        self.assertEqual((result.code, result.out), (4, b""))
        self.assertIn("the trace cannot be written", result.err)

    def test_explain_names_kernels_and_rows_and_what_fell_off(self):
        said = self.quern("run", MICRO, "hello", "--explain", *self.greedy, "-q")
        self.assertEqual(said.code, 0, said.err)
        self.assertEqual(said.out, self.quern("run", MICRO, "hello", *self.greedy, "-q").out)  # it goes to standard error
        self.assertRegex(said.err, r"cpu:0: \d+ nodes\n  any number of rows: \d+ kernels, [\d.]+ a layer; no node fell off")
        self.assertNotIn("stand alone", said.err)
        plan = self.quern_json("run", MICRO, "hello", "--explain", *self.greedy)["plan"]
        self.assertNotIn("plan", self.quern_json("run", MICRO, "hello", *self.greedy))
        (device,) = plan["devices"]
        self.assertEqual((device["device"], device["told"], device["alone_share"]), ("cpu:0", True, 0))
        (schedule,) = device["schedules"]
        self.assertEqual((schedule["rows"], schedule["least"], schedule["most"]), ("any", 0, 0))
        self.assertGreaterEqual(schedule["kernels"], 2 * schedule["kernels_a_layer"])  # of two layers, and what is around them
        self.assertTrue(all(group["complete"] for group in schedule["alone"]), schedule["alone"])

    def test_explain_says_in_a_sentence_that_much_of_a_step_stands_alone(self):
        """Exact numerics pack no weights, and rules of the CPU take packed ones."""
        said = self.quern("run", MICRO, "hello", "--explain", "--activations", "f32", *self.greedy, "-q")
        self.assertEqual(said.code, 0, said.err)
        self.assertRegex(said.err, r"x matmul.*: rule '\w+': its weights are not packed\n")
        share = float(re.search(r"cpu:0: nodes that stand alone read ([\d.]+) % of the bytes of a step", said.err).group(1))
        self.assertGreater(share, 10)
        (device,) = self.quern_json("run", MICRO, "hello", "--explain", "--activations", "f32", *self.greedy)["plan"]["devices"]
        groups = [group for schedule in device["schedules"] for group in schedule["alone"] if not group["complete"]]
        self.assertIn("its weights are not packed", {group["reason"] for group in groups})
        self.assertAlmostEqual(device["alone_share"], sum(group["share"] for group in groups), places=9)
        self.assertAlmostEqual(100 * device["alone_share"], share, delta=0.06)  # rounded to a tenth

    def test_bench_explains_too(self):
        bench = ("bench", MICRO, "-p", "4", "-n", "2", "-r", "1", "--explain")
        self.assertIn("no node fell off", self.quern(*bench, "-q").err)
        code, out = (result := self.quern(*bench, "--json")).code, result.out
        self.assertIn(code, (0, 70))  # a machine that others use measures badly
        self.assertTrue(json.loads(out)["plan"]["devices"][0]["told"])

    def test_logprobs_are_in_the_json(self):
        answer = self.quern_json("run", MICRO, "hello", "--logprobs", "3", *self.greedy)
        self.assertEqual(len(answer["logprobs"]), len(answer["ids"]))
        for token, one in zip(answer["ids"], answer["logprobs"]):
            self.assertEqual(one["id"], token)
            self.assertEqual(len(one["best"]), 3)
            self.assertEqual(one["best"][0]["id"], token)  # greedy
            self.assertAlmostEqual(one["best"][0]["logprob"], one["logprob"], places=5)
            self.assertLessEqual(one["logprob"], 0)

    def test_every_micro_model_answers(self):
        for name in ("llama-q4_0", "llama-q8_0", "qwen2-f16", "qwen3-q8_0", "split-00001-of-00002"):
            answer = self.quern_json("run", DATA / f"gguf/micro-{name}.gguf", "hello", *self.greedy)
            self.assertTrue(answer["ids"], name)

    def test_a_prompt_that_does_not_fit_is_6(self):
        self.assert_fails(6, "context", "run", MICRO, "hello " * 300)
        self.assert_fails(6, MICRO, "run", MICRO, "hello", "--context", "100000")

    def test_an_empty_prompt_is_2(self):
        self.assert_fails(2, "prompt is empty", "run", MICRO, stdin=b"")

    def test_a_model_without_template_is_4_and_names_raw(self):
        model = self.without_template()
        self.assert_fails(4, ["--raw", model], "run", model, "hello")
        self.quern_json("run", model, "hello", "--raw", *self.greedy)

    def test_messages_that_cannot_be_read_are_4_and_name_the_file(self):
        for content in ("", "{}", "[]", '[{"role": "user"}]', "[" * 1000):
            path = self.write("bad.json", content)
            self.assert_fails(4, path, "run", MICRO, "--messages", path)
        self.assert_fails(4, "no/such.json", "run", MICRO, "--messages", "no/such.json")


if __name__ == "__main__":
    main()
