"""Stages joined end to end: import, label, reward, judge, describe, export."""

from __future__ import annotations

from trajstore.pipeline.building import BuildReport, SetReport, build, check_build, plan_build
from trajstore.pipeline.chat_endpoint import ChatEndpoint
from trajstore.pipeline.demo import DemoReport, run_demo
from trajstore.pipeline.describe import describe
from trajstore.pipeline.exporting import export_sft_from
from trajstore.pipeline.exporting_pairs import export_kto_from, export_pairs_from
from trajstore.pipeline.exporting_rl import export_groups_from, export_prompts_from
from trajstore.pipeline.importing import ImportReport, import_into
from trajstore.pipeline.judge_report import JudgeOptions, JudgePlan, JudgeReport, Unjudged
from trajstore.pipeline.judging import judge, plan_judging
from trajstore.pipeline.labelling import LabelReport, label_from_file
from trajstore.pipeline.pairing import build_groups, build_pairs
from trajstore.pipeline.pool import Pool
from trajstore.pipeline.recipe import Recipe, read_recipe
from trajstore.pipeline.report import HtmlReport, write_report
from trajstore.pipeline.rewarding import RewardReport, write_rewards
from trajstore.pipeline.rubrics import (
    Criterion,
    Rubric,
    find_rubric,
    read_rubric,
    rubric_for_progress,
    rubric_library,
)
from trajstore.pipeline.selected import StoreSelection, export
from trajstore.pipeline.selecting import select

__all__ = [
    "BuildReport",
    "ChatEndpoint",
    "Criterion",
    "DemoReport",
    "HtmlReport",
    "ImportReport",
    "JudgeOptions",
    "JudgePlan",
    "JudgeReport",
    "LabelReport",
    "Pool",
    "Recipe",
    "RewardReport",
    "Rubric",
    "SetReport",
    "StoreSelection",
    "Unjudged",
    "build",
    "build_groups",
    "build_pairs",
    "check_build",
    "describe",
    "export",
    "export_groups_from",
    "export_kto_from",
    "export_pairs_from",
    "export_prompts_from",
    "export_sft_from",
    "find_rubric",
    "import_into",
    "judge",
    "label_from_file",
    "plan_build",
    "plan_judging",
    "read_recipe",
    "read_rubric",
    "rubric_for_progress",
    "rubric_library",
    "run_demo",
    "select",
    "write_report",
    "write_rewards",
]
