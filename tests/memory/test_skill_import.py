"""The two published Voyager libraries, with their calls, as the file itself has them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from trajstore import Pool
from trajstore.errors import SkillError
from trajstore.memory import SkillLibrary, import_voyager, search_skills
from trajstore.schema import Skill


@pytest.fixture(params=[("trial1", 51, 7), ("trial2", 52, 8)], ids=["trial1", "trial2"])
def trial(request: pytest.FixtureRequest, real_data: Path) -> tuple[Path, int, int]:
    name, skills, calling = request.param
    return real_data / "voyager" / "skill_library" / name / "skill", skills, calling


def test_a_published_library_comes_in_whole(store: Pool, trial: tuple[Path, int, int]) -> None:
    folder, skills, calling = trial
    done = import_voyager(store, folder)
    assert (done.skills, done.added, done.calling) == (skills, skills, calling)
    stored = json.loads((folder / "skills.json").read_text())
    assert {s.name: s.code for s in SkillLibrary(store).skills()} == {
        n: v["code"] for n, v in stored.items()
    }


def test_calls_are_those_that_stand_in_the_code(store: Pool, trial: tuple[Path, int, int]) -> None:
    import_voyager(store, trial[0])
    skills = {s.name: s for s in SkillLibrary(store).skills()}
    for name, skill in skills.items():
        awaited = {n for n in skills if n != name and f"await {n}(bot" in skill.code}
        own = {n for n in awaited if f"function {n}(" in skill.code}
        assert {d.partition("@")[0] for d in skill.dependencies} == awaited - own
        assert all(d == skills[d.partition("@")[0]].skill_id for d in skill.dependencies)


def test_a_second_import_adds_nothing(store: Pool, trial: tuple[Path, int, int]) -> None:
    import_voyager(store, trial[0])
    again = import_voyager(store, trial[0])
    assert (again.added, again.already) == (0, trial[1])


def test_names_in_both_libraries_become_versions(store: Pool, real_data: Path) -> None:
    folder = real_data / "voyager" / "skill_library"
    for name in ("trial1", "trial2"):
        import_voyager(store, folder / name / "skill")
    ids = [(s.name, s.version) for s in SkillLibrary(store).versions()]
    assert len(ids) == len(set(ids)) == 103
    assert store.sql("SELECT max(version) FROM skills").fetchall()[0] == (2,)


def test_a_search_brings_the_helpers_of_what_it_finds(store: Pool, real_data: Path) -> None:
    import_voyager(store, real_data / "voyager" / "skill_library" / "trial1" / "skill")
    library = SkillLibrary(store)
    caller = next(s for s in library.skills() if s.dependencies)
    hits = search_skills(library, caller.name, k=1, unverified=True)
    assert hits[0].skill == caller
    assert [s.skill_id for s in hits.program] == [*caller.dependencies, caller.skill_id]
    assert search_skills(library, caller.name).hits == ()


def test_bare_names_of_a_plain_import_are_pinned_later(store: Pool, real_data: Path) -> None:
    folder = real_data / "voyager" / "skill_library" / "trial1" / "skill"
    store.import_files(folder)
    before = store.sql("SELECT dependencies FROM skills WHERE len(dependencies) > 0").fetchall()
    assert not any("@" in d for (ds,) in before for d in ds)
    assert import_voyager(store, folder).added == 0
    after = store.sql("SELECT dependencies FROM skills WHERE len(dependencies) > 0").fetchall()
    assert len(after) == len(before) == 7
    assert all("@" in d for (ds,) in after for d in ds)


def test_a_folder_without_a_library_is_said(store: Pool, tmp_path: Path) -> None:
    with pytest.raises(SkillError, match=r"skills\.json"):
        import_voyager(store, tmp_path)
    with pytest.raises(SkillError, match="nothing at"):
        import_voyager(store, tmp_path / "nowhere")


KILLED = """
import os, signal, sys
from trajstore import open as open_store
from trajstore.memory import import_voyager
from trajstore.store.side import SideTable
real = SideTable.append, SideTable.update
count = 0
def dying(self, *args, **named):
    global count
    done = real[1](self, *args, **named)
    count += 1
    if count == int(sys.argv[3]):
        os.kill(os.getpid(), signal.SIGKILL)
    return done
SideTable.update = dying
import_voyager(open_store(sys.argv[1]), sys.argv[2])
"""


@pytest.mark.parametrize("write", [1, 2])
def test_a_kill_after_any_write_leaves_a_library_that_works(
    write: int, tmp_path: Path, real_data: Path
) -> None:
    folder = real_data / "voyager" / "skill_library" / "trial1" / "skill"
    store = Pool(tmp_path / "pool")
    store.add_skills([Skill(name="mine", code="x", language="lua", source="s")])
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(tmp_path / "pool"), str(folder), str(write)],
        check=False,
        env=dict(os.environ),
    )
    assert done.returncode == -signal.SIGKILL
    reopened = SkillLibrary(Pool(tmp_path / "pool", create=False))
    assert len(reopened.skills()) == 52
    assert import_voyager(reopened.store, folder).added == 0
    assert len(search_skills(reopened, "craft", k=60, unverified=True)) > 10
