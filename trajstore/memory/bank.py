"""A bank of skills in words (D2Skill): for whole tasks and for single steps, beside fixed examples.

Skills are insights of kind ``skill``; their utility is worked out from ``uses`` and the outcomes of
the runs (:func:`trajstore.memory.utility.utilities`), so nothing has to be kept in step. The static
exemplars (as in MolMem) stand beside them: they are shown, and never scored, changed or evicted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from trajstore.memory.bank_scores import (
    CAPACITY,
    EXPLORATION,
    WEIGHT,
    Candidate,
    eviction_order,
    score,
)
from trajstore.memory.bank_upkeep import Change, set_states
from trajstore.memory.exemplars import exemplars
from trajstore.memory.insights import Insights
from trajstore.memory.insights_row import StoredInsight
from trajstore.memory.utility import RATE, use_counts, utilities
from trajstore.schema import Insight
from trajstore.store import Store

Level = Literal["task", "step"]
"""What a skill helps with."""

Similarity = Callable[[str, Sequence[str]], Sequence[float]]
"""A text and others: the cosine of the text with each of them, -1 to 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BankOptions:
    """The numbers of a bank."""

    k: int = 3
    """Skills of each level that a run is shown (D2Skill)."""
    threshold: float = 0.7
    """Least cosine (D2Skill)."""
    weight: float = WEIGHT
    """What similarity is worth beside utility."""
    exploration: float = EXPLORATION
    """What it is worth that a skill was rarely tried."""
    rate: float = RATE
    """How far one gap moves a utility."""
    capacity: int = CAPACITY
    """Skills of each level that are kept in service."""
    protected_groups: int = 10
    """A skill is not evicted before so many groups of runs were given something from the bank after
    it came (D2Skill: 10 training steps)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BankHit:
    """A skill that a run is shown."""

    skill: StoredInsight
    """The skill."""
    score: float
    """D2Skill's score."""
    candidate: Candidate
    """Similarity, utility and uses that it is made of."""

    @property
    def item_id(self) -> str:
        """Its version, as a use is recorded."""
        return self.skill.item_id


@dataclass(frozen=True, slots=True, kw_only=True)
class BankHits:
    """What a run is shown; record it with ``record_uses(store, run, hits.given, "insight")``."""

    task: tuple[BankHit, ...] = ()
    """Skills for the whole task, the best first."""
    step: tuple[BankHit, ...] = ()
    """Skills for the step at hand, the best first."""
    exemplars: tuple[StoredInsight, ...] = ()
    """The static examples."""

    @property
    def given(self) -> tuple[BankHit, ...]:
        """Skills of both levels."""
        return (*self.task, *self.step)


def by_embedding(name: str = "minilm") -> Similarity:
    """Cosines by an embedder of :func:`trajstore.retrieval.embedder`; needs ``retrieval``."""

    def similarity(text: str, others: Sequence[str]) -> list[float]:
        from trajstore.retrieval import embedder

        if not others:
            return []
        model = embedder(name)
        asked = model.embed([text], kind="query")[0]
        return [float(v) for v in model.embed(list(others)) @ asked]

    return similarity


