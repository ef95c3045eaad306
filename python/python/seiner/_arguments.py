"""Arguments that several calls share."""

from __future__ import annotations

from collections.abc import Sequence

from .errors import Invalid


def is_wide(shape: str, step: object, aggregates: object, tag_columns: object = False) -> bool:
    """Returns true for the wide shape.

    Raises:
        Invalid: if the shape does not exist, or other arguments of a query do not fit.
    """
    if shape not in ("long", "wide"):
        raise Invalid(f"shape {shape!r} is neither 'long' nor 'wide'")
    if shape == "wide" and (step is not None or aggregates is not None or tag_columns is not False):
        raise Invalid("step, aggregates and tag_columns need the long shape; leave them out, or leave out shape='wide'")
    return shape == "wide"


def name_list(names: str | Sequence[str] | None) -> list[str] | None:
    """Returns names as a list. One name may be given alone."""
    if names is None:
        return None
    return [names] if isinstance(names, str) else list(names)
