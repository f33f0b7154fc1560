"""A policy on a server that answers as vLLM does; a real one is in ``test_vllm_real``."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.pipeline.chat_server import ChatServer, Reply, Request, chat_server
from tests.rollouts.policies.model_server import models
from tests.rollouts.policies.words import Words
from trajstore.errors import EndpointError
from trajstore.rollouts import (
    CalculatorEnvironment,
    Limits,
    Sampling,
    Task,
    VllmServerPolicy,
    run_rollouts,
)

ASKED = [{"role": "user", "content": "6 times 7"}]


class FakeVllm:
    """Says which adapter it was asked for; keeps the adapters that are loaded."""

    def __init__(self) -> None:
        self.loaded: list[str] = []
        self.calls: list[str] = []
        self.goes_on = threading.Event()
        """Unset holds back what is sampled."""
        self.goes_on.set()
        self.refused: dict[str, Reply] = {}
        self.paused = False

    def answer(self, request: Request) -> Reply:
        path = request.path.partition("?")[0]
        if path != "/v1/completions":
            self.calls.append(request.path)
        if path in self.refused:
            return self.refused[path]
        if path == "/v1/models":
            return models("policy", *self.loaded)
        if path == "/v1/load_lora_adapter":
            self.loaded.append(request.body["lora_name"])
        if path == "/v1/unload_lora_adapter":
            self.loaded.remove(request.body["lora_name"])
        if path != "/v1/completions":
            return Reply(body=b"Success: done.")
        assert request.body["model"] in {"policy", *self.loaded}
        self.goes_on.wait(60)
        return self.sampled(request)

    def sampled(self, request: Request) -> Reply:
        choice = {
            "token_ids": [1, 2, 0],
            "prompt_token_ids": request.body["prompt"],
            "logprobs": {"token_logprobs": [-0.5, -0.25, -0.125]},
            "finish_reason": "stop",
        }
        usage = {"prompt_tokens": len(request.body["prompt"]), "completion_tokens": 3}
        value = {"model": request.body["model"], "choices": [choice], "usage": usage}
        return Reply(body=json.dumps(value).encode())


@pytest.fixture
def fake() -> FakeVllm:
    return FakeVllm()


@pytest.fixture
def server(fake: FakeVllm) -> Iterator[ChatServer]:
    with chat_server(fake.answer) as running:
        yield running


def policy(server: ChatServer, **changes: Any) -> VllmServerPolicy:
    dialect = Words()
    dialect.tokens("6 times 7")
    usual: dict[str, Any] = {"model": "policy", "version": "v0", "backoff_s": 0.01}
    return VllmServerPolicy(server.url, dialect, **(usual | changes))  # type: ignore[arg-type]


def adapter(folder: Path, name: str) -> Path:
    made = folder / name
    made.mkdir()
    (made / "adapter_config.json").write_text("{}")
    return made


def full(folder: Path) -> Path:
    made = folder / "full"
    made.mkdir()
    (made / "config.json").write_text("{}")
    return made


def test_tokens_go_in_and_come_out_with_their_logprobs(server: ChatServer) -> None:
    response = policy(server).act(ASKED, (), seed=3)
    assert response.prompt_token_ids == (1, 2, 3)
    assert response.completion_token_ids == (1, 2, 0)
    assert response.logprobs == (-0.5, -0.25, -0.125)
    assert (response.action.text, response.format_error) == ("6 times", False)
    assert (response.usage.prompt_tokens, response.usage.completion_tokens) == (3, 3)
    assert response.metadata == {"finish_reason": "stop", "policy_version": "v0"}


def test_the_request_leaves_nothing_of_the_sampling_to_the_server(server: ChatServer) -> None:
    """A model's own generation_config would bring top-k and a repetition penalty."""
    policy(server, sampling=Sampling(temperature=0.7, max_tokens=9)).act(ASKED, (), seed=3)
    body = server.requests[-1].body
    assert body.pop("seed") >= 0
    assert body == {
        "model": "policy",
        "prompt": [1, 2, 3],
        "temperature": 0.7,
        "max_tokens": 9,
        "top_p": 1.0,
        "top_k": 0,
        "min_p": 0.0,
        "repetition_penalty": 1.0,
        "logprobs": 0,
        "return_token_ids": True,
        "stop_token_ids": [0],
    }


def test_sampling_is_kept_and_greedy_logprobs_are_the_bare_models(server: ChatServer) -> None:
    told = policy(server).act(ASKED, (), seed=3).sampling
    greedy = policy(server, sampling=Sampling(temperature=0.0)).act(ASKED, (), seed=3).sampling
    assert told is not None
    assert greedy is not None
    assert (told["temperature"], told["top_p"], told["top_k"]) == (1.0, 1.0, 0)
    assert told["logprobs_mode"] == "processed_logprobs"
    assert greedy["logprobs_mode"] == "raw_logprobs"


def test_an_adapter_samples_under_its_version_and_the_one_before_is_unloaded(
    server: ChatServer, fake: FakeVllm, tmp_path: Path
) -> None:
    asked = policy(server)
    for version in ("v1", "v2"):
        asked.update(adapter(tmp_path, version), version)
        assert asked.act(ASKED, (), seed=0).metadata["policy_version"] == version
        assert server.requests[-1].body["model"] == version
    assert (asked.version, fake.loaded) == ("v2", ["v2"])
    assert fake.calls.count("/update_weight_version") == 2


