"""``trajstore skills``: add, list, show, search, verify, import, remove."""

from __future__ import annotations

import shlex
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from trajstore_cli._cells import safe_lines, table
from trajstore_cli._chat import chat_of
from trajstore_cli._command import add as add_command
from trajstore_cli._options import JsonOption, StoreArgument, file_or_stdin, open_store
from trajstore_cli._output import out, report, rows, say, say_some

if TYPE_CHECKING:
    from trajstore.memory import SkillLibrary, StoredSkill, Verified

app = typer.Typer(
    help="Keep code that works, and find it again.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)

SkillArgument = Annotated[
    str, typer.Argument(metavar="SKILL", help="A name, or name@hash for one version.")
]
EnvironmentOption = Annotated[
    str | None, typer.Option(metavar="E", help="What the skills act in; others are not served.")
]
VersionOption = Annotated[
    str | None,
    typer.Option(
        "--environment-version",
        metavar="V",
        help="Its version now; skills verified in another one are stale.",
    ),
]
UnisolatedOption = Annotated[
    bool,
    typer.Option(
        "--allow-unisolated",
        help="Run code also where this machine cannot keep it from network and files.",
    ),
]
UnverifiedOption = Annotated[
    bool, typer.Option("--unverified", help="Also skills that never were verified.")
]


def add(
    store: StoreArgument,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The code; - is stdin.")],
    check: Annotated[
        Path,
        typer.Option(metavar="FILE", help="Code that runs after it and fails if it is wrong."),
    ],
    description: Annotated[str, typer.Option(metavar="TEXT", help="What it does, in words.")],
    name: Annotated[
        str | None, typer.Option(metavar="NAME", help="Its function; the file's name if not given.")
    ] = None,
    language: Annotated[str, typer.Option(metavar="L", help="Programming language.")] = "python",
    command: Annotated[
        str, typer.Option(metavar="COMMAND", help="For other languages: 'node {program}'.")
    ] = "",
    environment: EnvironmentOption = None,
    environment_version: VersionOption = None,
    endpoint: Annotated[
        str | None,
        typer.Option(metavar="URL", help="A model that mends code that fails: .../v1."),
    ] = None,
    model: Annotated[str, typer.Option(metavar="M", help="That model.")] = "",
    api_key_env: Annotated[
        str, typer.Option(metavar="NAME", help="Environment variable that holds the API key.")
    ] = "OPENAI_API_KEY",
    attempts: Annotated[int, typer.Option(metavar="N", min=1, help="Versions to try at most.")] = 5,
    run: Annotated[
        list[str] | None,
        typer.Option(metavar="ID", help="A run it was drawn from, so that it goes with it."),
    ] = None,
    allow_unisolated: UnisolatedOption = False,
    json: JsonOption = False,
) -> None:
    """Verify code in a sandbox and keep it if it passes.

    A name that is there gets a new version, and all that calls it is verified again. The exit code
    is 1 where no version of the code passed.

    Example: trajstore skills add pool slug.py --check check.py --description "text to URL slug"
    """
    from trajstore.memory import SkillDraft, chat_repair

    with file_or_stdin(file) as path:
        code = path.read_text(encoding="utf-8")
    draft = SkillDraft(
        name=name or file.stem,
        code=code,
        check=check.read_text(encoding="utf-8"),
        description=description,
        language=language,
        command=tuple(shlex.split(command)),
        trajectory_ids=tuple(run or ()),
    )
    library = _library(store, environment, environment_version, unisolated=allow_unisolated)
    chat = None if endpoint is None else chat_of(endpoint, model, api_key_env)
    done = library.add(draft, repair=chat_repair(chat) if chat else None, attempts=attempts)
    told: dict[str, Any] = {
        "skill": None if done.skill is None else done.skill.skill_id,
        "version": None if done.skill is None else done.skill.version,
        "attempts": len(done.attempts),
        "dependencies": [] if done.skill is None else list(done.skill.dependencies),
    }
    if json:
        failures = [a.verdict.feedback for a in done.attempts if not a.verdict.ok]
        again = [asdict(v) for v in done.reverified]
        report({**told, "failures": failures, "reverified": again}, json=True)
    else:
        report(told, json=False)
        _tell(done.reverified)
        if not done.ok:
            say(done.attempts[-1].verdict.feedback)
    if not done.ok:
        raise typer.Exit(1)


def list_(
    store: StoreArgument,
    environment: EnvironmentOption = None,
    environment_version: VersionOption = None,
    every: Annotated[
        bool, typer.Option("--all", help="Also replaced versions and removed skills.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """List the skills, with their uses and why one is not served.

    Example: trajstore skills list pool
    """
    library = _library(store, environment, environment_version)
    usage = library.usage()
    found = library.versions() if every else library.skills()
    listed = [{**_brief(s, library), **_counts(usage.get(s.skill_id))} for s in found]
    if json:
        rows(listed)
    elif listed:
        out(table(listed))
    else:
        say("the store has no skills")


def show(store: StoreArgument, skill: SkillArgument, json: JsonOption = False) -> None:
    """Show one skill whole.

    Example: trajstore skills show pool slug
    """
    library = _library(store)
    found = library.resolve(skill)
    about = _brief(found, library) | {
        "verified_at": found.verified_at,
        "environment": found.environment,
        "environment_version": found.environment_version,
        "calls": list(found.dependencies),
        "called_by": [s.skill_id for s in library.dependents(skill)],
        **_counts(library.usage().get(found.skill_id)),
        "source": found.source_uri or found.source,
    }
    if json:
        report({**about, "check": found.check, "code": found.code}, json=True)
        return
    report(about, json=False)
    out(f"\n{safe_lines(found.code)}")


def search(
    store: StoreArgument,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="What is to be done.")],
    k: Annotated[int, typer.Option("-k", metavar="N", min=1, help="Skills at most.")] = 5,
    token_budget: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Tokens of all code at most.")
    ] = None,
    environment: EnvironmentOption = None,
    environment_version: VersionOption = None,
    unverified: UnverifiedOption = False,
    code: Annotated[
        bool, typer.Option("--code", help="Print the code, what is called before what calls it.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Find skills by what they do, with all that they call.

    Example: trajstore skills search pool "make a URL from a title" --code
    """
    from trajstore.memory import search_skills

    library = _library(store, environment, environment_version)
    hits = search_skills(library, text, k=k, token_budget=token_budget, unverified=unverified)
    found = [{"rank": h.rank, "score": round(h.score, 4), **_brief(h.skill, library)} for h in hits]
    if json:
        program = [s.skill_id for s in hits.program]
        told = {"hits": found, "program": program, "tokens": hits.n_tokens, "code": hits.code}
        report({**told, "left_out": dict(hits.left_out)}, json=True)
        return
    if code:
        out(hits.code)
    elif found:
        out(table(found))
    if hits.left_out:
        first = sorted(set(hits.left_out.values()))
        say(f"{len(hits.left_out):,} left out: {'; '.join(first[:3])}")
    if not found:
        say("no skill fits")


def verify(
    store: StoreArgument,
    skill: Annotated[
        list[str] | None, typer.Argument(metavar="SKILL", help="Names; all if none is given.")
    ] = None,
    environment: EnvironmentOption = None,
    environment_version: VersionOption = None,
    allow_unisolated: UnisolatedOption = False,
    json: JsonOption = False,
) -> None:
    """Run skills with their checks again, what is called before what calls it.

    The exit code is 1 where one failed; it is then not served until it passes.

    Example: trajstore skills verify pool --environment-version 2.1
    """
    library = _library(store, environment, environment_version, unisolated=allow_unisolated)
    done = library.verify(skill or None)
    if json:
        rows(asdict(v) for v in done)
    else:
        _tell(done)
        counts = {word: sum(v.ok is ok for v in done) for word, ok in _WORDS.items()}
        report(counts, json=False)
    if any(v.ok is False for v in done):
        raise typer.Exit(1)


def import_(
    store: StoreArgument,
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="DIR", exists=True, help="A Voyager library: the folder of skills.json."
        ),
    ],
    json: JsonOption = False,
) -> None:
    """Take in a Voyager skill library with its calls between skills.

    The skills count as unverified: search finds them with --unverified.

    Example: trajstore skills import pool voyager/trial1/skill
    """
    from trajstore.memory import import_voyager

    done = asdict(import_voyager(open_store(store, create=True), folder))
    if json:
        report(done, json=True)
        return
    problems = done.pop("problems")
    report(done, json=False)
    say_some(problems, "left out: {}")


def remove(
    store: StoreArgument,
    skill: SkillArgument,
    allow_unisolated: UnisolatedOption = False,
    json: JsonOption = False,
) -> None:
    """Take a skill out, unless others call it; an older version counts again.

    Example: trajstore skills remove pool slug
    """
    library = _library(store, unisolated=allow_unisolated)
    found = library.resolve(skill)
    again = library.remove(skill)
    if json:
        report({"removed": found.skill_id, "reverified": [asdict(v) for v in again]}, json=True)
        return
    report({"removed": found.skill_id}, json=False)
    _tell(again)


_WORDS: dict[str, bool | None] = {"passed": True, "failed": False, "without a check": None}


def _library(
    store: str,
    environment: str | None = None,
    environment_version: str | None = None,
    *,
    unisolated: bool = False,
) -> SkillLibrary:
    from trajstore.memory import SkillLibrary
    from trajstore.rollouts import Sandbox

    return SkillLibrary(
        open_store(store),
        sandbox=Sandbox(allow_unisolated=True) if unisolated else None,
        environment=environment,
        environment_version=environment_version,
    )


def _brief(skill: StoredSkill, library: SkillLibrary) -> dict[str, Any]:
    return {
        "skill": skill.skill_id,
        "version": skill.version,
        "language": skill.language,
        "signature": skill.signature,
        "description": skill.description,
        "not_served": library.why_not_served(skill),
    }


def _counts(used: tuple[int, int, Any] | None) -> dict[str, Any]:
    uses, successes, last = used or (0, 0, None)
    return {"uses": uses, "successes": successes, "last_success_at": last}


def _tell(done: list[Verified] | tuple[Verified, ...]) -> None:
    for each in done:
        if each.ok is not True:
            word = "failed" if each.ok is False else "not verified"
            say(f"{each.skill_id} {word}: {each.why}")


def register(main: typer.Typer) -> None:
    """Add the commands."""
    if not app.registered_commands:
        for function in (add, show, search, verify, remove):
            add_command(app, function)
        add_command(app, list_, "list")
        add_command(app, import_, "import")
    main.add_typer(app, name="skills")
