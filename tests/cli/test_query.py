"""``trajstore query``: forms, files, errors; and ``info``."""

from __future__ import annotations

import csv
import io
import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import duckdb
import pyarrow.parquet as pq
import pytest

from tests.cli.conftest import HOSTILE, Cli, Terminals, command, environment

ODD = """
    select NULL a, '' b, 'nan'::double c, 'x,"y"' || chr(10) || 'z' d,
        {'k': 1.5, 'l': [NULL, 'v']} e, map(['p'], [2]) f, timestamptz '2024-01-02 03:04:05Z' g,
        interval 14 month + interval 90 second h, 1.50::decimal(5, 2) i, 'ab'::blob j,
        12345678901234567890::hugeint k, true l"""


def test_the_airline_outcomes(cli: Cli, airline_pool: Path) -> None:
    ran = cli("query", airline_pool, "select count(*) filter (success), count(*) from trajectories")
    assert ran.code == 0
    assert ran.out.split("\n")[2].split() == ["84", "200"]
    assert ran.err == "1 row\n"


def test_the_airline_outcomes_as_json(cli: Cli, airline_pool: Path) -> None:
    query = "select count(*) filter (success) wins, count(*) runs from trajectories"
    assert json.loads(cli("query", airline_pool, query, "--json").out) == {"wins": 84, "runs": 200}


def test_a_table_tells_missing_from_empty(cli: Cli, small_pool: Path) -> None:
    ran = cli(
        "query", small_pool, "select 'x' a, NULL b, '' c, 1.5 d union all select 'y', 'b', 'c', 2"
    )
    assert ran.out == "a  b     c    d\n─  ────  ─  ───\nx  NULL     1.5\ny  b     c  2.0\n"


def test_json_lines_say_every_type(cli: Cli, small_pool: Path) -> None:
    ran = cli("query", small_pool, ODD, "--json")
    assert json.loads(ran.out) == {
        "a": None,
        "b": "",
        "c": None,
        "d": 'x,"y"\nz',
        "e": {"k": 1.5, "l": [None, "v"]},
        "f": {"p": 2},
        "g": "2024-01-02T03:04:05Z",
        "h": "P14M0DT90S",
        "i": 1.5,
        "j": "6162",
        "k": 12345678901234567890,
        "l": True,
    }
    assert ran.out.count("\n") == 1
    assert ran.err == ""


def test_csv_quotes_empty_text_and_leaves_missing_values_bare(cli: Cli, small_pool: Path) -> None:
    out = cli("query", small_pool, ODD, "--format", "csv").out
    head, row = out.split("\n", 1)
    assert head == "a,b,c,d,e,f,g,h,i,j,k,l"
    assert row.startswith(',"",nan,"x,""y""\nz","{""k"": 1.5, ""l"": [null, ""v""]}"')
    assert next(csv.reader(io.StringIO(row)))[5:] == [
        '{"p": 2}',
        "2024-01-02T03:04:05Z",
        "P14M0DT90S",
        "1.50",
        "6162",
        "12345678901234567890",
        "true",
    ]


