"""Read back: open, analytical questions, one trajectory, a training batch of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from benchmarks.bench import Bench
from benchmarks.measure import milliseconds, time_rounds, timed_rows
from benchmarks.peers import Answers, Fetches, FetchesArrow, Peer
from benchmarks.targets import TARGETS
from benchmarks.workload import QUESTIONS

_LOOKUPS = 40
"""Lookups of one trajectory a repeat, each of another id; the first, which fill caches, are few."""


def read(bench: Bench) -> None:
    """Everything that reads, each answer checked."""
    open_and_ask(bench)
    for question in QUESTIONS:
        ask(bench, question)
    fetch_one(bench)
    fetch_many(bench)
    fetch_many_arrow(bench)


def open_and_ask(bench: Bench) -> None:
    """A new handle and its first question."""
    bench.say("open and first question")
    peers = _that(bench, Answers)
    for name in bench.filled.keys() - peers.keys():
        bench.filled[name].close()
        bench.filled[name].open()
    jobs = {name: partial(_open_and_ask, peer) for name, peer in peers.items()}
    check = partial(_check_answer, bench, "rates")
    runs = time_rounds(jobs, repeats=bench.repeats, budget_s=bench.budget_s, check=check)
    bench.add(timed_rows("open and first query", runs, "ms", milliseconds))


def _open_and_ask(peer: Peer, _: int) -> Sequence[Sequence[Any]]:
    peer.close()
    peer.open()
    assert isinstance(peer, Answers)
    return peer.answer("rates")


def ask(bench: Bench, question: str) -> None:
    """One analytical question to every store that answers some."""
    bench.say(f"question: {QUESTIONS[question]}")
    jobs = {name: partial(_ask, peer, question) for name, peer in _that(bench, Answers).items()}
    check = partial(_check_answer, bench, question)
    runs = time_rounds(jobs, repeats=bench.repeats, budget_s=bench.budget_s, check=check)
    bench.add(timed_rows(QUESTIONS[question], runs, "ms", milliseconds, targets=TARGETS))


def _ask(peer: Answers, question: str, _: int) -> Sequence[Sequence[Any]]:
    return peer.answer(question)


def _check_answer(
    bench: Bench, question: str, name: str, _: int, rows: Sequence[Sequence[Any]]
) -> None:
    bench.workload.check_answer(name, question, rows)


def fetch_one(bench: Bench) -> None:
    """One trajectory with all its steps, as the store's own Python objects."""
    bench.say("one trajectory by id")
    peers = _that(bench, Fetches)
    ids = {name: bench.filled[name].stored() or bench.workload.ids for name in peers}

    def chosen(name: str, number: int) -> list[str]:
        return [ids[name][number % len(ids[name])]]

    def check(name: str, number: int, found: Any) -> None:
        wholes = peers[name].fetched(found)
        bench.workload.check(name, "one by id", wholes, chosen(name, number))

    def fetching(name: str) -> Callable[[int], Any]:
        return lambda number: peers[name].fetch(chosen(name, number))

    runs = time_rounds(
        {name: fetching(name) for name in peers},
        repeats=_LOOKUPS * bench.repeats,
        budget_s=bench.budget_s,
        check=check,
    )
    bench.add(timed_rows("one trajectory by id", runs, "ms", milliseconds, targets=TARGETS))


def fetch_many(bench: Bench) -> None:
    """The random sample, as the store's own Python objects."""
    ids = bench.workload.ids
    bench.say(f"{len(ids)} trajectories as objects")
    peers = {n: p for n, p in _that(bench, Fetches).items() if bench.filled[n].stored() is None}

    def check(name: str, _: int, found: Any) -> None:
        bench.workload.check(name, "many as objects", peers[name].fetched(found), ids)

    runs = time_rounds(
        {name: partial(_fetch, peer, ids) for name, peer in peers.items()},
        repeats=bench.repeats,
        budget_s=bench.budget_s,
        check=check,
    )
    bench.add(timed_rows("256 trajectories as objects", runs, "ms", milliseconds, targets=TARGETS))


def _fetch(peer: Fetches, ids: Sequence[str], _: int) -> Any:
    return peer.fetch(ids)


def fetch_many_arrow(bench: Bench) -> None:
    """The random sample, as Arrow tables."""
    ids = bench.workload.ids
    bench.say(f"{len(ids)} trajectories as Arrow")
    peers = _that(bench, FetchesArrow)

    def check(name: str, _: int, found: Any) -> None:
        bench.workload.check(name, "many as Arrow", peers[name].fetched_arrow(found), ids)

    runs = time_rounds(
        {name: partial(_fetch_arrow, peer, ids) for name, peer in peers.items()},
        repeats=bench.repeats,
        budget_s=bench.budget_s,
        check=check,
    )
    bench.add(timed_rows("256 trajectories as Arrow", runs, "ms", milliseconds, targets=TARGETS))


def _fetch_arrow(peer: FetchesArrow, ids: Sequence[str], _: int) -> Any:
    return peer.fetch_arrow(ids)


def _that(bench: Bench, protocol: type) -> dict[str, Any]:
    return {name: peer for name, peer in bench.filled.items() if isinstance(peer, protocol)}
