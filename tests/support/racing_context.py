"""A context whose racing options are given as keywords, as if they were fields of it."""

from dataclasses import fields, replace
from typing import Any

from schemaquake.harness.model.options import written
from schemaquake.harness.model.protocols import Context
from schemaquake.workloads.races.options import RacingOptions, racing_options

OPTIONS = frozenset(each.name for each in fields(RacingOptions))


def racing_context(**given: Any) -> Context:
    """Make a context; `mode`, `races`, `isolated` and other fields of RacingOptions become options of it."""
    return with_racing(Context(**{name: value for name, value in given.items() if name not in OPTIONS}), **given)


def with_racing(context: Context, **changes: Any) -> Context:
    """Change a context likewise."""
    others = {name: value for name, value in changes.items() if name not in OPTIONS}
    plain = replace(context, **{**others, "options": {**context.options, **changes.get("options", {})}})
    racing = {name: value for name, value in changes.items() if name in OPTIONS}
    return replace(plain, options=written(replace(racing_options(plain.options), **racing), beside=plain.options))
