#!/usr/bin/env python3
"""check_page.py FILE: fails unless a page or picture of Quern is well formed and asks for nothing outside itself."""

import base64
import hashlib
import html.parser
import pathlib
import re
import sys
import xml.etree.ElementTree as tree

EMPTY = {"meta", "input", "br"}


class Page(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.open, self.policy, self.scripts = [], "", 0

    def handle_startendtag(self, tag, attributes):
        self.look(tag, dict(attributes))

    def handle_starttag(self, tag, attributes):
        self.look(tag, dict(attributes))
        if tag not in EMPTY:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open and self.open.pop() == tag, f"</{tag}> at {self.getpos()} closes another element"

    def look(self, tag, attributes):
        assert not any(name.startswith("on") for name in attributes), (tag, attributes)
        for name in ("src", "href", "action", "data", "srcset", "xlink:href"):
            assert attributes.get(name, "#").startswith("#"), (tag, attributes)
        if attributes.get("http-equiv") == "Content-Security-Policy":
            self.policy = attributes["content"]

    def handle_data(self, data):
        if self.open and self.open[-1] == "script":
            self.scripts += 1
            digest = base64.b64encode(hashlib.sha256(data.encode()).digest()).decode()
            assert f"script-src 'sha256-{digest}'" in self.policy, f"the policy does not have sha256-{digest}: {self.policy}"


def check(path):
    text = pathlib.Path(path).read_text(encoding="utf-8")
    outside = re.findall(r"https?://[^\"'\s<]*|url\(|@import", text.replace('xmlns="http://www.w3.org/2000/svg"', ""))
    assert not outside, outside[:3]
    if text.startswith("<?xml"):
        tree.fromstring(text)
        return
    page = Page()
    page.feed(text)
    page.close()
    assert page.open == [], page.open
    assert page.policy.startswith("default-src 'none'; "), page.policy
    assert page.scripts == text.count("<script"), "a script is empty"
    for picture in re.findall(r"<svg.*?</svg>", text, re.S):
        tree.fromstring(picture)


if __name__ == "__main__":
    check(sys.argv[1])
