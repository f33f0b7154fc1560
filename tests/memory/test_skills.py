"""The skill library: only verified code, immutable versions, and what depends on what."""

from __future__ import annotations

import shutil
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from tests.memory.conftest import draft
from trajstore import Pool, Skill
from trajstore import open as open_store
from trajstore.errors import SkillError
from trajstore.memory import SkillDraft, SkillLibrary, search_skills
from trajstore.rollouts import Sandbox


def states(library: SkillLibrary) -> dict[str, str | None]:
    return {s.name: s.state for s in library.skills()}


def served(library: SkillLibrary) -> list[str]:
    return [s.name for s in library.served()]


# --- adding ----------------------------------------------------------------------------------


def test_a_skill_that_passes_its_check_is_kept_with_what_its_code_says(
    library: SkillLibrary,
) -> None:
    code = 'def slug(text: str) -> str:\n    """A title as URL."""\n    return text.lower()\n'
    done = library.add(
        SkillDraft(name="slug", code=code, check="assert slug('A') == 'a'", description="URL")
    )
    (kept,) = library.skills()
    assert done.skill == kept
    assert kept.signature == "def slug(text: str) -> str"
    assert kept.docstring == "A title as URL."
    assert kept.verified_at is not None
    assert kept.skill_id.startswith("slug@")
    assert kept.version == 1


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("def f():\n    return -1\n", "AssertionError"),
        ("def f(:\n", "does not compile"),
        ("def g():\n    return 1\n", "no function called 'f'"),
        ("import sys\ndef f():\n    return 1\nsys.exit(0)\n", "ended before its check"),
        ("import os\ndef f():\n    os._exit(0)\n", "ended before its check"),
        ("def f():\n    while True: pass\n", "limit"),
        (
            "import socket\ndef f():\n    socket.create_connection(('192.0.2.1', 9))\n",
            "unreachable",
        ),
    ],
    ids=["wrong", "broken", "nameless", "exits", "exits hard", "endless", "network"],
)
def test_what_does_not_pass_is_not_kept(code: str, why: str, library: SkillLibrary) -> None:
    done = library.add(replace(draft("f", "1"), code=code))
    assert not done.ok
    assert why in done.attempts[0].verdict.feedback
    assert library.versions() == []


def test_code_that_prints_a_line_as_if_it_had_passed_has_not(library: SkillLibrary) -> None:
    code = "print('ok'); print()\nimport os\nos._exit(0)\ndef f(): pass\n"
    assert not library.add(replace(draft("f", "1"), code=code)).ok


def test_failures_are_fed_back_until_one_passes(library: SkillLibrary) -> None:
    fed: list[str] = []

    def repair(tried: SkillDraft, feedback: str) -> SkillDraft:
        fed.append(feedback)
        return replace(tried, code=f"def f():\n    return {len(fed) - 2}\n")

    done = library.add(draft("f", "nonsense"), repair=repair)
    assert done.ok
    assert [a.verdict.ok for a in done.attempts] == [False, False, False, True]
    assert "NameError: name 'nonsense'" in fed[0]
    assert "AssertionError" in fed[1]
    assert "return 1" in library.resolve("f").code


def test_five_attempts_are_all(library: SkillLibrary) -> None:
    done = library.add(draft("f", "-1"), repair=lambda tried, _: tried)
    assert not done.ok
    assert len(done.attempts) == 5


def test_a_repair_cannot_change_name_or_check(library: SkillLibrary) -> None:
    easy = SkillDraft(name="g", code="def g(): pass", check="pass", description="")
    done = library.add(draft("f", "-1"), repair=lambda *_: easy, attempts=2)
    assert "no function called 'f'" in done.attempts[1].verdict.feedback


def test_a_skill_without_a_check_is_refused(library: SkillLibrary) -> None:
    with pytest.raises(SkillError, match="has no check"):
        library.add(replace(draft("f", "1"), check=" "))


def test_the_same_code_again_is_there_already(library: SkillLibrary) -> None:
    first, again = library.add(draft("f", "1")), library.add(draft("f", "1"))
    assert again.skill == first.skill
    assert again.attempts == ()
    assert len(library.versions()) == 1


def test_helpers_of_one_name_stay_apart(library: SkillLibrary) -> None:
    helper = "def _h():\n    return {0}\n"
    one = helper.format(1) + "def f():\n    return _h()\n"
    two = helper.format(10) + "def g():\n    return f() + _h()\n"
    assert library.add(replace(draft("f", "1"), code=one)).ok
    assert library.add(replace(draft("g", "1", check="assert g() == 11"), code=two)).ok


