"""Small appends: one trajectory a commit, and what reading costs after many of them."""

from __future__ import annotations

import statistics
from functools import partial

from benchmarks.bench import Bench
from benchmarks.measure import (
    DisagreementError,
    Row,
    Took,
    milliseconds,
    percentile,
    rows_of,
    time_rounds,
    timed,
    timed_rows,
)
from benchmarks.peers import Answers, Ingests, Peer
from benchmarks.targets import MOST_GROWTH, TARGETS
from benchmarks.workload import RightAnswers, normal, records

_END = 50
"""Commits at either end that growth is measured over."""


def append(bench: Bench) -> None:
    """One trajectory a commit, store after store, as unsynced pages of one slow the next's fsync.

    Every store takes the same first trajectories. One that is too slow makes fewer commits.
    """
    runs = bench.workload.first(bench.commits)
    rows = records(runs)
    took: dict[str, list[Took]] = {}
    peers: dict[str, Peer] = {}
    for kind in bench.peers:
        if kind.commits == 0:
            continue
        count = min(len(rows), kind.commits or len(rows))
        bench.say(f"small appends: {kind.name}, {count} commits")
        peer = bench.fresh(kind, "small")
        assert isinstance(peer, Ingests)
        took[kind.name] = [
            timed(partial(peer.ingest, [row]), collect=False)[0] for row in rows[:count]
        ]
        peers[kind.name] = peer
    _report(bench, took)
    right = RightAnswers()
    for run in runs:
        right.add(run)
    _read_after(bench, peers, right)
    for peer in peers.values():
        bench.drop(peer)


def _report(bench: Bench, took: dict[str, list[Took]]) -> None:
    notes = {k.name: f"{len(took.get(k.name, ()))} commits; {k.about}" for k in bench.peers}
    work = "small appends, p50"
    bench.add(timed_rows(work, took, "ms", milliseconds, targets=TARGETS, notes=notes))
    walls = {name: [1000 * t.wall_s for t in found] for name, found in took.items()}
    slow = {name: [percentile(found, 0.99)] for name, found in walls.items()}
    bench.add(rows_of("small appends, p99", slow, "ms"))
    bench.add([_growth(n, found) for n, found in walls.items() if len(found) >= 2 * _END])


def _growth(name: str, found: list[float]) -> Row:
    growth = statistics.median(found[-_END:]) / statistics.median(found[:_END])
    ours = name == "trajstore"
    return Row(
        work="small appends, growth of p50 (last 50 over first 50)",
        store=name,
        value=growth,
        unit="x",
        ratio=MOST_GROWTH / growth if ours else None,
        target=1.0 if ours else None,
        note=f"at most {MOST_GROWTH:g} x is asked for" if ours else "",
    )


def _read_after(bench: Bench, peers: dict[str, Peer], right: RightAnswers) -> None:
    """Open and first query on the stores as the small appends left them."""
    all_in = {n: p for n, p in peers.items() if isinstance(p, Answers)}

    def ask(peer: Peer, _: int) -> object:
        peer.close()
        peer.open()
        assert isinstance(peer, Answers)
        return normal(peer.answer("rates"))

    def check(name: str, _: int, found: object) -> None:
        if found != right.to("rates"):
            raise DisagreementError(f"{name}: wrong success rates after small appends")

    jobs = {name: partial(ask, peer) for name, peer in all_in.items()}
    runs = time_rounds(jobs, repeats=bench.repeats, budget_s=bench.budget_s, check=check)
    work = "open and first query after the small appends"
    bench.add(timed_rows(work, runs, "ms", milliseconds))
