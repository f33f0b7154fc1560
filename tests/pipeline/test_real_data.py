"""What must be true of the recorded trajectories once they are in a store."""

from __future__ import annotations

from pathlib import Path

import pytest

import trajstore
from trajstore import ImportReport, Pool


@pytest.fixture(scope="module")
def reports(real_data: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, ImportReport]:
    """A store with everything, the tau-bench file first, and the reports of both imports."""
    store = trajstore.open(tmp_path_factory.mktemp("real") / "pool", durable=False)
    first = store.import_files(real_data / "tau_bench/gpt-4o-airline.json")
    return {"store": store, "first": first, "all": store.import_files(real_data)}  # type: ignore[dict-item]


@pytest.fixture
def store(reports: dict[str, ImportReport]) -> Pool:
    return reports["store"]  # type: ignore[return-value]


def one(store: Pool, query: str) -> tuple[object, ...]:
    rows = store.sql(query).fetchall()
    assert len(rows) == 1
    return rows[0]


def test_the_tau_bench_file_goes_in_whole(reports: dict[str, ImportReport], store: Pool) -> None:
    assert (reports["first"].added, reports["first"].bad) == (200, 0)
    where = "where source = 'tau-bench'"
    counts = "count(*), count(distinct task_id), count(*) filter (success), sum(n_tool_calls)"
    assert one(store, f"select {counts} from trajectories {where}") == (200, 50, 84, 1164)


def test_the_200_are_already_there_the_second_time(reports: dict[str, ImportReport]) -> None:
    report = reports["all"]
    assert report.already >= 200
    assert report.trajectories == report.added + report.replaced + report.already


def test_tau_bench_tasks_are_10_solved_14_not_and_26_mixed(store: Pool) -> None:
    rows = store.sql(
        """
        select case when successes = 0 then 'none' when successes = attempts then 'all'
                    else 'mixed' end, count(*)
        from tasks where task_id like 'tau-bench/%' and attempts = 4 group by 1"""
    ).fetchall()
    assert dict(rows) == {"all": 10, "none": 14, "mixed": 26}


def test_every_file_is_accounted_for(reports: dict[str, ImportReport], real_data: Path) -> None:
    report = reports["all"]
    known = sum(c["files"] for c in report.formats.values())
    unknown = [p for p in report.problems if "no importer recognises it" in p.reason]
    assert known + len(unknown) == report.files
    assert len(report.problems) == report.bad + report.ignored
    assert all(Path(p.source).is_relative_to(real_data) for p in report.problems)


def test_importing_everything_again_changes_nothing(
    reports: dict[str, ImportReport], store: Pool, real_data: Path
) -> None:
    before = store.snapshot()
    again = store.import_files(real_data)
    assert (again.added, again.replaced, again.labels) == (0, 0, 0)
    assert (again.skills, again.reflections) == (0, 0)
    assert again.trajectories == reports["all"].trajectories
    assert store.snapshot() == before


def test_codex_totals_are_the_last_ones_and_not_the_sum(store: Pool) -> None:
    rows = store.sql(
        """
        select prompt_tokens + completion_tokens from trajectories
        where source = 'codex-cli' and source_uri like '%recorded_redacted%' order by 1"""
    ).fetchall()
    assert rows == [(299496,), (1766028,)]


@pytest.mark.parametrize(
    ("file", "tokens"),
    [
        ("compacted", 2038),
        ("glued_line", 1991),
        ("task_subagent", 3281),
        ("tool_error", 744),
        ("progress_records", 10),
        ("growing_session/snapshot3", 6396),
    ],
)
def test_claude_code_tokens_are_those_of_each_call_once(
    store: Pool, file: str, tokens: int
) -> None:
    where = f"where source_uri like '%/claude_code/{file}.jsonl'"
    assert one(store, f"select completion_tokens from trajectories {where}") == (tokens,)


@pytest.mark.parametrize(("source", "steps"), [("claude_code", 22), ("gemini_cli", 9)])
def test_a_session_saved_as_it_grew_is_one_run_with_the_longest_content(
    store: Pool, source: str, steps: int
) -> None:
    where = f"where source_uri like '%/{source}/growing_session/%'"
    assert one(store, f"select count(*), sum(n_tool_calls) from trajectories {where}") == (1, steps)


