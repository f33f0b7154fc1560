"""How much may be learnt at once (SLEA-RL): rates, novelty, capacity, clusters of observations.

Strategies (what worked) and warnings (what did not) are insights. A step-level one belongs to a
cluster: the observations of a task that begin nearly alike. Clusters are no table: they are read
off the items that are in service, so an item that is evicted takes its cluster with it, and nothing
can be matched that is not there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from difflib import SequenceMatcher
from typing import Literal

from trajstore.memory.bank_upkeep import Change, set_states
from trajstore.memory.insights import Insights
from trajstore.memory.insights_row import StoredInsight
from trajstore.schema import Insight, digest
from trajstore.schema import insight_id as id_of
from trajstore.store import Store

SEEN_CHARACTERS = 500
"""Beginning of an observation that is compared (SLEA-RL)."""

SAME_CLUSTER = 0.85
"""Least ``difflib`` ratio of two observations of one cluster (SLEA-RL)."""

_MADE_ROOM = "a better one came"

Likeness = Callable[[str, str], float]
"""How alike two texts are, 0 to 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionLimits:
    """How much is let in; the numbers are SLEA-RL's."""

    strategies: int = 10
    """Strategies of one update at most."""
    warnings: int = 5
    """Warnings of one update at most."""
    novelty: float = 0.85
    """What is as much like something that is there is not new."""
    strategy_capacity: int = 100
    """Strategies in service of each level."""
    warning_capacity: int = 50
    """Warnings in service of each level."""
    warm_up: int = 5
    """Steps of a run before anything is shown."""
    least_items: int = 10
    """Items in service before anything is shown."""
    golden: int = 2
    """Strategies that a step is shown."""
    warned: int = 1
    """Warnings that a step is shown."""
    characters: int = 800
    """Characters of all that a step is shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """Something that may be learnt."""

    insight: Insight
    """A strategy or a warning."""
    score: float
    """What it is worth; kept as its votes, in thousandths."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Admitted:
    """What became of an update."""

    kept: tuple[str, ...] = ()
    """Ids that are in service now."""
    refused: tuple[tuple[str, str], ...] = field(default_factory=tuple)
    """Id and why: ``rate``, ``not new``, ``no better than the worst``."""
    evicted: tuple[str, ...] = ()
    """Ids that made room."""


def text_likeness(one: str, other: str) -> float:
    """``difflib`` ratio of two texts' beginnings; 1 for equal ones."""
    matcher = SequenceMatcher(None, one[:SEEN_CHARACTERS], other[:SEEN_CHARACTERS], autojunk=False)
    quick = matcher.real_quick_ratio()
    return quick if quick < SAME_CLUSTER else matcher.ratio()


def cluster_id(task_id: str | None, observation: str) -> str:
    """Id of the cluster that an observation founds: the same in every process."""
    return digest(task_id, observation[:SEEN_CHARACTERS])[:16]


