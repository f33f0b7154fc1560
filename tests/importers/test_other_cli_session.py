from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from trajstore.importers.other_cli_session import CliSession, notes
from trajstore.schema import Trajectory, finish, trajectory_id


class Plain(CliSession):
    """A session whose records are ``{who, says, at}``."""

    agent = "plain"

    @classmethod
    def opens(cls, record: Mapping[str, Any]) -> bool:
        return "who" in record

    def add(self, record: Mapping[str, Any]) -> None:
        self.builder.add(record["who"], record["says"], timestamp=self.seen(record.get("at")))


def session(*said: tuple[Any, ...], name: str | None = "s") -> Plain:
    made = Plain()
    made.session = name
    for who, says, *at in said:
        made.add({"who": who, "says": says, "at": at[0] if at else None})
    return made


def run_of(made: CliSession) -> Trajectory:
    (run,) = made.trajectories("file")
    return finish(run)


def test_identity_is_the_agent_and_its_session() -> None:
    run = run_of(session(("user", "go")))
    assert run.trajectory_id == trajectory_id("cli-session", "plain/s")
    assert (run.task_id, run.agent, run.source_uri) == ("plain/s", "plain", "file")


def test_a_session_without_an_id_is_known_by_its_header_and_first_words() -> None:
    short = session(("system", "You are"), ("user", "go"), name=None)
    longer = session(("system", "You are"), ("user", "go"), ("agent", "done"), name=None)
    other = session(("user", "stop"), name=None)
    assert short.key() == longer.key() != other.key()
    longer.header = {"created_at": 1}
    assert short.key() != longer.key()


def test_a_session_lasts_from_its_earliest_to_its_latest_record() -> None:
    run = run_of(session(("user", "a", 100), ("agent", "b", 160.5), ("user", "c", 90)))
    assert run.duration_s == 70.5
    assert run.started_at is not None
    assert run.started_at.timestamp() == 90


def test_a_session_in_which_nobody_spoke_is_none() -> None:
    assert list(session(("system", "You are"), ("environment", "boom")).trajectories("file")) == []


def test_a_shown_name_leaves_the_identity_alone() -> None:
    made = session(("user", "go"))
    made.shown = "fancy"
    run = run_of(made)
    assert (run.agent, run.task_id) == ("fancy", "plain/s")


def test_a_parent_makes_a_sub_agent() -> None:
    made = session(("user", "go"))
    made.parent = "above"
    run = run_of(made)
    assert run.parent_id == trajectory_id("cli-session", "plain/above")
    assert run.relation == "sub-agent"


def test_bookkeeping_is_kept_and_noise_counted() -> None:
    made = session(("user", "go"))
    made.keep({"type": "title", "x": 1})
    made.counted["telemetry"] += 2
    made.header = {"cwd": "/"}
    assert json.loads(run_of(made).metadata or "") == {
        "session": {"cwd": "/"},
        "records": [{"type": "title", "x": 1}],
        "records_not_kept": {"telemetry": 2},
    }


def test_notes_are_what_is_left() -> None:
    assert notes({"a": 1, "b": None, "c": 0}, "a") == '{"c":0}'
    assert notes({"a": 1}, "a") is None