class SkillBank:
    """The skills in words of a store. It keeps nothing itself."""

    def __init__(
        self,
        store: Store,
        *,
        similarity: Similarity | None = None,
        options: BankOptions = BankOptions(),
    ) -> None:
        """Use the insights of kind ``skill``.

        Args:
            store: the store.
            similarity: how texts are compared; by the embedder ``minilm`` where None.
            options: the numbers.
        """
        self.store = store
        self.options = options
        self._similarity = similarity or by_embedding()

    def add(
        self,
        text: str,
        *,
        level: Level,
        title: str | None = None,
        observation: str | None = None,
        trajectory_ids: Sequence[str] = (),
        environment: str | None = None,
        source: str = "bank",
    ) -> StoredInsight:
        """Keep a skill, and evict what is beyond the capacity.

        Args:
            text: what to do.
            level: whether it helps with a task or with a step.
            title: a few words.
            observation: at level ``step``: what is seen when it helps; it is compared then, not
                the text.
            trajectory_ids: the runs it was drawn from.
            environment: what it acts in.
            source: the writer.

        Raises:
            MemoryItemError: the text is empty.
        """
        new = Insight(
            text=text,
            kind="skill",
            level=level,
            title=title,
            observation=observation,
            trajectory_ids=tuple(trajectory_ids),
            environment=environment,
            source=source,
        )
        (kept,) = Insights(self.store).add(new)
        self.evict(level)
        return kept

    def recall(
        self,
        goal: str,
        *,
        observation: str | None = None,
        task_id: str | None = None,
        environment: str | None = None,
    ) -> BankHits:
        """What a run is shown: the skills of each level, and the exemplars.

        Of each level the 2 k most similar at or above the threshold are scored, and k are given.

        Args:
            goal: the task in words.
            observation: what is seen at the step at hand; without it no skill for steps is given.
            task_id: the task that asks: what was drawn from its own runs is left out.
            environment: only of this one.
        """
        own = _runs_at(self.store, task_id)
        skills = [
            s
            for s in Insights(self.store).all(kind="skill")
            if environment in {None, s.environment} and own.isdisjoint(s.trajectory_ids)
        ]
        step = () if observation is None else self._best("step", observation, skills)
        return BankHits(
            task=self._best("task", goal, skills),
            step=step,
            exemplars=tuple(exemplars(self.store, environment=environment, task_id=task_id)),
        )

    def evict(self, level: Level) -> list[str]:
        """Retire the worst skills of a level beyond the capacity, and give their ids.

        Skills that are too young are spared, even where the level then stays above its capacity.
        """
        skills = Insights(self.store).all(kind="skill", level=level)
        over = len(skills) - self.options.capacity
        if over <= 0:
            return []
        items, total = self._candidates(level, skills)
        order = eviction_order(
            items,
            total,
            protected=self._young(skills),
            exploration=self.options.exploration,
        )[:over]
        versions = {s.insight_id: s.item_id for s in skills}
        gone = {versions[i]: Change(state="retired", because="beyond the capacity") for i in order}
        set_states(self.store, "insights", gone)
        return order

    def _best(self, level: Level, text: str, every: Sequence[StoredInsight]) -> tuple[BankHit, ...]:
        skills = {s.insight_id: s for s in every if s.level == level}
        texts = [s.observation or s.words for s in skills.values()]
        cosines = self._similarity(text, texts)
        items, total = self._candidates(level, list(skills.values()), cosines)
        near = [i for i in items if i.similarity >= self.options.threshold]
        near = sorted(near, key=lambda i: (-i.similarity, i.item_id))[: 2 * self.options.k]
        hits = [
            BankHit(skill=skills[i.item_id], score=self._score(i, total), candidate=i) for i in near
        ]
        return tuple(sorted(hits, key=lambda h: (-h.score, h.item_id))[: self.options.k])

    def _score(self, item: Candidate, total: int) -> float:
        options = self.options
        return score(item, total, weight=options.weight, exploration=options.exploration)

    def _candidates(
        self, level: Level, skills: Sequence[StoredInsight], cosines: Sequence[float] | None = None
    ) -> tuple[list[Candidate], int]:
        """Skills with their utility and uses, and the uses of all of them."""
        worth = utilities(self.store, "insight", level=level, rate=self.options.rate)
        counts = use_counts(self.store, "insight")
        items = [
            Candidate(
                item_id=skill.insight_id,
                similarity=0.0 if cosines is None else float(cosines[place]),
                utility=worth.get(skill.insight_id, 0.0),
                uses=counts.get(skill.insight_id, 0),
            )
            for place, skill in enumerate(skills)
        ]
        return items, sum(i.uses for i in items)

    def _young(self, skills: Sequence[StoredInsight]) -> set[str]:
        """Ids of skills after which too few groups of runs were given anything."""
        rows = self.store.query(
            """
            SELECT max(given_at) AS moment
            FROM uses JOIN trajectories USING (trajectory_id) WHERE kind = 'insight'
            GROUP BY task_id, policy_version ORDER BY moment DESC"""
        ).read_all()
        groups = rows.column("moment").to_pylist()
        if len(groups) < self.options.protected_groups:
            return {s.insight_id for s in skills}
        if self.options.protected_groups < 1:
            return set()
        since = groups[self.options.protected_groups - 1]
        return {s.insight_id for s in skills if s.created_at is None or s.created_at > since}


def _runs_at(store: Store, task_id: str | None) -> set[str]:
    """Ids of the runs at a task; none where no task asks."""
    if task_id is None:
        return set()
    quoted = task_id.replace("'", "''")
    query = f"SELECT trajectory_id FROM trajectories WHERE task_id = '{quoted}'"
    return set(store.query(query).read_all().column(0).to_pylist())
