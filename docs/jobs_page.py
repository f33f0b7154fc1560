"""``docs/reference/jobs.md``: every table and key of a training job."""

from __future__ import annotations

from docs.markdown import page
from docs.recipe_page import keys_table
from trajstore.trainers import Lora
from trajstore.trainers.jobs import KINDS
from trajstore.trainers.jobs.config import (
    DataTable,
    JobTable,
    ModelTable,
    RolloutTable,
    Scratch,
    TaskTable,
    TrainingTable,
)

_INTRO = """
What `trajstore train JOB CONFIG.toml` reads: TOML, checked before a store is opened or a model
loaded. An unknown key or table, and a value that does not fit, is an error with file, line and the
real names. Paths are relative to the file; `{seed}` in a path stands for the seed.
[Training](../guides/training.md) shows whole files and what comes of them.
"""

_TABLES = {
    "[job]": JobTable,
    "[model]": ModelTable,
    "[model.scratch]": Scratch,
    "[model.lora]": Lora,
    "[training]": TrainingTable,
    "[data]": DataTable,
    "[rollouts]": RolloutTable,
    "[rollouts.tasks] and [rollouts.held_out]": TaskTable,
}


def jobs_page() -> str:
    """The page."""
    tables = {**_TABLES, **{f"[{name}]": kind.settings for name, kind in KINDS.items()}}
    parts = [part for name, kind in tables.items() for part in (f"## `{name}`", keys_table(kind))]
    return page("Training jobs", _INTRO, *parts)
