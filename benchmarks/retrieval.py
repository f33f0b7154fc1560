"""Nearest runs beside NumPy, FAISS, LanceDB and DuckDB: ``python -m benchmarks.retrieval``.

A store gets ``n`` runs with drawn vectors of 384 numbers; each side answers the same queries for
the nearest ten, of all runs and of the 5 % of one environment. What trajstore does is the whole
request, from a text (whose vector is at hand) through filters to hits with texts and outcomes; the
peers give ids. What is compared is CPU time a query, all threads of the process together; recall@10
is against NumPy over every vector in double precision. A peer that is not installed is left out.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

if __package__ in {None, ""}:  # run as a file: python benchmarks/retrieval.py
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import pyarrow as pa

from benchmarks.diversity import points
from benchmarks.measure import OURS, Row, environment, milliseconds, percentile, rows_of
from benchmarks.report import summary, tables
from trajstore import Pool, Trajectory
from trajstore import open as open_store
from trajstore.filters.shingles import arrays
from trajstore.retrieval import Fingerprint, Weights

ALL = "nearest 10 of all, CPU a query"
FILTERED = "nearest 10 of the 5 % of one environment, CPU a query"
K = 10
ENVIRONMENTS = 20
NUMPY, FAISS = "numpy", "faiss flat"
LANCE, LANCE_IVF = "LanceDB exact", "LanceDB IVF_SQ, refine 5"
DUCKDB = "DuckDB cosine"
TARGETS = {
    (ALL, DUCKDB): 4.0,
    (ALL, LANCE): 10.0,
    (FILTERED, LANCE_IVF): 5.0,
    (FILTERED, DUCKDB): 8.0,
}
"""The least ratios that the design asks for."""

_WEIGHTS = Weights(similarity=1, success=0, recency=0, efficiency=0)
_RUNS_A_COMMIT = 20_000
Ask = Callable[[Any, str | None], list[int]]


class Drawn:
    """An embedder whose vectors were drawn beforehand: text ``5`` has vector 5, ``q5`` query 5."""

    def __init__(self, vectors: Any, queries: Any) -> None:
        """Keep the vectors."""
        self._vectors, self._queries = vectors, queries
        self.fingerprint = Fingerprint(
            model="drawn", weights="0", dimension=vectors.shape[1], normalised=True
        )

    def embed(self, texts: Sequence[str], **_: object) -> Any:
        """The vectors of the texts' numbers."""
        np = arrays()
        from_queries = [t.startswith("q") for t in texts]
        found = [
            (self._queries if q else self._vectors)[int(t.removeprefix("q"))]
            for t, q in zip(texts, from_queries, strict=True)
        ]
        return np.array(found, np.float32)


def filled(folder: Path, drawn: Drawn, n: int) -> Pool:
    """A store of ``n`` runs, run ``i`` with goal ``i`` in environment ``e<i % 20>``, indexed."""
    store = open_store(folder / "pool", durable=False)
    for start in range(0, n, _RUNS_A_COMMIT):
        store.append(
            [
                Trajectory(
                    trajectory_id=f"{i:08}",
                    task_id=f"t{i // 4}",
                    goal=str(i),
                    source="drawn",
                    environment=f"e{i % ENVIRONMENTS}",
                    success=i % 3 == 0,
                )
                for i in range(start, min(n, start + _RUNS_A_COMMIT))
            ]
        )
    store.index(embedder=drawn, levels=["trajectory"])
    return store


def ours(store: Pool, drawn: Drawn) -> Ask:
    """Searches of trajstore; the query is its text."""

    def ask(query: Any, where: str | None) -> list[int]:
        hits = store.search(
            query, k=K, mode="vector", environment=where, weights=_WEIGHTS, embedder=drawn
        )
        return [int(h.item_id) for h in hits]

    return ask


def by_numpy(vectors: Any) -> Ask:
    """A product with every allowed vector, and the best ten."""
    np = arrays()

    def ask(query: Any, where: str | None) -> list[int]:
        first, step = (0, 1) if where is None else (int(where[1:]), ENVIRONMENTS)
        cosines = vectors[first::step] @ query
        best = np.argpartition(-cosines, K)[:K]
        return (best[np.argsort(-cosines[best])] * step + first).tolist()  # type: ignore[no-any-return]

    return ask


def by_faiss(vectors: Any) -> Ask:
    """A flat inner-product index, and an id selector where there is a filter."""
    import faiss

    np = arrays()
    index = faiss.IndexFlatIP(vectors.shape[1])
    index.add(vectors)
    chosen = {
        f"e{e}": faiss.IDSelectorBatch(np.arange(e, len(vectors), ENVIRONMENTS))
        for e in range(ENVIRONMENTS)
    }

    def ask(query: Any, where: str | None) -> list[int]:
        how = None if where is None else faiss.SearchParameters(sel=chosen[where])
        return index.search(query[None], K, params=how)[1][0].tolist()  # type: ignore[no-any-return]

    return ask


