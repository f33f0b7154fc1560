"""Tables that a command computes part by part: JSON lines on stdout, or one Parquet file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from trajstore_cli._output import out
from trajstore_cli._rows import in_place
from trajstore_cli._values import as_json

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

_ROWS_AT_ONCE = 10_000


@contextmanager
def tables_to(output: Path | None) -> Iterator[Callable[[pa.Table], None]]:
    """Take tables of one schema and write their rows.

    Args:
        output: a Parquet file, which appears complete or not at all; None or ``-`` for JSON lines.
    """
    if output is None or str(output) == "-":
        yield _print_rows
        return
    with ExitStack() as stack:
        yield _Parquet(output, stack).take


class _Parquet:
    """A file that begins with its first rows, since those say what the columns are."""

    def __init__(self, output: Path, stack: ExitStack) -> None:
        self._output = output
        self._stack = stack
        self._writer: pq.ParquetWriter | None = None

    def take(self, rows: pa.Table) -> None:
        """Write some rows."""
        if self._writer is None:
            import pyarrow.parquet as pq

            path = self._stack.enter_context(in_place(self._output))
            self._writer = self._stack.enter_context(
                pq.ParquetWriter(path, rows.schema, compression="zstd")
            )
        self._writer.write_table(rows)


def _print_rows(rows: pa.Table) -> None:
    for batch in rows.to_batches(max_chunksize=_ROWS_AT_ONCE):
        for row in batch.to_pylist():
            out(as_json(row))