def test_an_adapter_that_samples_right_now_is_unloaded_only_after_that(
    server: ChatServer, fake: FakeVllm, tmp_path: Path
) -> None:
    asked = policy(server)
    asked.update(adapter(tmp_path, "v1"), "v1")
    fake.goes_on.clear()
    versions: list[Any] = []
    thread = threading.Thread(
        target=lambda: versions.append(asked.act(ASKED, (), seed=0).metadata["policy_version"])
    )
    thread.start()
    while not [r for r in server.requests if r.path == "/v1/completions"]:
        time.sleep(0.01)
    asked.update(adapter(tmp_path, "v2"), "v2")
    assert fake.loaded == ["v1", "v2"]
    fake.goes_on.set()
    thread.join()
    assert (versions, fake.loaded) == (["v1"], ["v2"])


def test_full_weights_wait_for_requests_under_way_and_hold_back_new_ones(
    server: ChatServer, fake: FakeVllm, tmp_path: Path
) -> None:
    asked = policy(server)
    fake.goes_on.clear()
    seen: list[Any] = []

    def act() -> None:
        seen.append(asked.act(ASKED, (), seed=0).metadata["policy_version"])

    early = threading.Thread(target=act)
    early.start()
    while not server.requests:
        time.sleep(0.01)
    changing = threading.Thread(target=asked.update, args=(full(tmp_path), "v1"))
    changing.start()
    while not asked._closed:
        time.sleep(0.01)
    late = threading.Thread(target=act)
    late.start()
    fake.goes_on.set()
    for thread in (early, changing, late):
        thread.join()
    assert seen == ["v0", "v1"]
    paths = [r.path for r in server.requests]
    assert paths == [
        "/v1/completions",
        "/pause?mode=wait",
        "/collective_rpc",
        "/reset_prefix_cache",
        "/resume",
        "/update_weight_version",
        "/v1/completions",
    ]
    given = server.requests[2].body
    assert given["kwargs"] == {"weights_path": str(tmp_path / "full")}


def test_a_reload_that_fails_leaves_the_old_version_and_a_server_that_goes_on(
    server: ChatServer, fake: FakeVllm, tmp_path: Path
) -> None:
    asked = policy(server)
    fake.refused["/collective_rpc"] = Reply(status=500, body=b"shapes differ")
    with pytest.raises(EndpointError, match=r"shapes differ.*VLLM_SERVER_DEV_MODE=1"):
        asked.update(full(tmp_path), "v1")
    assert fake.calls[-1] == "/resume"
    assert asked.act(ASKED, (), seed=0).metadata["policy_version"] == "v0"


def test_a_server_without_adapters_is_told_what_to_start_it_with(
    server: ChatServer, fake: FakeVllm, tmp_path: Path
) -> None:
    fake.refused["/v1/load_lora_adapter"] = Reply(status=404)
    with pytest.raises(EndpointError, match="--enable-lora --max-lora-rank"):
        policy(server).update(adapter(tmp_path, "v1"), "v1")


def test_an_older_server_that_keeps_no_version_is_no_error(
    server: ChatServer, fake: FakeVllm, tmp_path: Path
) -> None:
    fake.refused["/update_weight_version"] = Reply(status=404)
    asked = policy(server)
    asked.update(adapter(tmp_path, "v1"), "v1")
    assert asked.version == "v1"


def test_a_folder_without_weights_is_named_before_anything_is_sent(
    server: ChatServer, tmp_path: Path
) -> None:
    with pytest.raises(EndpointError, match="holds no weights"):
        policy(server).update(tmp_path, "v1")
    assert server.requests == []


def test_a_version_may_not_be_called_as_the_model(server: ChatServer, tmp_path: Path) -> None:
    with pytest.raises(EndpointError, match="name of the model"):
        policy(server).update(adapter(tmp_path, "a"), "policy")


def test_a_server_that_tells_no_tokens_is_refused_at_once(server: ChatServer) -> None:
    server.answer = lambda _: Reply(body=b'{"choices": [{"text": "hi"}]}')
    with pytest.raises(EndpointError, match=r"at once.*holds no token ids"):
        policy(server).act(ASKED, (), seed=0)


def test_the_check_names_the_models_that_are_served(server: ChatServer) -> None:
    policy(server).check()
    with pytest.raises(EndpointError, match="no model 'other'; those it serves: policy"):
        policy(server, model="other").check()


def test_runs_hold_the_version_that_sampled_them(server: ChatServer, tmp_path: Path) -> None:
    asked = policy(server)
    tasks = [Task(task_id="t/1", goal="6 times 7", answer="42")]
    limits = Limits(max_steps=2)

    def run() -> Any:
        (made,) = run_rollouts(CalculatorEnvironment, asked, tasks, limits=limits)
        return made

    before = run()
    asked.update(adapter(tmp_path, "v1"), "v1")
    after = run()
    assert (before.policy_version, after.policy_version) == ("v0", "v1")
    assert before.trajectory_id != after.trajectory_id
    assert [json.loads(s.metadata)["policy_version"] for s in after.steps[2:]] == ["v1", "v1"]


def test_the_url_may_leave_the_version_out(server: ChatServer) -> None:
    bare = VllmServerPolicy(server.url.removesuffix("/v1"), Words(), model="policy")  # type: ignore[arg-type]
    bare.check()
    assert server.requests[-1].path == "/v1/models"
