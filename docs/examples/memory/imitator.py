"""The same agent with and without memory, on the calculator that ships with trajstore.

The model behind the endpoint is a script: it knows no arithmetic problem by itself. It reads the
prompt, looks for a record whose goal has the same words as its task, and copies the expression that
worked there with the numbers of its own task put in. Without such a record it guesses.
"""

from __future__ import annotations

import json
import re
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import trajstore
from trajstore import ToolCall
from trajstore.memory import record_uses
from trajstore.pipeline import ChatEndpoint
from trajstore.retrieval import FewShot
from trajstore.rollouts import (
    Action,
    CalculatorEnvironment,
    Message,
    Response,
    ScriptedPolicy,
    Task,
    Tool,
    calculator_tasks,
    run_rollouts,
)

NUMBER = re.compile(r"\d+")
NAMES = re.compile(r"\b(?:Amina|Boris|Chen|Dora|Emil|Farid|Greta|Hugo|Ines|Jonas)\b")
RECORD = re.compile(r"^goal: (.*)$(?:(?!^END ).*\n)*?^agent calls calculate: (.*)$", re.MULTILINE)

NUMBERS = """
    SELECT t.trajectory_id IN (SELECT trajectory_id FROM uses) AS with_memory,
        count(*) AS runs, count(*) FILTER (success) AS successes,
        round(100 * avg(success::INT), 1) AS percent
    FROM trajectories t WHERE agent = 'imitator' GROUP BY 1 ORDER BY 1"""


def reply(messages: Sequence[Message]) -> dict[str, Any]:
    """What the model answers: one tool call."""
    results = [str(m["content"]) for m in messages if m["role"] == "tool"]
    if results:
        return {"tool": "finish", "arguments": {"answer": results[-1]}}
    prompt = str(messages[-1]["content"])
    records, _, task = prompt.rpartition("Your task:\n")
    for goal, arguments in RECORD.findall(records):
        if _words(goal) == _words(task):
            new = dict(zip(NUMBER.findall(goal), NUMBER.findall(task), strict=True))
            expression = json.loads(arguments)["expression"]
            copied = NUMBER.sub(lambda m: new.get(m[0], m[0]), expression)  # noqa: B023
            return {"tool": "calculate", "arguments": {"expression": copied}}
    return {"tool": "finish", "arguments": {"answer": NUMBER.findall(task)[0]}}


def _words(goal: str) -> str:
    return NAMES.sub("someone", NUMBER.sub("0", goal)).strip()


class Endpoint(BaseHTTPRequestHandler):
    """The model behind an OpenAI-compatible endpoint."""

    def do_POST(self) -> None:
        """Answer one request."""
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        message = {"role": "assistant", "content": json.dumps(reply(asked["messages"]))}
        body = json.dumps({"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]})
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@contextmanager
def served() -> Iterator[str]:
    """The URL of the model while it is served."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Endpoint)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/v1"
    finally:
        server.shutdown()
        server.server_close()


class Agent:
    """Asks the model at each turn; the first message holds what the memory has for the task."""

    agent = "imitator"
    model = "imitator"

    def __init__(self, url: str, memory: dict[str, FewShot]) -> None:
        """Take the endpoint, and a prompt for each goal: none for an agent without memory."""
        self.endpoint = ChatEndpoint(base_url=url, model=self.model)
        self.memory = memory
        self.version = "with memory" if memory else "without"

    def act(self, messages: Sequence[Message], tools: Sequence[Tool], *, seed: int) -> Response:
        """One tool call."""
        del tools, seed
        goal = next(str(m["content"]) for m in messages if m["role"] == "user")
        first = (
            self.memory[goal].messages()[-1]["content"] if self.memory else f"Your task:\n{goal}"
        )
        shown = [
            {"role": m["role"], "content": first if m["role"] == "user" else str(m["content"])}
            for m in messages
        ]
        asked = json.loads(self.endpoint.complete(shown).text)
        call = ToolCall.of(asked["tool"], asked["arguments"], f"c{len(messages)}")
        return Response(action=Action(tool_calls=(call,)))


def experience(store: trajstore.Pool, tasks: Sequence[Task]) -> None:
    """Fill a store with runs of an agent that makes mistakes, and index it."""
    hasty = ScriptedPolicy("hasty")
    store.append(list(run_rollouts(CalculatorEnvironment, hasty, tasks)))
    store.index(embedder="hashing")


def compare(store: trajstore.Pool, tasks: Sequence[Task]) -> None:
    """Attempt tasks without and with memory; both runs and what they were given go to the store."""
    prompts = {
        t.goal: store.few_shot(t.goal, k=3, budget=2000, success_only=True, task_id=t.task_id)
        for t in tasks
    }
    with served() as url:
        for agent in (Agent(url, {}), Agent(url, prompts)):
            done = list(run_rollouts(CalculatorEnvironment, agent, tasks))
            store.append(done)
            for run in done if agent.memory else ():
                for level, items in prompts[str(run.goal)].by_level().items():
                    record_uses(store, run.trajectory_id, items, level)


def main() -> None:
    """Run the comparison in a new store and print its numbers from SQL."""
    store = trajstore.open(sys.argv[1])
    known = calculator_tasks(120, seed=1, kind="arithmetic")
    seen = {t.task_id for t in known}
    held_out = [t for t in calculator_tasks(60, seed=2, kind="arithmetic") if t.task_id not in seen]
    experience(store, known)
    compare(store, held_out)
    print(store.sql(NUMBERS))


if __name__ == "__main__":
    main()
