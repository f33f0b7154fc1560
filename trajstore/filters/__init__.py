"""Filters: what is taken out of trajectories before they are kept."""

from __future__ import annotations

from trajstore.filters.redaction import redact_trajectory
from trajstore.filters.secret_formats import KINDS as SECRET_KINDS
from trajstore.filters.secrets import SecretMatch, find_secrets, redact

__all__ = ["SECRET_KINDS", "SecretMatch", "find_secrets", "redact", "redact_trajectory"]
