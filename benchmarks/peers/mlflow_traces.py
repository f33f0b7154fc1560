"""MLflow tracing on its SQLite store: a trace a trajectory, a span a step."""

from __future__ import annotations

import importlib
import json
import logging
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

from benchmarks.peers.peer import Peer
from benchmarks.workload import FIRST, Record, Whole, whole_of_record


class MlflowTraces(Peer):
    """Spans are started and ended by hand, and each trace is stored before the next one starts."""

    name: ClassVar[str] = "mlflow"
    about: ClassVar[str] = f"{FIRST} trajectories of a batch"
    packages: ClassVar[dict[str, str]] = {
        "mlflow": "mlflow-skinny",
        "sqlalchemy": "sqlalchemy",
        "alembic": "alembic",
    }
    sample: ClassVar[int | None] = FIRST

    def __init__(self, folder: Path) -> None:
        """Make the database, and store one small trace so that everything is loaded."""
        super().__init__(folder)
        os.environ["MLFLOW_ENABLE_ASYNC_TRACE_LOGGING"] = "false"
        self._mlflow: Any = importlib.import_module("mlflow")
        logging.getLogger("mlflow").setLevel(logging.ERROR)
        logging.getLogger("alembic").setLevel(logging.ERROR)
        self._point_here()
        self._mlflow.set_experiment("runs")
        self._traces: dict[str, str] = {}
        self._mlflow.start_span_no_context(name="first").end()

    def _point_here(self) -> None:
        self._mlflow.set_tracking_uri(f"sqlite:///{self.folder / 'mlflow.db'}")

    def ingest(self, records: Sequence[Record]) -> None:
        """One trace a trajectory."""
        self._point_here()
        start = self._mlflow.start_span_no_context
        for record in records:
            head = {k: v for k, v in record.items() if k != "steps"}
            root = start(name="trajectory", inputs=head)
            for step in record["steps"]:
                said = {k: v for k, v in step.items() if k != "observations"}
                span = start(name=step["actor"], parent_span=root, inputs=said)
                span.set_outputs(step.get("observations", []))
                span.end()
            root.end()
            self._traces[record["trajectory_id"]] = root.trace_id

    def stored(self) -> list[str]:
        """Ids of the first trajectories, all of which it has."""
        self._point_here()
        return list(self._traces)[:FIRST]

    def fetch(self, ids: Sequence[str]) -> list[Any]:
        """Trace objects."""
        return [self._mlflow.get_trace(self._traces[i]) for i in ids]

    def fetched(self, found: Any) -> list[Whole]:
        """Comparable."""
        return [whole_of_record(_record(trace)) for trace in found]


def _record(trace: Any) -> Record:
    spans = sorted(trace.data.spans, key=lambda s: s.start_time_ns)
    root = next(s for s in spans if s.parent_id is None)
    steps = []
    for span in spans:
        if span.parent_id is not None:
            results = {"observations": span.outputs} if span.outputs else {}
            steps.append({**span.inputs, **results})
    record: Record = json.loads(json.dumps({**root.inputs, "steps": steps}))
    return record
