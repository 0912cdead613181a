"""A run of lines, as it is cited."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """A run of lines of one file, 1-based and inclusive, counted in the file on disk."""

    first: int
    """The first line, at least 1."""
    last: int
    """The last line, at least `first`."""

    def __post_init__(self) -> None:
        if not 1 <= self.first <= self.last:
            raise ValueError(f"not a span of lines: {self.first}-{self.last}")

    def __len__(self) -> int:
        return self.last - self.first + 1

    def __str__(self) -> str:
        """Return `first-last`; of one line, its number."""
        return f"{self.first}-{self.last}" if self.last > self.first else str(self.first)

    def shift(self, lines: int) -> "Span":
        """Return as many lines further down."""
        return Span(self.first + lines, self.last + lines)

    def overlap(self, other: "Span") -> int:
        """Return the number of lines that both spans hold; 0 when they are apart."""
        return max(0, min(self.last, other.last) - max(self.first, other.first) + 1)
