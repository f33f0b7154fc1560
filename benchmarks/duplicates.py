"""Near-duplicate runs beside datasketch and rensa: ``python -m benchmarks.duplicates``.

Every side gets the same runs, finds all pairs of Jaccard similarity .7 and more over padded pairs
of actions, and checks each pair that it proposes exactly, with the same bands and rows. Work starts
from the text of the actions (lists of strings in Python for the peers, in Arrow for trajstore), and
a second time from what each library hashes by itself: sets of strings, hashes of actions. What is
compared is CPU time of the whole process, since rensa and DuckDB use threads. A peer that is not
installed is left out with a line on stderr.
"""

from __future__ import annotations

import argparse
import gc
import importlib.util
import itertools
import random
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

if __package__ in {None, ""}:  # run as a file: python benchmarks/duplicates.py
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import pyarrow as pa

from benchmarks.measure import Row, environment, rotated, rows_of
from benchmarks.report import summary, tables
from trajstore.filters.minhash import choose_bands
from trajstore.filters.relations import relation
from trajstore.filters.shingles import shingle_sets
from trajstore.filters.similar import similar_pairs

THRESHOLD = 0.7
BANDS = choose_bands(THRESHOLD)
"""The bands of trajstore for that threshold; the peers get the same."""

FROM_ACTIONS = "near-duplicates, from actions as text"
FROM_SETS = "near-duplicates, from sets at hand"
TARGETS = {
    (work, peer): ratio
    for work in (FROM_ACTIONS, FROM_SETS)
    for peer, ratio in (("datasketch", 8.0), ("rensa", 1 / 1.5))
}
"""The least ratios that the design asks for."""

Pairs = set[tuple[int, int]]
Sets = list[list[str]]
DATASKETCH_OWN = "datasketch, its own choice"


def runs_of_actions(count: int, seed: int = 0) -> list[list[str]]:
    """Runs of 4 to 40 canonical actions under Zipf's law; about half are changed copies."""
    draw = random.Random(seed)
    words = [f"w{n}" for n in range(3000)]
    weights = [1 / (n + 3) for n in range(3000)]

    def action(tool: str, argument: str, many: int) -> str:
        said = " ".join(draw.choices(words, weights, k=many))
        return f'{tool}\x1f{{"{argument}":"{said}"}}'

    tools = ("bash", "search", "open_file", "edit")
    runs: list[list[str]] = []
    while len(runs) < count:
        base = [action(draw.choice(tools), "path", 2) for _ in range(draw.randint(4, 36))]
        for _ in range(draw.choice((1, 1, 1, 2, 3, 5, 8))):
            run = list(base)
            for _ in range(draw.choice((0, 0, 1, 1, 2, 3, 5, 8))):
                _change(run, draw, action("bash", "cmd", 3))
            runs.append(run)
    draw.shuffle(runs)
    return runs[:count]


def _change(run: list[str], draw: random.Random, new: str) -> None:
    """Replace, insert or remove one action."""
    kind, place = draw.random(), draw.randrange(len(run))
    if kind < 0.4:
        run[place] = new
    elif kind < 0.7:
        run.insert(place, new)
    elif len(run) > 1:
        run.pop(place)


def shingles(runs: Iterable[Sequence[str]]) -> Sets:
    """The padded pairs of actions of each run, as one would write them down in Python."""
    found = []
    for run in runs:
        padded = ["^", *run, "$"]
        found.append(list({f"{a}\x1e{b}" for a, b in itertools.pairwise(padded)}))
    return found


def true_pairs(sets: Sets) -> Pairs:
    """All pairs at the threshold or above, by counting what each pair of sets shares."""
    owners: dict[str, list[int]] = {}
    found: Pairs = set()
    for at, own in enumerate(sets):
        shared: dict[int, int] = {}
        for shingle in own:
            others = owners.setdefault(shingle, [])
            for other in others:
                shared[other] = shared.get(other, 0) + 1
            others.append(at)
        for other, both in shared.items():
            if both >= THRESHOLD * (len(own) + len(sets[other]) - both) - 1e-12:
                found.add((other, at))
    return found


def checked(answers: Iterable[Iterable[int]], sets: Sets) -> Pairs:
    """Of the proposed pairs, those at the threshold or above."""
    proposed = {(i, j) if i < j else (j, i) for i, a in enumerate(answers) for j in a if i != j}
    own = [frozenset(s) for s in sets]
    found: Pairs = set()
    for i, j in proposed:
        both = len(own[i] & own[j])
        if both >= THRESHOLD * (len(own[i]) + len(own[j]) - both) - 1e-12:
            found.add((i, j))
    return found


def in_arrow(runs: Sequence[Sequence[str]]) -> pa.Table:
    """The actions of each run as a column of lists of text, the form that a store has them in."""
    return pa.table({"place": range(len(runs)), "actions": pa.array(runs, pa.list_(pa.string()))})