def test_duckdb_reads_back_the_csv(cli: Cli, small_pool: Path, tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    texts = "[NULL, '', ' padded ', 'a,b', 'say \"x\"', 'two' || chr(10) || 'lines', 'NULL']"
    cli("query", small_pool, f"select unnest(range(7)) i, unnest({texts}) t", "-o", file)
    back = duckdb.execute(
        f"from read_csv('{file}', allow_quoted_nulls=false) order by i"
    ).fetchall()
    assert [text for _, text in back] == [
        *(None, "", " padded ", "a,b", 'say "x"', "two\nlines", "NULL")
    ]


def test_json_is_one_array(cli: Cli, small_pool: Path) -> None:
    query = "select range n from range(3)"
    assert json.loads(cli("query", small_pool, query, "--format", "json").out) == [
        *({"n": 0}, {"n": 1}, {"n": 2})
    ]
    assert cli("query", small_pool, f"{query} where false", "--format", "json").out == "[]\n"


def test_parquet_to_a_file_keeps_types(cli: Cli, small_pool: Path, tmp_path: Path) -> None:
    file = tmp_path / "runs.parquet"
    assert cli("query", small_pool, "select * from steps order by all", "-o", file).out == ""
    back = pq.read_table(file)
    assert back.num_rows == 9
    assert back.column("tool_calls").to_pylist()[1][0]["name"] == "search"


def test_parquet_to_a_pipe(small_pool: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        command("query", small_pool, "select 1 a, 'x' b", "--format", "parquet"),
        capture_output=True,
        check=True,
        env=environment(tmp_path),
    )
    assert pq.read_table(io.BytesIO(done.stdout)).to_pylist() == [{"a": 1, "b": "x"}]


def test_parquet_says_what_it_cannot_hold(cli: Cli, small_pool: Path, tmp_path: Path) -> None:
    file = tmp_path / "x.parquet"
    ran = cli("query", small_pool, "select interval 1 month", "-o", file)
    assert ran.code == 1
    assert "Cast it to text" in ran.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("form", ["table", "csv", "json", "jsonl", "parquet"])
def test_columns_of_the_same_name_are_told_apart(
    form: str, cli: Cli, small_pool: Path, tmp_path: Path
) -> None:
    file = tmp_path / "rows"
    query = "select 1 a, 2 a, 3 a_2"
    assert cli("query", small_pool, query, "-o", file, "--format", form).code == 0
    if form == "parquet":
        assert pq.read_table(file).to_pylist() == [{"a": 1, "a_3": 2, "a_2": 3}]
    elif form in {"json", "jsonl"}:
        found = json.loads(file.read_text())
        assert (found[0] if form == "json" else found) == {"a": 1, "a_3": 2, "a_2": 3}
    else:
        separator = "," if form == "csv" else None
        assert file.read_text().split("\n")[0].split(separator) == ["a", "a_3", "a_2"]


@pytest.mark.parametrize(
    ("ending", "start"),
    [("csv", "n\n"), ("json", '[{"n": 0}'), ("jsonl", '{"n": 0}\n{'), ("ndjson", '{"n": 0}\n{')],
)
def test_the_ending_of_a_file_names_its_form(
    ending: str, start: str, cli: Cli, small_pool: Path, tmp_path: Path
) -> None:
    file = tmp_path / f"rows.{ending}"
    assert cli("query", small_pool, "select range n from range(2)", "-o", file).code == 0
    assert file.read_text().startswith(start)


def test_an_ending_that_names_no_form_is_wrong_usage(
    cli: Cli, small_pool: Path, tmp_path: Path
) -> None:
    ran = cli("query", small_pool, "select 1", "-o", tmp_path / "rows.xlsx")
    assert ran.code == 2
    assert ".parquet" in ran.err
    assert list(tmp_path.iterdir()) == []


def test_dash_is_stdin_and_stdout(cli: Cli, small_pool: Path) -> None:
    ran = cli("query", small_pool, "-", "-o", "-", "--json", stdin="select 7 as n -- seven\n;")
    assert json.loads(ran.out) == {"n": 7}


def test_a_file_appears_when_it_is_complete(cli: Cli, small_pool: Path, tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    file.write_text("before")
    late_error = (
        "select case when range = 900000 then error('late') else 'x' end from range(1000000)"
    )
    assert cli("query", small_pool, late_error, "-o", file).code == 1
    assert file.read_text() == "before"
    assert list(tmp_path.iterdir()) == [file]


def test_a_pipe_or_device_is_written_as_it_is(
    process: Cli, small_pool: Path, tmp_path: Path
) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with subprocess.Popen(["cat", str(pipe)], stdout=subprocess.PIPE, text=True) as reader:
        assert process("query", small_pool, "select 1 a", "-o", pipe, "--format", "csv").code == 0
        assert reader.communicate()[0] == "a\n1\n"
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_a_link_keeps_pointing_to_its_file(cli: Cli, small_pool: Path, tmp_path: Path) -> None:
    link = tmp_path / "link.csv"
    link.symlink_to(tmp_path / "real.csv")
    cli("query", small_pool, "select 1 a", "-o", link)
    assert link.is_symlink()
    assert (tmp_path / "real.csv").read_text() == "a\n1\n"


def test_a_folder_that_is_not_there_is_named(cli: Cli, small_pool: Path, tmp_path: Path) -> None:
    ran = cli("query", small_pool, "select 1", "-o", tmp_path / "no" / "x.csv")
    assert ran.code == 1
    assert "no/x.csv: No such file or directory" in ran.err
    assert "part" not in ran.err


def test_an_older_snapshot_by_number_and_by_pin(cli: Cli, small: Path) -> None:
    cli("snapshots", small, "--pin", "full")
    number = json.loads(cli("snapshots", small, "--json").out.split("\n")[0])["snapshot"]
    cli("import", small, "-", stdin='{"steps": [{"actor": "user", "text": "new"}]}\n')
    count = "select count(*) n from trajectories"
    assert json.loads(cli("query", small, count, "--json").out) == {"n": 4}
    assert json.loads(cli("query", small, count, "--json", "--at", number).out) == {"n": 3}
    assert json.loads(cli("query", small, count, "--json", "--at", "full").out) == {"n": 3}


@pytest.mark.parametrize(
    ("at", "said"), [("nope", "There is no pin 'nope'"), ("99", "Snapshot 99")]
)
def test_an_unknown_snapshot_is_said(at: str, said: str, cli: Cli, small_pool: Path) -> None:
    ran = cli("query", small_pool, "select 1", "--at", at)
    assert ran.code == 1
    assert said in ran.err


def test_a_timeout_stops_the_query(cli: Cli, small_pool: Path) -> None:
    long = "select count(*) from range(100000000) a, range(100000000) b where a.range + b.range = 1"
    ran = cli("query", small_pool, f"{long} and hash(a.range + b.range) = 1", "--timeout", "0.2")
    assert ran.code == 1
    assert "longer than 0.2 s" in ran.err


@pytest.mark.parametrize(
    "wrong",
    [
        ["select 1", "--timeout", "0"],
        [" \n"],
        ["select 1", "--json", "--format", "csv"],
        ["select 1", "--format", "xml"],
        [],
    ],
)
def test_wrong_usage(wrong: list[str], cli: Cli, small_pool: Path) -> None:
    ran = cli("query", small_pool, *wrong)
    assert ran.code == 2
    assert ran.out == ""


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("select foo from trajectories", 'column "foo" not found'),
        ("select foo from trajectories", "Candidate bindings"),
        ("selct 1", 'syntax error at or near "selct"'),
        ("select 1; select 2", "one statement at a time"),
        ("delete from trajectories", "Only SELECT is allowed here, and this is DELETE"),
        ("select * from '/etc/passwd'", "The tables are: trajectories, steps"),
        ("select 'infinity'::timestamp t", "The column 't' (timestamp[us]) holds a value"),
        ("select error('late')", "late"),
    ],
)
def test_an_error_in_the_query_says_what_is_wrong(
    query: str, said: str, cli: Cli, small_pool: Path
) -> None:
    ran = cli("query", small_pool, query)
    assert ran.code == 1
    assert ran.out == ""
    assert ran.err.startswith("error: ")
    assert said in ran.err


