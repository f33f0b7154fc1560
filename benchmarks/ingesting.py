"""Ingest from Python dicts and from Arrow tables, and the size on disk."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import pyarrow as pa

from benchmarks.bench import Bench
from benchmarks.measure import (
    Took,
    milliseconds,
    rotated,
    rows_of,
    time_rounds,
    timed,
    timed_rows,
)
from benchmarks.peers import Ingests, IngestsArrow, Peer
from benchmarks.targets import TARGETS
from benchmarks.workload import Record, records
from trajstore.schema import steps_to_arrow, trajectories_to_arrow

_SLICE = 1 << 20

_Speeds = dict[str, list[tuple[float, float]]]
"""Steps a second and steps a CPU second, of each run of each store."""


def fill(bench: Bench) -> None:
    """Store the whole workload in every store from plain dicts, and keep the stores for reading.

    One run is one batch. Where there are fewer batches than repeats, the last one is stored again
    and again, in stores of its own (MLflow, of which a process has but one, takes it twice).
    """
    kinds = {k.name: k for k in bench.peers if issubclass(k, Ingests)}
    bench.filled = {name: bench.fresh(kind, "filled") for name, kind in kinds.items()}
    speeds: _Speeds = {name: [] for name in kinds}
    batch: list[Record] = []
    for number, runs in enumerate(bench.workload.batches()):
        batch = records(runs)
        bench.say(f"ingest: batch {number + 1} of {len(batch)} trajectories")
        _one_round(bench, bench.filled, batch, number, speeds)
    for number in range(len(speeds["trajstore"]), bench.repeats):
        spare = {n: bench.fresh(k, "spare") for n, k in kinds.items() if k.sample is None}
        _one_round(bench, bench.filled | spare, batch, number, speeds)
        for peer in spare.values():
            bench.drop(peer)
    notes = {k.name: k.about for k in bench.peers}
    wall, cpu = ({n: [pair[i] for pair in found] for n, found in speeds.items()} for i in (0, 1))
    work = "ingest from dicts"
    bench.add(rows_of(work, wall, "steps/s", cpu=cpu, targets=TARGETS, notes=notes))
    _share(bench)


def _one_round(
    bench: Bench,
    peers: dict[str, Peer],
    batch: Sequence[Record],
    number: int,
    speeds: _Speeds,
) -> None:
    for name in rotated(list(peers), number):
        peer = peers[name]
        if peer.sample is not None and number >= bench.repeats:
            continue
        taken = batch[: peer.sample] if peer.sample is not None else batch
        assert isinstance(peer, Ingests)
        took, _ = timed(partial(peer.ingest, taken))
        steps = sum(len(r["steps"]) for r in taken)
        speeds[name].append((steps / took.wall_s, steps / took.cpu_s))


def _share(bench: Bench) -> None:
    """Stores that read the files of another one."""
    for kind in bench.peers:
        if kind.shares in bench.filled:
            bench.filled[kind.name] = kind(bench.filled[kind.shares].folder)


def settle(bench: Bench) -> None:
    """Let every store do its upkeep, and measure its size after it."""
    own = [p for p in bench.filled.values() if p.shares is None and p.sample is None]
    runs: dict[str, list[Took]] = {}
    for peer in own:
        bench.say(f"upkeep: {peer.name}")
        took, _ = timed(peer.settle)
        if type(peer).settle is not Peer.settle:
            runs[peer.name] = [took]
    bench.add(timed_rows("upkeep after ingest (compaction, indexes)", runs, "ms", milliseconds))
    sizes = {p.name: [p.size_bytes() / 1e6] for p in own}
    bench.add(rows_of("size on disk", sizes, "MB", targets=TARGETS))


def ingest_arrow(bench: Bench) -> None:
    """Store one batch of Arrow tables in a new store each time, beside what the machine can do.

    All rates are over the bytes of the Arrow buffers. ``zstd level 1, one core`` compresses these
    buffers in pieces of 1 MiB and keeps nothing; ``memcpy`` copies them.
    """
    bench.say("ingest from Arrow")
    runs = bench.workload.first(min(bench.workload.n, bench.workload.batch))
    tables = (trajectories_to_arrow(runs), steps_to_arrow(runs))
    buffers = [b for t in tables for b in _buffers(t)]
    megabytes = sum(b.size for b in buffers) / 1e6
    codec = pa.Codec("zstd", compression_level=1)
    jobs: dict[str, Callable[[int], object]] = {
        "memcpy": lambda _: [b.to_pybytes() for b in buffers],
        "zstd level 1, one core": lambda _: [codec.compress(p) for p in _pieces(buffers)],
    }
    spare: dict[tuple[str, int], Peer] = {}
    for kind in (k for k in bench.peers if issubclass(k, IngestsArrow)):
        for number in range(bench.repeats):
            spare[kind.name, number] = bench.fresh(kind, f"arrow-{number}")
        jobs[kind.name] = partial(_ingest, spare, kind.name, tables)
    took = time_rounds(jobs, repeats=bench.repeats, budget_s=bench.budget_s)
    notes = {k.name: k.about for k in bench.peers} | {"memcpy": f"{megabytes:.0f} MB"}
    bench.add(
        timed_rows(
            "ingest from Arrow",
            took,
            "MB/s",
            lambda seconds: megabytes / max(seconds, 1e-6),
            targets=TARGETS,
            notes=notes,
        )
    )
    for peer in spare.values():
        bench.drop(peer)


def _ingest(
    peers: dict[tuple[str, int], Peer], name: str, tables: tuple[pa.Table, pa.Table], number: int
) -> None:
    peer = peers[name, number]
    assert isinstance(peer, IngestsArrow)
    peer.ingest_arrow(*tables)


def _buffers(table: pa.Table) -> Iterator[pa.Buffer]:
    for column in table.itercolumns():
        for chunk in column.chunks:
            yield from (b for b in chunk.buffers() if b is not None and b.size)


def _pieces(buffers: Sequence[pa.Buffer]) -> Iterator[pa.Buffer]:
    for buffer in buffers:
        for start in range(0, buffer.size, _SLICE):
            yield buffer.slice(start, min(_SLICE, buffer.size - start))
