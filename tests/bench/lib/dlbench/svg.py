# SPDX-License-Identifier: Apache-2.0
"""Small plots as SVG: bars with their spread and lines, in panels. The colours follow the reader's light or dark scheme; the
picture has no background of its own, so it fits either."""
from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import List, Optional, Sequence, Tuple, Union
from xml.sax.saxutils import escape

from .rows import number
from .samples import Series

WIDTH = 860
LABELS = 250  # left of the bars
VALUES = 60  # right of the longest bar
BAR, GAP = 18, 8

_STYLE = """
  text { font: 13px system-ui, -apple-system, 'Segoe UI', Roboto, Helvetica, Arial, sans-serif; fill: #1f2328; }
  .title { font-size: 15px; font-weight: 600; }
  .quiet { fill: #59636e; font-size: 12px; }
  .axis { stroke: #818b98; stroke-width: 1; }
  .grid { stroke: #818b98; stroke-opacity: .25; stroke-width: 1; }
  .spread { stroke: #1f2328; stroke-width: 1.2; }
  .ours { fill: #0969da; } .peer { fill: #9aa4af; } .limit { fill: #d8a013; }
  .line { fill: none; stroke-width: 2.5; }
  .line0, .dot0 { stroke: #0969da; } .line1, .dot1 { stroke: #1a7f37; } .line2, .dot2 { stroke: #818b98; } .line3, .dot3 { stroke: #bc4c00; }
  .dot { fill: none; stroke-width: 2.5; }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3; } .quiet { fill: #9198a1; } .spread { stroke: #e6edf3; }
    .ours { fill: #4493f8; } .peer { fill: #656d76; } .limit { fill: #c69026; }
    .line0, .dot0 { stroke: #4493f8; } .line1, .dot1 { stroke: #3fb950; } .line2, .dot2 { stroke: #9198a1; } .line3, .dot3 { stroke: #f0883e; }
  }
"""


@dataclass
class Bar:
    label: str
    series: Series
    kind: str  # "ours", "peer" or "limit"


@dataclass
class Bars:
    title: str
    axis: str  # quantity and unit
    bars: List[Bar] = field(default_factory=list)

    def height(self) -> int:
        return 34 + len(self.bars) * (BAR + GAP) + 44

    def draw(self, top: int) -> List[str]:
        out = [_text(0, top + 16, self.title, "title")]
        first = top + 34
        bottom = first + len(self.bars) * (BAR + GAP)
        ticks = nice_ticks(max(bar.series.high for bar in self.bars))
        scale = (WIDTH - LABELS - VALUES) / ticks[-1]
        for tick in ticks:
            x = LABELS + tick * scale
            out.append('<line class="%s" x1="%.1f" y1="%d" x2="%.1f" y2="%d"/>' % ("axis" if tick == 0 else "grid", x, first - 4, x, bottom))
            out.append(_text(x, bottom + 15, "%g" % tick, "quiet", "middle"))
        out.append(_text(LABELS + (WIDTH - LABELS - VALUES) / 2, bottom + 33, self.axis, "quiet", "middle"))
        for place, bar in enumerate(self.bars):
            y = first + place * (BAR + GAP)
            middle = y + BAR / 2
            out.append(_text(LABELS - 10, middle + 4.5, bar.label, "", "end"))
            out.append('<rect class="%s" x="%d" y="%d" width="%.1f" height="%d" rx="2"/>' % (bar.kind, LABELS, y, max(1.0, bar.series.median * scale), BAR))
            low, high = LABELS + bar.series.low * scale, LABELS + bar.series.high * scale
            out.append('<path class="spread" fill="none" d="M%.1f %.1fH%.1fM%.1f %.1fv6M%.1f %.1fv6"/>' % (low, middle, high, low, middle - 3, high, middle - 3))
            out.append(_text(max(high, LABELS + bar.series.median * scale) + 8, middle + 4.5, number(bar.series.median), ""))
        return out


@dataclass
class Line:
    label: str
    points: List[Tuple[str, Series]]  # category on the x axis, values
    colour: int  # 0 to 3