@pytest.mark.parametrize("form", ["table", "csv", "jsonl"])
def test_an_empty_result_has_its_columns_and_fails_only_where_asked(
    form: str, cli: Cli, small_pool: Path
) -> None:
    query = "select task_id, reward from trajectories where false"
    ran = cli("query", small_pool, query, "--format", form)
    assert ran.code == 0
    heads = {"table": "task_id  reward\n───────  ──────\n", "csv": "task_id,reward\n", "jsonl": ""}
    assert ran.out == heads[form]
    assert cli("query", small_pool, query, "--format", form, "--fail-empty").code == 1
    assert cli("query", small_pool, "select 1", "--format", form, "--fail-empty").code == 0


def test_a_plan_is_shown_as_it_is(cli: Cli, small_pool: Path) -> None:
    out = cli("query", small_pool, "explain select count(*) from steps").out
    assert len(out.splitlines()) > 3
    assert "⏎" not in out


def test_a_long_table_says_how_to_get_all(cli: Cli, small_pool: Path) -> None:
    ran = cli("query", small_pool, "select range n from range(250000)")
    assert len(ran.out.splitlines()) == 1_002
    assert "250,000 rows" in ran.err
    assert "--format csv" in ran.err


@pytest.mark.parametrize("form", ["table", "json", "jsonl"])
def test_stored_text_cannot_steer_the_terminal(form: str, cli: Cli, hostile: Path) -> None:
    query = 'select *, task_id as "x\x1b[1m" from trajectories join steps using (trajectory_id)'
    out = cli("query", hostile, query, "--format", form).out
    assert "please" in out
    assert not set(out) & set("\x1b\x07\x9b\u202e\r")


