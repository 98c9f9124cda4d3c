"""The catalogue: every rule, in the order in which a person meets what they are about."""

from __future__ import annotations

from . import bounds, code, configs, indexes, lock, shell_files, shell_uv

CATALOGUE = (
    *bounds.RULES,
    *indexes.RULES,
    *lock.RULES,
    *code.RULES,
    *shell_uv.RULES,
    *shell_files.RULES,
    *configs.RULES,
)
