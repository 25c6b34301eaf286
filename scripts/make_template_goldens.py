#!/usr/bin/env python3
"""Renders the test templates with Jinja2, set up as transformers' apply_chat_template sets it up, and writes goldens.

    python3 scripts/make_template_goldens.py            rewrites families.json and snippets.json
    python3 scripts/make_template_goldens.py --check    fails if they would change

Needs jinja2 (3.1.6 wrote the committed files). Reads and writes tests/data/chat_template/: each *.jinja is rendered over
every chat below with several options; snippets.txt holds one snippet after another with '---' lines between them.
"""
import argparse
import datetime
import json
import pathlib
import sys

import jinja2
import jinja2.ext
import jinja2.nodes
import jinja2.sandbox
import jinja2.utils

DATA = pathlib.Path(__file__).resolve().parent.parent / "tests" / "data" / "chat_template"
NOW = datetime.datetime(2024, 3, 9, 7, 5, 3)

CHATS = {
    "hello": [("user", "Hello!")],
    "system": [("system", "You are terse."), ("user", "Hi")],
    "turns": [("user", "What is 2+2?"), ("assistant", "4"), ("user", "And 3+3?")],
    "system_turns": [("system", "Speak like a pirate."), ("user", "Hi"), ("assistant", "Arr!"), ("user", "Bye")],
    "ends_with_assistant": [("user", "Hi"), ("assistant", "Hello, how can I help?")],
    "long": [("system", "S")] + [(("user", "assistant")[i % 2], f"turn {i}") for i in range(11)],
    "unicode": [("system", "Ты помощник 🤖"), ("user", "¿Qué tal? 日本語 ﷽ é\u0301"), ("assistant", "Très bien 👍🏽"),
                ("user", "ß ﬁ İ Σ")],
    "empty_user": [("user", "")],
    "empty_system": [("system", ""), ("user", "x")],
    "empty_assistant": [("user", "a"), ("assistant", ""), ("user", "b")],
    "whitespace": [("system", "  padded  "), ("user", "\n\n  lead and trail \t\n"), ("assistant", " a\n"), ("user", "\u00a0b\u2003")],
    "multiline": [("user", "line 1\nline 2\r\nline 3\n\n\nline 6"), ("assistant", "```\ncode\n```\n"), ("user", "ok")],
    "markup": [("user", "<b>bold</b> & \"quotes\" 'single' \\ back {{ x }} {% if %} {# c #}"), ("assistant", "<|im_end|>"),
               ("user", "</s>")],
    "thinking": [("user", "q"), ("assistant", "<think>\nhmm\n</think>\n\nanswer"), ("user", "q2"),
                 ("assistant", "<think>\nmore\n</think>\n\nanswer 2")],
    "thinking_open": [("user", "q"), ("assistant", "<think>never closed"), ("user", "<tool_response>x</tool_response>")],
    "tool_role": [("user", "weather?"), ("assistant", "calling"), ("tool", "{\"t\": 21}"), ("tool", "22"),
                  ("assistant", "21 degrees")],
    "two_users": [("user", "a"), ("user", "b")],
    "assistant_first": [("assistant", "welcome"), ("user", "hi")],
    "system_later": [("user", "a"), ("system", "now be brief"), ("user", "b")],
    "two_systems": [("system", "one"), ("system", "two"), ("user", "b")],
    "only_system": [("system", "alone")],
    "unknown_role": [("user", "a"), ("narrator", "b")],
    "control": [("user", "nul\x00 bell\x07 esc\x1b del\x7f nel\x85 ls\u2028 zwj\u200d bom\ufeff")],
}
OPTIONS = [
    {"add_generation_prompt": True, "bos_token": "<s>", "eos_token": "</s>"},
    {"add_generation_prompt": False, "bos_token": "<|begin_of_text|>", "eos_token": "<|end|>"},
    {"add_generation_prompt": True, "bos_token": "", "eos_token": "", "enable_thinking": False, "date_string": "1 Jan 2030"},
]
SNIPPET_MESSAGES = [("system", "Be kind.\nAlways."), ("user", "<think>\nx</think>\n\nHi é"), ("assistant", "ok"), ("user", "bye")]
SNIPPET_OPTIONS = {"add_generation_prompt": True, "bos_token": "<s>", "eos_token": "</s>", "enable_thinking": True,
                   "answer": 41, "ratio": 0.5, "label": "tag"}


class GenerationTag(jinja2.ext.Extension):
    """{% generation %} ... {% endgeneration %}: as in transformers, a call block that returns its text."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_pass"), [], [], body).set_lineno(line)

    def _pass(self, caller):
        return caller()


class StrictNamespace(jinja2.utils.Namespace):
    """As in transformers: no name may begin with an underscore."""

    def __init__(*args, **kwargs):
        self, args = args[0], args[1:]
        attributes = dict(*args, **kwargs)
        for name in attributes:
            StrictNamespace._check(name)
        jinja2.utils.Namespace.__init__(self, attributes)

    def __setitem__(self, name, value):
        StrictNamespace._check(name)
        jinja2.utils.Namespace.__setitem__(self, name, value)

    @staticmethod
    def _check(name):
        if isinstance(name, str) and name.startswith("_"):
            raise jinja2.exceptions.SecurityError(f"namespace name {name!r}")


class Raised(jinja2.exceptions.TemplateError):
    pass


def environment():
    def raise_exception(message):
        raise Raised(message)

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    env = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[GenerationTag, jinja2.ext.loopcontrols])
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = lambda form: NOW.strftime(form)
    env.globals["namespace"] = StrictNamespace
    return env


def as_messages(pairs):
    return [{"role": role, "content": content} for role, content in pairs]


def render(template, messages, options):
    return template.render(messages=messages, tools=None, documents=None, **options)


def make_families():
    env = environment()
    templates = {}
    for path in sorted(DATA.glob("*.jinja")):
        template = env.from_string(path.read_text(encoding="utf-8"))
        cases = []
        for chat, pairs in CHATS.items():
            for options in OPTIONS:
                case = {"chat": chat, "options": options}
                try:
                    case["rendered"] = render(template, as_messages(pairs), options)
                except Raised as error:
                    case["raises"] = str(error)
                cases.append(case)
        templates[path.name] = cases
    return {"jinja2": jinja2.__version__, "chats": {name: as_messages(pairs) for name, pairs in CHATS.items()},
            "templates": templates}


def make_snippets():
    env = environment()
    messages = as_messages(SNIPPET_MESSAGES)
    text = (DATA / "snippets.txt").read_text(encoding="utf-8")
    snippets = []
    for source in text.removesuffix("\n").split("\n---\n"):
        snippet = {"source": source}
        try:
            snippet["rendered"] = render(env.from_string(source), messages, SNIPPET_OPTIONS)
        except Exception as error:  # whatever Jinja2 or Python raises: ours must refuse it too
            snippet["error"] = type(error).__name__
        snippets.append(snippet)
    return {"jinja2": jinja2.__version__, "messages": messages, "options": SNIPPET_OPTIONS, "snippets": snippets}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare instead of writing")
    check = parser.parse_args().check
    stale = []
    for name, content in (("families.json", make_families()), ("snippets.json", make_snippets())):
        path = DATA / name
        text = json.dumps(content, ensure_ascii=True, indent=1) + "\n"
        if not check:
            path.write_text(text, encoding="utf-8")
        elif not path.exists() or path.read_text(encoding="utf-8") != text:
            stale.append(name)
    if stale:
        sys.exit(f"not what Jinja2 {jinja2.__version__} renders: {', '.join(stale)}; run {sys.argv[0]} without --check")


if __name__ == "__main__":
    main()