def test_csv_is_exact_in_a_pipe_and_safe_on_a_terminal(
    process: Cli, terminal: Terminals, hostile: Path
) -> None:
    query = "select agent from trajectories"
    arguments = ("query", hostile, query, "--format", "csv")
    assert process(*arguments).out == f'agent\n"agent{HOSTILE}"\n'.replace("\r", "\n")
    screen = terminal(*arguments)
    assert screen.ended() == 0
    assert "agent␛[2J␛]0;owned␇\\x9b31m\\u202etxt␍" in screen.seen
    assert "\x1b" not in screen.seen


def test_the_form_does_not_depend_on_where_it_goes(
    process: Cli, terminal: Terminals, small_pool: Path
) -> None:
    arguments = ("query", small_pool, "select * from tasks order by all", "--json")
    screen = terminal(*arguments)
    assert screen.ended() == 0
    assert screen.seen.replace("\r\n", "\n") == process(*arguments).out


@pytest.mark.slow
@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_memory_stays_flat_over_a_million_rows(form: str, small_pool: Path, tmp_path: Path) -> None:
    def peak(rows: int) -> int:
        program = f"""
import resource, sys
from trajstore_cli.main import app
try:
    app(["query", {str(small_pool)!r},
         "select range n, 'a text of some length ' || range t from range({rows})",
         "-o", "/dev/null", "--format", {form!r}])
finally:
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"""
        done = subprocess.run(
            [sys.executable, "-c", program],
            capture_output=True,
            check=True,
            text=True,
            env=environment(tmp_path),
        )
        return int(done.stdout)

    assert peak(1_000_000) - peak(150_000) < 25_000  # KiB; the rows more are 30 MB of text


def test_info_counts_what_is_there(cli: Cli, small_pool: Path) -> None:
    ran = cli("info", small_pool)
    assert ran.code == 0
    report = dict(line.split(None, 1) for line in ran.out.split("\n\n")[0].splitlines())
    assert report["trajectories"] == "3"
    assert report["successes"] == "1"
    assert report["unknown"] == "1"
    assert report["steps"] == "9"
    assert "labels" not in report
    assert "by agent" in ran.out
    assert "by model" not in ran.out


def test_info_as_json_keeps_zeros(cli: Cli, small_pool: Path) -> None:
    values = json.loads(cli("info", small_pool, "--json").out)
    assert (values["labels"], values["tool_calls"], values["tasks"]) == (0, 3, 2)
    assert values["by_agent"] == [
        {"name": "one", "trajectories": 3, "tasks": 2, "successes": 1, "unknown": 1}
    ]


def test_info_of_hostile_names_is_safe(cli: Cli, hostile: Path) -> None:
    out = cli("info", hostile).out
    assert "agent␛[2J" in out
    assert "\x1b" not in out
