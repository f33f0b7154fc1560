"""Text to few-shot prompt beside its peers: ``python -m benchmarks.retrieval_peers``.

One request is what an agent asks in the middle of a run: embed a text that was not seen before,
find the five best successes of other tasks, read those runs, and write them into a prompt of 2,000
tokens. trajstore does the whole request in one call. The peers find ids, and the same plain glue
reads the runs from SQLite and writes the prompt; they leave out the task itself, not tasks that are
nearly the same, and compress nothing.

Every side embeds with the weights of MiniLM on the same threads: trajstore with its own embedder
(bfloat16 where the processor has it, weights laid out beforehand), the peers as their users do,
with ``SentenceTransformer.encode`` as it comes. Two rows give that part alone, so that it can be
taken off. Stored vectors are the same for all, made by trajstore's embedder.

Requests go round: each is asked of every side before the next, in rotating order, so that a slow
phase of the machine meets all. Recall@10 is by vectors alone, against exact cosine; a hit counts if
its cosine is that of the true tenth or better, as eight attempts (16 from 500,000 runs on) share
a goal.
"""

from __future__ import annotations

import argparse
import math
import random
import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

if __package__ in {None, ""}:  # run as a file: python benchmarks/retrieval_peers.py
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import trajstore
from benchmarks.measure import environment
from benchmarks.retrieval_sides import (
    PEERS,
    Asked,
    Common,
    MissingError,
    OnlyEmbedding,
    Ours,
    Runs,
    SlowError,
)
from trajstore import Observation, Step, ToolCall, Trajectory
from trajstore.filters.shingles import arrays
from trajstore.retrieval import Embedder, embedder

RECALLED, ATTEMPTS, WARM_UP = 10, 8, 3
HYBRID = "trajstore hybrid"
"""Also ranks by words, so its recall is no recall of neighbours."""
_MANY = 500_000
"""From so many runs on there are 16 attempts a goal, as MiniLM is the slowest part of filling."""
_AT_ONCE = 5000

_VERBS = "cancel,book,fix,find,compare,refund,deploy,translate,summarise,schedule,convert,test"
_THINGS = (
    "flight,hotel room,unit test,train ticket,database index,user account,invoice,web page,recipe,"
    "parser,shopping cart,weather report,log file,backup,email,calendar,photo album,query plan,"
    "login form,release note,parcel,insurance claim,network route,spreadsheet,solar panel"
)
_WHERE = (
    "in Boston,near the station,of the billing service,for a family of four,on the staging server,"
    "before the holidays,with a discount code,for the new office,in the mobile app,under load,"
    "without downtime,for a blind user,after the merge,on an old laptop,during the night,in Kyoto"
)
_HOW = (
    "as cheaply as possible,and write down every step,but ask first,within two days,in plain words,"
    "and keep the old one,with two witnesses,so that nobody notices,and measure it,twice"
)


def goals(tasks: int, seed: int) -> list[str]:
    """Distinct goals; those of another seed are about the same things."""
    draw = random.Random(seed)
    found: dict[str, None] = {}
    while len(found) < tasks:
        words = (draw.choice(p.split(",")) for p in (_VERBS, _THINGS, _WHERE, _HOW))
        verb, thing, where, how = words
        found[f"{verb} the {thing} {where} {how}, case {draw.randrange(10**6)}"] = None
    return list(found)


