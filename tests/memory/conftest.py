"""A store, and a library of small Python skills in it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from trajstore import Pool
from trajstore import open as open_store
from trajstore.memory import Added, SkillDraft, SkillLibrary
from trajstore.rollouts import Sandbox, SandboxLimits

Write = Callable[..., Added]


@pytest.fixture
def store(tmp_path: Path) -> Pool:
    return open_store(tmp_path / "pool", durable=False)


@pytest.fixture(scope="session")
def sandbox() -> Sandbox:
    """Bounded by the work that is done, as a busy machine takes long for little."""
    return Sandbox(limits=SandboxLimits(wall_s=120, cpu_s=2))


@pytest.fixture
def library(store: Pool, sandbox: Sandbox) -> SkillLibrary:
    return SkillLibrary(store, sandbox=sandbox)


def draft(name: str, value: str, *, check: str | None = None, says: str = "") -> SkillDraft:
    """A function that returns the value of an expression; it has to be above zero."""
    return SkillDraft(
        name=name,
        code=f"def {name}():\n    return {value}\n",
        check=check or f"assert {name}() > 0",
        description=says or f"gives {name}",
    )


@pytest.fixture
def diamond(library: SkillLibrary) -> SkillLibrary:
    """A calls B and C, which both call D."""
    for name, value in (("D", "1"), ("B", "D()"), ("C", "D()"), ("A", "B() + C()")):
        assert library.add(draft(name, value)).ok
    return library