def by_lance(folder: Path, vectors: Any, *, indexed: bool) -> Ask:
    """A LanceDB table of its own, whole or through IVF_SQ with prefilter and refinement."""
    import lancedb
    from lancedb.index import Bitmap, IvfSq

    rows = _rows(vectors)
    table = lancedb.connect(str(folder / f"lance-{indexed}")).create_table("t", rows)
    table.create_index("environment", config=Bitmap())
    if indexed:
        cells = max(1, len(vectors) // 2500)
        table.create_index("vector", config=IvfSq(distance_type="cosine", num_partitions=cells))

    def ask(query: Any, where: str | None) -> list[int]:
        asked = table.search(query).distance_type("cosine").select(["id"]).limit(K)
        asked = asked.nprobes(20).refine_factor(5) if indexed else asked.bypass_vector_index()
        if where is not None:
            asked = asked.where(f"environment = '{where}'", prefilter=True)
        return asked.to_arrow().column("id").to_pylist()  # type: ignore[no-any-return]

    return ask


def by_duckdb(vectors: Any) -> Ask:
    """``array_cosine_similarity`` over a table in memory."""
    import duckdb

    width = vectors.shape[1]
    connection = duckdb.connect()
    connection.register("rows", _rows(vectors))
    connection.execute(
        f"CREATE TABLE t AS SELECT id, environment, vector::FLOAT[{width}] AS vector FROM rows"
    )

    def ask(query: Any, where: str | None) -> list[int]:
        condition = "" if where is None else f"WHERE environment = '{where}'"
        found = connection.execute(
            f"SELECT id FROM t {condition} ORDER BY "
            f"array_cosine_similarity(vector, ?::FLOAT[{width}]) DESC LIMIT {K}",
            [query.tolist()],
        )
        return [row[0] for row in found.fetchall()]

    return ask


def _rows(vectors: Any) -> pa.Table:
    n, width = vectors.shape
    listed = pa.FixedSizeListArray.from_arrays(pa.array(vectors.reshape(-1)), width)
    names = pa.array([f"e{i % ENVIRONMENTS}" for i in range(n)])
    return pa.table({"id": pa.arange(0, n), "environment": names, "vector": listed})


def measure(n: int, *, queries: int, folder: Path, dimension: int = 384) -> list[Row]:
    """Rows of both pieces of work over ``n`` runs; one side is held in memory at a time."""
    whole = points(n + queries, dimension, seed=1)
    vectors, asked = whole[:n], whole[n:]
    exact = by_numpy(vectors.astype("float64"))
    right = {w: [set(exact(q.astype("float64"), w)) for q in asked] for w in (None, "e7")}
    drawn = Drawn(vectors, asked)
    sides: dict[str, Callable[[], Ask]] = {
        OURS: lambda: ours(filled(folder, drawn, n), drawn),
        NUMPY: lambda: by_numpy(vectors),
        DUCKDB: lambda: by_duckdb(vectors),
        LANCE: lambda: by_lance(folder, vectors, indexed=False),
        LANCE_IVF: lambda: by_lance(folder, vectors, indexed=True),
    }
    if importlib.util.find_spec("faiss") is not None:
        sides[FAISS] = lambda: by_faiss(vectors)
    took: dict[str, dict[str, list[float]]] = {ALL: {}, FILTERED: {}}
    notes: dict[str, dict[str, str]] = {ALL: {}, FILTERED: {}}
    for name, make in sides.items():
        ask = make()
        for work, where in ((ALL, None), (FILTERED, "e7")):
            texts = [f"q{i}" for i in range(queries)] if name == OURS else asked
            cpu, wall, recall = _run(ask, texts, where, right[where])
            took[work][name] = cpu
            notes[work][name] = (
                f"wall p50 {percentile(wall, 0.5):.2f} ms, p99 {percentile(wall, 0.99):.2f} ms; "
                f"recall@10 {recall:.4f}"
            )
        del ask
    return [
        row
        for work, found in took.items()
        for row in rows_of(work, found, "ms", targets=TARGETS, notes=notes[work])
    ]


def _run(
    ask: Ask, texts: Sequence[Any], where: str | None, right: Sequence[set[int]]
) -> tuple[list[float], list[float], float]:
    """CPU and wall milliseconds of each query, and the mean recall; one more goes before."""
    ask(texts[0], where)
    cpu, wall, hit = [], [], 0
    for text, expected in zip(texts, right, strict=True):
        before, start = time.process_time(), time.perf_counter()
        found = ask(text, where)
        wall.append(milliseconds(time.perf_counter() - start))
        cpu.append(milliseconds(time.process_time() - before))
        hit += len(expected & set(found))
    return cpu, wall, hit / (K * len(texts))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.retrieval",
        description="Measure the search for the nearest runs beside NumPy, FAISS, LanceDB, DuckDB.",
        epilog="Example: python -m benchmarks.retrieval --n 10000 100000",
    )
    parser.add_argument("--n", type=int, nargs="+", default=[10_000, 100_000], help="runs")
    parser.add_argument("--queries", type=int, default=50, help="queries of each kind")
    given = parser.parse_args(arguments)
    asked = sys.argv[1:] if arguments is None else arguments
    for name, said in environment(["python", "-m", "benchmarks.retrieval", *asked]).items():
        print(f"- {name}: {said}", file=sys.stderr)
    for n in given.n:
        with tempfile.TemporaryDirectory() as folder:
            rows = measure(n, queries=given.queries, folder=Path(folder))
        print(f"## {n:,} runs\n\n{tables(rows)}\n\n{summary(rows)}\n", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