def hashed(table: pa.Table) -> pa.ChunkedArray:
    """Hashes of the actions, made as the query over a store makes them."""
    query = "SELECT list_transform(actions, lambda a: md5_number_lower(a)) AS h FROM runs"
    return relation(f"{query} ORDER BY place", tables={"runs": table}).column("h")


def by_trajstore(hashes: pa.ChunkedArray) -> Pairs:
    """Our pairs."""
    left, right, _ = similar_pairs(shingle_sets(hashes, 2), THRESHOLD, bands=BANDS)
    return set(zip(left.tolist(), right.tolist(), strict=True))


def by_datasketch(sets: Sets) -> Pairs:
    """The pairs of datasketch with our bands."""
    return _datasketch(sets, BANDS.bands * BANDS.rows, params=(BANDS.bands, BANDS.rows))


def by_datasketch_alone(sets: Sets) -> Pairs:
    """The pairs of datasketch with the bands that it chooses itself for .7 and 128 hashes."""
    return _datasketch(sets, 128, threshold=THRESHOLD)


def _datasketch(sets: Sets, hashes: int, **options: Any) -> Pairs:
    from datasketch import MinHash, MinHashLSH

    sketches = list(MinHash.bulk([[t.encode() for t in s] for s in sets], num_perm=hashes))
    index = MinHashLSH(num_perm=hashes, **options)
    for number, sketch in enumerate(sketches):
        index.insert(number, sketch)
    return checked((index.query(s) for s in sketches), sets)


def by_rensa(sets: Sets) -> Pairs:
    """The pairs of rensa with our bands."""
    from rensa import RMinHash, RMinHashLSH

    hashes = BANDS.bands * BANDS.rows
    sketches = RMinHash.from_token_sets(sets, hashes, 42)
    index = RMinHashLSH(THRESHOLD, hashes, BANDS.bands)
    index.insert_many(sketches)
    return checked(index.query_all(sketches), sets)


PEERS = {
    "datasketch": by_datasketch,
    DATASKETCH_OWN: by_datasketch_alone,
    "rensa": by_rensa,
}


def measure(count: int, *, repeats: int, peers: Sequence[str]) -> list[Row]:
    """CPU milliseconds of each side in rotating rounds, with what it found in the note."""
    runs = runs_of_actions(count)
    sets, texts = shingles(runs), in_arrow(runs)
    hashes = hashed(texts)
    truth = true_pairs(sets)
    works: dict[str, dict[str, Callable[[], Pairs]]] = {
        FROM_ACTIONS: {"trajstore": lambda: by_trajstore(hashed(texts))},
        FROM_SETS: {"trajstore": lambda: by_trajstore(hashes)},
    }
    for peer in peers:
        works[FROM_ACTIONS][peer] = _from_actions(PEERS[peer], runs)
        works[FROM_SETS][peer] = _from_sets(PEERS[peer], sets)
    rows: list[Row] = []
    for work, sides in works.items():
        taken: dict[str, list[float]] = {name: [] for name in sides}
        notes: dict[str, str] = {}
        for number in range(repeats):
            for name in rotated(list(sides), number):
                gc.collect()
                start = time.process_time()
                found = sides[name]()
                taken[name].append((time.process_time() - start) * 1000)
                notes[name] = quality(found, truth)
        rows += rows_of(work, taken, "ms", targets=TARGETS, notes=notes)
    return rows


def _from_actions(peer: Callable[[Sets], Pairs], runs: list[list[str]]) -> Callable[[], Pairs]:
    return lambda: peer(shingles(runs))


def _from_sets(peer: Callable[[Sets], Pairs], sets: Sets) -> Callable[[], Pairs]:
    return lambda: peer(sets)


def quality(found: Pairs, truth: Pairs) -> str:
    """Recall and precision in words.

    >>> quality({(0, 1)}, {(0, 1), (1, 2)})
    '1 of 2 pairs, recall 0.5000, precision 1.0000'
    """
    right = len(found & truth)
    recall = right / len(truth) if truth else 1.0
    precision = right / len(found) if found else 1.0
    return f"{right} of {len(truth)} pairs, recall {recall:.4f}, precision {precision:.4f}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what the command line asks for; 1 if a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=20_000, help="runs to compare (20000)")
    parser.add_argument("--repeats", type=int, default=5, help="rounds (5)")
    given = parser.parse_args(arguments)
    peers = []
    for name in PEERS:
        if importlib.util.find_spec(name.partition(",")[0]):
            peers.append(name)
        else:
            print(f"not measured: {name} is not installed", file=sys.stderr)
    rows = measure(given.runs, repeats=given.repeats, peers=peers)
    about = environment([Path(sys.argv[0]).name, *sys.argv[1:]])
    print("\n".join(f"- {k}: {about[k]}" for k in ("machine", "load before", "python")))
    print(f"- {BANDS.curve()}\n\n{tables(rows)}\n\n{summary(rows)}")
    return 0 if all(r.met is not False for r in rows) else 1


if __name__ == "__main__":
    raise SystemExit(main())
