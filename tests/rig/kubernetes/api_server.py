"""A server with the part of Kubernetes' API that is read: pods in pages and as a watch, nodes, and objects of gangs."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.rig.kubernetes.objects import Object

SECRET = "secret-of-the-watcher"
PLURALS = {
    "jobset": "/apis/jobset.x-k8s.io/v1alpha2/namespaces/{}/jobsets/{}",
    "volcano": "/apis/batch.volcano.sh/v1alpha1/namespaces/{}/jobs/{}",
    "job": "/apis/batch/v1/namespaces/{}/jobs/{}",
}


@dataclass
class ApiServer:
    """What the server has, and how it fails when a test wants it to.

    Attributes:
        port: of loopback.
        page: the largest number of pods in an answer.
        refuse: the status of every answer; 0: none is refused.
        asked: the paths that were asked for.
    """

    port: int = 0
    page: int = 2
    refuse: int = 0
    asked: list[str] = field(default_factory=list)
    _objects: dict[str, Object] = field(default_factory=dict)
    _pods: dict[str, Object] = field(default_factory=dict)
    _changes: list[tuple[int, str, Object]] = field(default_factory=list)
    _version: int = 100
    _oldest: int = 100
    _generation: int = 0
    _changed: threading.Condition = field(default_factory=threading.Condition)

    def kubeconfig(self, folder: Path, secret: str = SECRET) -> Path:
        """Write a kubeconfig file for this server."""
        file = folder / "kubeconfig"
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{self.port}"}}],
            "users": [{"name": "u", "user": {"token": secret}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "x",
        }
        file.write_text(json.dumps(document))
        return file

    def put_node(self, document: Object) -> None:
        self._objects[f"/api/v1/nodes/{document['metadata']['name']}"] = document

    def put_owner(self, kind: str, document: Object) -> None:
        if kind in PLURALS:
            metadata = document["metadata"]
            self._objects[PLURALS[kind].format(metadata["namespace"], metadata["name"])] = document

    def put(self, *pods: Object) -> None:
        """Create pods, or change them."""
        for pod in pods:
            key = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
            with self._changed:
                self._record("MODIFIED" if key in self._pods else "ADDED", pod)
                self._pods[key] = self._changes[-1][2]

    def remove(self, *pods: Object) -> None:
        """Delete pods."""
        for pod in pods:
            with self._changed:
                self._record("DELETED", self._pods.pop(f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"))

    def drop(self, *, forget: bool = False) -> None:
        """End all watches as a broken connection does; ``forget``: and keep no changes from before."""
        with self._changed:
            self._generation += 1
            if forget:
                # Resource versions are compared by the server alone; what it has forgotten, it answers with 410.
                self._version += 1
                self._oldest, self._changes = self._version, []
            self._changed.notify_all()

    def _record(self, kind: str, pod: Object) -> None:
        self._version += 1
        versioned = {**pod, "metadata": {**pod["metadata"], "resourceVersion": str(self._version)}}
        self._changes.append((self._version, kind, versioned))
        self._changed.notify_all()

    def _answer(self, handler: _Handler) -> None:
        url = urlsplit(handler.path)
        query = {name: values[-1] for name, values in parse_qs(url.query).items()}
        # Before the test can see that a watch was asked for, and drop it.
        generation = self._generation
        self.asked.append(handler.path)
        if self.refuse:
            handler.status(self.refuse, "as the test wants it")
        elif handler.headers.get("Authorization") != f"Bearer {SECRET}":
            handler.status(401, "Unauthorized")
        elif url.path.endswith("/pods"):
            within = url.path.removeprefix("/api/v1/").removesuffix("pods").removeprefix("namespaces/").rstrip("/")
            assert query["labelSelector"]
            if query.get("watch") in ("true", "True", "1"):
                self._watch(handler, within, query, generation)
            else:
                self._list(handler, within, query)
        elif url.path in self._objects:
            handler.document(200, self._objects[url.path])
        else:
            handler.status(404, f"{url.path} not found")

    def _list(self, handler: _Handler, within: str, query: dict[str, str]) -> None:
        with self._changed:
            pods = [pod for _, pod in sorted(self._pods.items()) if _selected(pod, within, query)]
            first = int(query.get("continue", 0))
            last = first + min(self.page, int(query.get("limit", 500)))
            more = {"continue": str(last)} if last < len(pods) else {}
            metadata = {"resourceVersion": str(self._version), **more}
        handler.document(200, {"kind": "PodList", "metadata": metadata, "items": pods[first:last]})

    def _watch(self, handler: _Handler, within: str, query: dict[str, str], generation: int) -> None:
        version, seconds = int(query["resourceVersion"]), float(query["timeoutSeconds"])
        handler.send_response(200)
        handler.send_header("Content-Type", "application/json")
        handler.send_header("Transfer-Encoding", "chunked")
        handler.send_header("Connection", "close")
        handler.end_headers()
        if version < self._oldest:
            handler.line({"type": "ERROR", "object": {"kind": "Status", "code": 410, "message": "too old"}})
            handler.end()
            return
        while True:
            with self._changed:
                fresh = [change for change in self._changes if change[0] > version]
                if not fresh and self._generation == generation and not self._changed.wait(seconds):
                    handler.end()
                    return
                if self._generation != generation:
                    return
            if fresh:
                version = fresh[-1][0]
            for _, kind, pod in fresh:
                if _selected(pod, within, query):
                    handler.line({"type": kind, "object": pod})


def _selected(pod: Object, within: str, query: dict[str, str]) -> bool:
    return query["labelSelector"] in pod["metadata"]["labels"] and within in ("", pod["metadata"]["namespace"])


class _Handler(BaseHTTPRequestHandler):
    api: ApiServer
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.api._answer(self)

    def document(self, status: int, document: Any) -> None:
        body = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def status(self, code: int, message: str) -> None:
        self.document(code, {"kind": "Status", "code": code, "message": message})

    def line(self, document: Any) -> None:
        """Send one change, as one chunk."""
        body = json.dumps(document).encode() + b"\n"
        self.wfile.write(b"%x\r\n%b\r\n" % (len(body), body))
        self.wfile.flush()

    def end(self) -> None:
        """Send the chunk after the last one: a watch that returns without it breaks off."""
        self.wfile.write(b"0\r\n\r\n")

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def api_server() -> Iterator[ApiServer]:
    """Run a server on a free port of loopback."""
    api = ApiServer()
    handler = type("Handler", (_Handler,), {"api": api})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    api.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield api
    finally:
        api.drop()
        server.shutdown()
        server.server_close()
        thread.join()
