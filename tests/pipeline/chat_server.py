"""A real HTTP server that behaves like an OpenAI-compatible endpoint, well or badly."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answer = Callable[["Request"], "Reply"]


@dataclass(frozen=True, kw_only=True)
class Request:
    """What a client sent."""

    number: int
    """0 for the first request."""
    path: str
    headers: dict[str, str]
    body: dict[str, Any]

    @property
    def prompt(self) -> str:
        """The last message."""
        return str(self.body["messages"][-1]["content"])


@dataclass(frozen=True, kw_only=True)
class Reply:
    """What the server answers."""

    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    wait_s: float = 0.0
    """Before the first byte."""
    drip_s: float = 0.0
    """Between two bytes of the body."""
    hang_up: bool = False
    """Close the connection without an answer."""


def says(text: str, **changes: Any) -> Reply:
    """A chat completion with that text."""
    usage = {"prompt_tokens": 100, "completion_tokens": 10}
    choice = {"index": 0, "message": {"role": "assistant", "content": text}}
    choice["finish_reason"] = changes.pop("finish_reason", "stop")
    value = {"model": "judge-1-2026", "choices": [choice], "usage": usage}
    return Reply(body=json.dumps(value).encode(), **changes)


def scores(value: float = 7.0, *names: str, why: str = "fine") -> str:
    """A verdict with one score for every criterion."""
    named = names or ("completion", "accuracy", "structure", "citation")
    return json.dumps({"scores": dict.fromkeys(named, value), "why": why})


class ChatServer:
    """The server, and what it saw."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.requests: list[Request] = []
        self.most_at_once = 0
        self._at_once = 0
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def start(self) -> None:
        self._thread.start()

    def saw(self, requests: int) -> bool:
        """Whether exactly so many arrive; a client that went away may have sent one just now."""
        ends = time.monotonic() + 30
        while len(self.requests) < requests and time.monotonic() < ends:
            time.sleep(0.01)
        return len(self.requests) == requests

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                server.serve(self, json.loads(body))

            def do_GET(self) -> None:
                server.serve(self, {})

            def log_message(self, *args: Any) -> None:
                """Say nothing."""

        return Handler

    def serve(self, handler: BaseHTTPRequestHandler, body: dict[str, Any]) -> None:
        with self._lock:
            request = Request(
                number=len(self.requests),
                path=handler.path,
                headers=dict(handler.headers.items()),
                body=body,
            )
            self.requests.append(request)
            self._at_once += 1
            self.most_at_once = max(self.most_at_once, self._at_once)
        try:
            reply = self.answer(request)
            time.sleep(reply.wait_s)
        finally:
            with self._lock:
                self._at_once -= 1
        try:
            _send(handler, reply)
        except ConnectionError:
            handler.close_connection = True


def _send(handler: BaseHTTPRequestHandler, reply: Reply) -> None:
    if reply.hang_up:
        handler.close_connection = True
        handler.connection.close()
        return
    handler.send_response(reply.status)
    for name, value in reply.headers.items():
        handler.send_header(name, value)
    handler.send_header("Content-Length", str(len(reply.body)))
    handler.end_headers()
    if not reply.drip_s:
        handler.wfile.write(reply.body)
        return
    for byte in reply.body:
        handler.wfile.write(bytes([byte]))
        handler.wfile.flush()
        time.sleep(reply.drip_s)


@contextmanager
def chat_server(answer: Answer) -> Iterator[ChatServer]:
    """A server that answers every request with what ``answer`` makes of it."""
    server = ChatServer(answer)
    server.start()
    try:
        yield server
    finally:
        server.stop()


@contextmanager
def silence() -> Iterator[Answer]:
    """What never answers, however slow the machine is; the threads that wait end with the block."""
    over = threading.Event()

    def answer(_: Request) -> Reply:
        over.wait(600)
        return Reply(hang_up=True)

    try:
        yield answer
    finally:
        over.set()


def in_turn(*replies: Reply) -> Answer:
    """Answer the first request with the first reply, and so on; the last one for all others."""
    return lambda request: replies[min(request.number, len(replies) - 1)]