class StepLibrary:
    """The strategies and warnings of a store. It keeps nothing itself."""

    def __init__(
        self,
        store: Store,
        *,
        limits: AdmissionLimits = AdmissionLimits(),
        likeness: Likeness = text_likeness,
    ) -> None:
        """Use the insights of kinds ``strategy`` and ``warning``.

        Args:
            store: the store.
            limits: how much is let in, and shown.
            likeness: how texts are compared.
        """
        self.store = store
        self.limits = limits
        self._likeness = likeness

    def clusters(self, task_id: str | None = None) -> dict[str, list[StoredInsight]]:
        """Cluster -> its items in service, the oldest first; read off the items."""
        found: dict[str, list[StoredInsight]] = {}
        for item in self._items("step"):
            if task_id in {None, item.task_id} and item.observation is not None:
                own = self._cluster_in(found, item.task_id, item.observation)
                found.setdefault(own, []).append(item)
        return found

    def cluster_of(self, observation: str, *, task_id: str | None = None) -> str:
        """The cluster of an observation: one that is in service, else the one that it founds."""
        return self._cluster_in(self.clusters(task_id), task_id, observation)

    def _cluster_in(
        self, clusters: dict[str, list[StoredInsight]], task_id: str | None, observation: str
    ) -> str:
        for name, items in clusters.items():
            first = items[0]
            if first.task_id == task_id and (
                self._likeness(first.observation or "", observation) >= SAME_CLUSTER
            ):
                return name
        return cluster_id(task_id, observation)

    def admit(self, offers: Sequence[Offer]) -> Admitted:
        """Let the best of an update in.

        Offers are taken by score (ties: by id). Of each kind only so many a time; what is like
        something in service of the same kind and level is not new; where a level is full, an offer
        has to score above the worst, which is retired for it.

        Args:
            offers: of one update.

        Raises:
            MemoryItemError: a text is empty, or a kind or level is unknown.
        """
        there = {k: [i for i in self._items() if i.kind == k] for k in ("strategy", "warning")}
        rate = {"strategy": self.limits.strategies, "warning": self.limits.warnings}
        kept: dict[str, Offer] = {}
        evicted: dict[str, str] = {}
        refused: list[tuple[str, str]] = []
        for offer in sorted(offers, key=lambda o: (-o.score, id_of(o.insight))):
            new, name = offer.insight, id_of(offer.insight)
            own = [(i.insight_id, i.text, i.votes) for i in there[new.kind] if i.level == new.level]
            own = [i for i in own if i[0] not in evicted]
            own += [
                (i, o.insight.text, _votes(o.score))
                for i, o in kept.items()
                if (o.insight.kind, o.insight.level) == (new.kind, new.level)
            ]
            if rate[new.kind] == 0:
                refused.append((name, "rate"))
            elif any(self._likeness(text, new.text) >= self.limits.novelty for _, text, _ in own):
                refused.append((name, "not new"))
            elif not (gone := self._room(own, new.kind, _votes(offer.score))).possible:
                refused.append((name, "no better than the worst"))
            else:
                rate[new.kind] -= 1
                kept[name] = offer
                if gone.item is not None:
                    evicted[gone.item] = new.kind
        self._write(kept, evicted)
        return Admitted(kept=tuple(kept), refused=tuple(refused), evicted=tuple(evicted))

    def _room(self, own: Sequence[tuple[str, str, int]], kind: str, votes: int) -> _Room:
        limits = self.limits
        capacity = limits.strategy_capacity if kind == "strategy" else limits.warning_capacity
        if len(own) < capacity:
            return _Room(possible=True)
        worst = min(own, key=lambda i: (i[2], i[0]), default=None)
        if worst is None or votes <= worst[2]:
            return _Room(possible=False)
        return _Room(possible=True, item=worst[0])

    def _write(self, kept: dict[str, Offer], evicted: dict[str, str]) -> None:
        memory = Insights(self.store)
        versions = {i.insight_id: i.item_id for i in self._items()}
        changes = {versions[i]: Change(state="retired", because=_MADE_ROOM) for i in evicted}
        changes |= {
            i.item_id: Change(state=None, because=None)
            for i in memory.all(every=True)
            if i.insight_id in kept and i.because == _MADE_ROOM
        }
        set_states(self.store, "insights", changes)
        if kept:
            memory.add(*(_with_votes(o) for o in kept.values()))

    def recall(
        self, observation: str, *, task_id: str | None = None, step: int
    ) -> list[StoredInsight]:
        """What a step is shown: the best of its cluster, else nothing.

        Args:
            observation: what is seen.
            task_id: the task at hand; None for items that hold for any.
            step: number of the step, from 0; nothing is shown while a run warms up.
        """
        limits = self.limits
        if step < limits.warm_up or len(self._items()) < limits.least_items:
            return []
        clusters = self.clusters(task_id)
        items = clusters.get(self._cluster_in(clusters, task_id, observation), [])
        best = sorted(items, key=lambda i: (-i.votes, i.insight_id))
        chosen = [i for i in best if i.kind == "strategy"][: limits.golden]
        chosen += [i for i in best if i.kind == "warning"][: limits.warned]
        shown: list[StoredInsight] = []
        left = limits.characters
        for item in chosen:
            if len(item.text) <= left:
                shown.append(item)
                left -= len(item.text)
        return shown

    def _items(self, level: Literal["task", "step"] | None = None) -> list[StoredInsight]:
        found = Insights(self.store).all(level=level)
        items = [i for i in found if i.kind in {"strategy", "warning"}]
        return sorted(items, key=lambda i: (str(i.created_at), i.insight_id))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Room:
    possible: bool
    item: str | None = None


def _votes(score: float) -> int:
    return round(score * 1000)


def _with_votes(offer: Offer) -> Insight:
    return replace(offer.insight, votes=_votes(offer.score))