def runs(texts: Sequence[str], n: int) -> Iterator[Trajectory]:
    """``n`` runs, equally many attempts a goal, half of them successes."""
    each = -(-n // len(texts))
    for i in range(n):
        goal = texts[i // each]
        call = ToolCall.of("search", {"query": goal, "page": i % 3}, "c0")
        seen = Observation(call_id="c0", text=f"{goal}: found {i} entries. " + "row of data; " * 40)
        steps = (
            Step(actor="user", text=goal),
            Step(actor="agent", tool_calls=(call,), observations=(seen,)),
            Step(actor="agent", text=f"It is done, reference {i}."),
        )
        task = f"bench/{i // each}"
        yield Trajectory(
            trajectory_id=f"run-{i:08d}", task_id=task, goal=goal, source="bench", steps=steps,
            success=i % 2 == 0, attempt=i % each,
        )  # fmt: skip


@dataclass
class Remembered:
    """The embedder, with what it made: each goal goes through the model once for all sides."""

    model: Embedder
    known: dict[str, Any]

    @property
    def fingerprint(self) -> Any:
        """That of the model."""
        return self.model.fingerprint

    def embed(self, texts: Sequence[str], *, kind: Any = "document", progress: Any = None) -> Any:
        """Vectors, from memory where they are known."""
        del progress
        new = [t for t in dict.fromkeys(texts) if t not in self.known]
        if new:
            self.known.update(zip(new, self.model.embed(new, kind=kind), strict=True))
        return arrays().stack([self.known[t] for t in texts])


def measure(
    n: int,
    requests: int,
    folder: Path,
    say: Callable[[str], None],
    leave_out: str | None = None,
    seconds: float = math.inf,
    known: dict[str, Any] | None = None,
) -> list[dict[str, Any]]:
    """Fill every side with ``n`` runs, ask all of them, and give a row a side.

    A peer that is not filled in ``seconds`` is not asked; its row says how far it came. What was
    embedded before is ``known``.
    """
    np = arrays()
    each = ATTEMPTS if n < _MANY else 2 * ATTEMPTS
    texts = goals(-(-n // each), seed=0)
    store = trajstore.open(folder / "pool", durable=False)
    batch: list[Trajectory] = []
    for run in runs(texts, n):
        batch.append(run)
        if len(batch) == _AT_ONCE:
            store.append(batch)
            batch = []
    store.append(batch)
    say(f"{n:,} runs are stored")
    model = Remembered(embedder("minilm"), {} if known is None else known)
    store.index(embedder=model, levels=["trajectory"])
    say(f"{len(texts):,} goals are embedded and indexed")
    common = Common(folder, embedder("minilm"), Runs(folder, runs(texts, n)), seconds)
    ids = [f"run-{i:08d}" for i in range(n)]
    tasks = [f"bench/{i // each}" for i in range(n)]
    vectors = np.repeat(model.embed(texts), each, axis=0)[:n].copy()
    wins = np.arange(n) % 2 == 0
    slow: list[dict[str, Any]] = []
    # Each mode opens the store for itself, or one would find the query's vector made by the other.
    sides: list[Any] = [
        Ours(common, trajstore.open(folder / "pool"), mode) for mode in ("hybrid", "vector")
    ]
    sides += [OnlyEmbedding(common, ours=ours) for ours in (True, False)]
    for kind in PEERS:
        side = kind(common)
        if leave_out and leave_out in side.name:
            continue
        start = time.perf_counter()
        try:
            side.fill(ids, vectors, tasks, wins)
        except MissingError as error:
            say(f"{side.name} is left out: {error}")
            continue
        except SlowError as error:
            say(f"{side.name} {error}")
            slow.append({"side": side.name, "note": str(error)})
            continue
        say(f"{side.name} is filled in {time.perf_counter() - start:.0f} s")
        sides.append(side)
    asked = [Asked(text=t, task_id="bench/0") for t in goals(requests + WARM_UP, seed=1)]
    return [*_asked(sides, asked, vectors, ids, model), *slow]


def _asked(
    sides: list[Any], asked: Sequence[Asked], vectors: Any, ids: Sequence[str], model: Embedder
) -> list[dict[str, Any]]:
    np = arrays()
    place = {name: i for i, name in enumerate(ids)}
    spent: dict[str, list[float]] = {s.name: [] for s in sides}
    cpu: dict[str, list[float]] = {s.name: [] for s in sides}
    right: dict[str, list[float]] = {s.name: [] for s in sides}
    for number, one in enumerate(asked):
        turn = number % len(sides)
        for side in (*sides[turn:], *sides[:turn]):
            wall, used = time.perf_counter(), time.process_time()
            text = side.prompt(one)
            wall, used = time.perf_counter() - wall, time.process_time() - used
            assert "case " in text, f"{side.name} gave no prompt"
            if number >= WARM_UP:  # the first requests load the model and fill caches
                spent[side.name].append(1000 * wall)
                cpu[side.name].append(1000 * used)
        vector = model.embed([one.text], kind="query")[0]
        exact = vectors @ vector
        least = np.sort(exact)[-RECALLED] - 1e-4
        for side in (s for s in sides if s.name != HYBRID and hasattr(s, "nearest")):
            found = side.nearest(one, vector, RECALLED)
            right[side.name].append(sum(exact[place[i]] >= least for i in set(found)) / RECALLED)
    return [
        {
            "side": side.name,
            "p50_ms": round(float(np.percentile(spent[side.name], 50)), 2),
            "p99_ms": round(float(np.percentile(spent[side.name], 99)), 2),
            "cpu_p50_ms": round(float(np.percentile(cpu[side.name], 50)), 2),
            "recall_at_10": round(float(np.mean(right[side.name])), 4)
            if right[side.name]
            else None,
        }
        for side in sides
    ]


def _say(line: str) -> None:
    print(line, file=sys.stderr)


def table(rows: Sequence[dict[str, Any]]) -> str:
    """The rows as a Markdown table."""
    lines = [
        "| side | p50 ms | p99 ms | CPU p50 ms | recall@10 |",
        "| --- | ---: | ---: | ---: | ---: |",
    ]
    lines += [
        f"| {r['side']} | {r['note']} | | | |"
        if "note" in r
        else f"| {r['side']} | {r['p50_ms']:.1f} | {r['p99_ms']:.1f} | {r['cpu_p50_ms']:.1f} "
        f"| {'-' if r['recall_at_10'] is None else format(r['recall_at_10'], '.3f')} |"
        for r in rows
    ]
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=[10_000, 100_000], help="runs")
    parser.add_argument("--million", action="store_true", help="also a million runs")
    parser.add_argument("--requests", type=int, default=100, help="requests a side and size")
    parser.add_argument("--leave-out", metavar="NAME", help="a peer, such as mem0: slow to fill")
    parser.add_argument(
        "--budget", type=float, default=math.inf, metavar="S", help="seconds to fill one peer"
    )
    given = parser.parse_args(arguments)
    for name, value in environment(["benchmarks.retrieval_peers"]).items():
        print(f"{name}: {value}")
    for package in ("faiss-cpu", "chromadb", "sqlite-vec", "mem0ai", "lancedb", "torch"):
        with suppress(metadata.PackageNotFoundError):
            print(f"{package}: {metadata.version(package)}")
    known: dict[str, Any] = {}
    for n in [*given.sizes, *([1_000_000] if given.million else [])]:
        folder = Path(tempfile.mkdtemp(prefix="retrieval-peers-"))
        try:
            rows = measure(n, given.requests, folder, _say, given.leave_out, given.budget, known)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        print(f"\n{n:,} runs, {given.requests} requests, peak memory of all {peak:.1f} GB\n")
        print(table(rows), flush=True)


if __name__ == "__main__":
    main()
