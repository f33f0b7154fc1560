"""Exports: trajectories in the exact shapes that trainers read, with a manifest beside them."""

from __future__ import annotations

from trajstore.exports.export import SFT_COLUMNS, export_sft
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
from trajstore.exports.sft import (
    DEFAULT_OPTIONS,
    REFUSALS,
    Refusal,
    SftOptions,
    SftRow,
    Target,
    sft_rows,
)
from trajstore.exports.tools import tool_definitions

__all__ = [
    "DEFAULT_OPTIONS",
    "EVENT_MARK",
    "ORPHAN_MARK",
    "REFUSALS",
    "RULES",
    "SFT_COLUMNS",
    "Chat",
    "ChatRules",
    "ExportReport",
    "Format",
    "Lineage",
    "Refusal",
    "SftOptions",
    "SftRow",
    "Target",
    "chat_messages",
    "export_sft",
    "render_chat",
    "sft_rows",
    "tool_definitions",
]
