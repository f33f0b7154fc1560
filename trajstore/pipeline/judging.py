"""Judge runs by a rubric with a chat model, and keep every verdict as labels."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from trajstore.errors import JudgeError
from trajstore.filters import Selection
from trajstore.pipeline.chat_endpoint import ChatEndpoint
from trajstore.pipeline.judge_bench import DIGEST, JUDGE_LABEL, Bench
from trajstore.pipeline.judge_report import JudgeOptions, JudgePlan, JudgeReport
from trajstore.pipeline.rubrics import Rubric
from trajstore.pipeline.transcripts import quote_run
from trajstore.schema import OUTCOME, Trajectory
from trajstore.store import Condition, Reader, Store

_RUNS_A_READ = 32

Progress = Callable[[int, int], None]
"""Called with the number of runs done and the number to do."""


def evaluator_of(rubric: Rubric, model: str) -> str:
    """The evaluator that labels of this rubric and model name."""
    return f"llm-judge/{rubric.name}/{model}"


def plan_judging(
    store: Store,
    rubric: Rubric,
    model: str,
    *,
    where: str | Condition | None = None,
    selection: Selection | None = None,
    evaluator: str | None = None,
    limit: int | None = None,
    options: JudgeOptions | None = None,
) -> JudgePlan:
    """Count what would be judged and render one prompt, without asking anybody.

    Args:
        store: the store.
        rubric: what to ask.
        model: name of the judge's model.
        where: an SQL condition over ``trajectories``; None for all.
        selection: only runs of this selection; not with ``where``.
        evaluator: the name that labels bear; :func:`evaluator_of` where None.
        limit: judge at most this many runs.
        options: see :class:`JudgeOptions`.

    Raises:
        JudgeError: a selection and a condition at once, or a selection of another store.
    """
    options = options or JudgeOptions()
    reader = store.reader()
    chosen = _Chosen(where, selection, evaluator or evaluator_of(rubric, model))
    work = _Work(reader, rubric, chosen, options)
    messages: list[dict[str, str]] = []
    if work.pending:
        run = reader.get_many(work.pending[:1])[0]
        messages = rubric.messages(quote_run(run, budget=options.budget, cut=options.cut).text)
    return JudgePlan(
        evaluator=work.evaluator,
        evaluator_version=rubric.evaluator_version,
        wanted=work.wanted,
        already=work.wanted - len(work.pending),
        to_judge=len(work.pending[:limit]),
        messages=messages,
    )


def judge(  # noqa: PLR0913  one parameter a flag of the command
    store: Store,
    rubric: Rubric,
    endpoint: ChatEndpoint,
    *,
    where: str | Condition | None = None,
    selection: Selection | None = None,
    evaluator: str | None = None,
    limit: int | None = None,
    options: JudgeOptions | None = None,
    progress: Progress | None = None,
) -> JudgeReport:
    """Let a model judge runs, and append its verdicts as labels.

    Each run gets a label ``judge`` with the total (0 to 10) and one ``judge/CRITERION`` a score.
    They name the evaluator ``llm-judge/RUBRIC/MODEL`` and the version of the rubric; the rationale
    is JSON with the raw scores, the judge's reason, the model, the rubric, and how the run was cut.
    Verdicts are written as they come, so a second call goes on where the first one stopped. Another
    version of the rubric, another model, or a run that has grown adds labels and replaces none.

    Args:
        store: where to read and write.
        rubric: what to ask.
        endpoint: whom to ask.
        where: an SQL condition over ``trajectories``; None for all.
        selection: only runs of this selection, as the newest snapshot has them; not with ``where``.
        evaluator: the name that labels bear; :func:`evaluator_of` where None. Under another name
            the same runs are judged again.
        limit: judge at most this many runs now.
        options: see :class:`JudgeOptions`.
        progress: called after each run.

    Raises:
        JudgeError: a selection and a condition at once, or a selection of another store.
        EndpointError: the endpoint refuses everything, or too many runs in a row failed. What was
            judged before is stored.
    """
    options = options or JudgeOptions()
    reader = store.reader()
    chosen = _Chosen(where, selection, evaluator or evaluator_of(rubric, endpoint.model))
    work = _Work(reader, rubric, chosen, options)
    report = JudgeReport(
        evaluator=work.evaluator,
        evaluator_version=rubric.evaluator_version,
        snapshot=reader.snapshot.version,
        wanted=work.wanted,
        already=work.wanted - len(work.pending),
    )
    todo = work.pending if limit is None else work.pending[:limit]
    bench = Bench(store, rubric, endpoint, options, report)
    try:
        for done, judged in enumerate(bench.judged(_runs(reader, todo)), 1):
            bench.take(judged)
            if progress is not None:
                progress(done, len(todo))
    finally:
        bench.close()
    return report


@dataclass(frozen=True, slots=True)
class _Chosen:
    """Which runs are wanted, and in whose name."""

    where: str | Condition | None
    selection: Selection | None
    evaluator: str

    def __post_init__(self) -> None:
        if self.where is not None and self.selection is not None:
            raise JudgeError("Give a selection or a condition, not both; a condition is a stage.")

    @property
    def condition(self) -> str:
        where = self.where
        return (where if isinstance(where, str) or where is None else where.to_sql()) or "true"

    def among(self, rows: pa.Table) -> pa.Table:
        """The rows of the selection's runs; all of them where there is none."""
        if self.selection is None:
            return rows
        ids = self.selection.rows.column("trajectory_id")
        lost = ids.filter(pc.invert(pc.is_in(ids, value_set=rows.column("trajectory_id"))))
        if len(lost):
            raise JudgeError(
                f"{len(lost)} of the selected runs are not in the store, such as {lost[0]}; select "
                "again, or give the store that the selection was made from."
            )
        return rows.filter(pc.is_in(rows.column("trajectory_id"), value_set=ids))


class _Work:
    """Which runs are wanted, and which of them are not judged yet."""

    def __init__(
        self, reader: Reader, rubric: Rubric, chosen: _Chosen, options: JudgeOptions
    ) -> None:
        self.evaluator = chosen.evaluator
        name = OUTCOME if options.as_outcome else JUDGE_LABEL
        query = f"""
            SELECT t.trajectory_id AS trajectory_id, EXISTS (
                SELECT 1 FROM labels l WHERE l.trajectory_id = t.trajectory_id
                    AND l.step_index IS NULL AND l.name = {_literal(name)}
                    AND l.evaluator = {_literal(self.evaluator)}
                    AND l.evaluator_version = {_literal(rubric.evaluator_version)}
                    AND contains(l.rationale, left(coalesce(t.source_digest, ''), {DIGEST})))
                AS judged
            FROM (SELECT trajectory_id, source_digest FROM trajectories
                  WHERE {chosen.condition}) t
            ORDER BY trajectory_id"""
        rows = chosen.among(reader.query(query).read_all())
        self.wanted = rows.num_rows
        pending = rows.filter(pc.invert(rows.column("judged")))
        self.pending: list[str] = pending.column("trajectory_id").to_pylist()


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _runs(reader: Reader, ids: list[str]) -> Iterator[Trajectory]:
    for start in range(0, len(ids), _RUNS_A_READ):
        yield from reader.get_many(ids[start : start + _RUNS_A_READ])
