"""Small plots as SVG, for a page of HTML; colours and sizes are classes that its style sheet knows. Pure.

Every plot is as wide as a phone (340 units) and is scaled up from there; labels stand above what they name, so that
long ones have room. Every mark has a <title>, which browsers show when it is pointed at.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

WIDTH = 340
_LEFT, _RIGHT = 6, 44
"""Room beside the axis: on the right for the number."""
_ROW = 40
"""The height of a label and its line."""
_BAR_ROW = 36
_TOP, _AXIS = 4, 20


@dataclass(frozen=True, slots=True)
class Dot:
    """A mean with its interval; or a median with what lies above it."""

    label: str
    value: float
    low: float
    high: float
    text: str
    """The value, as it is written beside the line."""
    title: str
    """All of it, in words."""


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a bar."""

    name: str
    """Of its class in the style sheet."""
    label: str
    count: int


@dataclass(frozen=True, slots=True)
class Cell:
    """One question in a grid."""

    name: str
    """Of its class in the style sheet."""
    title: str
    link: str
    """The id of the element that it leads to."""


def dot_plot(label: str, dots: Sequence[Dot], top: float, ticks: Sequence[tuple[float, str]]) -> str:
    """A line for each dot, from `low` to `high`, over an axis from 0 to `top`; a dashed line at the first one's value.

    Args:
        label: what the plot shows, for those who cannot see it.
        dots: from top to bottom.
        top: the axis's end, above 0.
        ticks: values and their texts.
    """
    bottom = _TOP + _ROW * len(dots)
    body = [_axis(top, ticks, bottom)]
    if len(dots) > 1:
        body.append(_line(_x(dots[0].value, top), _TOP, _x(dots[0].value, top), bottom, "reference"))
    body += [_dot(dot, top, _TOP + _ROW * row) for row, dot in enumerate(dots)]
    return _svg(label, bottom + _AXIS, body)


def stacked_bars(label: str, bars: Sequence[tuple[str, Sequence[Part]]]) -> str:
    """A bar for each row, its parts as wide as their share of it; parts of nothing are left out."""
    body: list[str] = []
    for row, (name, parts) in enumerate(bars):
        body += _bar(name, parts, _TOP + _BAR_ROW * row)
    return _svg(label, _TOP + _BAR_ROW * len(bars), body)


def grid(label: str, cells: Sequence[Cell], columns: int) -> str:
    """A square for each question, row after row."""
    size = WIDTH / columns
    squares = []
    for place, cell in enumerate(cells):
        x, y = place % columns * size, place // columns * size
        square = f'<rect x="{x:.1f}" y="{y:.1f}" width="{size - 1.5:.1f}" height="{size - 1.5:.1f}" rx="1.5"'
        title = f"<title>{escape(cell.title)}</title>"
        squares.append(f'<a href="#{escape(cell.link)}">{square} class="{cell.name}">{title}</rect></a>')
    return _svg(label, -(-len(cells) // columns) * size, squares)


def _x(value: float, top: float) -> float:
    return _LEFT + (WIDTH - _LEFT - _RIGHT) * min(1.0, max(0.0, value / top))


def _axis(top: float, ticks: Sequence[tuple[float, str]], bottom: float) -> str:
    marks = []
    for value, text in ticks:
        x = _x(value, top)
        anchor = "start" if value == 0 else "middle"
        marks.append(_line(x, _TOP, x, bottom, "grid"))
        marks.append(f'<text x="{x:.1f}" y="{bottom + 14}" text-anchor="{anchor}" class="tick">{escape(text)}</text>')
    return "".join(marks)


def _dot(dot: Dot, top: float, y: float) -> str:
    line = y + 28
    interval = _line(_x(dot.low, top), line, _x(dot.high, top), line, "interval")
    mark = f'<circle cx="{_x(dot.value, top):.1f}" cy="{line}" r="4.5" class="dot"/>'
    number = f'<text x="{WIDTH}" y="{line + 4}" text-anchor="end" class="number">{escape(dot.text)}</text>'
    label = f'<text x="{_LEFT}" y="{y + 14}" class="label">{escape(dot.label)}</text>'
    return f"<g>{label}{interval}{mark}{number}<title>{escape(dot.title)}</title></g>"


def _bar(name: str, parts: Sequence[Part], y: float) -> Iterator[str]:
    total = sum(part.count for part in parts)
    yield f'<text x="0" y="{y + 12}" class="label">{escape(name)}</text>'
    x = 0.0
    for part in parts:
        width = WIDTH * part.count / total if total else 0
        if not width:
            continue
        title = f"<title>{escape(f'{name}: {part.count} of {total} {part.label}')}</title>"
        rect = f'<rect x="{x:.1f}" y="{y + 17}" width="{width:.1f}" height="13" class="{part.name}">{title}</rect>'
        room = 7 * len(str(part.count)) + 4
        place = f'x="{x + width / 2:.1f}" y="{y + 27.5}" text-anchor="middle"'
        text = f'<text {place} class="on-{part.name}">{part.count}</text>'
        yield rect + (text if width > room else "")
        x += width


def _line(x1: float, y1: float, x2: float, y2: float, name: str) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="{name}"/>'


def _svg(label: str, height: float, body: Sequence[str]) -> str:
    return f'<svg viewBox="0 0 {WIDTH} {height:.0f}" role="img" aria-label="{escape(label)}">{"".join(body)}</svg>'
