"""A hub on this machine: the routes of Hugging Face that clients use, and the faults that a network has.

Serves whole repositories from memory: the list of a revision, HEAD and GET of a file, with large files on a second host behind
a redirect, ranges, tags and commits. A test gives each route a queue of faults, which answer in its place once each.
"""

import hashlib
import http.server
import json
import re
import threading
import time
import urllib.parse


def git_hash(content):
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


class Repository:
    """The files of one commit; those in `large` are kept as the hub keeps large files, named by their SHA-256."""

    def __init__(self, files, revision="main"):
        self.files = dict(files)
        self.commit = hashlib.sha1(repr(sorted((k, hashlib.sha1(v).hexdigest()) for k, v in files.items())).encode()).hexdigest()
        self.revisions = {revision: self.commit, self.commit: self.commit}
        self.stated_sha256 = {}  # path -> a wrong sum

    def is_large(self, path):
        return path.endswith((".gguf", ".safetensors", ".bin"))

    def sha256(self, path):
        return self.stated_sha256.get(path, hashlib.sha256(self.files[path]).hexdigest())

    def etag(self, path):
        return self.sha256(path) if self.is_large(path) else git_hash(self.files[path])

    def sibling(self, path):
        entry = {"rfilename": path, "size": len(self.files[path]), "blobId": git_hash(self.files[path])}
        if self.is_large(path):
            entry["lfs"] = {"sha256": self.sha256(path), "size": len(self.files[path]), "pointerSize": 134}
        return entry


# Faults: each is called with the handler, and with what it would have sent where that is a file; it answers in its place.
def status(code, text="", **headers):
    def answer(handler, content=None):
        handler.reply(code, text.encode(), {k.replace("_", "-"): v for k, v in headers.items()})

    return answer


def cut_after(count):
    """Promises the whole file and closes the connection after `count` bytes of it."""

    def answer(handler, content):
        first, body = handler.ranged(content)
        handler.send_head(206 if first else 200, len(body), first, len(content))
        handler.wfile.write(body[:count])
        handler.wfile.flush()
        handler.close_connection = True
        handler.connection.shutdown(2)

    return answer


def corrupted(handler, content):
    first, body = handler.ranged(content)
    handler.send_head(206 if first else 200, len(body), first, len(content))
    handler.wfile.write(bytes([body[0] ^ 1]) + body[1:])


def without_ranges(handler, content):
    handler.send_head(200, len(content), 0, len(content))
    handler.wfile.write(content)


def stalled(seconds):
    def answer(handler, content):
        handler.send_head(200, len(content), 0, len(content))
        handler.wfile.write(content[:10])
        handler.wfile.flush()
        time.sleep(seconds)

    return answer


