"""The worker that feeds the engine; a real engine is in ``test_vllm_real``."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from tests.rollouts.policies.words import Words
from trajstore.errors import EndpointError
from trajstore.rollouts import Sampling, VllmEnginePolicy

ASKED = [{"role": "user", "content": "6 times 7"}]


class Engine:
    """Takes three steps for a request; notes which requests were in it at one time."""

    def __init__(self) -> None:
        self.requests: dict[str, dict[str, Any]] = {}
        self.most_at_once = 0
        self.rpc: list[Any] = []
        self.fails = False
        self.hold = threading.Event()
        self.hold.set()
        self.threads: set[int] = set()
        self.llm_engine = self

    def add_request(self, number: str, prompt: Any, parameters: Any, lora_request: Any) -> None:
        if len(prompt["prompt_token_ids"]) > 5:
            raise ValueError("the prompt is too long")
        self.requests[number] = {
            "ids": prompt["prompt_token_ids"],
            "parameters": parameters,
            "lora": lora_request,
            "left": 3,
        }

    def step(self) -> list[Any]:
        self.hold.wait(60)
        self.threads.add(threading.get_ident())
        if self.fails:
            raise RuntimeError("the engine is dead")
        self.most_at_once = max(self.most_at_once, len(self.requests))
        for request in self.requests.values():
            request["left"] -= 1
        ended = [n for n, r in self.requests.items() if not r["left"]]
        return [self.output(n, self.requests.pop(n)) for n in ended]

    def output(self, number: str, request: dict[str, Any]) -> Any:
        drawn = [1, 2, 0]
        logprobs = [{t: SimpleNamespace(logprob=-0.5 * (t + 1)), 99: None} for t in drawn]
        choice = SimpleNamespace(token_ids=drawn, logprobs=logprobs, finish_reason="stop")
        return SimpleNamespace(
            request_id=number,
            finished=True,
            outputs=[choice],
            prompt_token_ids=request["ids"],
            num_cached_tokens=1,
            lora=request["lora"],
        )

    def collective_rpc(self, method: str, kwargs: Any) -> None:
        self.rpc.append((method, kwargs, len(self.requests)))

    def reset_prefix_cache(self) -> None:
        self.rpc.append("reset")


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Engine:
    vllm, lora, request = (
        ModuleType("vllm"),
        ModuleType("vllm.lora"),
        ModuleType("vllm.lora.request"),
    )
    vars(vllm)["SamplingParams"] = lambda **given: given
    vars(request)["LoRARequest"] = lambda name, number, path: (name, number, path)
    for module in (vllm, lora, request):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    return Engine()


def policy(engine: Engine, **changes: Any) -> VllmEnginePolicy:
    dialect = Words()
    dialect.tokens("6 times 7")
    return VllmEnginePolicy(engine, dialect, version="v0", **changes)  # type: ignore[arg-type]


def in_threads(count: int, job: Callable[[int], Any]) -> list[Any]:
    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(job, range(count)))


def test_tokens_go_in_and_come_out_with_the_logprob_of_what_was_drawn(engine: Engine) -> None:
    response = policy(engine).act(ASKED, (), seed=3)
    assert response.prompt_token_ids == (1, 2, 3)
    assert response.completion_token_ids == (1, 2, 0)
    assert response.logprobs == (-1.0, -1.5, -0.5)
    assert response.action.text == "6 times"
    assert response.metadata == {"finish_reason": "stop", "policy_version": "v0"}
    assert (response.usage.completion_tokens, response.usage.cached_tokens) == (3, 1)


def test_requests_of_many_threads_are_in_the_engine_together(engine: Engine) -> None:
    """The first step is held back until all have asked; the second one has all of them."""
    asked = policy(engine)
    engine.hold.clear()
    with ThreadPoolExecutor(20) as pool:
        asking = [pool.submit(asked.act, ASKED, (), seed=n) for n in range(20)]
        while len(engine.requests) + asked._waiting.qsize() < 20:
            time.sleep(0.01)
        engine.hold.set()
        assert {a.result().completion_token_ids for a in asking} == {(1, 2, 0)}
    assert engine.most_at_once == 20
    assert len(engine.threads) == 1


def test_a_request_that_is_refused_hurts_no_other(engine: Engine) -> None:
    asked = policy(engine)
    long = [{"role": "user", "content": "a b c d e f g"}]
    with pytest.raises(ValueError, match="the prompt is too long"):
        asked.act(long, (), seed=0)
    assert asked.act(ASKED, (), seed=0).action.text == "6 times"


def test_an_engine_that_fails_is_an_error_in_each_thread_that_waits(engine: Engine) -> None:
    engine.fails = True
    asked = policy(engine)

    def failed(number: int) -> str:
        with pytest.raises(RuntimeError, match="the engine is dead") as raised:
            asked.act(ASKED, (), seed=number)
        return str(raised.value)

    assert len(in_threads(5, failed)) == 5


def test_sampling_is_what_was_asked_for(engine: Engine) -> None:
    asked = policy(engine, sampling=Sampling(temperature=0.7, max_tokens=9))
    seen: list[Any] = []
    taken = engine.add_request

    def watched(number: str, prompt: Any, parameters: Any, lora_request: Any) -> None:
        seen.append(parameters)
        taken(number, prompt, parameters, lora_request)

    engine.add_request = watched  # type: ignore[method-assign]
    told = asked.act(ASKED, (), seed=3).sampling
    assert told is not None
    (given,) = seen
    assert given.pop("seed") == told["seed"]
    assert given == {
        "temperature": 0.7,
        "max_tokens": 9,
        "top_p": 1.0,
        "top_k": 0,
        "logprobs": 0,
        "stop_token_ids": [0],
    }


def test_an_adapter_samples_from_the_next_request_on(engine: Engine, tmp_path: Path) -> None:
    (tmp_path / "adapter_config.json").write_text("{}")
    asked = policy(engine)
    asked.update(tmp_path, "v1")
    assert asked.act(ASKED, (), seed=0).metadata["policy_version"] == asked.version == "v1"


def test_full_weights_are_put_in_once_the_engine_is_idle(engine: Engine, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    asked = policy(engine)
    engine.hold.clear()
    with ThreadPoolExecutor(2) as pool:
        early = pool.submit(asked.act, ASKED, (), seed=0)
        while not engine.requests:
            time.sleep(0.01)
        change = pool.submit(asked.update, tmp_path, "v1")
        engine.hold.set()
        assert early.result().metadata["policy_version"] == "v0"
        change.result()
    assert engine.rpc == [("reload_weights", {"weights_path": str(tmp_path)}, 0), "reset"]
    assert asked.act(ASKED, (), seed=0).metadata["policy_version"] == "v1"


def test_a_folder_without_weights_changes_nothing(engine: Engine, tmp_path: Path) -> None:
    asked = policy(engine)
    with pytest.raises(EndpointError, match="holds no weights"):
        asked.update(tmp_path, "v1")
    assert asked.version == "v0"