def test_helpers_of_one_name_that_cannot_stay_apart_may_not_meet(library: SkillLibrary) -> None:
    count = "N = 0\ndef {0}():\n    global N\n    N += 1\n    return N{1}\n"
    assert library.add(replace(draft("f", "1"), code=count.format("f", ""))).ok
    done = library.add(replace(draft("g", "1"), code=count.format("g", " + f()")))
    assert "'N', which it defines, would hide" in done.attempts[0].verdict.feedback


def test_a_command_runs_other_languages(library: SkillLibrary) -> None:
    if shutil.which("node") is None:
        pytest.skip("there is no node here")
    code = "function twice(n) { return 2 * n; }"
    check = "if (twice(2) !== 4) process.exit(1);"
    js = SkillDraft(name="twice", code=code, check=check, description="", language="javascript")
    with pytest.raises(SkillError, match="needs a command"):
        library.add(js)
    with_command = replace(js, command=("node", "{program}"))
    assert not library.add(replace(with_command, code=code.replace("2 *", "3 *"))).ok
    assert library.add(with_command).ok
    four = "function four(n) { return twice(twice(n)); }"
    check = "if (four(1) !== 4) process.exit(1);"
    done = library.add(replace(with_command, name="four", code=four, check=check))
    assert done.skill is not None
    assert done.skill.dependencies == (library.resolve("twice").skill_id,)
    assert [v.ok for v in library.verify()] == [True, True]


# --- versions and dependencies ---------------------------------------------------------------


def test_what_code_calls_is_pinned_by_name_and_hash(diamond: SkillLibrary) -> None:
    pins = {s.name: s.dependencies for s in diamond.skills()}
    ids = {s.name: s.skill_id for s in diamond.skills()}
    assert pins == {"A": (ids["B"], ids["C"]), "B": (ids["D"],), "C": (ids["D"],), "D": ()}


def test_closure_comes_in_the_order_d_b_c_a(diamond: SkillLibrary) -> None:
    assert [s.name for s in diamond.closure(["A"])] == ["D", "B", "C", "A"]


def test_replacing_verifies_what_calls_it_and_moves_its_pins(diamond: SkillLibrary) -> None:
    done = diamond.add(draft("D", "2"))
    assert [v.skill_id.partition("@")[0] for v in done.reverified] == ["B", "C", "A"]
    assert done.skill is not None
    assert done.skill.version == 2
    assert diamond.resolve("B").dependencies == (done.skill.skill_id,)
    assert served(diamond) == ["A", "B", "C", "D"]


def test_what_breaks_by_a_replacement_is_not_served(diamond: SkillLibrary) -> None:
    done = diamond.add(draft("D", "-1", check="assert D() == -1"))
    assert [v.ok for v in done.reverified] == [False, False, False]
    assert states(diamond) == {"A": "pending", "B": "pending", "C": "pending", "D": None}
    assert served(diamond) == ["D"]
    assert "AssertionError" in (diamond.why_not_served(diamond.resolve("B")) or "")


def test_what_calls_a_mended_skill_is_served_again(diamond: SkillLibrary) -> None:
    diamond.add(draft("D", "-1", check="assert D() == -1"))
    for name in "BC":
        assert diamond.add(draft(name, "-D()")).ok
    assert served(diamond) == ["A", "B", "C", "D"]


