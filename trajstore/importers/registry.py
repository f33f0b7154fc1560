"""Every importer by name, loaded when first asked for."""

from __future__ import annotations

import importlib
from functools import cache

from trajstore.errors import ImportFormatError
from trajstore.importers.importer import Importer
from trajstore.importers.source import Source

MODULES = (
    "atif",
    "swe_agent",
    "mini_swe_agent",
    "openhands",
    "openhands_sdk",
    "tau_bench",
    "tau2_bench",
    "reflexion",
    "lats",
    "inspect_ai",
    "claude_code",
    "codex_cli",
    "gemini_cli",
    "other_cli",
    "openai_responses",
    "anthropic_messages",
    "openai_chat",
    "sharegpt",
    "hermes",
    "otel",
    "langfuse",
    "adp",
    "nemo_gym",
    "verifiers",
    "art",
    "rllm",
    "verl",
    "voyager",
    "jsonl",
    "tables",
)
"""Modules of this package, one a format, the specific before the general."""


@cache
def importers() -> dict[str, Importer]:
    """All importers by format name, in order of :data:`MODULES`."""
    found: dict[str, Importer] = {}
    for name in MODULES:
        module = importlib.import_module(f"trajstore.importers.{name}")
        importer: Importer = module.IMPORTER
        found[importer.name] = importer
    return found


def importer(name: str) -> Importer:
    """The importer called ``name``.

    Raises:
        ImportFormatError: there is none; the message lists the real ones.
    """
    known = importers()
    if name not in known:
        message = f"There is no format '{name}'. Known formats: {', '.join(sorted(known))}"
        raise ImportFormatError(message)
    return known[name]


def detect(source: Source) -> Importer | None:
    """The importer that is surest of the source, or None; the earlier one wins a tie."""
    best: Importer | None = None
    sure = 0.0
    for candidate in importers().values():
        confidence = candidate.detect(source)
        if confidence > sure:
            best, sure = candidate, confidence
    return best
