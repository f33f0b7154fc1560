"""Measure trajstore beside its peers: ``python -m benchmarks.store --trajectories 1000``.

``benchmarks/README.md`` says what is measured, how, and what came out.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

if __package__ in {None, ""}:  # run as a file: python benchmarks/store.py
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.appending import append
from benchmarks.bench import Bench
from benchmarks.ingesting import fill, ingest_arrow, settle
from benchmarks.measure import DisagreementError, environment
from benchmarks.memory import measure_memory
from benchmarks.peers import PEERS, Peer
from benchmarks.reading import read
from benchmarks.report import summary, write
from benchmarks.workload import Workload

PARTS = ("read", "arrow", "append")
"""Parts that can be asked for alone; ``read`` begins with ingest from dicts."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what the command line asks for; 1 if two stores disagree about an answer."""
    given = _parser().parse_args(arguments)
    chosen, skipped = choose(given.only, given.skip)
    about = environment([*_python(), *(sys.argv[1:] if arguments is None else arguments)])
    for line in skipped:
        print(f"not measured: {line}", file=sys.stderr)
    with tempfile.TemporaryDirectory(dir=given.folder, prefix="trajstore-bench-") as folder:
        bench = Bench(
            workload=Workload(given.trajectories, seed=given.seed, batch=given.batch),
            peers=chosen,
            folder=Path(folder),
            repeats=given.repeats,
            budget_s=given.budget,
            commits=given.commits,
        )
        try:
            run(bench, parts=given.parts, memory_gb=given.memory)
        except DisagreementError as error:
            print(f"The stores disagree: {error}", file=sys.stderr)
            return 1
    print(summary(bench.rows))
    if given.out is not None:
        write(given.out, about, bench.rows, skipped)
    return 0


def run(bench: Bench, *, parts: Sequence[str] = PARTS, memory_gb: float | None = None) -> None:
    """Run the parts; results gather in ``bench.rows``.

    Raises:
        DisagreementError: two stores gave different answers.
    """
    if "read" in parts:
        fill(bench)
        settle(bench)
        read(bench)
        for peer in bench.filled.values():
            peer.close()
    if "arrow" in parts:
        ingest_arrow(bench)
    if "append" in parts:
        append(bench)
    if memory_gb is not None:
        measure_memory(bench, memory_gb)


def choose(
    only: Sequence[str] = (), skip: Sequence[str] = ()
) -> tuple[list[type[Peer]], list[str]]:
    """The stores to measure, and a line for each that is left out and why.

    Args:
        only: names; all where empty. trajstore is always among them.
        skip: names.
    """
    chosen: list[type[Peer]] = []
    lines: list[str] = []
    for kind in PEERS:
        missing = kind.missing()
        if kind.name != "trajstore" and (kind.name in skip or (only and kind.name not in only)):
            lines.append(f"{kind.name} (not asked for)")
        elif missing:
            lines.append(f"{kind.name} (pip install {' '.join(missing)})")
        else:
            chosen.append(kind)
    return chosen, lines


def _python() -> list[str]:
    return ["python", "-m", "benchmarks.store"]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.store",
        description="Measure trajstore beside its peers on generated trajectories.",
        epilog="Example: python -m benchmarks.store --trajectories 1000 -o results",
    )
    names = [k.name for k in PEERS]
    add = parser.add_argument
    add("--trajectories", type=int, default=1000, help="how many (20 steps each on average)")
    add("--seed", type=int, default=0, help="of the generator")
    add("--batch", type=int, default=1000, help="trajectories a commit at ingest")
    add("--repeats", type=int, default=5, help="runs of everything that is repeated")
    add("--budget", type=float, default=60.0, help="seconds a store may spend on one work")
    add("--commits", type=int, default=500, help="small appends")
    add("--only", nargs="+", choices=names, default=[], help="measure these beside trajstore")
    add("--skip", nargs="+", choices=names, default=[], help="leave these out")
    add("--parts", nargs="+", choices=PARTS, default=list(PARTS), help="measure only these")
    add("--memory", type=float, nargs="?", const=1.0, metavar="GB", help="also memory at import")
    add("--folder", type=Path, help="where the stores are made; a temporary folder else")
    add("-o", "--out", type=Path, metavar="DIR", help="write store.md and store.json there")
    return parser


if __name__ == "__main__":
    sys.exit(main())
