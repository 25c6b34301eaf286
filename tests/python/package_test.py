"""The Python package: its wheel is built without network, installed into an empty folder, and used on a tiny model; and the layouts of
its structs are those that a C compiler gives quern.h.

Environment: QUERN_LIBRARY, QUERN_PLUGINS (folder of the CPU plugin), QUERN_TEST_SOURCE, QUERN_TEST_CC."""

import asyncio
import dataclasses
import importlib
import importlib.util
import inspect
import math
import os
import pathlib
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import zipfile

SOURCE = pathlib.Path(os.environ["QUERN_TEST_SOURCE"])
MICRO = SOURCE / "tests/data/gguf/micro-llama-f32.gguf"
CONTEXT = 32768  # of a model whose answers take long
FOLDER = pathlib.Path(tempfile.mkdtemp(prefix="quern-python-"))


def builder():
    """An interpreter that can build wheels without network."""
    for python in (sys.executable, "/usr/bin/python3"):
        if subprocess.run([python, "-c", "import setuptools, wheel, pip"], capture_output=True).returncode == 0:
            return python
    sys.exit("no Python here has pip, setuptools and wheel; install python3-pip python3-setuptools python3-wheel")


def build_wheel():
    shutil.copytree(SOURCE / "python", FOLDER / "source")  # setuptools leaves files beside what it builds
    subprocess.run([builder(), "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-index", "--no-deps",
                    "--no-build-isolation", "--wheel-dir", str(FOLDER), str(FOLDER / "source")], check=True)
    (wheel,) = FOLDER.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(FOLDER / "installed")
    return wheel


WHEEL = build_wheel()
sys.path.insert(0, str(FOLDER / "installed"))
quern = importlib.import_module("quern")
abi = importlib.import_module("quern._abi")


class Wheel(unittest.TestCase):
    def test_is_pure_and_typed(self):
        self.assertTrue(WHEEL.name.endswith("-py3-none-any.whl"), WHEEL.name)
        names = zipfile.ZipFile(WHEEL).namelist()
        self.assertIn("quern/py.typed", names)
        self.assertTrue(quern.__file__.startswith(str(FOLDER)))

    def test_every_way_to_ask_has_the_keywords_of_a_request(self):
        members = [field.name for field in dataclasses.fields(quern.Request)][1:]
        for name in ("generate", "agenerate", "stream", "astream"):
            keywords = [p.name for p in inspect.signature(getattr(quern.Session, name)).parameters.values() if p.kind is p.KEYWORD_ONLY]
            expected = members if name.endswith("generate") else [member for member in members if member != "on_piece"]
            self.assertEqual(sorted(keywords), sorted(expected), name)
            for keyword in keywords:
                default = inspect.signature(getattr(quern.Session, name)).parameters[keyword].default
                self.assertEqual(default, {field.name: field.default for field in dataclasses.fields(quern.Request)}[keyword], keyword)

    def test_no_public_function_hides_its_keywords(self):
        for name in quern.__all__:
            thing = getattr(quern, name)
            for function in [thing] if inspect.isfunction(thing) else [f for _, f in inspect.getmembers(thing, inspect.isfunction)]:
                if not function.__name__.startswith("_"):
                    kinds = [p.kind for p in inspect.signature(function).parameters.values()]
                    self.assertNotIn(inspect.Parameter.VAR_KEYWORD, kinds, f"{name}.{function.__name__}")

    def test_every_public_name_is_documented_and_annotated(self):
        for name in quern.__all__:
            thing = getattr(quern, name)
            self.assertTrue(inspect.getdoc(thing), name)
            for function in [thing] if inspect.isfunction(thing) else [f for _, f in inspect.getmembers(thing, inspect.isfunction)]:
                if function.__module__.startswith("quern") and not function.__name__.startswith("_"):
                    self.assertIn("return", function.__annotations__, f"{name}.{function.__name__}")


