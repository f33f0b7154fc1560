"""Files of Inspect logs: archives compressed in any way, and JSON read sample by sample."""

from __future__ import annotations

import json
import math
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from trajstore.importers.inspect_ai_files import EvalArchive, eval_records, is_header, json_records
from trajstore.importers.items import Problem
from trajstore.importers.source import Record, Source

HEADER: dict[str, Any] = {"version": 2, "status": "success", "eval": {"task": "t", "model": "m"}}
BIG = [{"id": n, "epoch": 1, "text": f"{n} " * 300} for n in range(40)]


def samples(records: Iterator[Record | Problem]) -> list[Any]:
    return [r.value["sample"] if isinstance(r, Record) else r for r in records]


def zstd(data: bytes, frame: int = 1000) -> bytes:
    """Several zstd frames one behind the other, as Inspect writes large members."""
    codec = pa.Codec("zstd")
    pieces = [data[i : i + frame] for i in range(0, len(data), frame)] or [b""]
    return b"".join(codec.compress(piece, asbytes=True) for piece in pieces)


def zstd_zip(path: Path, members: dict[str, Any], spoil: Callable[[bytes], bytes] = bytes) -> Path:
    """A ZIP whose members are zstd (method 93), byte by byte as the ZIP specification says."""
    body, directory = b"", b""
    for name, value in members.items():
        data, label = json.dumps(value).encode(), name.encode()
        packed = spoil(zstd(data))
        common = struct.pack(
            "<HHHHHIIIHH",
            63,
            0,
            93,
            0,
            0x21,
            zlib.crc32(data),
            len(packed),
            len(data),
            len(label),
            0,
        )
        directory += b"PK\x01\x02" + struct.pack("<H", 63) + common
        directory += struct.pack("<HHHII", 0, 0, 0, 0, len(body)) + label
        body += b"PK\x03\x04" + common + label + packed
    count = len(members)
    end = b"PK\x05\x06" + struct.pack("<HHHHIIH", 0, 0, count, count, len(directory), len(body), 0)
    path.write_bytes(body + directory + end)
    return path


