from __future__ import annotations

from pathlib import Path

from tests.filters.frames import bash, details, run, said, selected, stored, why
from trajstore.filters import stage

TOKEN = "gh" + "p_" + "aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3zA5"
AWS = "AKIA" + "QWERTYUIOPASDFGH"


def test_runs_that_still_hold_secrets_go_with_their_kinds_counted(tmp_path: Path) -> None:
    frame = stored(
        tmp_path,
        run("a", said("nothing here")),
        run("b", bash(f"curl -H 'Authorization: token {TOKEN}' x", f"id {AWS}")),
    )
    selection = selected(frame, stage("secrets"))
    assert selection.ids() == ["a"]
    assert why(selection) == {"b": "secret"}
    told = details(selection)["b"] or ""
    assert "github" in told
    assert "aws" in told
    assert TOKEN not in told


def test_more_runs_than_one_read_are_all_looked_at(tmp_path: Path) -> None:
    runs = [run(f"{i:04}", said(TOKEN if i in {3, 290} else "-")) for i in range(300)]
    assert sorted(why(selected(stored(tmp_path, *runs), stage("secrets")))) == ["0003", "0290"]
