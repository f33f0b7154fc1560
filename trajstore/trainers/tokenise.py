"""Trajectories to training rows: stored tokens as they are, else a chat template and a mask."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from trajstore.errors import TrainingError
from trajstore.exports.arguments import with_objects
from trajstore.exports.messages import Chat, ChatRules, render_chat
from trajstore.exports.tools import tool_definitions
from trajstore.rollouts.encoding import encode
from trajstore.rollouts.templates import CHATML, ChatTemplate, with_call_ids
from trajstore.schema import Step, Trajectory, counted
from trajstore.trainers.masks import Piece, pieces, turn_text
from trajstore.trainers.rows import Draft, TokenRow, Turn, cut, drafts, numpy
from trajstore.trainers.sampled import FOREIGN, behaviour, foreign, known

if TYPE_CHECKING:
    from trajstore.trainers.rows import FloatArray

_RUNS_AT_ONCE = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class RowOptions:
    """Choices about rows that hold for all runs."""

    max_tokens: int | None = None
    """Longest row. A longer one ends behind the last step that fits, and its ``cut_steps`` says
    what was left out; a run none of whose steps fits is refused."""
    include_reasoning: bool = True
    """Train on reasoning, where tokens are made from text."""
    train_format_errors: bool = False
    """Also train on turns whose output could not be parsed. Reinforcement learning does: the
    advantage is on all that the policy did."""
    media: Literal["refuse", "mark"] = "refuse"
    """Whether parts that are no text become a mark such as ``[image]``."""
    consecutive: Literal["keep", "merge"] = "keep"
    """Whether user or system messages in a row become one, which some templates insist on."""
    stored: Literal["use", "ignore"] = "use"
    """Whether stored token ids are used where a step has them. Those of rationalised runs never
    are: they were sampled behind a hint that the saved context does not show."""


DEFAULT_OPTIONS = RowOptions()
"""Everything that the policy produced but format errors; stored tokens used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What is known of one run beside its steps."""

    advantages: float | Mapping[int, float] | None = None
    """Advantage of the whole run, or of each step by its index."""
    weight: float = 1.0
    """How much its rows count."""
    group_id: str | None = None
    """Attempts that were compared with one another."""
    steps: Collection[int] | None = None
    """Train on these steps only, as a pair of single steps does; None is all of the agent's own."""


