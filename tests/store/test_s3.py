"""A store on S3, against a real S3 server on loopback that the test starts."""

from __future__ import annotations

import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator

import pytest

import trajstore
from tests.store import workers
from trajstore import Label, Pool

pytest.importorskip("moto")
pytest.importorskip("s3fs")


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """Address of a running moto S3 server."""
    program = (
        "from moto.server import ThreadedMotoServer; import sys; "
        "s = ThreadedMotoServer(ip_address='127.0.0.1', port=0, verbose=False); s.start(); "
        "print(s.get_host_and_port()[1], flush=True); sys.stdin.read()"
    )
    pipe = subprocess.PIPE
    process = subprocess.Popen([sys.executable, "-c", program], stdin=pipe, stdout=pipe, text=True)
    assert process.stdin is not None
    assert process.stdout is not None
    port = process.stdout.readline().strip()
    address = f"http://127.0.0.1:{port}"
    for _ in range(600):
        try:
            urllib.request.urlopen(f"{address}/moto-api/", timeout=60).close()
            break
        except urllib.error.URLError:
            time.sleep(0.1)
    try:
        yield address
    finally:
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()


@pytest.fixture
def options(server: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    request = urllib.request.Request(f"{server}/bucket-of-runs", method="PUT")
    with urllib.request.urlopen(request, timeout=60):
        pass
    return {
        "AWS_ENDPOINT_URL": server,
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_REGION": "us-east-1",
        "AWS_ALLOW_HTTP": "true",
    }


@pytest.fixture
def remote(options: dict[str, str], request: pytest.FixtureRequest) -> Pool:
    return trajstore.open(f"s3://bucket-of-runs/{request.node.name}", storage_options=options)


def test_append_query_get_and_label(remote: Pool) -> None:
    remote.append([workers.run("a"), workers.run("b", steps=5)])
    remote.label([Label(trajectory_id="a", evaluator="tests", success=True)])
    assert remote.sql("select count(*) from steps").fetchall() == [(8,)]
    assert remote.sql("select success from tasks t, trajectories").fetchall()
    stored = remote.get("b")
    assert stored is not None
    assert len(stored.steps) == 5
    assert workers.check_whole(remote) == {"a", "b"}


def test_another_open_sees_it_and_the_same_run_is_one_copy(
    remote: Pool, options: dict[str, str]
) -> None:
    remote.append(workers.run("a"))
    again = trajstore.open(remote.root.uri, storage_options=options, create=False)
    assert again.append(workers.run("a")).already == 1
    assert workers.check_whole(again) == {"a"}


def append_remote(uri: str, options: dict[str, str], names: list[str]) -> None:
    store = trajstore.open(uri, storage_options=options)
    for name in names:
        store.append(workers.run(name))


@pytest.mark.slow
def test_processes_that_share_no_lock_still_give_one_copy(
    remote: Pool, options: dict[str, str]
) -> None:
    names = [f"r{n}" for n in range(6)]
    orders = [names, names[::-1], names[3:] + names[:3]]
    arguments = [(remote.root.uri, options, order) for order in orders]
    processes = [workers.start(append_remote, *a) for a in arguments]
    for process in processes:
        process.join()
    assert [p.exitcode for p in processes] == [0, 0, 0]
    assert workers.check_whole(remote) == set(names)


def test_compact_pin_delete_and_vacuum(remote: Pool) -> None:
    from datetime import timedelta

    for name in "abcd":
        remote.append(workers.run(name))
    remote.compact()
    remote.pin("kept")
    remote.delete("trajectory_id = 'a'")
    assert remote.vacuum(retention=timedelta(0)).pins_broken == ("kept",)
    assert workers.check_whole(remote) == {"b", "c", "d"}
    assert remote.verify().ok


def test_blobs(remote: Pool) -> None:
    name = remote.blobs.put(b"picture")
    assert remote.blobs.get(name) == b"picture"


def test_sql_reaches_no_other_object(remote: Pool) -> None:
    remote.append(workers.run("a"))
    with pytest.raises(trajstore.TrajstoreError):
        remote.sql("select * from 's3://bucket-of-runs/other.parquet'")
    with pytest.raises(Exception, match=r"(?i)permission|disabled"):
        remote.reader().cursor().sql("select * from read_text('/etc/passwd')")
