"""Find skills by what they do, with all that they call, within a token budget."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import overload

from trajstore.errors import SkillError
from trajstore.memory.skill_program import parts_of, program_of
from trajstore.memory.skill_row import StoredSkill
from trajstore.memory.skill_shelf import SkillShelf, whole_closure
from trajstore.store import Store

Finder = Callable[[str, Sequence[StoredSkill]], Sequence[tuple[str, float]]]
"""A text and the skills that may be found in; ids with scores, the best first."""

TOP_K = 5
"""Skills that a search gives (Voyager)."""

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\d_a-zA-Z]+")
_K1, _B = 1.2, 0.75


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillHit:
    """A skill that was found."""

    skill: StoredSkill
    """The skill."""
    score: float
    """How well it fits; on which scale depends on the search."""
    rank: int
    """Place among the hits, from 1."""

    @property
    def item_id(self) -> str:
        """Its id, as a use is recorded."""
        return self.skill.skill_id


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillHits(Sequence[SkillHit]):
    """What a search found."""

    hits: tuple[SkillHit, ...]
    """The skills, the best first."""
    program: tuple[StoredSkill, ...]
    """They and everything that they call, each once, callees first."""
    n_tokens: int
    """Tokens of :attr:`code`, counted as the search was told to."""
    left_out: Mapping[str, str] = field(default_factory=dict)
    """Id -> why it is not among the hits: not served, too long for the budget, or its code cannot
    stand in one program with that of better hits."""

    @property
    def code(self) -> str:
        """The code of :attr:`program`."""
        return program_of(self.program)

    @overload
    def __getitem__(self, at: int) -> SkillHit: ...

    @overload
    def __getitem__(self, at: slice) -> tuple[SkillHit, ...]: ...

    def __getitem__(self, at: int | slice) -> SkillHit | tuple[SkillHit, ...]:
        """The hit at a place, from 0."""
        return self.hits[at]

    def __len__(self) -> int:
        """How many were found."""
        return len(self.hits)

    def __iter__(self) -> Iterator[SkillHit]:
        """The hits, the best first."""
        return iter(self.hits)


def estimate_tokens(text: str) -> int:
    """Tokens of a text, estimated as its UTF-8 bytes by four, rounded up."""
    return -(-len(text.encode("utf-8", "replace")) // 4)


def search_skills(
    shelf: SkillShelf,
    text: str,
    *,
    k: int = TOP_K,
    token_budget: int | None = None,
    unverified: bool = False,
    find: Finder | None = None,
    tokens: Callable[[str], int] = estimate_tokens,
) -> SkillHits:
    """The skills that fit a text best, with all that they call.

    A skill comes whole or not at all: where it, with whatever it calls beside what is taken
    already, does not fit the budget, it is left out and the next one is tried.

    Args:
        shelf: the skills.
        text: what is to be done.
        k: skills at most, what they call not counted.
        token_budget: tokens of all the code at most.
        unverified: also skills that were never verified, such as imported ones.
        find: how to search; where None :func:`by_index` if the store has an index, else
            :func:`by_words`.
        tokens: counts the tokens of a text.

    Raises:
        SkillError: skills call each other in a circle.
    """
    versions = shelf.versions()
    may, left_out = _served(shelf, unverified=unverified)
    hits: list[SkillHit] = []
    program: dict[str, StoredSkill] = {}
    used = 0
    for skill_id, score in (find or _finder(shelf.store))(text, list(may.values())):
        if len(hits) == k:
            break
        if skill_id not in may:
            continue
        below = whole_closure([may[skill_id]], versions)
        room = None if token_budget is None else token_budget - used
        try:
            cost = _cost(program, below, room, tokens)
        except SkillError as error:
            left_out[skill_id] = str(error)
            continue
        if room is not None and cost > room:
            left_out[skill_id] = f"{cost:,} tokens more do not fit into {token_budget:,}"
            continue
        used += cost
        program |= {s.skill_id: s for s in below}
        hits.append(SkillHit(skill=may[skill_id], score=score, rank=len(hits) + 1))
    return SkillHits(
        hits=tuple(hits), program=tuple(program.values()), n_tokens=used, left_out=left_out
    )


def _served(
    shelf: SkillShelf, *, unverified: bool
) -> tuple[dict[str, StoredSkill], dict[str, str]]:
    """Skills that may be shown, and why the others are not."""
    current = {s.skill_id: s for s in shelf.skills()}
    served = {s.skill_id for s in shelf.served()}
    may = {i: s for i, s in current.items() if i in served or (unverified and _unverified(s))}
    left_out = {
        i: shelf.why_not_served(s) or "it calls a skill that is not served"
        for i, s in current.items()
        if i not in may
    }
    return may, left_out


def _cost(
    program: Mapping[str, StoredSkill],
    below: Sequence[StoredSkill],
    room: int | None,
    tokens: Callable[[str], int],
) -> int:
    """Tokens that a skill with what it calls adds to a program.

    Where they are more than there is room for, what keeps names apart is not counted.

    Raises:
        SkillError: they cannot stand in one program.
    """
    cost = sum(tokens(s.code) for s in below if s.skill_id not in program)
    if room is None or cost <= room:
        before, after = parts_of(program.values()), {**program, **{s.skill_id: s for s in below}}
        cost = sum(map(tokens, parts_of(after.values()))) - sum(map(tokens, before))
    return cost


def _unverified(skill: StoredSkill) -> bool:
    return skill.state is None and skill.verified_at is None


def _finder(store: Store) -> Finder:
    local = store.root.local
    indexed = local is not None and (local / "index").is_dir()
    return by_index(store) if indexed and find_spec("lancedb") is not None else by_words


def by_index(store: Store, *, embedder: str | None = None) -> Finder:
    """Search skills through the store's index: by meaning where it holds skills, and by words.

    Needs the extra ``retrieval``; ``trajstore index STORE`` makes the index. A score is then the
    weighted sum that :func:`trajstore.retrieval.search.search` describes.

    Args:
        store: the store.
        embedder: of the index, where its name is not enough to find it.
    """

    def find(text: str, skills: Sequence[StoredSkill]) -> list[tuple[str, float]]:
        from trajstore.retrieval.search import search

        wanted = {s.skill_id for s in skills}
        every = max(store.memory("skills").num_rows, 1)
        hits = search(store, text, k=every, level="skill", unverified=True, embedder=embedder)
        return [(hit.item_id, hit.score) for hit in hits if hit.item_id in wanted]

    return find


def by_words(text: str, skills: Sequence[StoredSkill]) -> list[tuple[str, float]]:
    """Skills that share words with a text, by BM25 (Robertson et al. 1994; k1 1.2, b 0.75).

    Read are name, description, signature and docstring; ``mineFiveCoalOres`` is four words. Ties
    are broken by id. Needs no model and no index.
    """
    bags = {s.skill_id: Counter(_words(_text(s))) for s in skills}
    spread = Counter(word for bag in bags.values() for word in bag)
    wanted = set(_words(text)) & spread.keys()
    mean = sum(bag.total() for bag in bags.values()) / max(len(bags), 1)
    scores = []
    for skill_id, bag in bags.items():
        length = _K1 * (1 - _B + _B * bag.total() / mean) if mean else _K1
        score = sum(
            math.log(1 + (len(bags) - spread[word] + 0.5) / (spread[word] + 0.5))
            * bag[word]
            * (_K1 + 1)
            / (bag[word] + length)
            for word in sorted(wanted & bag.keys())
        )
        if score > 0:
            scores.append((skill_id, score))
    return sorted(scores, key=lambda s: (-s[1], s[0]))


def _text(skill: StoredSkill) -> str:
    parts = (skill.name, skill.description, skill.signature, skill.docstring)
    return "\n".join(p for p in parts if p)


def _words(text: str) -> list[str]:
    return [_stem(word.lower()) for word in _WORD.findall(text)]


def _stem(word: str) -> str:
    """The word without the s of a plural."""
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word
