"""The G4 samples as small plots, one above the other over the same time, and memory as bars."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from .markup import Markup, element

WIDTH, HEIGHT = 600, 90

GIB = 1024**3


class Panel(NamedTuple):
    """One quantity over time. ``least`` is the least span of its axis, so that noise stays small."""

    key: str
    name: str
    unit: str
    least: float


PANELS = (
    Panel("celsius", "Temperature", "°C", 20),
    Panel("watts", "Power", "W", 20),
    Panel("sm_mhz", "SM clock", "MHz", 600),
)

Series = Mapping[str, Any]


def samples(series: Sequence[Series], floors: Mapping[str, float]) -> Markup:
    """Every panel that has values. ``floors`` are dashed lines, by the key of the panel."""
    panels = [_panel(panel, series, floors.get(panel.key)) for panel in PANELS if _values(panel, series)]
    last = max((each["at"][-1] for each in series if each["at"]), default=0)
    keys = [
        element("span", element("i", class_=f"line g{number % 4}"), f"GPU {each['gpu']}")
        for number, each in enumerate(series)
    ]
    return element(
        "figure",
        element(
            "figcaption",
            element("span", "GPU, sampled for ", _minutes(last)),
            element("span", element("i", class_="load"), "under load"),
            keys if len(series) > 1 else None,
        ),
        panels,
        element(
            "div",
            element("span", "0"),
            element("span", _minutes(last / 2)),
            element("span", _minutes(last)),
            class_="axis",
        ),
        class_="plot",
    )


def _values(panel: Panel, series: Sequence[Series]) -> list[float]:
    return [value for each in series for value in each.get(panel.key, ()) if value is not None]


def _panel(panel: Panel, series: Sequence[Series], floor: float | None) -> Markup:
    values = _values(panel, series)
    low, high = min([*values, *([floor] if floor else [])]), max([*values, *([floor] if floor else [])])
    middle, span = (low + high) / 2, max(high - low, panel.least) * 1.1
    bottom, top = max(0.0, middle - span / 2), middle + span / 2

    def height(value: float) -> str:
        return f"{HEIGHT - (value - bottom) / (top - bottom) * HEIGHT:.1f}"

    shapes = [_load(each) for each in series[:1]]
    if floor:
        y = height(floor)
        shapes.append(element("line", x1=0, x2=WIDTH, y1=y, y2=y, class_="floor"))
    for number, each in enumerate(series):
        for points in _runs(each, panel.key):
            way = " ".join(f"{_across(at, each)},{height(value)}" for at, value in points)
            shapes.append(element("polyline", points=way, class_=f"line g{number % 4}"))
    said = f"{min(values):.0f} to {max(values):.0f} {panel.unit}"
    name = element(
        "span", panel.name, element("b", said), f"floor {floor:.0f} {panel.unit}" if floor else None, class_="name"
    )
    box = f"0 0 {WIDTH} {HEIGHT}"
    svg = element(
        "svg", shapes, viewBox=box, preserveAspectRatio="none", role="img", aria_label=f"{panel.name} over time: {said}"
    )
    scale = (element("span", f"{top:.0f}", class_="top"), element("span", f"{bottom:.0f}", class_="bottom"))
    return element("div", name, element("div", svg, scale, class_="chart"), class_="panel")


def _across(at: float, series: Series) -> str:
    return f"{at / max(series['at'][-1], 1e-9) * WIDTH:.1f}"


def _runs(series: Series, key: str) -> Iterator[list[tuple[float, float]]]:
    """The points of a line, broken where a value is missing."""
    run: list[tuple[float, float]] = []
    for at, value in zip(series["at"], series.get(key, ())):
        if value is None:
            if run:
                yield run
            run = []
        else:
            run.append((at, value))
    if run:
        yield run


def _load(series: Series) -> Markup:
    """The times under load, as a band behind the lines."""
    busy = [at for at, value in zip(series["at"], series.get("utilisation", ())) if value is not None and value >= 50]
    if not busy:
        return Markup("")
    begin, end = _across(busy[0], series), _across(busy[-1], series)
    width = f"{float(end) - float(begin):.1f}"
    return element("rect", x=begin, y=0, width=width, height=HEIGHT, class_="load")


def _minutes(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


SEGMENTS = (
    ("programs", "programs"),
    ("driver", "in no counter (drivers, CUDA)"),
    ("cache", "page cache"),
    ("other", "kernel and other"),
    ("free", "free"),
)


def memory(readings: Sequence[tuple[str, Mapping[str, Any]]]) -> Markup:
    """A bar for each named reading of /proc/meminfo: what its memory holds, to one scale."""
    largest = max(reading["MemTotal"] for _name, reading in readings)
    rows = [_bar(name, reading, largest) for name, reading in readings]
    legend = [element("span", element("i", class_=f"seg {key}"), words) for key, words in SEGMENTS]
    return element(
        "figure", element("figcaption", "Memory"), rows, element("div", legend, class_="legend"), class_="memory"
    )


def parts(reading: Mapping[str, Any]) -> dict[str, int]:
    """Bytes by segment; together MemTotal."""
    shared = reading.get("Shmem", 0)
    cache = max(0, reading.get("Buffers", 0) + reading.get("Cached", 0) + reading.get("SwapCached", 0) - shared)
    found = {"programs": reading.get("AnonPages", 0) + shared, "driver": reading["in_no_counter"], "cache": cache}
    found["other"] = max(0, reading["MemTotal"] - reading["MemFree"] - sum(found.values()))
    return {**found, "free": reading["MemFree"]}


def _bar(name: str, reading: Mapping[str, Any], largest: int) -> Markup:
    sizes = parts(reading)
    pieces = [
        element(
            "span",
            f"{sizes[key] / GIB:.0f}" if sizes[key] / largest > 0.06 else None,
            class_=f"seg {key}",
            style=f"width:{100 * sizes[key] / largest:.2f}%",
            title=f"{words}: {sizes[key] / GIB:.1f} GiB",
        )
        for key, words in SEGMENTS
    ]
    available = reading.get("MemAvailable")
    said = f"{reading['MemFree'] / GIB:.1f} of {reading['MemTotal'] / GIB:.1f} GiB free"
    said += f", {available / GIB:.1f} available" if available is not None else ""
    spoken = ", ".join(f"{words} {sizes[key] / GIB:.1f} GiB" for key, words in SEGMENTS)
    return element(
        "div",
        element("div", element("span", name), element("span", said), class_="said"),
        element("div", pieces, class_="bar", role="img", aria_label=f"{name}: {spoken}"),
    )
