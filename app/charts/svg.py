"""A time line as an SVG file, for texts that link to a picture: `time_line.js` draws the same where a page is open."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import tzinfo

from app import words
from app.charts.marks import ALERT_MARK, CHAIN_MARK, CHANGE_MARK, LEADER_MARK, MOVE_MARK
from app.charts.time_line import STYLE_WORDS, Style, TimeLine
from app.words import Html, fill

_WIDTH, _GUTTER, _EDGE = 1_000, 230, 6
_TOP, _SIGNS, _AXIS, _KEYS = 24, 16, 24, 22
_BAD, _WAITING, _WORKING, _QUIET, _FAINT, _TEXT = "#b8400e", "#0b62a8", "#8a929c", "#5b6370", "#c9ced6", "#20242c"
_LETTER = 6.6
"""Pixels of a letter at 12 pixels, a little more than most have."""
_TICKS_MS = (
    1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 30_000, 60_000, 120_000, 300_000, 600_000,
    1_800_000, 3_600_000, 7_200_000, 21_600_000, 43_200_000, 86_400_000, 604_800_000,
)  # fmt: skip
_MOST_TICKS = 7
_SIGN_OF = {
    LEADER_MARK: "\u25c6",
    MOVE_MARK: "\u25c7",
    CHANGE_MARK: "\u2691",
    CHAIN_MARK: "\u25cf",
    ALERT_MARK: "\u2709",
}
_SAME_SIGN_PX = 8
_HATCHED = Html(
    "<defs>"
    + "".join(
        f'<pattern id="{name}" width="5" height="5" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
        f'<rect width="5" height="5" fill="#fff"/><rect width="2" height="5" fill="{colour}"/></pattern>'
        for name, colour in (("waiting", _WAITING), ("unknown", _QUIET))
    )
    + "</defs>"
)


def svg(picture: TimeLine, title: str, tz: tzinfo) -> str:
    """In light colours, since paper and most wikis are; its times in this zone."""
    lane_height = picture.lane_height or 12
    lanes_top = _TOP + _SIGNS
    bottom = lanes_top + lane_height * len(picture.lanes)
    height = bottom + _AXIS + _KEYS
    when = f"from {words.minute(int(picture.from_ms), tz)}"
    parts = [
        *_lanes(picture, lanes_top, lane_height),
        *_ticks(picture, bottom, tz),
        *_bars(picture, lanes_top, lane_height),
        *_marks(picture, lanes_top, bottom),
        *_keys(picture, bottom + _AXIS + 4),
    ]
    return fill(
        '<svg xmlns="http://www.w3.org/2000/svg" width="{w}" height="{h}" viewBox="0 0 {w} {h}" role="img" '
        'font-family="sans-serif" font-size="12"><title>{t}</title>{defs}<rect width="{w}" height="{h}" fill="#fff"/>'
        '<text x="2" y="15" font-weight="bold" fill="{c}">{said}</text>{when}{parts}</svg>',
        w=_WIDTH,
        h=height,
        t=title,
        defs=_HATCHED,
        c=_TEXT,
        said=_fitted(title, _WIDTH - _LETTER * len(when) - 20),
        when=_text(_WIDTH - _EDGE, 15, when, _QUIET, "end"),
        parts=words.join(parts),
    )


def _fitted(text: str, room: float) -> str:
    return words.cut(text, max(3, int(room / _LETTER)))


def _x(picture: TimeLine, at: float) -> float:
    length = max(1.0, picture.to_ms - picture.from_ms)
    inside = min(max(at, picture.from_ms), picture.to_ms) - picture.from_ms
    return _GUTTER + (_WIDTH - _GUTTER - _EDGE) * inside / length


def _text(x: float, y: float, said: str, colour: str, anchor: str = "start") -> Html:
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}"'
    return fill("<text {place}>{said}</text>", place=Html(place), said=said)


def _box(x: float, y: float, width: float, height: float, look: str) -> Html:
    return Html(f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" {look}/>')


def _lanes(picture: TimeLine, top: float, height: float) -> Iterator[Html]:
    for n, name in enumerate(picture.lanes):
        if n % 2 == 0:
            yield _box(
                _GUTTER, top + n * height, _WIDTH - _GUTTER - _EDGE, height, 'fill="#3c4250" fill-opacity="0.05"'
            )
        colour = _QUIET if n in picture.heads else _TEXT
        yield _text(2, top + n * height + height / 2 + 4, _fitted(name, _GUTTER - 10), colour)


def _ticks(picture: TimeLine, bottom: float, tz: tzinfo) -> Iterator[Html]:
    length = picture.to_ms - picture.from_ms
    step = next((s for s in _TICKS_MS if length / s <= _MOST_TICKS), int(length // _MOST_TICKS) + 1)
    at = int(-(-picture.from_ms // step)) * step
    while at <= picture.to_ms:
        x = _x(picture, at)
        yield _box(x, _TOP, 1, bottom - _TOP + 4, 'fill="#3c4250" fill-opacity="0.12"')
        yield _text(x, bottom + 16, _at(at, step, tz), _QUIET, "middle")
        at += step


def _at(at_ms: int, step: int, tz: tzinfo) -> str:
    """As exact as the distance between two of them asks: a day, a minute, a second or less."""
    whole = words.instant(at_ms, tz)
    day, _, time = whole.partition(" ")
    if step >= 86_400_000:
        return day
    return time[:5] if step >= 60_000 else time[:8] if step >= 1_000 else time[:12]


def _bars(picture: TimeLine, top: float, height: float) -> Iterator[Html]:
    columns = ("lane", "from", "to", "level", "style")
    for lane, start, end, level, style in zip(*(picture.bars[c].tolist() for c in columns), strict=True):
        x = _x(picture, start)
        yield _bar(Style(style), x, max(1.5, _x(picture, end) - x), top + lane * height, height, level)


def _bar(style: Style, x: float, width: float, top: float, height: float, level: float) -> Html:
    tall = max(1.0, (height - 4) * level)
    middle, floor = top + (height - tall) / 2, top + height - 2 - tall
    match style:
        case Style.STANDING:
            return _box(x, middle, width, tall, f'fill="{_BAD}"')
        case Style.WAITING:
            return _box(x, middle, width, tall, f'fill="url(#waiting)" stroke="{_WAITING}"')
        case Style.UNKNOWN:
            return _box(x, middle, width, tall, f'fill="url(#unknown)" stroke="{_QUIET}"')
        case Style.WINDOW:
            return _box(x, middle, width, tall, f'fill="none" stroke="{_QUIET}"')
        case Style.BOUND:
            ends = [_box(at, top + height / 2 - 4, 1.5, 8, f'fill="{_BAD}"') for at in (x, x + width - 1.5)]
            return words.join([_box(x, top + height / 2 - 0.75, width, 1.5, f'fill="{_BAD}"'), *ends])
        case Style.FAILURE:
            return _box(x, floor, width, tall, f'fill="{_BAD}"')
        case Style.WORKING:
            return _box(x, floor, width, tall, f'fill="{_WORKING}"')
        case _:
            return _box(x, floor, width, tall, f'fill="{_FAINT}"')


def _marks(picture: TimeLine, top: float, bottom: float) -> Iterator[Html]:
    """A line through all lanes, and its sign above, where there is room for one."""
    last = -_SAME_SIGN_PX * 2.0
    frame = picture.marks.sort_values("at", kind="stable")
    for at, family in zip(frame["at"].tolist(), frame["family"].tolist(), strict=True):
        x = _x(picture, at)
        name = words.FAMILIES[family] if family < len(words.FAMILIES) else ""
        colour = _BAD if name == "failure" else _WAITING if family == CHANGE_MARK else _QUIET
        yield _box(x - 0.5, top, 1, bottom - top, f'fill="{colour}" fill-opacity="0.7"')
        if x - last >= _SAME_SIGN_PX:
            yield _text(x, top - 4, words.FAMILY_SIGN[name] if name else _SIGN_OF[family], colour, "middle")
            last = x


def _keys(picture: TimeLine, top: float) -> Iterator[Html]:
    x = 2.0
    met = set(picture.bars["style"].tolist())
    for style, said in STYLE_WORDS.items():
        if style in met:
            yield _bar(style, x, 24, top, 14, 0.8)
            yield _text(x + 30, top + 11, said, _QUIET)
            x += 30 + _LETTER * len(said) + 14
