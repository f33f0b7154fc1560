from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from email.utils import formatdate
from typing import Any

import pytest

from tests.pipeline.chat_server import Reply, chat_server, in_turn, says, silence
from trajstore.errors import EndpointError
from trajstore.pipeline import ChatEndpoint
from trajstore.pipeline.chat_endpoint import ChatAnswer, HopelessEndpointError

HELLO = [{"role": "user", "content": "Grüße 👋 \ud83d"}]
BUSY = Reply(status=429, body=b"slow down")


def endpoint(url: str, **changes: Any) -> ChatEndpoint:
    usual: dict[str, Any] = {"model": "judge-1", "backoff_s": 0.01, "retries": 3, "timeout_s": 30.0}
    return ChatEndpoint(base_url=url, **(usual | changes))


def asked(*replies: Reply, **changes: Any) -> tuple[ChatAnswer, int]:
    with chat_server(in_turn(*replies)) as server:
        return endpoint(server.url, **changes).complete(HELLO), len(server.requests)


def failing(*replies: Reply, **changes: Any) -> tuple[EndpointError, int]:
    with chat_server(in_turn(*replies)) as server:
        with pytest.raises(EndpointError) as raised:
            endpoint(server.url, **changes).complete(HELLO)
        return raised.value, len(server.requests)


class Pauses(threading.Event):
    """Notes how long it is waited for, and does something once that has begun."""

    def __init__(self, but: Callable[[], object] = lambda: None) -> None:
        super().__init__()
        self.but = but
        self.found: list[float | None] = []

    def wait(self, timeout: float | None = None) -> bool:
        self.found.append(timeout)
        self.but()
        return super().wait(timeout)


def pauses(*replies: Reply, **changes: Any) -> list[float | None]:
    """Seconds that were waited for between requests."""
    stop = Pauses()
    with chat_server(in_turn(*replies)) as server:
        endpoint(server.url, **changes).complete(HELLO, stop=stop)
    return stop.found


def test_an_answer_comes_with_its_model_and_tokens() -> None:
    answer, _ = asked(says("hi"))
    assert answer == ChatAnswer(
        text="hi", model="judge-1-2026", prompt_tokens=100, completion_tokens=10, tries=1
    )


def test_the_request_is_a_chat_completion_with_the_key_as_bearer_token() -> None:
    with chat_server(in_turn(says("hi"))) as server:
        made = endpoint(server.url + "/", api_key="k-1", extra={"seed": 7}, temperature=None)
        made.complete([{"role": "user", "content": "Grüße"}])
        request = server.requests[0]
    assert request.path == "/v1/chat/completions"
    assert request.headers["Authorization"] == "Bearer k-1"
    assert request.body == {
        "model": "judge-1",
        "messages": [{"role": "user", "content": "Grüße"}],
        "max_tokens": 1024,
        "seed": 7,
    }


def test_half_a_surrogate_in_a_prompt_does_not_stop_it() -> None:
    assert asked(says("hi"))[0].text == "hi"


def test_text_in_parts_is_put_together() -> None:
    body = (
        b'{"choices": [{"message": {"content": [{"type": "text", "text": "a"}, {"text": "b"}]}}]}'
    )
    answer, _ = asked(Reply(body=body))
    assert (answer.text, answer.model, answer.prompt_tokens) == ("ab", "judge-1", 0)


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504, 529])
def test_what_may_pass_is_tried_again(status: int) -> None:
    answer, requests = asked(Reply(status=status), Reply(status=status), says("hi"))
    assert (answer.text, answer.tries, requests) == ("hi", 3, 3)


def test_a_broken_connection_is_tried_again() -> None:
    assert asked(Reply(hang_up=True), says("hi"))[0].tries == 2


def test_an_answer_that_is_no_json_is_tried_again() -> None:
    assert asked(Reply(body=b"<html>gateway</html>"), says("hi"))[0].tries == 2


@pytest.mark.parametrize(
    "body", [b"[]", b"{}", b'{"choices": []}', b'{"choices": [{"message": {}}]}']
)
def test_json_that_is_no_completion_is_shown(body: bytes) -> None:
    error, requests = failing(Reply(body=body), retries=1)
    assert f"no chat completion in the answer: {body.decode()}" in str(error)
    assert requests == 2


def test_500_for_ever_names_url_model_tries_and_reason() -> None:
    error, requests = failing(Reply(status=500, body=b"out of\n memory"), retries=2)
    assert requests == 3
    assert "/v1 (model judge-1) failed after 3 tries: HTTP 500" in str(error)
    assert str(error).endswith("out of memory")


def test_no_answer_in_time_is_tried_again_and_named() -> None:
    with silence() as answer, chat_server(answer) as server:
        with pytest.raises(EndpointError, match=r"failed after 2 tries: no answer within 0\.2 s"):
            endpoint(server.url, timeout_s=0.2, retries=1).complete(HELLO)
        assert server.saw(2)