def plain_zip(path: Path, members: dict[str, Any], method: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, value in members.items():
            archive.writestr(name, json.dumps(value))
    return path


def members(*values: dict[str, Any]) -> dict[str, Any]:
    named = {f"samples/{v['id']}_epoch_{v['epoch']}.json": v for v in values}
    return {"_journal/start.json": HEADER, **named, "summaries.json": [], "header.json": HEADER}


def test_zstd_members_of_many_frames_are_read(tmp_path: Path) -> None:
    path = zstd_zip(tmp_path / "log.eval", members(*BIG[:3]))
    with zipfile.ZipFile(path) as archive:  # the directory is a sound ZIP
        assert {i.compress_type for i in archive.infolist()} == {93}
    assert samples(eval_records(Source(path))) == BIG[:3]


@pytest.mark.parametrize(
    "method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA]
)
def test_other_methods_are_read(tmp_path: Path, method: int) -> None:
    path = plain_zip(tmp_path / "log.eval", members(*BIG[:2]), method)
    assert samples(eval_records(Source(path))) == BIG[:2]


def test_each_sample_comes_with_the_header(tmp_path: Path) -> None:
    path = plain_zip(tmp_path / "log.eval", members(BIG[0]))
    (record,) = eval_records(Source(path))
    assert isinstance(record, Record)
    assert record.value["header"] == HEADER


@pytest.mark.parametrize("build", [zstd_zip, plain_zip])
def test_a_damaged_member_is_named_and_costs_only_itself(
    tmp_path: Path, build: Callable[..., Path]
) -> None:
    path = build(tmp_path / "log.eval", members(*BIG[:3]))
    raw = bytearray(path.read_bytes())
    with zipfile.ZipFile(path) as archive:
        hit = archive.getinfo("samples/1_epoch_1.json")
        raw[hit.header_offset + 30 + len(hit.filename) + hit.compress_size // 2] ^= 0xFF
    path.write_bytes(raw)
    first, problem, last = samples(eval_records(Source(path)))
    assert (first, last) == (BIG[0], BIG[2])
    assert problem.record == "samples/1_epoch_1.json"


def test_a_wrong_checksum_is_noticed(tmp_path: Path) -> None:
    other = zstd(json.dumps(BIG[1]).encode())
    path = zstd_zip(tmp_path / "log.eval", {"samples/0_epoch_1.json": BIG[0]}, lambda _: other)
    with EvalArchive(Source(path)) as archive, pytest.raises(ValueError, match="checksum"):
        archive.json("samples/0_epoch_1.json")


def test_a_directory_that_points_beside_its_members_is_noticed(tmp_path: Path) -> None:
    path = zstd_zip(tmp_path / "log.eval", {"samples/0_epoch_1.json": BIG[0]})
    raw = path.read_bytes()
    at = raw.index(b"PK\x01\x02") + 42  # offset of the first member
    for wrong in (1, len(raw) - 8):
        path.write_bytes(raw[:at] + struct.pack("<I", wrong) + raw[at + 4 :])
        with EvalArchive(Source(path)) as archive, pytest.raises(ValueError, match="cannot be"):
            archive.json("samples/0_epoch_1.json")


def test_an_unknown_compression_is_a_problem_of_its_member(tmp_path: Path) -> None:
    path = plain_zip(tmp_path / "log.eval", members(BIG[0]))
    raw = path.read_bytes().replace(
        b"PK\x01\x02\x14\x03\x14\x00\x00\x00\x08\x00",
        b"%s%s" % (b"PK\x01\x02\x14\x03\x14\x00\x00\x00", b"\x62\x00"),
    )  # method 98 in the directory
    path.write_bytes(raw)
    (problem,) = eval_records(Source(path))
    assert isinstance(problem, Problem)
    assert "header.json" in problem.reason


def test_an_archive_that_was_cut_off_says_how_to_go_on(tmp_path: Path) -> None:
    path = plain_zip(tmp_path / "log.eval", members(*BIG))
    path.write_bytes(path.read_bytes()[:-400])
    (problem,) = eval_records(Source(path))
    assert isinstance(problem, Problem)
    assert "inspect log recover" in problem.reason


def test_an_eval_that_still_runs_has_the_header_of_its_start(tmp_path: Path) -> None:
    start = {"version": 2, "eval": {"task": "t", "model": "m"}}
    content = {"_journal/start.json": start, "samples/0_epoch_1.json": BIG[0]}
    with EvalArchive(Source(plain_zip(tmp_path / "log.eval", content))) as archive:
        assert archive.header() == {**start, "status": "started"}


def test_a_foreign_zip_is_refused(tmp_path: Path) -> None:
    path = plain_zip(tmp_path / "x.zip", {"header.json": {"title": "x"}})
    with EvalArchive(Source(path)) as archive, pytest.raises(ValueError, match="neither"):
        archive.header()


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_member_written_twice_counts_once_with_its_last_content(tmp_path: Path) -> None:
    path = plain_zip(tmp_path / "log.eval", members(BIG[0]))
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("samples/0_epoch_1.json", json.dumps({"id": "new"}))
    assert samples(eval_records(Source(path))) == [{"id": "new"}]


def test_sample_ids_may_hold_slashes_and_line_breaks(tmp_path: Path) -> None:
    odd = [{"id": "org/repo", "epoch": 2}, {"id": "a\nb", "epoch": 1}]
    path = plain_zip(tmp_path / "log.eval", members(*odd))
    assert samples(eval_records(Source(path))) == odd


def test_numbers_that_are_none_are_allowed(tmp_path: Path) -> None:
    path = plain_zip(tmp_path / "log.eval", members({"id": 1, "epoch": 1, "x": float("nan")}))
    (sample,) = samples(eval_records(Source(path)))
    assert math.isnan(sample["x"])


def test_chunked_samples_are_put_together(tmp_path: Path) -> None:
    folder = "samples/7_epoch_1/"
    pool = [{"role": "user", "content": str(n)} for n in range(12)]
    content = {
        "header.json": HEADER,
        f"{folder}sample.json": {"id": 7, "epoch": 1, "message_refs": [[0, 2], [11, 12]]},
        f"{folder}metadata.json": {"level": 1},
        f"{folder}skeleton.json": {"not": "needed"},
        f"{folder}messages/10.json": pool[10:],
        f"{folder}messages/0.json": pool[:10],
        f"{folder}events/stats.json": {"not": "an event"},
        f"{folder}events/0.json": [{"event": "info"}],
        f"{folder}attachments/0.json": ["first"],
        f"{folder}attachments/1.json": ["second"],
        "samples/8_epoch_1.json": BIG[0],
    }
    chunked, whole = samples(eval_records(Source(plain_zip(tmp_path / "log.eval", content))))
    assert [m["content"] for m in chunked["messages"]] == ["0", "1", "11"]
    assert chunked["events_data"]["messages"] == pool
    assert chunked["attachments"] == {"0": "first", "1": "second"}
    assert (chunked["metadata"], chunked["events"]) == ({"level": 1}, [{"event": "info"}])
    assert "message_refs" not in chunked
    assert whole == BIG[0]


def log_file(path: Path, text: str) -> Source:
    path.write_text(text)
    return Source(path)


@pytest.mark.parametrize("indent", [None, 2])
def test_json_logs_are_read_sample_by_sample(tmp_path: Path, indent: int | None) -> None:
    log = {**HEADER, "samples": BIG, "reductions": [{"scorer": "x"}]}
    source = log_file(tmp_path / "log.json", json.dumps(log, indent=indent))
    records = list(json_records(source))
    assert samples(iter(records)) == BIG
    assert isinstance(records[-1], Record)
    assert records[-1].index == 39


def test_a_header_behind_the_samples_is_found(tmp_path: Path) -> None:
    source = log_file(tmp_path / "log.json", json.dumps({"samples": BIG[:2], **HEADER}))
    (first, second) = json_records(source)
    assert isinstance(first, Record)
    assert isinstance(second, Record)
    assert first.value["header"] == HEADER


@pytest.mark.parametrize("given", [[], None])
def test_a_log_without_samples_gives_nothing(tmp_path: Path, given: Any) -> None:
    source = log_file(tmp_path / "log.json", json.dumps({**HEADER, "samples": given}))
    assert list(json_records(source)) == []


def test_a_json_log_that_was_cut_off_gives_what_is_whole(tmp_path: Path) -> None:
    text = json.dumps({**HEADER, "samples": BIG[:3]})
    source = log_file(tmp_path / "log.json", text[: text.index('{"id": 2') + 40])
    first, second, problem = json_records(source)
    assert isinstance(first, Record)
    assert isinstance(second, Record)
    assert isinstance(problem, Problem)
    assert "not JSON" in problem.reason


def test_a_file_that_ends_between_samples_is_a_problem(tmp_path: Path) -> None:
    text = json.dumps({**HEADER, "samples": BIG[:1]})
    source = log_file(tmp_path / "log.json", text[:-2])
    _, problem = json_records(source)
    assert isinstance(problem, Problem)
    assert "ends in the middle" in problem.reason


def test_other_json_is_refused(tmp_path: Path) -> None:
    (problem,) = json_records(log_file(tmp_path / "x.json", '{"version": 2, "samples": null}'))
    assert isinstance(problem, Problem)
    assert "'eval'" in problem.reason


def test_headers_are_known() -> None:
    assert is_header(HEADER)
    others: list[Any] = [None, {"eval": "x"}, {"eval": {"task": "t"}}, []]
    assert not any(is_header(other) for other in others)
