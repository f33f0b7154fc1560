"""Voyager: the skill library, ``skills.json`` with its folders of descriptions and code."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from trajstore.importers.importer import Importer
from trajstore.importers.items import ImportOptions, Item, Problem
from trajstore.importers.source import Record, Source
from trajstore.schema import Skill, json_text_or_none

_LIBRARY = "skills.json"
_FOLDERS = ("description", "code", "vectordb")
_SKILL_TEXT = re.compile(r"(?:async )?function \w+\(bot\b")
_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
_FUNCTION = re.compile(r"\bfunction \w+\(bot\b")
_DEFINED = re.compile(r"\bfunction\s+(\w+)\s*\(")
_CALLED = re.compile(r"(?<![.\w])(\w+)\s*\(")


class _Library(Source):
    """The skills of a ``skills.json`` as records: pairs of a name and what stands under it."""

    def __init__(self, path: Path, *, uri: str) -> None:
        super().__init__(path, uri=uri)
        self.names: frozenset[str] = frozenset()
        self.described: dict[str, Path] = {}

    def load(self) -> Problem | None:
        """Take in the names and find the descriptions beside; say what is wrong, if anything."""
        try:
            document = self.document()
        except (ValueError, RecursionError) as error:
            return Problem(source=self.uri, reason=f"not JSON: {error}")
        if not isinstance(document, dict):
            return Problem(source=self.uri, reason="not an object of skills by name")
        self.names = frozenset(document)
        folder = self.path.with_name(_FOLDERS[0])
        self.described = {p.stem: p for p in sorted(folder.glob("*.txt"))}
        return None

    def records(self, *, array_is_one: bool = False) -> Iterator[Record | Problem]:
        del array_is_one
        yield from (Record(pair, n) for n, pair in enumerate(self.document().items()))

    def versions(self, name: str) -> Mapping[str, Path]:
        """Description files of one skill: its own, and ``<name>V2``, ``V3``, ... beside it."""
        redefined = re.compile(rf"{re.escape(name)}V\d+")
        return {
            stem: path
            for stem, path in self.described.items()
            if stem == name or (redefined.fullmatch(stem) and stem not in self.names)
        }


class VoyagerImporter(Importer):
    """Reads Voyager skill libraries (Wang et al. 2023).

    The skills are those of ``skills.json``, since that is what the agent loads. A skill that was
    written anew replaces its old code there and leaves a description ``<name>V2`` beside the old
    one; descriptions that are not the current one are kept in the skill's metadata. Code files and
    the vector database of the folder say nothing more and are not read.

    Dependencies are the skills of the same library that the code calls, in the order of the calls.
    """

    name = "voyager"
    title = "Voyager skill library: skills.json with description/ and code/ beside it"
    reads = "skills with code, description, signature and the skills that they call; no outcome"

    def claims(self, folder: Path, names: frozenset[str]) -> Iterable[tuple[str, ...]]:
        """``skills.json`` with everything in the folders of the library beside it."""
        beside = [f for f in _FOLDERS if f in names and (folder / f).is_dir()]
        if _LIBRARY not in names or not beside or not _is_library(Source(folder / _LIBRARY)):
            return
        files = (p for f in beside for p in sorted((folder / f).rglob("*")) if p.is_file())
        yield (_LIBRARY, *(p.relative_to(folder).as_posix() for p in files))

    def detect(self, source: Source) -> float:
        """Say 0.95 for a library folder, 0.9 for its JSON file, 0.6 for a description or code."""
        if source.files:
            return 0.95 if source.files[0].name == _LIBRARY else 0.0
        if _is_library(source):
            return 0.9
        is_text = source.shape == "text" and _SKILL_TEXT.match(source.text_head)
        return 0.6 if is_text else 0.0

    def read(self, source: Source, options: ImportOptions) -> Iterator[Item]:
        """Every skill of a library; nothing of a description or a code file alone."""
        if not source.files and _SKILL_TEXT.match(source.text_head):
            yield self.ignored(source, "text of one skill; the skills are read from skills.json")
            return
        path = source.files[0] if source.files else source.path
        library = _Library(path, uri=source.uri)
        problem = library.load()
        if problem is not None:
            yield problem
            return
        yield from super().read(library, options)
        unused = sorted(library.described.keys() - library.names)
        if unused:
            reason = (
                f"{len(unused)} description files name no skill of the library; they are of "
                f"redefinitions: {', '.join(unused)}"
            )
            yield self.ignored(library, reason)

    def convert(self, source: Source, record: Record, options: ImportOptions) -> Iterable[Item]:
        """One skill."""
        del options
        name, entry = record.value
        if not isinstance(entry, dict) or not isinstance(entry.get("code"), str):
            raise TypeError(f"skill '{name}' has no text under 'code'")
        code, description = entry["code"], entry.get("description")
        library = source if isinstance(source, _Library) else _Library(source.path, uri=source.uri)
        yield Skill(
            name=name,
            code=code,
            language="javascript",
            source=self.name,
            description=description,
            signature=_signature(name, code),
            dependencies=_called(name, code, library.names),
            environment="minecraft",
            source_uri=f"{source.uri}#{name}",
            metadata=_metadata(library, name, entry),
        )


def _is_library(source: Source) -> bool:
    """Whether an object holds skills by name; one broken skill does not hide the others."""
    if source.shape != "object" or '"code"' not in source.text_head:
        return False
    value = source.first
    return isinstance(value, dict) and any(_is_skill(entry) for entry in value.values())


def _is_skill(entry: Any) -> bool:
    return (
        isinstance(entry, dict)
        and entry.keys() == {"code", "description"}
        and bool(_FUNCTION.search(str(entry["code"])))
    )


def _signature(name: str, code: str) -> str | None:
    """The head of the function that has the skill's name; helpers may stand before it."""
    found = re.search(rf"(?:async\s+)?function\s+{re.escape(name)}\s*\([^)]*\)", code)
    return found[0] if found else None


def _called(name: str, code: str, names: frozenset[str]) -> tuple[str, ...]:
    bare = _COMMENT.sub(" ", code)
    own = {name, *_DEFINED.findall(bare)}
    called = (found for found in _CALLED.findall(bare) if found in names and found not in own)
    return tuple(dict.fromkeys(called))


def _metadata(library: _Library, name: str, entry: Mapping[str, Any]) -> str | None:
    """Descriptions of the skill's other versions, by file name, and unknown fields."""
    texts = {
        stem: path.read_text(encoding="utf-8", errors="replace")
        for stem, path in library.versions(name).items()
    }
    current = (entry.get("description") or "").strip()
    others = {stem: text for stem, text in texts.items() if text.strip() != current}
    left = {k: v for k, v in entry.items() if k not in {"code", "description"}}
    return json_text_or_none(left | ({"other_descriptions": others} if others else {}))


IMPORTER = VoyagerImporter()
"""The importer, as the registry finds it."""