NO_FACTS = Facts()
"""A run of weight 1 without advantages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """A run that gave no row."""

    trajectory_id: str
    """The run."""
    reason: str
    """Why, where, and what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    """Text to tokenise, or rows whose tokens are known."""

    parts: Sequence[list[Piece] | Draft]
    unused: frozenset[str] = frozenset()
    """What was stored and is not used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Drafted:
    """Rows while they are made."""

    drafts: list[Draft]
    unused: frozenset[str]


def tokenise(
    trajectory: Trajectory,
    tokenizer: Any,
    template: ChatTemplate = CHATML,
    *,
    max_tokens: int | None = None,
    facts: Facts = NO_FACTS,
    options: RowOptions = DEFAULT_OPTIONS,
) -> list[TokenRow]:
    """The rows of one run: one where its context only grew, else one each time it was rewritten.

    Args:
        trajectory: the run.
        tokenizer: of transformers.
        template: how steps become text where tokens are not stored.
        max_tokens: longest row; overrides that of ``options``.
        facts: what is known of this run.
        options: choices for all runs.

    Raises:
        TrainingError: nothing of the run can be trained on, it does not fit ``max_tokens``, it
            holds media, or the template cannot say what it holds.
    """
    chosen = options if max_tokens is None else replace(options, max_tokens=max_tokens)
    (found,) = tokenise_all(
        [trajectory], tokenizer, template, facts=lambda _: facts, options=chosen
    )
    if isinstance(found, Refused):
        raise TrainingError(found.reason, record=found.trajectory_id)
    return found


def tokenise_all(
    trajectories: Iterable[Trajectory],
    tokenizer: Any,
    template: ChatTemplate = CHATML,
    *,
    facts: Callable[[Trajectory], Facts] = lambda _: NO_FACTS,
    options: RowOptions = DEFAULT_OPTIONS,
) -> Iterator[list[TokenRow] | Refused]:
    """The rows of each run, or why it has none, in the order of the runs; as :func:`tokenise`.

    Tokenises 64 runs at a time, so memory does not grow with their number.
    """
    runs = iter(trajectories)
    while part := list(itertools.islice(runs, _RUNS_AT_ONCE)):
        told = [facts(run) for run in part]
        plans = [
            _tried(run, lambda r, f=f: _plan(r, tokenizer, template, f, options))  # type: ignore[misc]
            for run, f in zip(part, told, strict=True)
        ]
        drafted = _encoded(plans, tokenizer)
        for run, f, made in zip(part, told, drafted, strict=True):
            if isinstance(made, Refused):
                yield made
            else:
                yield _tried(run, lambda r, f=f, made=made: _rows(r, made, f, options))  # type: ignore[misc]


def _tried(run: Trajectory, make: Callable[[Trajectory], Any]) -> Any:
    try:
        return make(run)
    except TrainingError as error:
        reason = str(error)
        name = run.trajectory_id
        return Refused(
            trajectory_id=name, reason=reason if name in reason else f"run {name}: {reason}"
        )


def _plan(
    run: Trajectory,
    tokenizer: Any,
    template: ChatTemplate,
    facts: Facts,
    options: RowOptions,
) -> _Plan:
    stored = [i for i, s in _own(run) if known(s)] if _as_sampled(run, options) else []
    wrong = foreign(run, stored, tokenizer) if stored else None
    if wrong is None:
        return _planned(run, stored, tokenizer, template, facts, options)
    try:
        plan = _planned(run, [], tokenizer, template, facts, options)
    except TrainingError as error:
        message = f"its {FOREIGN} ({wrong}), and from its text: {error}"
        raise TrainingError(message) from error
    return replace(plan, unused=frozenset({FOREIGN}))


def _planned(
    run: Trajectory,
    stored: Sequence[int],
    tokenizer: Any,
    template: ChatTemplate,
    facts: Facts,
    options: RowOptions,
) -> _Plan:
    """The rows of a run of which some steps have tokens that are good to use."""
    wanted = [i for i, s in enumerate(run.steps) if _trained(i, s, facts, options)]
    told = [behaviour(run.steps[i]).unused for i in wanted if i in stored]
    unused = frozenset(t for t in told if t is not None)
    if stored and set(wanted) <= set(stored):
        turns = [_stored_turn(i, run.steps[i], i in wanted) for i in stored]
        return _Plan(parts=drafts(turns), unused=unused)
    chat = chat_of(run, template, options)
    flags = [
        t and (facts.steps is None or s in facts.steps)
        for t, s in zip(chat.trainable, chat.step_of, strict=True)
    ]
    if not any(flags):
        raise TrainingError(
            "no step of the agent can be trained on: all are empty, copied, format errors or not "
            "among those asked for"
        )
    tools = tools_of(run)
    if not stored:
        return _Plan(parts=pieces(chat, flags, tools, tokenizer, template))
    turns = []
    for place, step in enumerate(chat.step_of):
        if step in stored and chat.messages[place]["role"] == "assistant":
            turns.append(_stored_turn(step, run.steps[step], flags[place]))
        elif flags[place]:
            text = turn_text(chat.messages, place, tools, tokenizer, template, step)
            prompt, produced = encode(text, tokenizer)
            turns.append(Turn(step=step, prompt=prompt, produced=produced))
    return _Plan(parts=drafts(turns), unused=unused)


def _own(run: Trajectory) -> Iterator[tuple[int, Step]]:
    return ((i, s) for i, s in enumerate(run.steps) if counted(s))


def _trained(index: int, step: Step, facts: Facts, options: RowOptions) -> bool:
    asked = facts.steps is None or index in facts.steps
    made = step.text or step.reasoning or step.tool_calls or step.completion_token_ids
    parsed = options.train_format_errors or not step.format_error
    return bool(asked and made and parsed and counted(step))


def _as_sampled(run: Trajectory, options: RowOptions) -> bool:
    return options.stored == "use" and run.relation != "rationalization"


def _stored_turn(index: int, step: Step, trained: bool) -> Turn:  # noqa: FBT001 - data
    told = behaviour(step)
    return Turn(
        step=index,
        prompt=step.prompt_token_ids or (),
        produced=step.completion_token_ids or (),
        trained=trained,
        logprobs=told.logprobs,
        stored=True,
        temperature=told.temperature,
    )


def tools_of(run: Trajectory) -> list[dict[str, Any]] | None:
    """The tool definitions that a run was offered; None where it has none."""
    text = tool_definitions(run.tools)
    return None if text is None else json.loads(text)


def chat_of(run: Trajectory, template: ChatTemplate, options: RowOptions) -> Chat:
    """The messages of a run in the form that the template takes.

    Raises:
        TrainingError: it holds media, or arguments that the template cannot say.
    """
    rules = ChatRules(
        include_reasoning=options.include_reasoning,
        train_format_errors=options.train_format_errors,
        consecutive=options.consecutive,
    )
    chat = render_chat(run, rules)
    if options.media == "refuse" and chat.applied.get("media-marked"):
        raise TrainingError("a message has images, audio or files; media='mark' writes their kind")
    messages = with_call_ids(chat.messages, template.call_id_length)
    if template.arguments == "object":
        try:
            messages = with_objects(messages)
        except ValueError as error:
            message = f"the chat template '{template.name}' takes parsed arguments, and {error}"
            raise TrainingError(message) from error
    return replace(chat, messages=messages)


def _encoded(plans: Sequence[_Plan | Refused], tokenizer: Any) -> list[_Drafted | Refused]:
    """Rows of pieces become drafts; all texts are tokenised at once."""
    parts = [part for plan in plans if isinstance(plan, _Plan) for part in plan.parts]
    texts = [piece.text for row in parts if not isinstance(row, Draft) for piece in row]
    ids = iter(encode(texts, tokenizer) if texts else ())
    made: list[_Drafted | Refused] = []
    for plan in plans:
        if isinstance(plan, Refused):
            made.append(plan)
        else:
            rows = [r if isinstance(r, Draft) else _draft(r, ids) for r in plan.parts]
            made.append(_Drafted(drafts=rows, unused=plan.unused))
    return made


def _draft(row: Sequence[Piece], ids: Iterator[list[int]]) -> Draft:
    draft = Draft(logprobs=None)
    for piece in row:
        if piece.step is None:
            draft.read(next(ids))
        else:
            draft.write(piece.step, next(ids))
    return draft


def _rows(run: Trajectory, made: _Drafted, facts: Facts, options: RowOptions) -> list[TokenRow]:
    if not made.drafts:
        raise TrainingError("no step of the agent can be trained on")
    rows: list[TokenRow] = []
    lost: list[int] = []
    for draft in made.drafts:
        row = _row(run, draft, facts, options)
        if row is None:
            lost += draft.steps
        else:
            rows.append(replace(row, unused=tuple(sorted(made.unused))))
    if not rows:
        shortest = min(d.ends[0] for d in made.drafts)
        message = (
            f"no step fits {options.max_tokens} tokens; the first that is trained on ends at token "
            f"{shortest}; raise max_tokens"
        )
        raise TrainingError(message)
    if lost:
        rows[-1] = replace(rows[-1], cut_steps=tuple(sorted({*rows[-1].cut_steps, *lost})))
    return rows


def _row(run: Trajectory, draft: Draft, facts: Facts, options: RowOptions) -> TokenRow | None:
    length, left_out = cut(draft, options.max_tokens)
    if length == 0:
        return None
    np = numpy()
    kept = draft.steps[: len(draft.steps) - len(left_out)]
    mask = np.asarray(draft.mask[:length], dtype=np.bool_)
    logprobs = None if draft.logprobs is None else draft.logprobs[:length]
    return TokenRow(
        token_ids=np.asarray(draft.ids[:length], dtype=np.int64),
        action_mask=mask,
        trajectory_id=run.trajectory_id,
        step_from=kept[0],
        step_to=kept[-1],
        old_logprobs=None if logprobs is None else np.asarray(logprobs, dtype=np.float32),
        advantages=_advantages(draft, mask, kept, facts),
        temperature=draft.temperature,
        weight=facts.weight,
        group_id=facts.group_id,
        policy_version=run.policy_version,
        stored=draft.stored,
        cut_steps=left_out,
    )


def _advantages(draft: Draft, mask: Any, steps: Sequence[int], facts: Facts) -> FloatArray | None:
    given = facts.advantages
    if given is None:
        return None
    np = numpy()
    values: FloatArray = np.zeros(len(mask), dtype=np.float32)
    start = 0
    for step, end in zip(steps, draft.ends, strict=False):
        value = given.get(step) if isinstance(given, Mapping) else given
        if value is None:
            raise TrainingError(f"step {step} has no advantage; give one for each trained step")
        values[start:end] = value
        start = end
    values[~mask] = 0.0
    return values
