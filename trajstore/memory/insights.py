"""Insights: what runs taught, in words, under ids that stay when the words change.

An edit makes a new version of the same insight; the old version keeps its row. Counters and states
of a version may change, its text never does.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime

import pyarrow as pa

from trajstore.errors import MemoryItemError
from trajstore.memory.bank_upkeep import Change, set_states
from trajstore.memory.insights_operations import (
    MOST_RULES,
    Applied,
    Operation,
    Rule,
    apply_operations,
)
from trajstore.memory.insights_row import (
    NEVER,
    StoredInsight,
    added_beside,
    insights_of,
    newest_versions,
    next_version,
    number_of,
    reason,
    stored_insight,
    union,
    voted,
)
from trajstore.memory.reflections import only_one
from trajstore.retrieval import Hits, search
from trajstore.schema import INSIGHT_KINDS, INSIGHT_LEVELS, Insight, insights_to_arrow
from trajstore.schema import insight_id as id_of
from trajstore.store import Store

TOP_K = 5
"""Insights that a search gives (ours)."""

_UNHELPFUL = "helpful share"


class Insights:
    """The insights of a store. It keeps nothing itself."""

    def __init__(self, store: Store) -> None:
        """Use the table ``insights`` of a store."""
        self.store = store

    def add(self, *insights: Insight) -> list[StoredInsight]:
        """Keep insights; what is there under the same id is left as it is.

        Raises:
            MemoryItemError: a text is empty, or a kind or level is unknown.
        """
        for new in insights:
            if not new.text.strip():
                raise MemoryItemError("An insight needs a text.")
            for name, value, known in (
                ("kind", new.kind, INSIGHT_KINDS),
                ("level", new.level, INSIGHT_LEVELS),
            ):
                if value not in known:
                    message = f"There is no {name} {value!r} of insights; known: {', '.join(known)}"
                    raise MemoryItemError(message)
        self.store.add_insights(insights)
        return [self.get(id_of(i)) for i in insights]

    def all(
        self, *, kind: str | None = None, level: str | None = None, every: bool = False
    ) -> list[StoredInsight]:
        """Insights, most votes first.

        Args:
            kind: only of this one.
            level: only of this one.
            every: also those that are out of service.
        """
        parts = ["true" if every else "state IS NULL"]
        parts += [f"kind = {_quoted(kind)}"] if kind is not None else []
        parts += [f"level = {_quoted(level)}"] if level is not None else []
        return self._read(" AND ".join(parts))

    def rules(self, *, most: int = MOST_RULES) -> list[StoredInsight]:
        """The rules to work with: those with the most votes (ExpeL: 20)."""
        return self.all(kind="rule")[:most]

    def get(self, reference: str) -> StoredInsight:
        """The newest version of one insight, by its id or the beginning of it.

        Raises:
            MemoryItemError: there is none, or several begin so.
        """
        found = self._read(f"starts_with(insight_id, {_quoted(reference.partition('@')[0])})")
        return only_one(found, reference, "insight")

    def versions(self, reference: str) -> list[tuple[int, str, datetime]]:
        """Number, text and time of every version of an insight, the oldest first."""
        wanted = self.get(reference).insight_id
        rows = [r for r in insights_of(self.store.memory("insights")) if id_of(r) == wanted]
        return [(r.version, r.text, r.created_at or NEVER) for r in sorted(rows, key=number_of)]

    def edit(self, reference: str, text: str) -> StoredInsight:
        """Give an insight a new text: a new version under the same id.

        Raises:
            MemoryItemError: it is not there, or the text is empty.
        """
        if not text.strip():
            raise MemoryItemError("An insight needs a text.")
        wanted = self.get(reference).insight_id

        def decide(rows: pa.Table) -> pa.Table:
            current = newest_versions(rows)[wanted]
            if current.text == text.strip():
                return rows.slice(0, 0)
            return insights_to_arrow([next_version(current, text=text.strip())])

        self.store.change_memory("insights", decide)
        return self.get(wanted)

    def apply(
        self,
        operations: Sequence[Operation],
        *,
        trajectory_ids: Iterable[str] = (),
        environment: str | None = None,
        source: str = "expel",
        most: int = MOST_RULES,
    ) -> Applied:
        """Carry out ExpeL's operations on the rules; see :func:`apply_operations`.

        A rule keeps its id whatever is done to it. What an operation was on, or added, gets the
        runs into its lineage. Two writers at once do not lose each other's votes.

        Args:
            operations: what to do.
            trajectory_ids: the runs that they come from.
            environment: of new rules.
            source: of new rules.
            most: rules to work with.
        """
        runs = tuple(trajectory_ids)
        applied = Applied(rules=())

        def decide(rows: pa.Table) -> pa.Table:
            nonlocal applied
            newest = newest_versions(rows)
            current = {i: r for i, r in newest.items() if r.kind == "rule" and r.state is None}
            ordered = sorted(current.items(), key=lambda e: (-e[1].votes, e[1].created_at, e[0]))
            listed = [Rule(insight_id=i, text=r.text, votes=r.votes) for i, r in ordered]
            applied = apply_operations(listed, operations, most=most)
            written = [
                voted(current[rule.insight_id], rule, runs)
                for rule in applied.rules
                if rule.insight_id in applied.touched and rule.insight_id is not None
            ]
            written += [
                replace(current[i], votes=0, state="retired", metadata=reason("no votes left"))
                for i in applied.removed
            ]
            for rule in applied.rules:
                if rule.insight_id is None:
                    new = Insight(
                        text=rule.text,
                        kind="rule",
                        source=source,
                        votes=rule.votes,
                        trajectory_ids=runs,
                        environment=environment,
                    )
                    written.append(added_beside(newest, new))
            return insights_to_arrow(written, at=datetime.now(UTC))

        self.store.change_memory("insights", decide)
        return applied

    def search(
        self,
        text: str,
        *,
        k: int = TOP_K,
        kind: str | None = None,
        level: str | None = None,
        task_id: str | None = None,
        environment: str | None = None,
        token_budget: int | None = None,
    ) -> Hits:
        """Insights that fit a text.

        Needs the extra ``retrieval``. With an index (``trajstore index STORE --level insight``)
        they are found by meaning too, else by words.

        Args:
            text: what is to be done, or what is seen.
            k: at most so many.
            kind: only of this one.
            level: only of this one.
            task_id: the task that asks: whatever was drawn from a run at it, or at a task that is
                nearly the same, is left out.
            environment: only of this one.
            token_budget: tokens of all texts at most.
        """
        parts = ["state IS NULL"]
        parts += [f"kind = {_quoted(kind)}"] if kind is not None else []
        parts += [f"level = {_quoted(level)}"] if level is not None else []
        return search(
            self.store,
            text,
            k=k,
            level="insight",
            where=" AND ".join(parts),
            task_id=task_id,
            environment=environment,
            token_budget=token_budget,
        )

    def merge(self, references: Sequence[str], *, text: str | None = None) -> StoredInsight:
        """Let one insight take the place of several that say the same.

        The one with the most helpful uses stays (ties: by id), as a new version with the union of
        their runs and the sum of their counters and votes. The others are retired, not lost.

        Args:
            references: two or more insights.
            text: the text of the new version; that of the one that stays where None.

        Raises:
            MemoryItemError: one is not there, or there are fewer than two.
        """
        found = {i.insight_id: i for i in map(self.get, references)}
        if len(found) < 2:
            raise MemoryItemError("Merging takes two or more insights.")
        stays = min(found.values(), key=lambda i: (-i.helpful, i.insight_id)).insight_id

        def decide(rows: pa.Table) -> pa.Table:
            newest = newest_versions(rows)
            parts = [newest[stays], *(newest[i] for i in sorted(found) if i != stays)]
            others = [id_of(p) for p in parts[1:]]
            whole = next_version(
                parts[0],
                text=(text or parts[0].text).strip(),
                votes=sum(p.votes for p in parts),
                helpful=sum(p.helpful for p in parts),
                harmful=sum(p.harmful for p in parts),
                trajectory_ids=union(p.trajectory_ids for p in parts),
                merged_from=union([*(p.merged_from for p in parts), others]),
            )
            because = reason(f"merged into {stays}")
            gone = [replace(p, state="retired", metadata=because) for p in parts[1:]]
            return insights_to_arrow([whole, *gone])

        self.store.change_memory("insights", decide)
        return self.get(stays)

    def retire(self, references: Iterable[str], *, because: str) -> int:
        """Take insights out by hand, and say how many; their rows stay.

        Raises:
            MemoryItemError: one is not there.
        """
        found = [self.get(r) for r in references]
        changes = {i.item_id: Change(state="retired", because=because) for i in found}
        return set_states(self.store, "insights", changes)

    def prune(
        self, *, share: float = 0.3, least_uses: int = 5, dry_run: bool = False
    ) -> tuple[list[str], list[str]]:
        """Take out what does not help (ACE), and bring back what was taken out so and does now.

        Args:
            share: least ``helpful / (helpful + harmful)`` (ours).
            least_uses: judged uses before anything is said (ours).
            dry_run: only say which.

        Returns:
            Ids that go, and ids that come back.
        """
        gone: list[str] = []
        back: list[str] = []
        changes: dict[str, Change] = {}
        for item in self.all(every=True):
            judged = item.helpful + item.harmful
            low = judged >= least_uses and item.helpful / judged < share
            if item.kind == "exemplar":
                continue
            if low and item.state is None:
                gone.append(item.insight_id)
                changes[item.item_id] = Change(state="retired", because=_UNHELPFUL)
            elif not low and item.state == "retired" and item.because == _UNHELPFUL:
                back.append(item.insight_id)
                changes[item.item_id] = Change(state=None, because=None)
        if not dry_run:
            set_states(self.store, "insights", changes)
        return gone, back

    def _read(self, where: str) -> list[StoredInsight]:
        query = f"SELECT * FROM insights WHERE {where} ORDER BY votes DESC, created_at, insight_id"
        rows = self.store.query(query).read_all().to_pylist()
        used = {}
        if any(row["merged_from"] for row in rows):
            query = "SELECT insight_id, uses, successes, failures FROM insights"
            for row in self.store.query(query).read_all().to_pylist():
                used[row["insight_id"]] = (row["uses"], row["successes"], row["failures"])
        return [stored_insight(row, used.get) for row in rows]


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
