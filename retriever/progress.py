"""Who is not asked how far it is says nothing."""


class NoProgress:
    """A Progress that tells nobody."""

    def start(self, stage: str, total: int, unit: str) -> None:
        """A stage begins."""

    def advance(self, stage: str, done: int) -> None:
        """So many units of it are done."""

    def finish(self, stage: str) -> None:
        """It is over."""
