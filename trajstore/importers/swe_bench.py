"""SWE-bench beside the runs of its agents: instance ids, evaluation reports, predictions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from trajstore.schema import Label

EVALUATOR = "swe-bench"
"""Who speaks in the outcome labels made from an evaluation report."""

_ISSUE = re.compile(r"[A-Za-z0-9][\w.-]*__[A-Za-z0-9][\w.-]*-\d+")
_SMITH = re.compile(r"[A-Za-z0-9][\w.-]*__[\w.-]+\.[0-9a-f]{8}\.[\w.-]+")
_FRAMES = re.compile(
    r"<(?:pr_description|issue_description)>\s*"
    r"(?:Consider the following PR description:\s*)?(.*?)\s*</(?:pr|issue)_description>"
    r"|\nISSUE:\n(.*?)\n+INSTRUCTIONS:"
    r"|Please solve this issue: (.*?)\n+You can execute bash commands",
    re.DOTALL,
)
_FAILED_LISTS = ("unresolved_ids", "empty_patch_ids", "no_generation", "applied", "generated")
_REPORT_ENDS = (".report.json", ".json")
_FLAGS = {
    "patch_is_None": (True, "there was no patch"),
    "patch_exists": (False, "there was no patch"),
    "patch_successfully_applied": (False, "the patch did not apply"),
}


def benchmark_of(instance_id: str) -> str | None:
    """The benchmark family an instance id belongs to by its form, or None.

    >>> benchmark_of("astropy__astropy-12907")
    'swe-bench'
    >>> benchmark_of("arrow-py__arrow.1d70d009.lm_rewrite__nuzjfyur")
    'swe-smith'
    """
    if _SMITH.fullmatch(instance_id):
        return "swe-smith"
    return "swe-bench" if _ISSUE.fullmatch(instance_id) else None


def task_id(instance_id: str, otherwise: str) -> str:
    """Group key of an instance: one key whoever attempts it; ``otherwise/ID`` for other ids.

    >>> task_id("function_calling_simple", "swe-agent")
    'swe-agent/function_calling_simple'
    """
    return f"{benchmark_of(instance_id) or otherwise}/{instance_id}"


def issue_of(prompt: str | None) -> str | None:
    r"""The issue alone where a prompt frames it in a known way, else the whole prompt.

    >>> issue_of("Solve this.\n<pr_description>\nIt fails.\n</pr_description>\nGo.")
    'It fails.'
    """
    found = _FRAMES.search(prompt or "")
    return next((g.strip() for g in found.groups() if g), prompt) if found else prompt


def is_predictions(value: Any) -> bool:
    """Whether this is a predictions record, or a file of them by instance id."""
    if not isinstance(value, Mapping):
        return False
    if {"instance_id", "model_patch"} <= value.keys():
        return True
    entries = list(value.values())
    return bool(entries) and all(isinstance(e, Mapping) and "model_patch" in e for e in entries)


def is_report(value: Any) -> bool:
    """Whether this is an evaluation report of one instance or of a whole run."""
    if not isinstance(value, Mapping) or not value:
        return False
    if isinstance(value.get("resolved_ids"), list):
        return True
    if isinstance(value.get("resolved"), list) and any(k in value for k in _FAILED_LISTS):
        return True
    return all(
        isinstance(e, Mapping) and "resolved" in e and "patch_is_None" in e for e in value.values()
    )


def verdicts(report: Mapping[str, Any]) -> dict[str, bool]:
    """Instance id -> resolved. Instances whose evaluation itself failed are left out."""
    resolved = report.get("resolved_ids", report.get("resolved"))
    if not isinstance(resolved, list):
        return {str(k): bool(e["resolved"]) for k, e in report.items()}
    failed = {str(i) for name in _FAILED_LISTS for i in report.get(name) or ()}
    return dict.fromkeys(sorted(failed), False) | dict.fromkeys(map(str, resolved), True)


def outcome(report: Mapping[str, Any], instance_id: str, trajectory_id: str) -> Label:
    """The outcome label of one instance of a report; its value is 1 for resolved, else 0."""
    resolved = verdicts(report)[instance_id]
    return Label(
        trajectory_id=trajectory_id,
        evaluator=EVALUATOR,
        success=resolved,
        value=float(resolved),
        rationale=_rationale(report.get(instance_id)),
    )


def _rationale(entry: Any) -> str | None:
    """Why, in words: what became of the patch, and how many tests of each kind passed."""
    if not isinstance(entry, Mapping):
        return None
    said = [words for flag, (bad, words) in _FLAGS.items() if entry.get(flag) is bad]
    tests = entry.get("tests_status")
    for kind, results in tests.items() if isinstance(tests, Mapping) else ():
        passed, failed = len(results.get("success", ())), len(results.get("failure", ()))
        if passed + failed:
            said.append(f"{kind} {passed}/{passed + failed}")
    return ", ".join(dict.fromkeys(said)) or None


def report_paths(run: Path, instance_id: str, ending: str) -> Iterator[Path]:
    """Where the report of a run may lie: ``NAME.report.json`` or ``report.json`` beside it.

    Args:
        run: the trajectory file.
        instance_id: its instance.
        ending: what the name of a trajectory file ends in.
    """
    stem = stem_of(run, ending)
    for name in dict.fromkeys((f"{stem}.report.json", f"{instance_id}.report.json", "report.json")):
        if (run.parent / name).is_file():
            yield run.parent / name


def run_paths(report: Path, instance_ids: Iterable[str], ending: str) -> dict[str, Path]:
    """Trajectory files beside a report, by instance id: ``ID.ENDING`` or ``ID/ID.ENDING``."""
    stem = next(
        (report.name.removesuffix(e) for e in _REPORT_ENDS if report.name.endswith(e)), report.name
    )
    found: dict[str, Path] = {}
    ids = list(instance_ids)
    for instance in ids:
        if PurePosixPath(instance).name != instance:
            continue
        names = [instance + ending, f"{instance}/{instance}{ending}"]
        names += [stem + ending] if len(ids) == 1 else []
        paths = (report.parent / name for name in names)
        path = next((p for p in paths if p.is_file()), None)
        if path is not None:
            found[instance] = path
    return found


def stem_of(run: Path, ending: str) -> str:
    """Name of a trajectory file without its ending and without a mark of compression."""
    name = run.name
    for mark in (".gz", ".zst"):
        name = name.removesuffix(mark)
    return name.removesuffix(ending).removesuffix(".json")
