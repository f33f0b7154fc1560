"""``trajstore search``."""

from __future__ import annotations

from dataclasses import asdict
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from trajstore_cli._cells import safe, shortened
from trajstore_cli._command import add
from trajstore_cli._options import (
    AtOption,
    FailEmptyOption,
    JsonOption,
    StoreArgument,
    open_store,
)
from trajstore_cli._output import out, paint, rows, say
from trajstore_cli._progress import count_progress
from trajstore_cli._values import as_json

if TYPE_CHECKING:
    from trajstore.retrieval import EvaluationReport, Hit

_SHOWN = 160


class Level(StrEnum):
    """What is searched for."""

    TRAJECTORY = "trajectory"
    STEP = "step"
    SKILL = "skill"
    REFLECTION = "reflection"
    WORKFLOW = "workflow"
    INSIGHT = "insight"


class Mode(StrEnum):
    """How."""

    HYBRID = "hybrid"
    VECTOR = "vector"
    TEXT = "text"


TextArgument = Annotated[
    str | None, typer.Argument(metavar="[TEXT]", help="What is to be done; not with --evaluate.")
]
HitsOption = Annotated[int, typer.Option("-k", "--hits", metavar="K", min=1, help="Most hits.")]
LevelOption = Annotated[Level, typer.Option("--level", help="What to search for.")]
ModeOption = Annotated[
    Mode | None,
    typer.Option("--mode", help="By meaning, by words, or both; both if the index has vectors."),
]
WhereOption = Annotated[
    str | None,
    typer.Option(metavar="SQL", help="Condition over `trajectories`, or over the level's view."),
]
TaskOption = Annotated[
    str | None,
    typer.Option(
        "--task",
        metavar="TASK_ID",
        help="The task that asks: its runs, those of nearly the same tasks, and memory drawn from "
        "either are left out.",
    ),
]
GoalOption = Annotated[
    str | None,
    typer.Option(
        metavar="GOAL",
        help="With --task: its goal, where TEXT is more than that and the task not in the store.",
    ),
]
SuccessOption = Annotated[
    bool,
    typer.Option("--success-only", help="Only runs and steps of runs that succeeded, as of now."),
]
SimilarityOption = Annotated[
    float | None,
    typer.Option(metavar="COSINE", min=-1, max=1, help="Least cosine with TEXT, itself included."),
]
EvaluateOption = Annotated[
    bool,
    typer.Option(
        "--evaluate", help="Measure instead: leave each task out, look for successes like it."
    ),
]
PromptOption = Annotated[
    bool,
    typer.Option(
        "--prompt", help="Print demonstrations for a prompt, within --token-budget (4,000)."
    ),
]
TokenizerOption = Annotated[
    str | None,
    typer.Option(
        metavar="T",
        help="With --prompt: what counts tokens: a tokenizer.json, a folder with one, or estimate.",
    ),
]


