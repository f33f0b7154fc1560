"""Reflexion on code: implementations in a row, each after a reflection on the one before."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from trajstore.importers import programming
from trajstore.importers.importer import uri
from trajstore.importers.items import Item
from trajstore.importers.programming import ProgrammingRun
from trajstore.importers.source import Record, Source
from trajstore.schema import Reflection, Step, Trajectory


def problem_items(source: Source, record: Record, importer: str) -> Iterator[Item]:
    """Attempts and reflections of one problem.

    With ``implementations``, each is an attempt: the problem, the implementation before and its
    test feedback (copied context, since the model saw them), then the new implementation with the
    reflection as its reasoning. Older files keep only the last one as ``solution``: one attempt,
    whose number is the count of reflections. Only the last implementation was put to the hidden
    tests. Reflection k speaks of attempt k, unless the counts show that attempts were started
    afresh (pass@k above 1); then it names none.
    """
    value, run = record.value, ProgrammingRun.of(source.name)
    solved, task = programming.verdict(value), programming.task_id(value, run)
    reflections = programming.texts(value, "reflections")
    codes = programming.texts(value, "implementations")
    numbers = range(len(codes)) if codes else range(len(reflections), len(reflections) + 1)
    in_a_row = numbers[-1] == len(reflections)
    ids = programming.attempt_ids(value, numbers[-1] + 1)
    for number in numbers:
        is_later = number > numbers[0]
        yield Trajectory(
            trajectory_id=ids[number],
            task_id=task,
            attempt=number,
            goal=str(value["prompt"]),
            source=importer,
            source_uri=uri(source, record),
            environment=programming.ENVIRONMENT,
            agent=run.strategy or ("reflexion" if "reflections" in value else "simple"),
            model=run.model,
            parent_id=ids[number - 1] if is_later else None,
            relation="retry" if is_later else None,
            status="terminated",
            success=solved if number == numbers[-1] else None,
            steps=_steps(record, number, codes, reflections if in_a_row else ()),
            metadata=programming.metadata(value, run),
        )
    for number, text in enumerate(reflections):
        is_known = in_a_row and number in numbers
        if text.strip():
            yield Reflection(
                task_id=task,
                text=text,
                source=importer,
                trial=number if in_a_row else None,
                trajectory_id=ids[number] if is_known else None,
                environment=programming.ENVIRONMENT,
                model=run.model,
                source_uri=uri(source, record),
            )


def _steps(
    record: Record, number: int, codes: Sequence[str], reflections: Sequence[str]
) -> tuple[Step, ...]:
    feedback = programming.texts(record.value, "test_feedback")
    code = codes[number] if codes else record.value["solution"]
    if not isinstance(code, str):
        raise TypeError("field 'solution' is not a text")
    steps = [Step(actor="user", text=str(record.value["prompt"]))]
    reasoning = reflections[number - 1] if 0 < number <= len(reflections) else None
    if codes and reasoning is not None:
        said = programming.feedback_of(feedback, number - 1)
        before = programming.implementation_step(codes[number - 1], said, is_copied=True)
        steps.append(before)
    said = programming.feedback_of(feedback, number) if codes else None
    steps.append(programming.implementation_step(code, said, reasoning=reasoning))
    return tuple(steps)
