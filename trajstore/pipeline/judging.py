"""Judge runs by a rubric with a chat model, and keep every verdict as labels."""

from __future__ import annotations

from collections.abc import Callable, Iterator

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
    options: JudgeOptions | None = None,
) -> JudgePlan:
    """Count what would be judged and render one prompt, without asking anybody.

    Args:
        store: the store.
        rubric: what to ask.
        model: name of the judge's model.
        where: an SQL condition over ``trajectories``; None for all.
        options: see :class:`JudgeOptions`.
    """
    options = options or JudgeOptions()
    reader = store.reader()
    work = _Work(reader, rubric, model, where, options)
    messages: list[dict[str, str]] = []
    if work.pending:
        run = reader.get_many(work.pending[:1])[0]
        messages = rubric.messages(quote_run(run, budget=options.budget, cut=options.cut).text)
    return JudgePlan(
        evaluator=work.evaluator,
        evaluator_version=rubric.evaluator_version,
        wanted=work.wanted,
        already=work.wanted - len(work.pending),
        messages=messages,
    )


def judge(
    store: Store,
    rubric: Rubric,
    endpoint: ChatEndpoint,
    *,
    where: str | Condition | None = None,
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
        limit: judge at most this many runs now.
        options: see :class:`JudgeOptions`.
        progress: called after each run.

    Raises:
        EndpointError: the endpoint refuses everything, or too many runs in a row failed. What was
            judged before is stored.
    """
    options = options or JudgeOptions()
    reader = store.reader()
    work = _Work(reader, rubric, endpoint.model, where, options)
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


class _Work:
    """Which runs fit the condition, and which of them are not judged yet."""

    def __init__(
        self,
        reader: Reader,
        rubric: Rubric,
        model: str,
        where: str | Condition | None,
        options: JudgeOptions,
    ) -> None:
        self.evaluator = evaluator_of(rubric, model)
        condition = where if isinstance(where, str) or where is None else where.to_sql()
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
                  WHERE {condition or "true"}) t
            ORDER BY trajectory_id"""
        rows = reader.query(query).read_all()
        self.wanted = rows.num_rows
        ids, judged = rows.column("trajectory_id"), rows.column("judged")
        self.pending = [
            i for i, done in zip(ids.to_pylist(), judged.to_pylist(), strict=True) if not done
        ]


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _runs(reader: Reader, ids: list[str]) -> Iterator[Trajectory]:
    for start in range(0, len(ids), _RUNS_A_READ):
        yield from reader.get_many(ids[start : start + _RUNS_A_READ])
