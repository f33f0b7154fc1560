"""``trajstore rollout``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Cli
from tests.pipeline.chat_server import chat_server
from tests.rollouts.policies.model_server import by_path, completion, models, tool_call
from trajstore import open as open_store
from trajstore.rollouts import SHIPPED
from trajstore.rollouts.sandbox_isolation import why_not


def test_runs_are_stored_with_all_that_is_known_of_them(cli: Cli, tmp_path: Path) -> None:
    store = tmp_path / "pool"
    ran = cli("rollout", store, "--env", "web-shop", "--policy", "oracle", "--tasks", 5)
    found = open_store(store).query(
        "select environment, policy_version, count(*) n, sum(success::int)::int solved "
        "from trajectories group by all"
    )
    assert ran.code == 0
    assert "oracle" in ran.out
    assert ran.err == "5 new in the store\n"
    assert [tuple(row.values()) for row in found.read_all().to_pylist()] == [
        ("web-shop", "oracle", 5, 5)
    ]


def test_the_same_command_adds_nothing_and_another_seed_does(cli: Cli, tmp_path: Path) -> None:
    call = ("rollout", tmp_path / "pool", "--env", "calculator", "--tasks", 3)
    added = [cli(*call, "--json", "--seed", seed).out for seed in (1, 1, 2)]
    assert [json.loads(text)["added"] for text in added] == [3, 0, 3]


def test_numbers_per_policy_agree_with_the_store(cli: Cli, tmp_path: Path) -> None:
    store = tmp_path / "pool"
    call = ("--env", "web-shop", "--policy", "all", "--tasks", 6, "--attempts", 2, "--json")
    told = json.loads(cli("rollout", store, *call).out)["policies"]
    rows = open_store(store).query(
        "select policy_version policy, count(*) attempts, sum(success::int)::int solved, "
        "round(avg(reward), 4) mean_reward from trajectories group by all order by 1"
    )
    kept = [{k: row[k] for k in ("policy", "attempts", "solved", "mean_reward")} for row in told]
    assert kept == rows.read_all().to_pylist()
    assert [row["attempts"] for row in told] == [12] * 4


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("--env", "chess"), "those that ship are calculator, code-fixing, web-shop"),
        (("--env", "web-shop", "--policy", "nobody"), "oracle, careful, hasty, careless, all"),
        (("--env", "web-shop", "--tasks", "0"), "Invalid value for '--tasks'"),
        ((), "Missing option"),
    ],
)
def test_wrong_usage_is_said_before_anything_is_made(
    cli: Cli, tmp_path: Path, given: tuple[str, ...], said: str
) -> None:
    ran = cli("rollout", tmp_path / "pool", *given)
    assert ran.code == 2
    assert said in " ".join(ran.err.split())
    assert not (tmp_path / "pool").exists()


def test_limits_cut_attempts_off(cli: Cli, tmp_path: Path) -> None:
    call = ("--env", "web-shop", "--tasks", 2, "--max-steps", 1, "--json")
    told = json.loads(cli("rollout", tmp_path / "pool", *call).out)["policies"][0]
    assert (told["truncated"], told["solved"], told["steps"]) == (2, 0, 2)


@pytest.mark.skipif(
    why_not("namespaces") is not None and why_not("bubblewrap") is not None,
    reason="this machine cannot lock code in",
)
def test_code_is_mended_from_the_command_line(cli: Cli, tmp_path: Path) -> None:
    ran = cli("rollout", tmp_path / "pool", "--env", "code-fixing", "--tasks", 2, "--json")
    assert json.loads(ran.out)["policies"][0]["solved"] == 2


def test_when_every_attempt_fails_the_exit_code_says_so(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type(SHIPPED["web-shop"].make()), "reset", lambda *_: 1 / 0)
    ran = cli("rollout", tmp_path / "pool", "--env", "web-shop", "--tasks", 2)
    assert ran.code == 1
    assert "2 failed for technical reasons; the first: environment.reset: ZeroDivision" in ran.err


def test_a_model_behind_an_endpoint_acts(cli: Cli, tmp_path: Path) -> None:
    call = tool_call("finish", '{"answer": "1"}')
    chat = completion({"content": None, "tool_calls": [call]})
    answers = {"/v1/models": models("m-1"), "/v1/chat/completions": chat}
    store = tmp_path / "pool"
    with chat_server(by_path(answers)) as server:
        options = ("--policy", "endpoint", "--url", server.url, "--model", "m-1")
        more = ("--tasks", 3, "--policy-version", "7", "--temperature", 0.5, "--max-tokens", 9)
        ran = cli("rollout", store, "--env", "calculator", *options, *more, "--json")
        asked = server.requests[-1].body
    assert ran.code == 0
    assert json.loads(ran.out)["policies"][0]["attempts"] == 3
    assert (asked["temperature"], asked["max_tokens"]) == (0.5, 9)
    rows = open_store(store).sql("select distinct model, policy_version from trajectories")
    assert rows.fetchall() == [("m-1", "7")]


def test_a_model_that_is_not_served_is_said_before_anything_is_made(
    cli: Cli, tmp_path: Path
) -> None:
    with chat_server(by_path({"/v1/models": models("m-1")})) as server:
        options = ("--policy", "endpoint", "--url", server.url, "--model", "m-2")
        ran = cli("rollout", tmp_path / "pool", "--env", "calculator", *options)
    assert ran.code == 1
    assert "serves no model 'm-2'; those it serves: m-1" in ran.err
    assert not (tmp_path / "pool").exists()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("endpoint",), "needs a server, such as http://localhost:8000/v1"),
        (("endpoint", "--url", "http://localhost:1/v1"), "needs a model: its name on the server"),
        (("vllm", "--url", "http://localhost:1/v1", "--model", "m"), "folder with the tokenizer"),
        (("transformers",), "needs a model: the folder that holds it"),
        (("transformers", "--model", "nowhere"), "nowhere holds no model"),
    ],
    ids=["no-url", "no-model", "no-tokenizer", "no-folder", "no-weights"],
)
def test_a_model_that_cannot_act_is_named_with_what_is_missing(
    cli: Cli, tmp_path: Path, given: tuple[str, ...], said: str
) -> None:
    ran = cli("rollout", tmp_path / "pool", "--env", "calculator", "--policy", *given)
    assert ran.code == 2
    assert said in " ".join(ran.err.replace("│", " ").split())
    assert not (tmp_path / "pool").exists()


def test_resuming_begins_only_what_the_store_lacks(cli: Cli, tmp_path: Path) -> None:
    call = ("rollout", tmp_path / "pool", "--env", "calculator", "--resume", "--json")
    told = [json.loads(cli(*call, "--tasks", n).out) for n in (3, 5, 5)]
    assert [(t["added"], t["skipped"]) for t in told] == [(3, 0), (2, 3), (0, 5)]
