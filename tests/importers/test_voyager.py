"""Voyager: the two published libraries, and what redefinition leaves behind."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from trajstore.importers.items import ImportOptions, Item, Problem
from trajstore.importers.source import Source
from trajstore.importers.voyager import IMPORTER
from trajstore.schema import Skill, skill_id


def read(source: Source) -> list[Item]:
    return list(IMPORTER.read(source, ImportOptions()))


def skills(source: Source) -> dict[str, Skill]:
    return {i.name: i for i in read(source) if isinstance(i, Skill)}


def problems(source: Source) -> list[Problem]:
    return [i for i in read(source) if isinstance(i, Problem)]


def claimed(folder: Path) -> Source:
    """A library as the walk hands it out: one source."""
    (group,) = IMPORTER.claims(folder, frozenset(p.name for p in folder.iterdir()))
    files = tuple(folder / name for name in group)
    return Source(folder, uri=files[0].as_posix(), files=files)


def function(name: str, body: str = "bot.chat('hi');") -> str:
    return f"async function {name}(bot) {{\n  {body}\n}}"


def entry(name: str, body: str = "bot.chat('hi');", says: str = "does it") -> dict[str, str]:
    text = f"async function {name}(bot) {{\n    // {says}\n}}"
    return {"code": function(name, body), "description": text}


def library(folder: Path, **entries: object) -> Source:
    (folder / "description").mkdir(parents=True, exist_ok=True)
    (folder / "skills.json").write_text(json.dumps(entries))
    return Source(folder / "skills.json")


def describe(folder: Path, file: str, name: str, says: str) -> None:
    """A description file; those of redefinitions have the old name inside."""
    (folder / "description" / f"{file}.txt").write_text(entry(name, says=says)["description"])


# --- the real libraries -----------------------------------------------------------------------


@pytest.fixture(scope="module", params=["trial1", "trial2"])
def trial(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def folder(real_data: Path, trial: str) -> Path:
    return real_data / "voyager" / "skill_library" / trial / "skill"


def test_skills_are_those_of_the_json(folder: Path, trial: str) -> None:
    found = skills(claimed(folder))
    stored = json.loads((folder / "skills.json").read_text())
    assert len(found) == {"trial1": 51, "trial2": 52}[trial]
    assert {n: (s.code, s.description) for n, s in found.items()} == {
        n: (v["code"], v["description"]) for n, v in stored.items()
    }


def test_library_and_all_its_descriptions_are_one_source(folder: Path) -> None:
    source = claimed(folder)
    assert source.files[0].name == "skills.json"
    assert len(source.files) == 1 + 57
    assert IMPORTER.detect(source) > 0.9


def test_some_skills_call_others(folder: Path, trial: str) -> None:
    found = skills(claimed(folder))
    calling = {n: s.dependencies for n, s in found.items() if s.dependencies}
    assert len(calling) == {"trial1": 7, "trial2": 8}[trial]
    assert all(d in found and d != n for n, ds in calling.items() for d in ds)


def test_every_skill_has_its_signature(folder: Path) -> None:
    for name, skill in skills(claimed(folder)).items():
        assert skill.signature == f"async function {name}(bot)"


def test_descriptions_of_redefined_skills_are_reported_and_kept(folder: Path, trial: str) -> None:
    source = claimed(folder)
    (note,) = problems(source)
    stray = {
        "trial1": "craftIronHelmetV2, craftIronPickaxeV2, mineFiveCoalOresV2, "
        "mineFiveCopperOresV2, mineFiveIronOresV2, smeltFiveRawIronV2",
        "trial2": "chopDownSpruceLogsV2, eatCookedMuttonV2, eatCookedMuttonV3, "
        "exploreCaveAndGatherResourcesV2, mineFiveCoalOresV2",
    }[trial]
    assert note.kind == "ignored"
    assert note.reason.endswith(stray)
    differing = [s for s in skills(source).values() if s.metadata]
    assert len(differing) == {"trial1": 51 - 47, "trial2": 52 - 51}[trial]


def test_json_alone_gives_the_same_skills(folder: Path) -> None:
    assert read(Source(folder / "skills.json")) == read(claimed(folder))


def test_description_alone_is_ignored_with_a_reason(folder: Path) -> None:
    (found,) = read(Source(folder / "description" / "mineFiveCoalOresV2.txt"))
    assert isinstance(found, Problem)
    assert (found.kind, "skills.json" in found.reason) == ("ignored", True)


def test_exactly_the_voyager_files_are_recognised(real_data: Path) -> None:
    files = [f for f in sorted(real_data.rglob("*")) if f.is_file()]
    found = {f for f in files if IMPORTER.detect(Source(f))}
    assert found == {f for f in files if f.relative_to(real_data).parts[0] == "voyager"}


# --- dependencies -----------------------------------------------------------------------------


def called(folder: Path, body: str) -> tuple[str, ...]:
    others = {name: entry(name) for name in ("mine", "craft", "smelt")}
    return skills(library(folder, main=entry("main", body), **others))["main"].dependencies


@pytest.mark.parametrize(
    ("body", "names"),
    [
        ("await smelt(bot); await mine(bot); await smelt(bot);", ("smelt", "mine")),
        ("await main(bot);", ()),
        ("bot.mine(1); const craft = 3; undermine(bot);", ()),
        ("// then mine(bot)\n  /* or smelt(bot) */ await craft(bot);", ("craft",)),
        ("async function mine(bot) { }\n  await mine(bot);", ()),
        ("await mineBlock(bot);", ()),
    ],
    ids=["in order, once", "itself", "members and words", "comments", "own helper", "primitives"],
)
def test_dependencies_are_the_skills_that_the_code_calls(
    tmp_path: Path, body: str, names: tuple[str, ...]
) -> None:
    assert called(tmp_path, body) == names


def test_helper_in_front_is_not_the_signature(tmp_path: Path) -> None:
    code = function("helper") + "\n" + "async function main(bot, count = 1) {}"
    found = skills(library(tmp_path, main={"code": code, "description": "d"}))["main"]
    assert found.signature == "async function main(bot, count = 1)"


# --- identity and redefinition ----------------------------------------------------------------


def test_same_code_elsewhere_is_the_same_skill(tmp_path: Path) -> None:
    one = skills(library(tmp_path / "a", mine=entry("mine")))["mine"]
    two = skills(library(tmp_path / "b", mine=entry("mine"), craft=entry("craft")))["mine"]
    new = skills(library(tmp_path / "c", mine=entry("mine", "dig();")))["mine"]
    assert skill_id(one) == skill_id(two) != skill_id(new)


def test_old_description_of_a_redefined_skill_is_kept(tmp_path: Path) -> None:
    source = library(tmp_path, mine=entry("mine", says="new"))
    describe(tmp_path, "mine", "mine", "old")
    describe(tmp_path, "mineV2", "mine", "new")
    kept = json.loads(skills(source)["mine"].metadata or "")
    assert list(kept["other_descriptions"]) == ["mine"]
    assert "// old" in kept["other_descriptions"]["mine"]


def test_skill_that_is_called_v2_is_its_own(tmp_path: Path) -> None:
    source = library(tmp_path, mine=entry("mine"), mineV2=entry("mineV2", says="other"))
    describe(tmp_path, "mine", "mine", "does it")
    describe(tmp_path, "mineV2", "mineV2", "other")
    assert [s.metadata for s in skills(source).values()] == [None, None]
    assert problems(source) == []


def test_nothing_is_verified_and_all_is_minecraft(tmp_path: Path) -> None:
    found = skills(library(tmp_path, mine=entry("mine")))["mine"]
    assert (found.verified_at, found.language, found.environment) == (
        None,
        "javascript",
        "minecraft",
    )
    assert (found.source_uri or "").endswith("skills.json#mine")


def test_code_and_vector_database_belong_to_the_library(tmp_path: Path) -> None:
    library(tmp_path, mine=entry("mine"))
    for name in ("code/mine.js", "vectordb/index/a.bin"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(function("mine"))
    source = claimed(tmp_path)
    names = [f.relative_to(tmp_path).as_posix() for f in source.files]
    assert names == ["skills.json", "code/mine.js", "vectordb/index/a.bin"]
    assert list(skills(source)) == ["mine"]


# --- bad input --------------------------------------------------------------------------------


def test_broken_skills_cost_no_other(tmp_path: Path) -> None:
    source = library(tmp_path, a=entry("a"), b={"description": "no code"}, c="text", d=entry("d"))
    assert IMPORTER.detect(source) == 0.9
    assert list(skills(source)) == ["a", "d"]
    assert [p.record for p in problems(source)] == ["1", "2"]
    assert "skill 'b' has no text under 'code'" in problems(source)[0].reason


@pytest.mark.parametrize("content", ["", "{", "[1]", "no json"])
def test_what_is_no_library_is_a_problem(tmp_path: Path, content: str) -> None:
    (tmp_path / "skills.json").write_text(content)
    source = Source(tmp_path / "skills.json")
    assert IMPORTER.detect(source) == 0.0
    assert [p.kind for p in problems(source)] == ["bad"]


def test_other_json_under_that_name_is_not_claimed(tmp_path: Path) -> None:
    library(tmp_path, a={"code": "x = 1", "description": "python"})
    names = frozenset(p.name for p in tmp_path.iterdir())
    assert list(IMPORTER.claims(tmp_path, names)) == []