class Layouts(unittest.TestCase):
    def test_are_those_of_the_header(self):
        lines = []
        for name, struct in abi.STRUCTS.items():
            lines.append(f'  printf("{name} %zu\\n", sizeof({name}));')
            for member, *_ in struct._fields_:
                lines.append(f'  printf("{name}.{member} %zu %zu\\n", offsetof({name}, {member}), sizeof((({name} *)0)->{member}));')
        program = FOLDER / "layout.c"
        program.write_text("#include <stddef.h>\n#include <stdio.h>\n#include \"quern.h\"\nint main(void) {\n" + "\n".join(lines) + "\n  return 0;\n}\n")
        subprocess.run([os.environ["QUERN_TEST_CC"], "-std=c99", f"-I{SOURCE}/runtime/include", f"-I{SOURCE}/plugin-api/include",
                        "-o", str(FOLDER / "layout"), str(program)], check=True)
        theirs = subprocess.run([str(FOLDER / "layout")], capture_output=True, text=True, check=True).stdout
        ours = []
        for name, struct in abi.STRUCTS.items():
            ours.append(f"{name} {abi.ctypes.sizeof(struct)}")
            for member, *_ in struct._fields_:
                field = getattr(struct, member)
                ours.append(f"{name}.{member} {field.offset} {field.size}")
        self.assertEqual(theirs.splitlines(), ours)


