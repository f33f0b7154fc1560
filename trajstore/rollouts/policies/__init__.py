"""Policies that ship with trajstore."""

from __future__ import annotations

from trajstore.rollouts.policies.scripted import PROFILES, Fault, ScriptedPolicy
from trajstore.rollouts.policies.scripted_code import CODE_PROFILES, CodeFault, ScriptedCoder
from trajstore.rollouts.policies.scripted_play import Profile, ScriptPlayer
from trajstore.rollouts.policies.scripted_shop import SHOP_PROFILES, ScriptedShopper, ShopFault

__all__ = [
    "CODE_PROFILES",
    "PROFILES",
    "SHOP_PROFILES",
    "CodeFault",
    "Fault",
    "Profile",
    "ScriptPlayer",
    "ScriptedCoder",
    "ScriptedPolicy",
    "ScriptedShopper",
    "ShopFault",
]
