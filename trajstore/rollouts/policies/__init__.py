"""Policies that ship with trajstore."""

from __future__ import annotations

from trajstore.rollouts.policies.scripted import PROFILES, Fault, Profile, ScriptedPolicy

__all__ = ["PROFILES", "Fault", "Profile", "ScriptedPolicy"]
