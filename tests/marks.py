"""Marks of cases."""

from collections.abc import Iterable
from typing import Any

import pytest


def slow(cases: Iterable[Any]) -> list[Any]:
    """These values of one parameter, marked slow."""
    return [pytest.param(case, marks=pytest.mark.slow) for case in cases]
