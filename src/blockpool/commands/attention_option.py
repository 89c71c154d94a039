"""The option `--attention`, and what follows from it for other options."""

from __future__ import annotations

import click

from blockpool.replay.settings import ENGINE_RULES, FULL_ATTENTION

attention_option = click.option(
    "--attention",
    default=FULL_ATTENTION,
    show_default=True,
    metavar="KIND",
    help="What the layers look at: full, sliding:WINDOW, chunked:SIZE, mamba, mamba:align, or groups that share the "
    "pool, as in hybrid:full+5*sliding:1024. Other than full goes by engine rules.",
)


def rules_for(rules: str, *, timed: bool, attention: str) -> str:
    """Engine rules with --timed and for other attention than full, unless the caller asked for others."""
    source = click.get_current_context().get_parameter_source("rules")
    given = source is not click.core.ParameterSource.DEFAULT
    return ENGINE_RULES if not given and (timed or attention != FULL_ATTENTION) else rules
