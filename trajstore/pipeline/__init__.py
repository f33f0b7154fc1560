"""Stages joined end to end: import, label, describe, export."""

from __future__ import annotations

from trajstore.pipeline.demo import DemoReport, run_demo
from trajstore.pipeline.describe import describe
from trajstore.pipeline.exporting import export_sft_from
from trajstore.pipeline.importing import ImportReport, import_into
from trajstore.pipeline.labelling import LabelReport, label_from_file
from trajstore.pipeline.pool import Pool

__all__ = [
    "DemoReport",
    "ImportReport",
    "LabelReport",
    "Pool",
    "describe",
    "export_sft_from",
    "import_into",
    "label_from_file",
    "run_demo",
]