def longer(handler, content):
    """States no length and sends more than the file has."""
    handler.send_response(200)
    handler.send_header("Connection", "close")
    handler.end_headers()
    handler.wfile.write(content + b"more")
    handler.close_connection = True


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *arguments):
        pass

    def reply(self, code, body=b"", headers=None):
        self.send_response(code)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def ranged(self, content):
        match = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
        first = int(match[1]) if match else 0
        tag = self.headers.get("If-Range")
        if tag and tag != self.tag_of(content):
            first = 0
        return first, content[first:]

    @staticmethod
    def tag_of(content):
        return '"%s"' % hashlib.md5(content).hexdigest()

    def send_head(self, code, length, first, total, headers=None):
        self.send_response(code)
        self.send_header("Content-Length", str(length))
        self.send_header("Accept-Ranges", "bytes")
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        if code == 206:
            self.send_header("Content-Range", f"bytes {first}-{total - 1}/{total}")
        self.end_headers()

    def send_file(self, content, headers=None):
        first, body = self.ranged(content)
        if first > len(content):
            self.reply(416, b"", {"Content-Range": f"bytes */{len(content)}"})
            return
        head = {"ETag": self.tag_of(content), **(headers or {})}
        self.send_head(206 if first else 200, len(body), first, len(content), head)
        if self.command != "HEAD":
            self.wfile.write(body)

    def do_HEAD(self):
        self.do_GET()

    def do_GET(self):
        hub = self.server.hub
        path = urllib.parse.unquote(urllib.parse.urlsplit(self.path).path)
        hub.requests.append((self.command, self.server.role, path, dict(self.headers)))
        try:
            if self.server.role == "store":
                self.from_store(hub, path)
            else:
                self.from_hub(hub, path)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def fault(self, hub, path, content=None):
        queue = hub.faults.get(path)
        if not queue or self.command == "HEAD":
            return False
        answer = queue[0] if len(queue) == 1 and hub.sticky else queue.pop(0)
        answer(self, content) if content is not None else answer(self)
        return True

    def from_hub(self, hub, path):
        if path in hub.plain:
            if not self.fault(hub, path, hub.plain[path]):
                self.send_file(hub.plain[path])
            return
        if path in hub.redirects:
            self.reply(302, b"", {"Location": hub.redirects[path]})
            return
        if self.fault(hub, path):
            return
        api = re.fullmatch(r"/api/models/([^/]+/[^/]+)(?:/revision/(.+))?", path)
        file = re.fullmatch(r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", path)
        match = api or file
        repository = hub.repositories.get(match[1]) if match else None
        if repository is None or (hub.private and self.headers.get("Authorization") != "Bearer secret"):
            self.reply(401, b"{}", {"X-Error-Code": "RepoNotFound", "X-Error-Message": "Repository not found"})
            return
        commit = repository.revisions.get(match[2] or "main")
        if commit is None:
            self.reply(404, b"{}", {"X-Error-Code": "RevisionNotFound", "X-Error-Message": f"Invalid rev id: {match[2]}"})
        elif api:
            siblings = [repository.sibling(name) for name in sorted(repository.files)] + hub.extra_siblings
            body = {"id": match[1], "sha": commit, "siblings": siblings, "private": hub.private}
            self.reply(200, json.dumps(body).encode(), {"Content-Type": "application/json"})
        elif file[3] not in repository.files:
            self.reply(404, b"", {"X-Error-Code": "EntryNotFound", "X-Error-Message": "Entry not found"})
        else:
            self.resolve(hub, repository, match[1], file[3])

    def resolve(self, hub, repository, name, path):
        headers = {"X-Repo-Commit": repository.commit, "X-Linked-Size": str(len(repository.files[path]))}
        headers["X-Linked-ETag" if repository.is_large(path) else "ETag"] = f'"{repository.etag(path)}"'
        if not repository.is_large(path):
            self.send_file(repository.files[path], headers)
            return
        stored = urllib.parse.quote(f"/store/{name}/{path}")
        self.reply(302, b"", {**headers, "Location": hub.store_url + stored})

    def from_store(self, hub, path):
        owner, name, file = path[len("/store/"):].split("/", 2)
        content = hub.repositories[f"{owner}/{name}"].files[file]
        if not self.fault(hub, path, content):
            self.send_file(content)


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request, client_address):
        """A client that leaves is what some tests are about."""


class Hub:
    """A server for the hub and one, at another origin, for its large files. Used as a context."""

    def __init__(self, repositories=None, plain=None):
        self.repositories = dict(repositories or {})
        self.plain = dict(plain or {})  # path -> content of other URLs
        self.redirects = {}
        self.faults = {}  # path -> answers in the place of the real one, once each
        self.sticky = False  # the last fault of a queue stays
        self.private = False
        self.extra_siblings = []
        self.requests = []
        self.servers = []
        for role in ("hub", "store"):
            server = Server(("127.0.0.1", 0), Handler)
            server.hub, server.role = self, role
            self.servers.append(server)
        self.url = f"http://127.0.0.1:{self.servers[0].server_port}"
        self.store_url = f"http://localhost:{self.servers[1].server_port}"

    def __enter__(self):
        for server in self.servers:
            threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_):
        for server in self.servers:
            server.shutdown()
            server.server_close()

    def requested(self, role, command="GET"):
        return [(path, headers) for method, where, path, headers in self.requests if where == role and method == command]