@dataclass
class Lines:
    title: str
    x_axis: str
    y_axis: str
    lines: List[Line] = field(default_factory=list)
    PLOT = 190

    def height(self) -> int:
        return 34 + self.PLOT + 44

    def draw(self, top: int) -> List[str]:
        left, right = 70, WIDTH - 230
        out = [_text(0, top + 16, self.title, "title")]
        first, bottom = top + 34, top + 34 + self.PLOT
        categories = [category for category, _ in max(self.lines, key=lambda line: len(line.points)).points]
        ticks = nice_ticks(max(series.high for line in self.lines for _, series in line.points))
        scale = self.PLOT / ticks[-1]
        for tick in ticks:
            y = bottom - tick * scale
            out.append('<line class="%s" x1="%d" y1="%.1f" x2="%d" y2="%.1f"/>' % ("axis" if tick == 0 else "grid", left, y, right, y))
            out.append(_text(left - 8, y + 4, "%g" % tick, "quiet", "end"))
        step = (right - left) / len(categories)
        xs = {category: left + step * (i + 0.5) for i, category in enumerate(categories)}
        for category in categories:
            out.append(_text(xs[category], bottom + 16, category, "quiet", "middle"))
        out.append(_text((left + right) / 2, bottom + 35, self.x_axis, "quiet", "middle"))
        out.append('<text class="quiet" text-anchor="middle" transform="translate(16 %.1f) rotate(-90)">%s</text>' % ((first + bottom) / 2, escape(self.y_axis)))
        ends = []
        for line in self.lines:
            at = [(xs[category], bottom - series.median * scale, series) for category, series in line.points]
            out.append('<polyline class="line line%d" points="%s"/>' % (line.colour, " ".join("%.1f,%.1f" % (x, y) for x, y, _ in at)))
            for x, y, series in at:
                out.append('<path class="dot dot%d" d="M%.1f %.1fV%.1f"/>' % (line.colour, x, bottom - series.low * scale, bottom - series.high * scale))
                out.append('<circle class="dot dot%d" cx="%.1f" cy="%.1f" r="3.5"/>' % (line.colour, x, y))
            ends.append((at[-1][1], at[-1][0], line))
        last = -math.inf
        for y, x, line in sorted(ends, key=lambda end: end[0]):
            placed = max(y, last + 17)
            last = placed
            out.append('<path class="line line%d" stroke-opacity=".45" style="stroke-width:1" d="M%.1f %.1fL%.1f %.1f"/>' % (line.colour, x + 6, y, right + 6, placed))
            out.append(_text(right + 12, placed + 4.5, line.label, ""))
        return out


def nice_ticks(high: float) -> List[float]:
    """0 and four to six more ticks of a round width, the last at or above `high`."""
    if high <= 0:
        return [0.0, 1.0]
    raw = high / 5
    unit = 10 ** math.floor(math.log10(raw))
    width = next(step * unit for step in (1, 2, 2.5, 5, 10) if step * unit >= raw * 0.999)
    count = math.ceil(high / width - 1e-9)
    return [i * width for i in range(count + 1)]


def _text(x: float, y: float, text: str, style: str, anchor: Optional[str] = None) -> str:
    return '<text x="%.1f" y="%.1f"%s%s>%s</text>' % (
        x, y, ' class="%s"' % style if style else "", ' text-anchor="%s"' % anchor if anchor else "", escape(text))


def picture(panels: Sequence[Union[Bars, Lines]], title: str, caption: str) -> str:
    """The whole file. title: for those who do not see it; caption: a line below the panels."""
    out, top = [], 8
    for panel in panels:
        out += panel.draw(top)
        top += panel.height() + 14
    out.append(_text(0, top + 6, caption, "quiet"))
    height = top + 18
    return '<svg xmlns="http://www.w3.org/2000/svg" viewBox="-8 0 %d %d" width="%d" height="%d" role="img">\n<title>%s</title>\n<style>%s</style>\n%s\n</svg>\n' % (
        WIDTH + 16, height, WIDTH + 16, height, escape(title), _STYLE, "\n".join(out))
