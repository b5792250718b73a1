"""The panels of a dashboard as an SVG, in their places."""

import html
import math
import time

COLUMN, ROW, GAP = 50, 30, 8
# Okabe and Ito's colours, which most people can tell apart.
COLOURS = ["#56b4e9", "#e69f00", "#009e73", "#cc79a7", "#f0e442", "#0072b2", "#d55e00", "#bbbbbb"]
STATES = {"green": "#2f7d4f", "orange": "#b36b00", "red": "#b3332f"}
SYMBOLS = {"bps": "bit/s", "bytes": "B"}


def drawn(panels, begin, end):
    width = 24 * COLUMN
    height = max((panel["gridPos"]["y"] + panel["gridPos"]["h"]) for panel, _ in panels) * ROW
    parts = [one(panel, series, begin, end) for panel, series in panels]
    return f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">
<title>The dashboard after two weeks of nightly runs</title>
<!-- made by docs/images/dashboard.py from runs in a lab -->
<style>text{{font:12px system-ui,"DejaVu Sans",sans-serif;fill:#ccccdc}}.t{{font-weight:600;font-size:14px}}.n{{font-size:11px}}.v{{font-size:20px;fill:#fff}}path{{fill:none;stroke-width:1.5}}</style>
<rect width="{width}" height="{height}" fill="#111217"/>
{"".join(parts)}</svg>"""


def one(panel, series, begin, end):
    place = panel["gridPos"]
    width, height = place["w"] * COLUMN - GAP, place["h"] * ROW - GAP
    is_stat = panel["type"] == "stat"
    inside = stat(panel, series, width, height) if is_stat else lines(panel, series, width, height, begin, end)
    return (
        f'<g transform="translate({place["x"] * COLUMN + GAP // 2},{place["y"] * ROW + GAP // 2})">'
        f'<rect width="{width}" height="{height}" rx="3" fill="#181b1f" stroke="#2c3036"/>'
        f'<text class="t" x="10" y="20">{html.escape(panel["title"])}</text>\n{inside}</g>\n'
    )


def stat(panel, series, width, height):
    """The last value of each series, side by side."""
    settings = panel["fieldConfig"]["defaults"]
    each = (width - 16) / len(series)
    text = ""
    for at, (name, points) in enumerate(series):
        value, x = points[-1][1], 8 + at * each
        steps = settings.get("thresholds", {}).get("steps", [])
        colour = [STATES[step["color"]] for step in steps if step["value"] is None or value >= step["value"]]
        fill = colour[-1] if colour else "#23272e"
        text += f'<rect x="{x:.0f}" y="32" width="{each - 6:.0f}" height="{height - 42}" rx="3" fill="{fill}"/>'
        text += f'<text class="v" x="{x + 8:.0f}" y="{height / 2 + 18:.0f}">{shown(value, settings.get("unit"))}</text>'
        text += f'<text class="n" x="{x + 8:.0f}" y="50">{html.escape(cut(name, (each - 14) / 6.2))}</text>\n'
    return text


def lines(panel, series, width, height, begin, end):
    unit = panel["fieldConfig"]["defaults"].get("unit")
    left, top, right, bottom = 84, 34, width - 12, height - 46
    most = max((value for _, points in series for _, value in points), default=0) or 1
    step = nice(most / 4)
    top_value = math.ceil(most / step) * step
    x = lambda at: left + (at - begin) / (end - begin) * (right - left)
    y = lambda value: bottom - value / top_value * (bottom - top)
    text = ""
    for mark in range(round(top_value / step) + 1):
        at = y(mark * step)
        text += f'<path d="M{left} {at:.0f}H{right}" stroke="#2c3036"/>'
        text += f'<text class="n" x="{left - 6}" y="{at + 4:.0f}" text-anchor="end">{shown(mark * step, unit)}</text>'
    for at in range(int(begin // 172_800 + 1) * 172_800, int(end), 172_800):
        day = time.strftime("%m/%d", time.gmtime(at))
        text += f'<text class="n" x="{x(at):.0f}" y="{bottom + 16}" text-anchor="middle">{day}</text>'
    legend = 10
    for number, (name, points) in enumerate(series):
        colour = COLOURS[number % len(COLOURS)]
        text += f'<path d="{path(points, x, y)}" stroke="{colour}"/>'
        wide = 30 + 6.2 * len(name)
        if legend + wide < width:
            text += f'<rect x="{legend:.0f}" y="{height - 18}" width="12" height="3" fill="{colour}"/>'
            text += f'<text class="n" x="{legend + 16:.0f}" y="{height - 12}">{html.escape(name)}</text>\n'
            legend += wide
    return text


def path(points, x, y):
    """The line through the points at which the value changes; broken where there is none for an hour."""
    text, before = "", None
    for number, (at, value) in enumerate(points):
        if before is None or at - before[0] > 3_600:
            text += f"M{x(at):.1f} {y(value):.1f}"
        elif value != before[1]:
            text += f"H{x(at):.1f}V{y(value):.1f}"
        elif number == len(points) - 1 or points[number + 1][0] - at > 3_600:
            text += f"H{x(at):.1f}"
        before = (at, value)
    return text


def nice(step):
    size = 10 ** math.floor(math.log10(step))
    return next(factor * size for factor in (1, 2, 5, 10) if factor * size >= step * 0.999)


def shown(value, unit):
    """A value as a panel shows it."""
    if unit == "percentunit":
        return f"{value * 100:.0f} %"
    if unit == "s":
        for size, name in ((86_400, "days"), (3_600, "hours"), (60, "min")):
            if value >= size:
                return f"{value / size:.3g} {name}"
        return f"{value:.3g} s"
    for size, prefix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size and unit in SYMBOLS:
            return f"{value / size:.3g} {prefix}{SYMBOLS[unit]}"
    return f"{value:.3g} {SYMBOLS.get(unit, '')}".strip()


def cut(name, most):
    return name if len(name) <= most else name[: max(1, int(most) - 1)] + "…"