class Training(unittest.TestCase):
    def test_trains_answers_and_stops_where_it_is_told(self):
        data = SOURCE / "tests/data/training"
        settings = {"base_model": str(data / "tiny-llama.gguf"), "adapter": "lora", "lora_r": 4, "learning_rate": 0.01, "max_steps": 5,
                    "datasets": [{"path": str(data / "train.jsonl")}], "test_datasets": [{"path": str(data / "val.jsonl")}],
                    "micro_batch_size": 4, "output_dir": str(FOLDER / "run")}
        with quern.Runtime(backend="cpu", backend_path=os.environ["QUERN_PLUGINS"], cache_dir=str(FOLDER / "cache"), threads=1,
                           ignore_environment=True) as runtime:
            with runtime.trainer(settings, overrides=["seed=7"]) as trainer:
                self.assertEqual(trainer.info()["train"]["examples"], 104)
                self.assertTrue(any(piece["counts"] for piece in trainer.example(0)["pieces"]))
                with self.assertRaises(quern.Error):
                    trainer.example(104)
                losses = []
                self.assertEqual(trainer.run(on_step=lambda step: losses.append(step.loss) or step.step < 2), "stopped")
                self.assertEqual(len(losses), 2)
                trainer.start_trace()
                before = trainer.evaluate().loss
                self.assertEqual({event["name"] for event in trainer.take_trace()["traceEvents"] if event["pid"] == 0 and event["ph"] == "X"},
                                 {"evaluation"})
                with self.assertRaises(quern.Error):
                    trainer.take_trace()
                self.assertEqual(trainer.run(on_step=lambda step: losses.append(step.loss)), "done")
                self.assertEqual(len(losses), 5)
                self.assertLess(trainer.evaluate().loss, before)
                with self.assertRaises(ZeroDivisionError):
                    runtime.trainer(settings).run(on_step=lambda step: 1 // 0)
                trainer.write_result()
                validation = trainer.evaluate().loss
            # One sum over the same labels, in another order of f32 sums.
            found = quern.evaluate_data(runtime, settings, adapter=FOLDER / "run")
            self.assertLess(abs(found["loss"] - validation), 1e-6 * validation)
            self.assertGreater(quern.evaluate_data(runtime, settings)["loss"], found["loss"])
            quern.merge(runtime, data / "tiny-llama.gguf", [FOLDER / "run", (FOLDER / "run", -0.5)], FOLDER / "merged.gguf", type="f32")
            quern.convert(runtime, FOLDER / "merged.gguf", FOLDER / "converted", type="bf16", shard_bytes=100000)
            self.assertTrue((FOLDER / "converted/model.safetensors.index.json").exists())
            quern.export_adapter(FOLDER / "run", data / "tiny-llama.gguf", FOLDER / "adapter.gguf", format="gguf")
            with runtime.load(FOLDER / "merged.gguf") as model, model.session() as session:
                self.assertTrue(session.generate("hello", max_tokens=2, raw=True).ids)
            measured = quern.imatrix(runtime, data / "tiny-llama.gguf", "hello " * 20, FOLDER / "text.imatrix", dataset="greeting")
            self.assertEqual((measured["chunks"], measured["datasets"]), (1, ["greeting"]))
            added = quern.imatrix(runtime, data / "tiny-llama.gguf", b"bye", FOLDER / "both.imatrix", inputs=[FOLDER / "text.imatrix"])
            self.assertEqual(added["chunks"], 2)
            written = quern.quantize(runtime, data / "tiny-llama.gguf", FOLDER / "small.gguf", "Q4_0", imatrix=FOLDER / "both.imatrix",
                                     tensor_types=["ffn_down=q8_0"], embedding_type="f16")
            self.assertEqual({t["to"] for t in written["tensors"] if "ffn_down" in t["name"]}, {"q8_0"})
            self.assertEqual(quern.show(FOLDER / "small.gguf")["metadata"]["general.file_type"], 2)
            chosen = quern.quantize(runtime, data / "tiny-llama.gguf", None, target_bits=5.5, dry_run=True)
            self.assertTrue(5 < chosen["bits_per_weight"] <= 5.5)
            with self.assertRaises(quern.Error):
                quern.quantize(runtime, data / "tiny-llama.gguf", FOLDER / "small.gguf", "Q4_0")
            with runtime.load(data / "tiny-llama.gguf", sequences=2, exact=True, adapters=[FOLDER / "run"]) as model, \
                    model.adapter(FOLDER / "run") as adapter, model.session(sequences=2) as session:
                self.assertGreater(adapter.info["matrices"], 0)
                plain = session.evaluate([1, 60, 61]).nll_sum
                session.use_adapter(adapter, sequence=1)
                self.assertNotEqual(session.evaluate([1, 60, 61], sequence=1).nll_sum, plain)
                self.assertEqual(session.evaluate([1, 60, 61]).nll_sum, plain)
                session.use_adapter(None, sequence=1)
                self.assertEqual(session.evaluate([1, 60, 61], sequence=1).nll_sum, plain)


class OnAModel(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.runtime = quern.Runtime(backend="cpu", backend_path=os.environ["QUERN_PLUGINS"], cache_dir=str(FOLDER / "cache"), threads=1,
                                    ignore_environment=True)
        cls.model = cls.runtime.load(MICRO, context=128, sequences=2, exact=True, embeddings=True)

    @classmethod
    def tearDownClass(cls):
        cls.model.close()
        cls.runtime.close()

    def setUp(self):
        self.session = self.model.session(sequences=2)
        self.addCleanup(self.session.close)

    def test_streams_what_it_generates(self):
        messages = [{"role": "user", "content": "hi"}]
        whole = self.session.generate(messages, max_tokens=12)
        self.assertEqual("".join(self.session.stream(messages, max_tokens=12)), whole.text)
        self.assertEqual((len(whole.ids), whole.finish), (12, "length"))

    def test_leaving_a_stream_ends_the_answer(self):
        for _ in self.session.stream([1, 40, 41], ignore_end=True):
            time.sleep(0.2)  # the answer goes ahead as far as it may
            break
        self.assertLess(self.session.length(), 3 + 64 + 8)  # the prompt, what may be ahead of the reader, what it took
        self.assertEqual(len(self.session.generate([1, 40], max_tokens=2, ignore_end=True).ids), 2)  # the session is free again

    def test_a_text_is_a_message_and_raw_is_the_text_itself(self):
        words = self.model.vocabulary
        chat = words.tokenize_chat([{"role": "user", "content": "hi"}])
        self.assertEqual(self.session.ids_of("hi"), chat)
        self.assertEqual(self.session.generate("hi", max_tokens=1).prompt_tokens, len(chat))
        self.assertEqual(self.session.ids_of("hi", raw=True), words.tokenize("hi"))
        self.assertEqual(self.session.generate("hi", max_tokens=1, raw=True).prompt_tokens, len(words.tokenize("hi")))
        with self.assertRaisesRegex(ValueError, "raw=True"):
            self.session.ids_of([{"role": "user", "content": "hi"}], raw=True)
        for strange in (["hi", "there"], [1, "two"], [1.5]):
            with self.assertRaisesRegex(TypeError, "a text, messages or ids"):
                self.session.generate(strange)
        content = MICRO.read_bytes()
        bare = FOLDER / "no-template.gguf"
        bare.write_bytes(content.replace(b"tokenizer.chat_template", b"tokenizer.chat_tomplate"))
        with self.runtime.load(bare) as model, model.session() as session, self.assertRaisesRegex(ValueError, "raw=True"):
            session.generate("hi", max_tokens=1)

    def test_asks_without_blocking_the_event_loop(self):
        async def both():
            messages = [{"role": "user", "content": "hi"}]
            pieces = [piece async for piece in self.session.astream(messages, max_tokens=12)]
            return "".join(pieces), (await self.session.agenerate(messages, max_tokens=12)).text

        streamed, whole = asyncio.run(both())
        self.assertEqual(streamed, whole)
        self.assertEqual(whole, self.session.generate("hi", max_tokens=12).text)

    def test_a_cancelled_task_ends_its_answer(self):
        async def leave():
            async for _ in self.long.astream([1, 40], ignore_end=True):
                break
            task = asyncio.ensure_future(self.long.agenerate([1, 40], ignore_end=True, on_piece=lambda piece: started.set() or True))
            begun = asyncio.ensure_future(asyncio.to_thread(started.wait))
            await asyncio.wait([task, begun], return_when=asyncio.FIRST_COMPLETED)
            started.set()
            task.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await task

        started = threading.Event()
        self.ask_long()
        asyncio.run(leave())
        self.assertLess(self.long.length(), CONTEXT)
        self.assertEqual(len(self.long.generate([1, 40], max_tokens=2, ignore_end=True).ids), 2)

    def test_a_loop_that_is_left_frees_the_session_at_once(self):
        async def leave():
            for _ in range(20):
                async for _ in self.session.astream([1, 40], ignore_end=True):
                    break
                answer = await self.session.agenerate([1, 40], max_tokens=1, ignore_end=True)
                self.assertEqual(len(answer.ids), 1)

        asyncio.run(leave())

    def ask_long(self):
        """self.long: a session whose answers take many seconds unless they are ended."""
        content = MICRO.read_bytes()
        held = b"llama.context_length" + struct.pack("<I", 4)
        longer = FOLDER / "longer.gguf"
        longer.write_bytes(content.replace(held + struct.pack("<I", 256), held + struct.pack("<I", CONTEXT)))
        model = self.runtime.load(longer, context=CONTEXT)
        self.addCleanup(model.close)
        self.long = model.session()
        self.addCleanup(self.long.close)

    def test_ctrl_c_ends_what_is_computed_and_leaves_the_session_free(self):
        self.ask_long()
        calls = {"generate": lambda: self.long.generate([1, 40], ignore_end=True),
                 "stream": lambda: list(self.long.stream([1, 40], ignore_end=True)),
                 "evaluate": lambda: self.long.evaluate([1] + [40] * (CONTEXT - 2))}
        for name, call in calls.items():
            with self.subTest(name):
                threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
                with self.assertRaises(KeyboardInterrupt):
                    call()
                self.assertLess(self.long.length(), CONTEXT - 2)
                self.assertEqual(len(self.long.generate([1, 40], max_tokens=2, ignore_end=True).ids), 2)

    def test_ctrl_c_ends_a_load(self):
        asked = []

        def progress(done, total):
            if not asked:
                asked.append(done)
                os.kill(os.getpid(), signal.SIGINT)
            return True

        with self.assertRaises(KeyboardInterrupt):
            self.runtime.load(MICRO, progress=progress)

    def test_an_answer_in_circles_is_ended_where_that_was_asked_for(self):
        self.ask_long()
        same = quern.Sampling(bias={40: 1000})
        guarded = self.long.generate([1, 41], sampling=same, max_tokens=300, loop_guard=True)
        self.assertEqual((guarded.finish, len(guarded.ids)), ("loop", 257))
        self.assertEqual(self.long.generate([1, 41], sampling=same, max_tokens=300).finish, "length")

    def test_embeddings_logits_and_tensors_come_as_numpy_arrays_where_numpy_is(self):
        if importlib.util.find_spec("numpy") is None:
            for call in (lambda: self.session.embed([1, 40], numpy=True), lambda: self.session.evaluate([1, 40], numpy=True),
                         lambda: self.runtime.tensor([2]).numpy()):
                with self.assertRaisesRegex(ImportError, "pip install numpy"):
                    call()
            return
        rows = self.session.embed([1, 40, 41], pooling="none", numpy=True)
        self.assertEqual((rows.shape, str(rows.dtype)), ((3, self.model.info["hidden"]), "float32"))
        self.assertEqual(rows.tolist(), self.session.embed([1, 40, 41], pooling="none"))
        logits = self.session.evaluate([1, 40, 41], numpy=True).logits
        self.assertEqual(logits.tolist(), self.session.evaluate([1, 40, 41], logits=True).logits)
        made = self.runtime.tensor([2, 2]).write([1, 2, 3, 4]).numpy()
        self.assertEqual(made.tolist(), [[1, 2], [3, 4]])

    def test_several_sequences_sampling_stops_and_logprobs(self):
        requests = [quern.Request([1, 40, 41], sequence=0, max_tokens=4, ignore_end=True, logprobs=3),
                    quern.Request([1, 40, 41], sequence=1, max_tokens=4, ignore_end=True,
                                  sampling=quern.Sampling(temperature=1, seed=5, bias={7: -math.inf}))]
        greedy, drawn = self.session.generate_many(requests)
        self.assertEqual([best[0][0] for best in greedy.top], greedy.ids)
        self.assertEqual(len(greedy.logprobs), 4)
        self.assertNotIn(7, drawn.ids)
        self.assertIsNone(drawn.top)
        again = self.session.generate_many([requests[0]])[0]
        self.assertEqual(again.ids, greedy.ids)
        self.assertGreater(again.reused_tokens, 0)

    def test_a_str_as_stop_is_one_text_and_not_its_letters(self):
        prompt = [1, 40, 41]
        whole = self.session.generate(prompt, max_tokens=12, ignore_end=True).text
        letters = "".join(sorted(set(whole), reverse=True)) * 2  # each letter of the answer, in an order that it does not have
        self.assertNotIn(letters, whole)
        for stop, finish in ((letters, "length"), (whole[2:5], "stop"), (whole[2:5].encode(), "stop"), ([letters, whole[2:5]], "stop")):
            self.assertEqual(self.session.generate(prompt, max_tokens=12, ignore_end=True, stop=stop).finish, finish, stop)
        with self.assertRaisesRegex(TypeError, "a str or bytes"):
            self.session.generate(prompt, max_tokens=1, stop=[7])
        with self.assertRaisesRegex(ValueError, "NUL"):
            self.session.generate(prompt, max_tokens=1, stop="a\0b")

    def test_paths_and_prompts_may_be_bytes(self):
        self.assertEqual(self.session.ids_of(b"hi"), self.session.ids_of("hi"))
        self.assertEqual(quern.show(bytes(MICRO))["architecture"], "llama")
        with quern.Vocabulary(bytes(MICRO)) as vocabulary:
            self.assertEqual(len(vocabulary), len(self.model.vocabulary))

    def test_an_exception_in_a_callback_comes_out_of_the_call(self):
        def on_piece(piece):
            raise KeyError("mine")

        with self.assertRaises(KeyError):
            self.session.generate([1, 40], on_piece=on_piece)

    def test_cancel_from_another_thread(self):
        started = threading.Event()
        threading.Thread(target=lambda: (started.wait(), self.session.cancel())).start()
        answer = self.session.generate([1, 40], ignore_end=True, on_piece=lambda piece: started.set() or True)
        self.assertIn(answer.finish, ("cancelled", "context"))  # the model is tiny: the context may be full before

    def test_saves_and_restores(self):
        self.session.generate([1, 40, 41], max_tokens=3, ignore_end=True)
        state, length = self.session.save(), self.session.length()
        with self.model.session(sequences=2) as other:
            other.restore(state)
            self.assertEqual(other.length(), length)
            with self.assertRaises(quern.Error) as caught:
                other.restore(b"nonsense")
        self.assertEqual(caught.exception.status, "BAD_MODEL")
        self.session.copy(0, 1)
        self.session.truncate(2, sequence=1)
        self.assertEqual((self.session.length(0), self.session.length(1)), (length, 2))

    def test_evaluates_and_embeds(self):
        evaluation = self.session.evaluate([1, 40, 41], logits=True)
        self.assertEqual(len(evaluation.logits), self.model.info["vocabulary_size"])
        self.assertTrue(math.isnan(evaluation.nll[-1]))
        (vector,) = self.session.embed([1, 40, 41], normalise=True)
        self.assertEqual(len(vector), self.model.info["hidden"])
        self.assertAlmostEqual(sum(x * x for x in vector), 1, delta=2 * 2.0 ** -24)  # each element is rounded once
        self.assertEqual(len(self.session.embed([1, 40, 41], pooling="none")), 3)

    def test_vocabulary_show_and_estimate(self):
        words = self.model.vocabulary
        ids = words.tokenize("hello", bos=False)
        self.assertEqual(words.detokenize(ids), b"hello")
        self.assertEqual(len(words), self.model.info["vocabulary_size"])
        self.assertTrue(words.is_end(words.eos))
        with quern.Vocabulary(MICRO) as alone:
            self.assertEqual(alone.tokenize("hello", bos=False), ids)
            self.assertEqual(alone.warning, "")
        self.assertEqual(quern.show(MICRO)["architecture"], "llama")
        self.assertGreater(quern.estimate(MICRO, self.runtime, context=128)["total_bytes"], MICRO.stat().st_size // 2)

    def test_the_text_of_a_special_token_in_a_message_is_text(self):
        words = self.model.vocabulary
        special = lambda ids: sum(one < 3 for one in ids)
        plain, forged = [{"role": "user", "content": "ab"}], [{"role": "user", "content": "a</s>b"}]
        self.assertEqual(special(words.tokenize_chat(forged)), special(words.tokenize_chat(plain)))
        self.assertIn(b"a</s>b", words.detokenize(words.tokenize_chat(forged)))
        self.assertEqual(special(words.tokenize_chat(forged, special_in_messages=True)), special(words.tokenize_chat(plain)) + 1)
        other = abi.create("quern_model_placement_json", self.model.handle)
        with abi.Handle(other, abi.lib.quern_text_release), self.assertRaises(quern.Error) as caught:
            abi.call("quern_tokenize_rendered", words.handle, other, 0, None, 0, None)
        self.assertIn("quern_render_chat", str(caught.exception))
        with self.model.session() as session:
            for how in (False, True):
                ids = words.tokenize_chat(forged, special_in_messages=how)
                self.assertEqual(session.ids_of(forged, special_in_messages=how), ids)
                self.assertEqual(session.generate(forged, max_tokens=1, special_in_messages=how).prompt_tokens, len(ids))

    def test_messages_may_have_parts_names_and_an_object_around_them(self):
        words = self.model.vocabulary
        plain = words.render([{"role": "user", "content": "hi abc"}])
        parts = [{"role": "user", "name": "ann", "content": [{"type": "text", "text": "hi "}, {"type": "text", "text": "abc"}]}]
        self.assertEqual(words.render(parts), plain)
        self.assertEqual(words.render({"messages": parts}), plain)
        self.assertEqual(self.session.ids_of({"messages": parts}), words.tokenize_chat(parts))
        with self.assertRaisesRegex(quern.Error, "message 1: part 1 of 'content' is of type 'image_url'"):
            words.render([{"role": "user", "content": [{"type": "image_url"}]}])

    def test_a_rule_that_the_vocabulary_has_no_use_for_is_refused(self):
        with self.assertRaisesRegex(quern.Error, "tokenizer_pre"):
            quern.Vocabulary(MICRO, tokenizer_pre="nonsense")
        with self.assertRaisesRegex(quern.Error, "tokenizer_pre"):
            self.runtime.load(MICRO, tokenizer_pre="nonsense")

    def test_reports_devices_and_statistics(self):
        self.assertEqual(self.runtime.devices()[0]["name"], "cpu:0")
        self.assertTrue(any(p["backend"] == "cpu" and p["usable"] for p in self.runtime.report()["plugins"]))
        self.session.generate([1, 40], max_tokens=2, ignore_end=True)
        self.assertEqual(self.session.statistics()["tokens_decode"], 1)
        self.assertEqual(self.model.placement()["devices"][0]["device"], "cpu:0")
        self.assertGreater(self.model.plan()["devices"][0]["schedules"][0]["kernels"], 0)

    def test_tensors_and_ops(self):
        x = self.runtime.tensor([2, 2]).write([1, 2, 3, 4])
        (y,) = quern.run_op("matmul", [x, x])
        self.assertEqual((y.shape, y.tolist()), ((2, 2), [5, 11, 11, 25]))
        half = x.copy_to(self.runtime.tensor([2, 2], "f16"))
        self.assertEqual(half.copy_to(self.runtime.tensor([2, 2])).tolist(), [1, 2, 3, 4])
        with self.assertRaises(quern.Error) as caught:
            quern.run_op("no_such_op", [x])
        self.assertEqual(caught.exception.status, "NOT_FOUND")

    def test_errors_have_a_code_and_the_librarys_sentence(self):
        with self.assertRaises(quern.Error) as caught:
            self.runtime.load("/no/such/model.gguf")
        self.assertEqual(caught.exception.status, "NOT_FOUND")
        self.assertIn("/no/such/model.gguf", str(caught.exception))
        with self.assertRaises(quern.Error) as caught:
            self.runtime.load(MICRO, progress=lambda done, total: False)
        self.assertEqual(caught.exception.status, "CANCELLED")
        with self.assertRaises(ZeroDivisionError):
            self.runtime.load(MICRO, progress=lambda done, total: 1 // 0)

    def test_a_closed_handle_is_refused_and_children_outlive_parents(self):
        runtime = quern.Runtime(backend="cpu", backend_path=os.environ["QUERN_PLUGINS"], cache_dir=str(FOLDER / "cache"))
        model = runtime.load(MICRO)
        session = model.session()
        runtime.close()
        with self.assertRaises(ValueError):
            runtime.devices()
        self.assertEqual(len(session.generate([1, 40], max_tokens=2, ignore_end=True).ids), 2)
        model.close()
        session.close()

    def test_the_hub_functions_reach_the_library(self):
        cache = str(FOLDER / "hub")
        self.assertEqual(quern.cached_models(hub_cache=cache, cache_dir=cache), [])
        for function in (quern.find_model, quern.remove_model):
            with self.assertRaises(quern.Error) as caught:
                function("owner/name", hub_cache=cache, cache_dir=cache)
            self.assertEqual(caught.exception.status, "NOT_FOUND")
        with self.assertRaises(quern.Error) as caught:
            quern.pull("owner/name", hub_cache=cache, cache_dir=cache, offline=True)
        self.assertEqual(caught.exception.status, "NOT_FOUND")


if __name__ == "__main__":
    try:
        unittest.main(verbosity=2)
    finally:
        shutil.rmtree(FOLDER, ignore_errors=True)