def test_both_objects_of_the_glued_line_are_there(store: Pool) -> None:
    query = "select n_tool_calls from trajectories where source_uri like '%glued_line.jsonl'"
    assert one(store, query) == (55,)


def test_copied_context_is_not_counted(store: Pool) -> None:
    query = """
        select count(*) from steps join trajectories using (trajectory_id)
        where source = 'atif' and is_copied"""
    assert one(store, query)[0] > 0  # type: ignore[operator]
    counted = """
        select count(*) from trajectories t join (
            select trajectory_id, count(*) filter (actor = 'agent' and not is_copied) n
            from steps group by 1) using (trajectory_id)
        where n_agent_steps <> n"""
    assert one(store, counted) == (0,)


def test_lats_records_without_a_verdict_never_count_as_failures(store: Pool) -> None:
    rows = store.sql(
        """
        select count(*) filter (success), count(*) filter (success = false)
        from trajectories where source = 'lats'"""
    ).fetchall()
    assert rows == [(20, 6)]


def test_anyswe_is_25_attempts_of_one_task_with_11_solved(store: Pool) -> None:
    query = """
        select count(*), count(*) filter (success), count(distinct task_id)
        from trajectories where source_uri like '%/anyswe/%'"""
    assert one(store, query) == (25, 11, 1)


def test_blackjack_is_won_above_zero_and_rewards_stay_as_they_are(store: Pool) -> None:
    rows = store.sql(
        """
        select distinct reward, success from trajectories
        where source_uri like '%blackjack%' order by 1"""
    ).fetchall()
    assert rows == [(-1.0, False), (1.0, True)]


def test_hotpotqa_is_319_attempts_and_memories_come_once(store: Pool) -> None:
    query = "select count(*) from trajectories where source_uri like '%hotpotqa%'"
    assert one(store, query) == (319,)
    assert one(store, "select count(*) - count(distinct reflection_id) from reflections") == (0,)


def test_outcomes_without_steps_are_kept_and_never_exported(store: Pool, tmp_path: Path) -> None:
    where = "source = 'reflexion' and n_steps = 0"
    n = one(store, f"select count(*) from trajectories where {where}")[0]
    assert n == 364 + 334 + 300
    report = store.export_sft(tmp_path / "sft", where=where)
    assert report.rows == 0


def test_mini_swe_agent_reports_decide_and_unknown_stays_unknown(store: Pool) -> None:
    rows = store.sql(
        """
        select count(*) filter (success), count(*) filter (success = false),
            count(*) filter (success is null)
        from trajectories where source = 'mini-swe-agent' and source_uri like '%deepseek%'"""
    ).fetchall()
    assert rows == [(3, 4, 3)]


def test_voyager_skills_are_in_the_table(store: Pool) -> None:
    query = """
        select count(distinct (name, source_uri)), count(*) filter (len(dependencies) > 0)
        from skills where source = 'voyager'"""
    assert one(store, query) == (51 + 52, 7 + 8)


def test_every_stored_run_has_exactly_its_steps(store: Pool) -> None:
    from tests.store.workers import check_whole

    assert len(check_whole(store)) == one(store, "select count(*) from trajectories")[0]
    assert store.verify().ok


def test_the_sft_export_holds_the_84_successes_and_loads(store: Pool, tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    report = store.export_sft(tmp_path / "sft", where="source = 'tau-bench'")
    assert report.rows == 84
    assert report.manifest["snapshot"] == store.snapshot()
    assert report.manifest["filter"] == "(source = 'tau-bench') AND success"
    loaded = datasets.load_dataset(str(tmp_path / "sft"), split="train", cache_dir=tmp_path / "c")
    assert len(loaded) == 84
    assert loaded[0]["messages"][0]["role"] == "system"


def test_real_logs_hold_no_secret_that_is_not_one(reports: dict[str, ImportReport]) -> None:
    assert sum(reports["all"].secrets.values()) < 20