def search(
    store: StoreArgument,
    text: TextArgument = None,
    k: HitsOption = 5,
    level: LevelOption = Level.TRAJECTORY,
    mode: ModeOption = None,
    where: WhereOption = None,
    task: TaskOption = None,
    goal: GoalOption = None,
    success_only: SuccessOption = False,
    environment: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Only of this environment, or memory that names none."),
    ] = None,
    environment_version: Annotated[
        str | None, typer.Option(metavar="VERSION", help="Only of this version of it.")
    ] = None,
    per_task: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Most hits of one task; 1 for runs with --prompt."),
    ] = None,
    distinct: Annotated[
        float | None,
        typer.Option(
            min=0, max=1, help="Leave out what is the same: 1 equal texts, 0.95 near ones, too."
        ),
    ] = None,
    mmr: Annotated[
        float | None,
        typer.Option(min=0, max=1, help="Prefer hits that differ: 1 not at all, 0.7 usual."),
    ] = None,
    min_similarity: SimilarityOption = None,
    min_score: Annotated[
        float | None, typer.Option(metavar="SCORE", help="Least score, itself included.")
    ] = None,
    token_budget: Annotated[
        int | None, typer.Option(metavar="TOKENS", min=0, help="Most tokens of all hits together.")
    ] = None,
    at: AtOption = None,
    prompt: PromptOption = False,
    tokenizer: TokenizerOption = None,
    evaluate: EvaluateOption = False,
    fail_empty: FailEmptyOption = False,
    json: JsonOption = False,
) -> None:
    """Find the experiences that help most with a task.

    Hits go to stdout, the best first; what filters and bounds left out goes to stderr. Make the
    index first with `trajstore index`.

    Example: trajstore search pool "cancel a flight" --success-only
    """
    if evaluate == (text is not None):
        raise typer.BadParameter("give a TEXT, or --evaluate", param_hint="TEXT")
    if evaluate:
        _evaluate(store, k, json=json)
        return
    from trajstore.retrieval import as_row
    from trajstore.retrieval import search as find

    asked: dict[str, Any] = {
        "k": k,
        "level": level.value,
        "mode": None if mode is None else mode.value,
        "where": where,
        "task_id": task,
        "goal": goal,
        "success_only": success_only,
        "environment": environment,
        "environment_version": environment_version,
        "mmr": mmr,
        "min_similarity": min_similarity,
        "min_score": min_score,
        "at": at,
    }
    bounds = {"per_task": per_task, "distinct": distinct}
    asked |= {name: bound for name, bound in bounds.items() if bound is not None}
    if prompt:
        found = _prompt(store, text or "", asked, token_budget, tokenizer, json=json)
        if fail_empty and not found:
            raise typer.Exit(1)
        return
    asked["token_budget"] = token_budget
    hits = find(open_store(store), text or "", **asked)
    if json:
        rows(as_row(hit) for hit in hits)
    else:
        for rank, hit in enumerate(hits, 1):
            _show(rank, hit)
    say(hits.explain())
    if fail_empty and not len(hits):
        raise typer.Exit(1)


def _prompt(
    store: str,
    text: str,
    asked: dict[str, Any],
    budget: int | None,
    tokenizer: str | None,
    *,
    json: bool,
) -> int:
    """Print demonstrations; how many there are."""
    from trajstore.retrieval import DEFAULT_BUDGET, few_shot

    budget = DEFAULT_BUDGET if budget is None else budget
    found = few_shot(open_store(store), text, budget=budget, tokenizer=tokenizer, **asked)
    if json:
        out(as_json({**asdict(found), "messages": found.messages()}))
    elif found.text:
        out(found.text)
    say(found.explain())
    return len(found.shown)


def _show(rank: int, hit: Hit) -> None:
    outcome = {True: "success", False: "failure", None: "unknown"}[hit.success]
    about = [outcome] if hit.level in {"trajectory", "step"} else []
    about += [safe(x) for x in (hit.task_id, hit.environment) if x]
    out(f"{rank:>3}  {hit.score:.4f}  {paint(safe(hit.item_id), 'bold')}  {'  '.join(about)}")
    out(f"     {shortened(safe(' '.join(hit.text.split())), _SHOWN)}")


def _evaluate(store: str, k: int, *, json: bool) -> None:
    from trajstore.retrieval import evaluate

    with count_progress("asking", quiet=json) as progress:
        found = evaluate(open_store(store), k=k, progress=progress)
    if json:
        out(as_json(asdict(found)))
        return
    _show_report(found)


def _show_report(found: EvaluationReport) -> None:
    out(f"{found.queries:,} tasks, each left out in turn; {found.without_answer:,} have no answer")
    out(f"{'mode':<8}  recall@{found.k}  MRR     nDCG")
    for mode, q in found.modes.items():
        out(f"{mode:<8}  {q.recall:<8.4f}  {q.mrr:.4f}  {q.ndcg:.4f}")
    out(f"{'chance':<8}  {found.chance:.4f}")
    out("")
    for name, values in found.domains.items():
        recalls = "  ".join(f"{m} {values[m]:.3f}" for m in found.modes)
        out(f"{safe(name):<28}  {values['queries']:>5} tasks  {recalls}")


def register(app: typer.Typer) -> None:
    """Add the command."""
    add(app, search)