def test_an_answer_that_drips_is_cut_off_at_the_time_limit() -> None:
    started = time.monotonic()
    error, _ = failing(says("x" * 500, drip_s=0.02), timeout_s=0.2, retries=0)
    assert "no answer within 0.2 s" in str(error)
    assert time.monotonic() - started < 500 * 0.02


def test_a_slow_answer_within_the_limit_is_fine() -> None:
    assert asked(says("hi", wait_s=0.3))[0].text == "hi"


def test_nobody_there_is_tried_again_and_named() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and does not listen
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/v1"
        with pytest.raises(EndpointError, match=r"failed after 2 tries: .*refused"):
            endpoint(url, retries=1).complete(HELLO)


@pytest.mark.parametrize("status", [401, 403, 404])
def test_a_refusal_of_everything_is_not_tried_again(status: int) -> None:
    error, requests = failing(Reply(status=status, body=b"no such model"))
    assert isinstance(error, HopelessEndpointError)
    assert "failed at once: HTTP" in str(error)
    assert requests == 1


def test_a_refusal_of_one_request_is_not_tried_again_either() -> None:
    error, requests = failing(Reply(status=400, body=b"context too long"))
    assert not isinstance(error, HopelessEndpointError)
    assert "HTTP 400" in str(error)
    assert requests == 1


def test_a_redirect_is_an_error_and_the_key_goes_nowhere_else() -> None:
    with chat_server(in_turn(says("stolen"))) as other:
        away = Reply(status=302, headers={"Location": f"{other.url}/chat/completions"})
        error, _ = failing(away, api_key="k-secret")
        assert other.requests == []
    assert "HTTP 302" in str(error)


def test_the_key_is_in_no_message_and_no_repr() -> None:
    error, _ = failing(Reply(status=401, body=b"bad key k-secret"), api_key="k-secret")
    assert "k-secret" not in str(error)
    assert "k-secret" not in repr(endpoint("http://localhost/v1", api_key="k-secret"))


@pytest.mark.parametrize(
    ("asks", "pause_s"),
    [("0.3", 0.3), ("600", 0.4), (formatdate(time.time() + 86_400, usegmt=True), 0.4)],
    ids=["seconds", "too-many", "date"],
)
def test_retry_after_is_waited_for_up_to_the_longest_pause(asks: str, pause_s: float) -> None:
    busy = Reply(status=429, headers={"Retry-After": asks})
    assert pauses(busy, says("hi"), longest_backoff_s=0.4) == [pause_s]


def test_a_retry_after_that_says_nothing_is_passed_over() -> None:
    busy = Reply(status=429, headers={"Retry-After": "soon"})
    assert asked(busy, says("hi"))[0].text == "hi"


def test_pauses_double() -> None:
    """0.1, 0.2 and 0.4 seconds, each up to a quarter less."""
    found = pauses(BUSY, BUSY, BUSY, says("hi"), backoff_s=0.1)
    assert len(found) == 3
    for pause_s, most in zip(found, (0.1, 0.2, 0.4), strict=True):
        assert 0.75 * most <= pause_s <= most


def test_a_pause_is_waited_for() -> None:
    started = time.monotonic()
    asked(BUSY, BUSY, says("hi"), backoff_s=0.1)
    assert time.monotonic() - started >= 0.75 * (0.1 + 0.2)


def test_a_stop_ends_the_waiting() -> None:
    stop = Pauses(but=lambda: threading.Timer(0.1, stop.set).start())
    with chat_server(in_turn(BUSY)) as server, pytest.raises(EndpointError, match="HTTP 429"):
        endpoint(server.url, backoff_s=600.0, longest_backoff_s=600.0).complete(HELLO, stop=stop)
    assert len(server.requests) == 1
    assert len(stop.found) == 1


def test_an_answer_that_was_cut_says_which_setting_to_raise() -> None:
    error, _ = failing(says('{"scores"', finish_reason="length"), max_tokens=5)
    assert "cut at max_tokens=5; allow more" in str(error)


def test_an_answer_without_end_is_cut_off() -> None:
    error, _ = failing(Reply(body=b"x" * (9 << 20)))
    assert "longer than 8,388,608 bytes" in str(error)


@pytest.mark.parametrize("url", ["localhost:8000", "ftp://x/v1", "file:///etc/passwd", "http://"])
def test_only_http_urls_are_endpoints(url: str) -> None:
    with pytest.raises(EndpointError, match="must be a URL such as"):
        endpoint(url)


def test_a_proxy_of_the_environment_does_not_stand_before_loopback(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    assert asked(says("hi"))[0].text == "hi"
