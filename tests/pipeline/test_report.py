"""The page that ``trajstore report`` writes: its numbers, its form, and what it lets through."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.pipeline.html_page import Element, parse, rows
from trajstore import Observation, Pool, Step, ToolCall, Trajectory
from trajstore import open as open_store
from trajstore.errors import QueryError, SelectionError
from trajstore.filters import Selection, stage
from trajstore.pipeline import HtmlReport, write_report
from trajstore.testing import generate, sample_trajectories

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(1)>\"'&\u202egnp.exe\x00\n"
SECTIONS = {"numbers", "tasks", "success-by-steps", "measures", "rewards", "comparison", "tools"}
SECTIONS |= {"strategies", "timeline"}


@pytest.fixture(scope="module")
def airline(tmp_path_factory: pytest.TempPathFactory, real_data: Path) -> Pool:
    """The 200 attempts of tau-bench, 84 of them successful (PROVENANCE)."""
    pool = open_store(tmp_path_factory.mktemp("airline") / "pool", durable=False)
    pool.import_files(real_data / "tau_bench" / "gpt-4o-airline.json")
    return pool


def written(pool: Pool, **options: Any) -> tuple[HtmlReport, Element]:
    out = io.BytesIO()
    report = pool.report(out, **options)
    assert report.size_bytes == len(out.getvalue())
    return report, parse(out.getvalue().decode())


def run(name: str, **changes: Any) -> Trajectory:
    """A run of one call of a tool."""
    call = ToolCall.of(changes.pop("tool", "search"), {"q": "x"}, "c1")
    seen = Observation(text="found", call_id="c1", is_error=changes.pop("error", False))
    step = Step(actor="agent", text="look", tool_calls=(call,), observations=(seen,))
    fields = {"trajectory_id": name, "task_id": "t/1", "source": "hand", "steps": (step,)}
    return Trajectory(**{**fields, **changes})


def test_the_head_counts_what_provenance_counts(airline: Pool) -> None:
    report, page = written(airline)
    numbers = report.sections["numbers"]
    assert (numbers["success"], numbers["failure"], numbers["unknown"]) == (84, 116, 0)
    assert (numbers["tool_calls"], numbers["agent_steps"]) == (1164, 2454)
    tiles = page.by_id("numbers").text
    assert "Trajectories200" in tiles
    assert "42.0\u00a0%84 of 200 known; 95\u00a0% interval 35.4\u00a0% to 48.9\u00a0%" in tiles


def test_tasks_are_ten_always_fourteen_never_26_mixed(airline: Pool) -> None:
    report, page = written(airline)
    kinds = report.sections["tasks"]["kinds"]
    assert (kinds["all_success"], kinds["none_success"], kinds["mixed"]) == (10, 14, 26)
    shown = rows(page.by_id("tasks"))
    assert len(shown) == 50
    assert [r[2] for r in shown].count("4 of 4") == 10
    assert [r[2] for r in shown].count("0 of 4") == 14
    assert shown[0][2] == "4 of 4"
    assert "24 tasks with two or more known outcomes all are the same" in page.text


def test_every_number_of_a_task_is_that_of_the_view(airline: Pool) -> None:
    report, _ = written(airline)
    query = "SELECT task_id, attempts, successes AS success, unknown FROM tasks ORDER BY task_id"
    expected = airline.query(query).read_all().to_pylist()
    found = [{k: t[k] for k in expected[0]} for t in report.sections["tasks"]["each"]]
    assert sorted(found, key=lambda t: t["task_id"]) == expected


def test_success_by_steps_adds_up_to_every_known_run(airline: Pool) -> None:
    report, page = written(airline)
    section = report.sections["success-by-steps"]
    assert sum(b["known"] for b in section["bins"]) == 200
    assert sum(b["success"] for b in section["bins"]) == 84
    first = section["bins"][0]
    low, high = (int(x) for x in first["agent_steps"].split(" to "))
    query = f"""SELECT count(*) AS n FROM trajectories
        WHERE n_agent_steps BETWEEN {low} AND {high}"""
    assert airline.query(query).read_all().column("n").to_pylist() == [first["known"]]
    assert rows(page.by_id("success-by-steps"))[0][:2] == [f"{low} to {high}", str(first["known"])]


def test_tools_agree_with_the_view_of_calls(airline: Pool) -> None:
    report, page = written(airline)
    query = """SELECT name, count(*) AS calls, count(*) FILTER (is_error) AS errors
        FROM tool_calls GROUP BY 1 ORDER BY calls DESC, name"""
    expected = airline.query(query).read_all().to_pylist()
    each = report.sections["tools"]["each"]
    assert [{k: t[k] for k in ("name", "calls", "errors")} for t in each] == expected
    assert report.sections["tools"]["calls"] == 1164
    assert rows(page.by_id("tools"))[0][:3] == [expected[0]["name"], "", "377"]


def test_quantiles_agree_with_sql(airline: Pool) -> None:
    found = written(airline)[0].sections["measures"]["n_agent_steps"]["outcomes"]["success"]
    query = """SELECT quantile_disc(n_agent_steps, 0.5)::DOUBLE AS half FROM trajectories
        WHERE success AND n_agent_steps > 0"""
    assert found["quantiles"]["0.5"] == airline.query(query).read_all().column(0)[0].as_py()
    assert sum(found["counts"]) == found["runs"]


def test_rewards_of_tau_bench_are_0_and_1(airline: Pool) -> None:
    rewards = written(airline)[0].sections["rewards"]
    assert rewards["values"] == ["0", "1"]
    assert rewards["counts"] == {"success": [0, 84], "failure": [116, 0], "unknown": [0, 0]}


def test_the_map_shows_each_run_that_calls_a_tool(airline: Pool) -> None:
    report, page = written(airline)
    strategies = report.sections["strategies"]
    assert (strategies["sampled"], strategies["without_tool_calls"]) == (182, 18)
    assert 0 < strategies["shown_share"] < 1
    marks = [e for e in page.every() if e.attributes.get("class", "") in {"p-success", "p-failure"}]
    said = [next(m.all("title")).text for m in marks]
    assert len(said) == 182
    assert all("agent step" in s and "task tau-bench/airline/" in s for s in said)
    assert "All 182 runs that call a tool" in page.by_id("strategies").text


def test_what_is_pointed_at_is_told_in_the_figure_of_the_map(airline: Pool) -> None:
    _, page = written(airline)
    assert '.closest("figure").querySelector(".picked")' in next(page.all("script")).text
    figure = next(page.by_id("strategies").all("figure"))
    told = [e for e in figure.every() if e.attributes.get("class") == "picked"]
    assert len(told) == 1
    assert any(e.attributes.get("aria-live") == "polite" for e in figure.every())


def test_equal_strategies_are_counted_together(pool: Pool) -> None:
    pool.append([run("a", success=True), run("b", success=False), run("c", tool="edit")])
    found = written(pool)[0].sections["strategies"]
    assert found["distinct_strategies"] == 2
    assert [(c["strategy"], c["runs"], c["success"]) for c in found["most_common"]] == [
        ("search", 2, 1),
        ("edit", 1, 0),
    ]


def test_the_sample_is_seeded_and_bounded(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trajstore.pipeline.report.strategies_map.MOST_POINTS", 3)
    pool.append([run(f"r{i}", tool=f"tool{i}") for i in range(12)])

    def sampled(seed: int) -> set[str]:
        page = written(pool, seed=seed)[1].by_id("strategies")
        return {t.text for t in page.all("title") if "· run r" in t.text}

    assert len(sampled(0)) == 3
    assert sampled(0) == sampled(0)
    assert len({frozenset(sampled(seed)) for seed in range(5)}) > 1
    text = written(pool, seed=4)[1].by_id("strategies").text
    assert "A random sample of 3 of the 12 runs that call a tool (seed 4)" in text


def test_a_condition_narrows_every_section(airline: Pool) -> None:
    report, page = written(airline, where="success")
    assert report.trajectories == 84
    assert report.sections["tools"]["calls"] < 1164
    assert "of 200 in the snapshot" in page.by_id("numbers").text
    assert "Only runs that fit success" in page.text


def test_the_funnel_of_a_selection_is_told_with_reasons(airline: Pool) -> None:
    selection = airline.select([stage("success"), stage("steps", most=20)])
    report, page = written(airline, selection=selection)
    assert report.trajectories == len(selection)
    shown = rows(page.by_id("funnel"))
    assert shown[0] == ["success", "", "200", "84", "failure 116", ""]
    assert shown[1][2:4] == ["84", str(len(selection))]
    assert "most=20" in shown[1][5]
    assert report.sections["funnel"]["funnel"][0]["dropped"] == {"failure": 116}


def test_a_selection_is_reported_as_of_its_own_snapshot(pool: Pool) -> None:
    pool.append([run("a", success=True)])
    selection = pool.select([stage("success")])
    pool.append([run("b", success=True)])
    report, _ = written(pool, selection=selection)
    assert (report.snapshot, report.trajectories) == (selection.snapshot, 1)
    with pytest.raises(SelectionError, match="its own snapshot"):
        written(pool, selection=selection, at=1)


def test_runs_deleted_since_they_were_selected_are_counted(pool: Pool) -> None:
    pool.append([run("a", success=True), run("b", success=True)])
    selection = pool.select([stage("success")])
    pool.delete("trajectory_id = 'a'")
    report, page = written(pool, selection=selection)
    assert report.trajectories == 1
    assert "1 selected run cannot be read any more" in page.text


def test_an_older_snapshot_can_be_reported(pool: Pool) -> None:
    pool.append([run("a")])
    before = pool.snapshot()
    pool.append([run("b")])
    assert written(pool, at=before)[0].trajectories == 1
    assert written(pool)[0].trajectories == 2


def test_unknown_outcomes_are_in_no_rate(pool: Pool) -> None:
    pool.append([run("a", success=True), run("b"), run("c")])
    report, page = written(pool)
    numbers = report.sections["numbers"]
    assert (numbers["success_rate"], numbers["unknown"]) == (1.0, 2)
    assert "1 of 1 known" in page.by_id("numbers").text


def test_groups_have_wilson_intervals(pool: Pool) -> None:
    """Wilson 1927 for 1 of 2, worked by hand: 0.5 plus or minus 0.4055."""
    pool.append([run("a", agent="x", success=True), run("b", agent="x", success=False)])
    found = written(pool)[0].sections["comparison"]["agent"]["each"][0]
    assert found["success_rate"] == 0.5
    assert found["low"] == pytest.approx(0.0945, abs=1e-4)
    assert found["high"] == pytest.approx(0.9055, abs=1e-4)


def test_a_result_that_nobody_flagged_is_in_no_error_rate(pool: Pool) -> None:
    pool.append([run("a", error=None), run("b", error=True)])
    tool = written(pool)[0].sections["tools"]["each"][0]
    assert (tool["calls"], tool["flagged"], tool["errors"], tool["error_rate"]) == (2, 1, 1, 1.0)


def test_periods_without_a_run_stay_in_the_timeline(pool: Pool) -> None:
    days = [datetime(2026, 3, day, 12, tzinfo=UTC) for day in (1, 1, 4)]
    pool.append([run(f"r{i}", started_at=at, success=True) for i, at in enumerate(days)])
    found = written(pool)[0].sections["timeline"]
    assert found["unit"] == "hour" or found["unit"] == "day"
    counts = [p["runs"] for p in found["periods"]]
    assert (counts[0], counts[-1], sum(counts)) == (2, 1, 3)
    assert 0 in counts


def test_one_broken_clock_does_not_flatten_the_timeline(pool: Pool) -> None:
    good = [datetime(2026, 3, 1, 12, i % 60, tzinfo=UTC) for i in range(200)]
    pool.append([run(f"r{i:03}", started_at=at) for i, at in enumerate(good)])
    pool.append([run("odd", started_at=datetime(1970, 1, 1, tzinfo=UTC))])
    report, page = written(pool)
    assert report.sections["timeline"]["outside"] >= 1
    assert "far before or after left out" in page.by_id("timeline").text


def strange() -> list[Trajectory]:
    """Rewards and costs that no scale expects."""
    values = [float("nan"), float("inf"), -float("inf"), 1e300, -1e300, 1e-300, 0.0, None]
    return [
        replace(run(f"r{i}"), reward=v, cost_usd=v, duration_s=v, completion_tokens=2**62)
        for i, v in enumerate(values)
    ]


MANY: list[tuple[str, Callable[[], list[Trajectory]]]] = [
    ("empty", list),
    ("one", lambda: [run("a")]),
    ("one that did nothing", lambda: [run("a", steps=())]),
    ("samples", lambda: sample_trajectories(12)),
    ("generated", lambda: list(generate(40, seed=3))),
    ("many tasks that nobody judged", lambda: [run(f"r{i}", task_id=f"t/{i}") for i in range(61)]),
    ("strange numbers", strange),
]


@pytest.mark.parametrize(("name", "runs"), MANY, ids=[n for n, _ in MANY])
def test_any_store_gives_a_well_formed_page(
    name: str, runs: Callable[[], list[Trajectory]], pool: Pool
) -> None:
    del name
    pool.append(runs())
    report, page = written(pool)
    assert report.sections.keys() == SECTIONS
    ids = [i for e in page.every() if (i := e.attributes.get("id"))]
    assert len(ids) == len(set(ids))
    assert "nan" not in {v for e in page.every() for v in e.attributes.values()}
    links = [a.attributes["href"] for a in page.all("a")]
    assert [x for x in links if x is None or x[1:] not in ids] == []


def test_an_empty_store_says_what_is_missing(pool: Pool) -> None:
    report, page = written(pool)
    assert report.trajectories == 0
    assert "Not shown" in page.text
    assert report.sections["tasks"] == {"absent": "there is no run"}
    assert list(page.all("svg")) == []


def test_every_picture_has_a_name_a_description_and_its_numbers(airline: Pool) -> None:
    _, page = written(airline)
    pictures = [s for s in page.all("svg") if s.attributes.get("role") == "img"]
    assert len(pictures) >= 5
    for picture in pictures:
        named = str(picture.attributes["aria-labelledby"]).split()
        assert all(picture.by_id(i).text for i in named)
    figures = list(page.all("figure"))
    assert all(any(True for _ in f.all("table")) for f in figures)
    strips = [s for s in page.all("svg") if s.attributes.get("role") != "img"]
    assert all(s.attributes["aria-hidden"] == "true" for s in strips)


def test_the_page_needs_nothing_beside_itself(airline: Pool) -> None:
    _, page = written(airline)
    wanted = {"src", "srcset", "xlink:href", "data", "action", "style"}
    assert [e.name for e in page.every() if wanted & e.attributes.keys()] == []
    assert [e.name for e in page.every() if e.name in {"link", "iframe", "img", "object"}] == []
    policy = next(
        e.attributes["content"]
        for e in page.all("meta")
        if e.attributes.get("http-equiv") == "Content-Security-Policy"
    )
    assert str(policy).startswith("default-src 'none'; style-src 'sha256-")
    assert "unsafe" not in str(policy)
    assert "url(" not in next(page.all("style")).text


def hostile(number: int) -> Trajectory:
    return run(
        f"id{number}{HOSTILE}",
        tool=f"tool{HOSTILE}",
        task_id=f"task{number}{HOSTILE}",
        goal=HOSTILE,
        agent=HOSTILE,
        model=HOSTILE,
        environment=HOSTILE,
        source="hand",
        policy_version=HOSTILE,
        success=bool(number % 2),
        reward=float(number),
    )


def test_hostile_text_is_shown_and_never_becomes_markup(pool: Pool) -> None:
    pool.append([hostile(i) for i in range(4)])
    selection = pool.select(
        [stage("where", condition=f"goal <> '{HOSTILE[:-2].replace(chr(39), '')}'")]
    )
    _, page = written(pool, selection=selection, where="goal <> '<script>alert(2)</script>'")
    scripts = list(page.all("script"))
    assert len(scripts) == 1
    assert "alert" not in scripts[0].text
    assert list(page.all("img")) == []
    assert not any(k.startswith("on") for e in page.every() for k in e.attributes)
    assert "</script><script>alert(1)" in page.text
    assert not {"\u202e", "\x00"} & set(page.text)
    assert "\\u202egnp.exe␀" in page.text


def test_hostile_stage_names_and_reasons_are_text(pool: Pool) -> None:
    pool.append([run("a", success=True)])
    chosen = pool.select([stage("success")])
    told = replace(chosen.funnel[0], name=HOSTILE, dropped={HOSTILE: 1}, parameters={"x": HOSTILE})
    selection = Selection(rows=chosen.rows, funnel=(told,), snapshot=chosen.snapshot)
    _, page = written(pool, selection=selection)
    assert len(list(page.all("script"))) == 1
    assert "<img src=x onerror=alert(1)>" in page.by_id("funnel").text


def test_long_text_and_many_groups_do_not_grow_the_page(pool: Pool) -> None:
    long = "x" * 20_000
    pool.append(
        [
            run(f"{i}{long}", task_id=f"{i}{long}", agent=f"{i}{long}", tool=f"{i}{long}")
            for i in range(100)
        ]
    )
    assert written(pool)[0].size_bytes < 300_000


def test_the_same_snapshot_gives_the_same_bytes(airline: Pool, tmp_path: Path) -> None:
    airline.report(tmp_path / "one.html")
    write_report(open_store(airline.root.uri).reader(), tmp_path / "two.html")
    assert (tmp_path / "one.html").read_bytes() == (tmp_path / "two.html").read_bytes()


def test_the_page_does_not_say_where_the_store_lies(airline: Pool) -> None:
    _, page = written(airline)
    assert "Trajectories of pool" in page.text
    assert str(Path(airline.root.uri.removeprefix("file://")).parent) not in page.text


def test_a_failed_report_leaves_the_file_as_it_was(pool: Pool, tmp_path: Path) -> None:
    out = tmp_path / "report.html"
    out.write_text("before")
    for condition in ("rewrd > 1", "true; SELECT 1", "trajectory_id IN (SELECT * FROM runs)"):
        with pytest.raises(QueryError):
            pool.report(out, where=condition)
    with pytest.raises(QueryError):
        pool.report(out, where="true) UNION SELECT 'x' FROM (SELECT 1")
    assert out.read_text() == "before"
    assert list(tmp_path.glob("*.tmp")) == []


def test_without_numpy_the_page_says_how_to_get_the_map(
    pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool.append([run("a")])
    monkeypatch.setitem(sys.modules, "numpy", None)
    report, page = written(pool)
    assert "pip install 'trajstore[select]'" in report.sections["strategies"]["absent"]
    assert "pip install 'trajstore[select]'" in page.by_id("absent").text
