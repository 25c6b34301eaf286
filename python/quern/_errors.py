"""The one exception of the package."""

from __future__ import annotations


class Error(Exception):
    """What a function of the library refused. `status` is the code's name without QUERN_, such as "BAD_MODEL"; str() is its sentence."""

    def __init__(self, status: str, text: str) -> None:
        super().__init__(text)
        self.status = status
