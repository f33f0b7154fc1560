from __future__ import annotations

from pathlib import Path

import pytest

from trajstore import Pool
from trajstore.errors import QueryError
from trajstore.testing import sample_trajectories


@pytest.fixture
def filled(pool: Pool) -> Pool:
    pool.append(sample_trajectories(3, seed=1))
    return pool


ATTACKS = [
    "select * from '/etc/passwd'",
    'select * from "/etc/passwd"',
    "select * from read_csv('/etc/passwd')",
    "select * from read_csv_auto('/etc/passwd', sep='x')",
    "select * from read_text('/etc/passwd')",
    "select * from read_blob('/etc/passwd')",
    "select * from read_json('/etc/passwd')",
    "select * from read_parquet('/etc/passwd')",
    "select * from parquet_metadata('/etc/passwd')",
    "select * from parquet_file_metadata('/etc/passwd')",
    "select * from glob('/etc/*')",
    "select * from sniff_csv('/etc/passwd')",
    "select * from (select * from read_text('/etc/passwd'))",
    "select (select content from read_text('/etc/passwd'))",
    "with x as (select * from read_text('/etc/passwd')) select * from x",
    "select * from trajectories where exists (from read_text('/etc/passwd'))",
    "from read_text('/etc/passwd')",
    "select * from query('select * from read_text(''/etc/passwd'')')",
    "select * from query_table('/etc/passwd')",
    "copy (select 1) to '/tmp/trajstore-attack.csv'",
    "copy trajectories to '/tmp/trajstore-attack.csv'",
    "explain analyze copy (select 1) to '/tmp/trajstore-attack.csv'",
    "explain (analyze) copy (select 1) to '/tmp/trajstore-attack.csv'",
    "explain explain analyze copy (select 1) to '/tmp/trajstore-attack.csv'",
    "export database '/tmp/trajstore-attack'",
    "import database '/tmp/trajstore-attack'",
    "attach '/tmp/trajstore-attack.db'",
    "install httpfs",
    "load httpfs",
    "set enable_external_access=true",
    "set global memory_limit='100GB'",
    "reset lock_configuration",
    "pragma enable_profiling",
    "pragma database_list",
    "call pragma_version()",
    "create table t as select 1",
    "create view v as select 1",
    "create macro m() as 1",
    "create secret (type s3)",
    "insert into _dead values (1)",
    "delete from _dead",
    "update skills set name = 'x'",
    "drop view trajectories",
    "truncate _dead",
    "alter view trajectories rename to t",
    "prepare p as select 1",
    "execute p",
    "begin",
    "checkpoint",
    "vacuum",
    "use memory",
    "select * from _dead",
    "select * from duckdb_secrets()",
    "select * from duckdb_settings()",
    "select current_setting('allowed_paths')",
    "select getenv('HOME')",
    "select 1; select 2",
    "select 1; drop view trajectories",
    "",
    "nonsense",
    "select * from 'https://example.org/x.csv'",
    "select * from 's3://bucket/x.parquet'",
    "pivot (select * from read_text('/etc/passwd')) on filename using count(*)",
    "describe (select * from read_text('/etc/passwd'))",
    "summarize (select * from read_text('/etc/passwd'))",
    "values (1), ((select content from read_text('/etc/passwd')))",
    "select * from trajectories union all select * from read_parquet('x')",
    "select * from trajectories t join lateral (select * from read_text(t.goal)) on true",
]


@pytest.mark.parametrize("sql", ATTACKS)
def test_sql_cannot_leave_the_views(filled: Pool, sql: str) -> None:
    with pytest.raises(QueryError):
        filled.query(sql).read_all()
    with pytest.raises(QueryError):
        filled.sql(sql)
    assert not Path("/tmp/trajstore-attack.csv").exists()


def test_files_of_the_store_itself_are_out_of_reach(filled: Pool) -> None:
    reader = filled.reader()
    path = reader.snapshot.paths(reader.snapshot.files)[0]
    for sql in (f"select * from '{path}'", f"select * from read_parquet('{path}')"):
        with pytest.raises(QueryError):
            filled.sql(sql)


def test_the_lock_holds_even_behind_the_guard(filled: Pool) -> None:
    cursor = filled.reader().cursor()
    for sql in (
        "select * from read_text('/etc/passwd')",
        "copy (select 1) to '/tmp/trajstore-attack.csv'",
        "set enable_external_access=true",
        "set allowed_paths=['/etc/passwd']",
        "attach '/tmp/trajstore-attack.db'",
        "load httpfs",
    ):
        with pytest.raises(Exception, match=r"(?i)permission|configuration|disabled|extension"):
            cursor.sql(sql)
    assert not Path("/tmp/trajstore-attack.csv").exists()


def test_python_variables_are_no_tables(filled: Pool) -> None:
    secret = {"a": [1]}
    assert secret
    with pytest.raises(QueryError, match="'secret' may not be used"):
        filled.sql("select * from secret")


@pytest.mark.parametrize(
    "sql",
    [
        "select count(*) from trajectories",
        "with t as (select task_id from tasks) select * from t",
        "with recursive n(i) as (select 1 union all select i + 1 from n where i < 3) from n",
        "select * from steps s join trajectories t using (trajectory_id) limit 1",
        "from trajectories select agent limit 1",
        "select unnest(range(3))",
        "select * from range(3)",
        "select name, count(*) from tool_calls group by 1 having count(*) > 0 order by 2 desc",
        "select json_extract(metadata, '$.x') from trajectories",
        "select * from (values (1), (2)) v(x)",
        "explain select 1",
        "show tables",
        "describe trajectories",
        "summarize trajectories",
        "explain analyze select count(*) from steps",
        "select 1;",
        "-- a comment\nselect 1",
        "pivot trajectories on success in (true, false) using count(*) group by agent",
        "select row_number() over (partition by task_id order by reward) from trajectories",
    ],
)
def test_reading_is_free(filled: Pool, sql: str) -> None:
    assert filled.query(sql).read_all().num_rows > 0


def test_a_query_is_stopped_when_its_time_is_up(filled: Pool) -> None:
    with pytest.raises(QueryError, match=r"longer than 0\.2 s"):
        filled.query(
            "select sum(a.range * b.range) from range(10000000) a, range(10000000) b", timeout_s=0.2
        ).read_all()


def test_an_unknown_column_is_named(filled: Pool) -> None:
    with pytest.raises(QueryError, match="sucess"):
        filled.sql("select sucess from trajectories")
