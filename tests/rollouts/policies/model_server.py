"""What a model server answers, for policies that ask one."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tests.pipeline.chat_server import Answer, Reply, Request

USAGE = {
    "prompt_tokens": 100,
    "completion_tokens": 10,
    "prompt_tokens_details": {"cached_tokens": 40},
}


def tool_call(name: str, arguments: str, call_id: str | None = "c1") -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def completion(message: dict[str, Any], **changes: Any) -> Reply:
    """A chat completion; fields of the choice and of the whole may be given."""
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": "stop"}
    choice |= changes.pop("choice", {})
    value = {"model": "m-1-2026", "choices": [choice], "usage": USAGE, **changes}
    return Reply(body=json.dumps(value).encode())


def models(*names: str) -> Reply:
    return Reply(body=json.dumps({"data": [{"id": name} for name in names]}).encode())


def by_path(replies: Mapping[str, Reply | Answer], otherwise: Reply | None = None) -> Answer:
    """Answer by the path of a request, without its query."""

    def answer(request: Request) -> Reply:
        reply = replies.get(request.path.partition("?")[0], otherwise or Reply(status=404))
        return reply if isinstance(reply, Reply) else reply(request)

    return answer
