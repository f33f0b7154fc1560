"""Facility location beside apricot-select and submodlib: ``python -m benchmarks.diversity``.

Every side picks ``k`` of ``n`` items by greedy maximisation of ``sum_i max_j max(0, cosine_ij)``,
and the value of its picks is computed anew and must be the same. Work starts from the matrix of
similarities, each in the type that a side wants, and a second time from the vectors: there the
peers get the matrix that NumPy makes of them (apricot's own ``cosine`` is the square of the cosine,
and submodlib needs minutes for its own). What is compared is CPU time of the whole process. A peer
that is not installed is left out with a line on stderr.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if __package__ in {None, ""}:  # run as a file: python benchmarks/diversity.py
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.measure import DisagreementError, Row, environment, milliseconds, rows_of, timed
from benchmarks.report import summary, tables
from trajstore.filters.facility_location import facility_location
from trajstore.filters.kernels import Cosine, Similarities
from trajstore.filters.shingles import arrays

if TYPE_CHECKING:
    from trajstore.filters.kernels import Floats

FROM_MATRIX = "facility location from similarities, CPU"
FROM_VECTORS = "facility location from vectors, CPU"
STOCHASTIC = "trajstore, stochastic greedy at epsilon 0.01"
WITHOUT_ROOM = "trajstore, without room for the matrix"
TARGETS = {(FROM_MATRIX, "apricot-select"): 2.5, (FROM_MATRIX, "submodlib"): 8.0}
"""The least ratios that the design asks for."""

MODULES = {"apricot-select": "apricot", "submodlib": "submodlib"}
"""Peer -> the module that it installs."""

_SAME = 1e-5
Job = Callable[[], Sequence[int]]


def points(n: int, dimension: int, seed: int = 0) -> Floats:
    """Unit vectors around ``n / 100`` centres, as embeddings of runs at as many tasks would lie."""
    np = arrays()
    draw = np.random.default_rng(seed)
    centres = draw.normal(size=(max(1, n // 100), dimension))
    found = centres[draw.integers(0, len(centres), n)] + draw.normal(size=(n, dimension))
    found /= np.linalg.norm(found, axis=1, keepdims=True)
    unit: Floats = found.astype(np.float32)
    return unit


def value(vectors: Floats, picks: Sequence[int]) -> float:
    """How well the picks stand for all items, by the definition, in double precision."""
    np = arrays()
    chosen = vectors[list(picks)].astype(np.float64).T
    blocks = range(0, len(vectors), 1024)
    nearest = ((vectors[at : at + 1024] @ chosen).max(axis=1) for at in blocks)
    return float(sum(np.maximum(block, 0).sum() for block in nearest))


def from_matrix(vectors: Floats, k: int, side: str) -> Job:
    """A job that begins with the similarities."""
    np = arrays()
    matrix = np.maximum(vectors @ vectors.T, 0)
    if side == "apricot-select":
        matrix = matrix.astype(np.float64)
        _apricot(np.eye(8), 2)  # compiles its loops
    return lambda: _SIDES[side](matrix, k)


def from_vectors(vectors: Floats, k: int, side: str) -> Job:
    """A job that begins with the vectors; for the peers NumPy multiplies them."""
    np = arrays()
    if side in {"trajstore", WITHOUT_ROOM}:
        room = 0 if side == WITHOUT_ROOM else 2**33
        return lambda: facility_location(Cosine(vectors), k, memory_bytes=room).places
    type_ = np.float64 if side == "apricot-select" else np.float32
    return lambda: _SIDES[side](np.maximum(vectors @ vectors.T, 0).astype(type_, copy=False), k)


def _apricot(matrix: Any, k: int) -> Sequence[int]:
    kind = importlib.import_module("apricot").FacilityLocationSelection
    return list(kind(k, metric="precomputed", optimizer="lazy").fit(matrix).ranking)


def _submodlib(matrix: Any, k: int) -> Sequence[int]:
    function = importlib.import_module("submodlib").FacilityLocationFunction(
        n=len(matrix), mode="dense", separate_rep=False, sijs=matrix, pybind_mode="array"
    )
    found = function.maximize(budget=k, optimizer="LazyGreedy", show_progress=False)
    return [int(place) for place, _ in found]


_SIDES: dict[str, Callable[[Any, int], Sequence[int]]] = {
    "trajstore": lambda matrix, k: facility_location(Similarities(matrix), k).places,
    STOCHASTIC: lambda matrix, k: facility_location(Similarities(matrix), k, epsilon=0.01).places,
    "apricot-select": _apricot,
    "submodlib": _submodlib,
}


def measure(
    n: int,
    k: int,
    *,
    dimension: int = 384,
    repeats: int = 3,
    peers: Sequence[str] = (),
    tight: bool = False,
) -> list[Row]:
    """Rows of CPU time; one side is held in memory at a time.

    Args:
        n: items.
        k: picks.
        dimension: of the vectors.
        repeats: runs of each side.
        peers: names of :data:`MODULES`.
        tight: also measure trajstore without room for the matrix.

    Raises:
        DisagreementError: the picks of two sides are not of the same value.
    """
    vectors = points(n, dimension)
    plan = {
        FROM_MATRIX: (from_matrix, ["trajstore", *peers, STOCHASTIC]),
        FROM_VECTORS: (from_vectors, ["trajstore", *peers, *([WITHOUT_ROOM] if tight else [])]),
    }
    rows: list[Row] = []
    for work, (make, sides) in plan.items():
        took: dict[str, list[float]] = {}
        notes: dict[str, str] = {}
        right: float | None = None
        for side in sides:
            job = make(vectors, k, side)
            took[side], found = _took(job, repeats)
            del job
            right = value(vectors, found) if right is None else right
            notes[side] = _checked(vectors, found, right, exact=side != STOCHASTIC)
        rows += rows_of(work, took, "ms", targets=TARGETS, notes=notes)
    return rows


def _took(job: Job, repeats: int) -> tuple[list[float], Sequence[int]]:
    """CPU milliseconds of every run, and the picks."""
    found: Sequence[int] = ()
    runs = []
    for _ in range(repeats):
        took, found = timed(job)
        runs.append(milliseconds(took.cpu_s))
    return runs, found


def _checked(vectors: Floats, picks: Sequence[int], right: float, *, exact: bool) -> str:
    found = value(vectors, picks)
    if exact and abs(found - right) > _SAME * right:
        raise DisagreementError(f"picks of value {found:.3f}, where {right:.3f} was found")
    return f"value {found:,.3f}, {found / right:.4f} of trajstore's"


def installed(names: Sequence[str] = tuple(MODULES)) -> tuple[list[str], list[str]]:
    """The peers that are here, and a line for each that is not."""
    here = [n for n in names if importlib.util.find_spec(MODULES[n]) is not None]
    package = {"submodlib": "submodlib-py"}
    lines = [f"{n} (pip install {package.get(n, n)})" for n in names if n not in here]
    return here, lines


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what the command line asks for; 1 if the picks of two sides differ in value."""
    given = _parser().parse_args(arguments)
    peers, missing = installed()
    for line in missing:
        print(f"not measured: {line}", file=sys.stderr)
    asked = sys.argv[1:] if arguments is None else arguments
    for name, said in environment(["python", "-m", "benchmarks.diversity", *asked]).items():
        print(f"- {name}: {said}", file=sys.stderr)
    try:
        rows = measure(
            given.n,
            given.k,
            dimension=given.dimension,
            repeats=given.repeats,
            peers=peers,
            tight=given.without_room,
        )
    except DisagreementError as error:
        print(f"The sides disagree: {error}", file=sys.stderr)
        return 1
    print(f"{tables(rows)}\n\n{summary(rows)}")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.diversity",
        description="Measure facility location beside apricot-select and submodlib.",
        epilog="Example: python -m benchmarks.diversity --n 2000 --k 100",
    )
    add = parser.add_argument
    add("--n", type=int, default=20_000, help="items")
    add("--k", type=int, default=500, help="picks")
    add("--dimension", type=int, default=384, help="of the vectors")
    add("--repeats", type=int, default=3, help="runs of each side")
    add("--without-room", action="store_true", help="also where the matrix does not fit")
    return parser


if __name__ == "__main__":
    sys.exit(main())
