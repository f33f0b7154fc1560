"""The embeddings endpoint, over real HTTP on loopback."""

from __future__ import annotations

import base64
import json
import struct
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np
import pytest

from tests.retrieval.conftest import Fill, run
from trajstore.errors import EndpointError, RetrievalError
from trajstore.retrieval import Embedder, embedder
from trajstore.retrieval.embedder_endpoint import EndpointEmbedder

Answer = Callable[[dict[str, Any]], tuple[int, Any]]


def vector(text: str) -> list[float]:
    return [3.0 * len(text), 4.0 * (text.count("e") + 1), 1.0]


def data(texts: list[str]) -> dict[str, Any]:
    return {"data": [{"index": i, "embedding": vector(t)} for i, t in enumerate(texts)]}


class Server:
    """An endpoint that answers as it is told, and remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.answers: list[Answer] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                outer.asked.append({"path": self.path, **body})
                outer.headers.append(dict(self.headers))
                answer = outer.answers.pop(0) if outer.answers else _good
                status, value = answer(body)
                sent = value if isinstance(value, bytes) else json.dumps(value).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(sent)))
                self.send_header("Retry-After", "0")
                if status == 302:
                    self.send_header("Location", "http://127.0.0.1:1/steal")
                self.end_headers()
                self.wfile.write(sent)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/v1"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def _good(body: dict[str, Any]) -> tuple[int, Any]:
    return 200, data(body["input"])


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    yield made
    made.close()


@pytest.fixture
def model(server: Server) -> Embedder:
    return EndpointEmbedder(
        base_url=server.url, model="m", api_key="sk-secret", batch=4, backoff_s=0.0, retries=2
    )


def test_vectors_come_in_order_and_of_length_one(server: Server, model: Embedder) -> None:
    server.answers = [_good, lambda b: (200, {"data": data(b["input"])["data"][::-1]})]
    found = model.embed(["eee", "a", "bb"])
    expected = np.array([vector(t) for t in ("eee", "a", "bb")])
    assert np.allclose(found, expected / np.linalg.norm(expected, axis=1, keepdims=True))


def test_it_asks_as_openai_does(server: Server, model: Embedder) -> None:
    model.embed(["a"])
    assert server.asked[-1] == {
        "path": "/v1/embeddings", "model": "m", "input": ["a"], "encoding_format": "float",
    }  # fmt: skip
    assert server.headers[-1]["Authorization"] == "Bearer sk-secret"


def test_texts_go_in_batches_and_equal_ones_once(server: Server, model: Embedder) -> None:
    assert model.embed([str(n % 6) for n in range(12)]).shape == (12, 3)
    assert [len(a["input"]) for a in server.asked] == [1, 4, 2]


def test_the_fingerprint_holds_the_dimension_and_no_key(model: Embedder) -> None:
    assert model.fingerprint.dimension == 3
    assert model.fingerprint.model == "openai:m"
    assert "sk-secret" not in repr(model) + repr(model.fingerprint)


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_passing_failure_is_tried_again(server: Server, model: Embedder, status: int) -> None:
    server.answers = [lambda _: (status, {"error": "busy"})] * 2
    assert model.fingerprint.dimension == 3
    assert len(server.asked) == 3


def test_in_the_end_it_gives_up_and_hides_the_key(server: Server, model: Embedder) -> None:
    server.answers = [lambda _: (500, {"error": "broken for sk-secret"})] * 9
    with pytest.raises(EndpointError, match=r"HTTP 500.*<api key>") as caught:
        model.embed(["a"])
    assert "sk-secret" not in str(caught.value)
    assert len(server.asked) == 3


@pytest.mark.parametrize("status", [401, 403, 404])
def test_a_refusal_is_not_tried_again(server: Server, model: Embedder, status: int) -> None:
    server.answers = [lambda _: (status, {"error": "no"})]
    with pytest.raises(EndpointError, match=f"HTTP {status}"):
        model.embed(["a"])
    assert len(server.asked) == 1


def test_a_batch_that_is_too_large_goes_in_halves(server: Server, model: Embedder) -> None:
    def small(body: dict[str, Any]) -> tuple[int, Any]:
        return _good(body) if len(body["input"]) <= 1 else (413, {"error": "too large"})

    server.answers = [small] * 20
    assert model.embed(["a", "bb", "ccc"]).shape == (3, 3)


def test_a_redirect_does_not_carry_the_key_away(server: Server, model: Embedder) -> None:
    server.answers = [lambda _: (302, {})] * 9
    with pytest.raises(EndpointError, match="HTTP 302"):
        model.embed(["a"])


def test_base64_is_read_too(server: Server, model: Embedder) -> None:
    packed = base64.b64encode(struct.pack("<3f", 0.0, 3.0, 4.0)).decode()
    server.answers = [lambda _: (200, {"data": [{"index": 0, "embedding": packed}]})] * 2
    assert np.allclose(model.embed(["a"]), [[0, 0.6, 0.8]])


BAD = {
    "not json": b"<html>",
    "no data": {"object": "list"},
    "too few": {"data": []},
    "twice": {"data": [{"index": 0, "embedding": [1.0]}, {"index": 0, "embedding": [1.0]}]},
    "null": {"data": [{"index": 0, "embedding": [None, 1.0]}]},
    "ragged": {"data": [{"index": 0, "embedding": [[1.0], [1.0, 2.0]]}]},
}


@pytest.mark.parametrize("name", BAD)
def test_an_answer_that_is_no_vectors_is_named(server: Server, model: Embedder, name: str) -> None:
    server.answers = [lambda _: (200, BAD[name])]
    with pytest.raises(EndpointError, match="embeddings, model m"):
        model.embed(["a"])


def test_nan_from_an_endpoint_is_refused_at_the_build(server: Server, fill: Fill) -> None:
    nan = b'{"data": [{"index": 0, "embedding": [NaN, 1.0, 2.0]}]}'
    server.answers = [_good, lambda _: (200, nan)]
    store = fill(run("a", "goal"), embedder=None)
    with pytest.raises(RetrievalError, match=r"openai:m.*not finite.*'a'"):
        store.index(embedder=f"openai:m@{server.url}", levels=["trajectory"])


def test_a_store_is_indexed_and_searched_over_http(server: Server, fill: Fill) -> None:
    store = fill(run("a", "eeee"), run("b", "xxxxxxxxxxxx"), embedder=f"openai:m@{server.url}")
    assert store.search("eeeee", mode="vector")[0].item_id == "a"
    asked = len(server.asked)
    store.search("eeeee", mode="vector")
    assert len(server.asked) == asked


@pytest.mark.parametrize("name", ["openai:m", "openai:m@ftp://x", "openai:@http://x/v1"])
def test_a_name_without_model_or_url_is_explained(name: str) -> None:
    with pytest.raises(EndpointError, match="named openai:MODEL@URL"):
        embedder(name)


def test_nobody_there_is_an_error() -> None:
    gone = EndpointEmbedder(base_url="http://127.0.0.1:9/v1", model="m", retries=0)
    with pytest.raises(EndpointError, match=r"127\.0\.0\.1:9"):
        gone.embed(["a"])