def test_marks_stand_before_anything_is_verified_again(
    diamond: SkillLibrary, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SkillLibrary, "_again", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        diamond.add(draft("D", "2"))
    assert states(diamond) == {"A": "pending", "B": "pending", "C": "pending", "D": None}
    monkeypatch.undo()
    assert all(v.ok for v in diamond.verify())
    assert served(diamond) == ["A", "B", "C", "D"]


def test_the_old_version_keeps_its_code_under_its_id(diamond: SkillLibrary) -> None:
    old = diamond.resolve("D").skill_id
    diamond.add(draft("D", "2"))
    assert "return 1" in diamond.resolve(old).code
    assert "return 2" in diamond.resolve("D").code
    assert [(s.version, s.name) for s in diamond.versions() if s.name == "D"] == [
        (1, "D"),
        (2, "D"),
    ]


def test_a_replaced_version_cannot_be_slipped_back_in(diamond: SkillLibrary) -> None:
    diamond.add(draft("D", "2"))
    with pytest.raises(SkillError, match="was replaced by version 2"):
        diamond.add(draft("D", "1"))


def test_a_circle_by_a_new_version_is_refused(diamond: SkillLibrary) -> None:
    done = diamond.add(draft("D", "1 if True else A()"))
    assert "circle: A -> B -> D -> A" in done.attempts[0].verdict.feedback
    assert diamond.resolve("D").version == 1


def test_what_others_call_cannot_be_removed(diamond: SkillLibrary) -> None:
    with pytest.raises(SkillError, match="B, C call it"):
        diamond.remove("D")
    for name in ("A", "B", "C", "D"):
        diamond.remove(name)
    assert diamond.skills() == []
    assert len(diamond.versions()) == 4


def test_removing_a_version_brings_the_older_one_back(diamond: SkillLibrary) -> None:
    diamond.add(draft("D", "-1", check="assert D() == -1"))
    again = diamond.remove("D")
    assert [v.ok for v in again] == [True, True, True]
    assert diamond.resolve("D").version == 1
    assert served(diamond) == ["A", "B", "C", "D"]


def test_a_removed_skill_can_come_back_under_its_number(library: SkillLibrary) -> None:
    first = library.add(draft("f", "1")).skill
    library.remove("f")
    with pytest.raises(SkillError, match="no skill 'f'"):
        library.resolve("f")
    back = library.add(draft("f", "1")).skill
    assert first is not None
    assert back is not None
    assert (back.skill_id, back.version, back.state) == (first.skill_id, 1, None)


def test_listing_showing_and_running_mean_the_same_version(diamond: SkillLibrary) -> None:
    diamond.add(draft("D", "2"))
    (listed,) = (s for s in diamond.skills() if s.name == "D")
    assert diamond.resolve("D") == listed
    assert listed.code in diamond.program(["A"])
    assert diamond.run(["A"], "print(A(), D())").stdout == "4 2\n"


def test_an_unknown_name_is_answered_with_close_ones(diamond: SkillLibrary) -> None:
    diamond.add(draft("fetch_page", "1"))
    with pytest.raises(SkillError, match="Close: fetch_page"):
        diamond.resolve("fetch_pages")


def test_name_and_version_are_one_of_a_kind_also_when_two_write_at_once(
    store: Pool, sandbox: Sandbox, tmp_path: Path
) -> None:
    def write(value: int) -> None:
        own = SkillLibrary(open_store(tmp_path / "pool", durable=False), sandbox=sandbox)
        assert own.add(draft("f", str(value))).ok

    threads = [threading.Thread(target=write, args=(n,)) for n in range(1, 6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [s.version for s in SkillLibrary(store).versions()] == [1, 2, 3, 4, 5]


# --- environments ----------------------------------------------------------------------------


def in_version(library: SkillLibrary, version: str) -> SkillLibrary:
    return SkillLibrary(
        library.store, sandbox=library.sandbox, environment="api", environment_version=version
    )


def test_a_skill_of_another_environment_version_is_stale(library: SkillLibrary) -> None:
    one, two = in_version(library, "1"), in_version(library, "2")
    one.add(draft("f", "1"))
    assert served(one) == ["f"]
    assert served(two) == []
    assert two.why_not_served(two.resolve("f")) == "stale: verified in version 1, now 2"
    hits = search_skills(two, "gives f")
    assert len(hits) == 0
    assert list(hits.left_out.values()) == ["stale: verified in version 1, now 2"]


def test_verifying_in_the_new_version_serves_it_there(library: SkillLibrary) -> None:
    one, two = in_version(library, "1"), in_version(library, "2")
    one.add(draft("f", "1"))
    assert [v.ok for v in two.verify()] == [True]
    assert served(two) == ["f"]
    assert served(one) == []


def test_skills_of_another_environment_are_not_served(library: SkillLibrary) -> None:
    in_version(library, "1").add(draft("f", "1"))
    assert served(SkillLibrary(library.store, environment="shop")) == []
    assert served(SkillLibrary(library.store)) == ["f"]


# --- the table -------------------------------------------------------------------------------


def test_an_imported_skill_does_not_push_a_verified_one_aside(library: SkillLibrary) -> None:
    library.add(draft("f", "1"))
    library.store.add_skills([Skill(name="f", code="def f(): 0", language="python", source="x")])
    assert [s.version for s in library.versions()] == [1, 2]
    assert library.resolve("f").version == 1
    assert served(library) == ["f"]


def test_a_row_without_a_check_is_not_verified_and_said_so(library: SkillLibrary) -> None:
    library.store.add_skills([Skill(name="f", code="def f(): 0", language="python", source="x")])
    (result,) = library.verify()
    assert result.ok is None
    assert library.why_not_served(library.resolve("f")) == "never verified"


def test_another_open_store_sees_a_changed_row(diamond: SkillLibrary, tmp_path: Path) -> None:
    other = open_store(tmp_path / "pool")
    query = "SELECT count(*) FROM skills WHERE state = 'pending'"
    assert other.sql(query).fetchall()[0] == (0,)
    diamond.add(draft("D", "-1", check="assert D() == -1"))
    assert other.sql(query).fetchall()[0] == (3,)
