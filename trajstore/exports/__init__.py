"""Exports: trajectories in the exact shapes that trainers read, with a manifest beside them."""

from __future__ import annotations

from trajstore.exports.atif import to_atif
from trajstore.exports.atif_folder import AtifReport, export_atif
from trajstore.exports.export import export_sft
from trajstore.exports.files import Format
from trajstore.exports.manifest import ExportReport, Lineage
from trajstore.exports.messages import (
    EVENT_MARK,
    ORPHAN_MARK,
    RULES,
    Chat,
    ChatRules,
    chat_messages,
    render_chat,
)
from trajstore.exports.rows import TARGETS, sft_rows
from trajstore.exports.sft import (
    DEFAULT_OPTIONS,
    REFUSALS,
    Refusal,
    SftOptions,
    SftRow,
    Target,
)
from trajstore.exports.target import Record, SftTarget
from trajstore.exports.tools import tool_definitions
from trajstore.exports.trl import SFT_COLUMNS

__all__ = [
    "DEFAULT_OPTIONS",
    "EVENT_MARK",
    "ORPHAN_MARK",
    "REFUSALS",
    "RULES",
    "SFT_COLUMNS",
    "TARGETS",
    "AtifReport",
    "Chat",
    "ChatRules",
    "ExportReport",
    "Format",
    "Lineage",
    "Record",
    "Refusal",
    "SftOptions",
    "SftRow",
    "SftTarget",
    "Target",
    "chat_messages",
    "export_atif",
    "export_sft",
    "render_chat",
    "sft_rows",
    "to_atif",
    "tool_definitions",
]
