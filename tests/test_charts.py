"""Charts: whole SVG files whose marks lie where the numbers say."""

import base64
import io
from itertools import pairwise
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unmask.charts import WIDTH, bars, heat_grid, heat_map, lines, number_text, scatter, side_by_side, ticks

SVG = "{http://www.w3.org/2000/svg}"


def parsed(svg: str) -> ElementTree.Element:
    return ElementTree.fromstring(svg)


def texts(svg: str) -> list[str]:
    return [element.text or "" for element in parsed(svg).iter(f"{SVG}text")]


def test_a_curve_falls_where_its_numbers_do() -> None:
    chart = lines("Loss", "nats", {"training": [(0, 4.0), (50, 2.0), (100, 1.0)], "validation": [(100, 1.5)]})
    curve = next(parsed(chart.svg).iter(f"{SVG}polyline")).attrib["points"]
    points = [tuple(map(float, pair.split(","))) for pair in curve.split()]
    (x0, y0), (x1, y1), (x2, y2) = points
    assert x1 - x0 == pytest.approx(x2 - x1, abs=0.2)
    assert y1 - y0 == pytest.approx(2 * (y2 - y1), abs=0.3)
    assert {"Loss", "nats", "training", "validation", "step", "0", "100"} <= set(texts(chart.svg))
    assert "training from 4 to 1; validation from 1.5 to 1.5" in chart.svg
    assert "<title>validation, 100: 1.5</title>" in chart.svg


def test_long_series_have_no_dots_and_one_series_no_legend() -> None:
    chart = lines("Rate", "tokens/s", {"training": [(x, x % 7) for x in range(200)]})
    assert "<circle" not in chart.svg
    assert "training" not in texts(chart.svg)


def test_bars_are_as_long_as_their_values() -> None:
    chart = bars(
        "Right", "share", {"a & b": {"1–10": 0.5, "11–30": 0.25}, "c": {"1–10": 0.125}}, percent=True
    )
    areas = [area for area in parsed(chart.svg).iter(f"{SVG}rect") if area.find(f"{SVG}title") is not None]
    widths = [float(area.attrib["width"]) for area in areas]
    assert [width / widths[0] for width in widths] == pytest.approx([1, 0.25, 0.5], abs=0.01)
    assert {"a & b", "1–10", "11–30", "50%", "25%", "12.5%"} <= set(texts(chart.svg))


def test_several_charts_are_one_file() -> None:
    low, high = (
        lines("Low", "nats", {"a": [(0, 1)]}),
        bars("High", "share", {"a": {str(n): n for n in range(30)}}),
    )
    both = parsed(side_by_side([low, high]))
    _, _, wide, tall = map(float, both.attrib["viewBox"].split())
    inner = both.findall(f"{SVG}svg")
    assert [float(chart.attrib["x"]) for chart in inner] == [0, wide / 2]
    assert float(inner[1].attrib["height"]) == tall > float(inner[0].attrib["height"])
    assert {"Low", "High"} <= set(texts(side_by_side([low, high])))
    stacked = parsed(side_by_side([low, high, low], 2))
    assert [float(n) for n in stacked.attrib["viewBox"].split()] == [0, 0, wide, 2 * tall]
    places = [(float(c.attrib["x"]), float(c.attrib["y"])) for c in stacked.findall(f"{SVG}svg")]
    assert places == [(0, 0), (wide / 2, 0), (0, tall)]


def test_layers_are_whole_numbers() -> None:
    shown = texts(lines("Entropy", "nats", {"a": [(n, 1.0) for n in (1, 2, 3)]}, "layer").svg)
    assert {"1", "2", "3"} <= set(shown)
    assert not {"1.5", "2.5"} & set(shown)
    assert "0.5" in texts(lines("Anisotropy", "", {"a": [(0, 1.0), (1, 1.0)]}, "depth").svg)


def test_places_on_an_axis_may_have_names() -> None:
    chart = lines(
        "Loss", "nats", {"a": [(2, 4.0), (3, 3.0), (5, 1.0)]}, marks={2: "4 M", 3: "8 M", 5: "32 M"}
    )
    assert {"4 M", "8 M", "32 M"} <= set(texts(chart.svg))
    assert "5" not in texts(chart.svg)
    assert "<title>a, 32 M: 1</title>" in chart.svg


def test_what_is_no_number_is_left_out() -> None:
    nan, infinite = float("nan"), float("inf")
    chart = lines("Loss", "nats", {"a": [(0, 2.0), (1, nan), (2, 1.0), (3, infinite)], "b": [(0, nan)]})
    (curve,) = parsed(chart.svg).iter(f"{SVG}polyline")
    assert len(curve.attrib["points"].split()) == 2
    assert "a from 2 to 1" in chart.svg


def test_bars_below_zero_have_no_length() -> None:
    chart = bars("Part", "share", {"a": {"x": -1.0, "y": -3.0}})
    areas = [area for area in parsed(chart.svg).iter(f"{SVG}rect") if area.find(f"{SVG}title") is not None]
    assert [float(area.attrib["width"]) for area in areas] == [1, 1]
    assert "-3" in texts(chart.svg)


def test_labels_in_capitals_have_room() -> None:
    chart = bars("F1 by class", "F1", {"F1": {"JURISPRUDENCIA": 0.5}})
    (drawn,) = (text for text in parsed(chart.svg).iter(f"{SVG}text") if text.text == "JURISPRUDENCIA")
    assert float(drawn.attrib["x"]) > 120  # it ends there, and is 111 long in DejaVu Sans


def test_long_labels_are_cut_but_told() -> None:
    word = "a" * 300
    chart = bars("F1 by class", "F1", {"F1": {word: 0.5, "b": 0.25}})
    widths = [float(area.attrib["width"]) for area in parsed(chart.svg).iter(f"{SVG}rect")]
    assert widths[0] == pytest.approx(2 * widths[1], abs=0.1)
    assert widths[0] > 50
    assert "a" * 31 + "…" in texts(chart.svg)
    assert f"{word}: 0.5" in chart.svg
    chart = heat_map("Attention", "weights", [[0.5]], [word], [word])
    assert chart.width < 600
    assert chart.height < 300
    assert "a" * 23 + "…" in texts(chart.svg)
    assert f"{word}: {word} 0.5" in chart.svg
    assert "a" * 49 + "…" in texts(scatter("Map", "", {word: [(0, 0, "")], "b": [(1, 1, "")]}).svg)


def test_nothing_measured_is_an_empty_chart() -> None:
    assert "Loss" in texts(lines("Loss", "nats", {"training": []}).svg)
    assert "Right" in texts(bars("Right", "share", {}).svg)


numbers = st.floats(-1e6, 1e6, allow_nan=False).map(lambda x: round(x, 6))


@settings(deadline=None, max_examples=100)
@given(numbers, numbers)
def test_ticks_enclose_their_range(one: float, other: float) -> None:
    low, high = sorted((one, other))
    found = ticks(low, high)
    room = 1e-6 * max(abs(low), abs(high), 1e-6)
    assert found[0] <= low + room
    assert found[-1] >= high - room
    assert 2 <= len(found) <= 7


@settings(deadline=None, max_examples=50)
@given(st.lists(st.tuples(numbers, numbers), max_size=60), st.text(max_size=9).filter(str.isprintable))
def test_any_numbers_stay_within_the_picture(points: list[tuple[float, float]], name: str) -> None:
    svg = parsed(lines("T", "u", {name: points, "other": points[:3]}).svg)
    wide, high = map(float, svg.attrib["viewBox"].split()[2:])
    for curve in svg.iter(f"{SVG}polyline"):
        for pair in curve.attrib["points"].split():
            x, y = map(float, pair.split(","))
            assert 0 <= x <= wide
            assert 0 <= y <= high


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0, "0"), (5e-4, "0.0005"), (3.2149, "3.215"), (2500, "2500"), (12_500, "12.5k"), (2e6, "2M")],
)
def test_numbers_in_few_letters(value: float, shown: str) -> None:
    assert number_text(value) == shown
    assert number_text(0.4172, percent=True) == "41.7%"


def pixels(image: ElementTree.Element) -> np.ndarray:
    """Opacity of each pixel, below zero where its colour is the warm one."""
    from PIL import Image

    data = image.attrib["href"].removeprefix("data:image/png;base64,")
    colours = np.array(Image.open(io.BytesIO(base64.b64decode(data))).convert("RGBA")).astype(float)
    return colours[..., 3] * np.where(colours[..., 0] > colours[..., 2], -1, 1) / 255


@settings(deadline=None, max_examples=20)
@given(st.lists(st.lists(st.floats(-1, 1), min_size=3, max_size=3), min_size=1, max_size=4))
def test_the_shade_of_a_heat_map_is_the_square_root_of_its_value(values: list[list[float]]) -> None:
    chart = heat_map(
        "Attention", "weights", values, [f"row <{n}>" for n in range(len(values))], ["a", "b", "c"]
    )
    (image,) = parsed(chart.svg).iter(f"{SVG}image")
    found = pixels(image)
    assert found.shape == (len(values), 3)
    np.testing.assert_allclose(abs(found), np.sqrt(np.abs(values)), atol=1 / 32 + 1 / 255)
    shown = abs(found) > 0
    assert (np.sign(found)[shown] == np.sign(values)[shown]).all()


def test_a_row_of_a_heat_map_tells_its_largest_values() -> None:
    chart = heat_map("Attention", "weights", [[0.1, 0.5, -0.9, 0.2]], ["gato"], ["o", "dorme", "<b>", "no"])
    assert "<title>gato: &lt;b&gt; -0.9, dorme 0.5, no 0.2</title>" in chart.svg
    assert {"gato", "o", "dorme", "<b>", "no"} <= set(texts(chart.svg))


def test_a_heat_map_of_many_columns_is_wide_and_its_cells_are_square() -> None:
    few, many = (heat_map("m", "u", [[0.5] * n] * n, ["abc"] * n, ["abc"] * n) for n in (3, 60))
    assert few.width == WIDTH < many.width
    assert f'viewBox="0 0 {many.width:g} {many.height:g}"' in many.svg
    for chart in (few, many):
        (image,) = parsed(chart.svg).iter(f"{SVG}image")
        assert image.attrib["width"] == image.attrib["height"]
        assert float(image.attrib["x"]) + float(image.attrib["width"]) <= chart.width
        assert float(image.attrib["y"]) + float(image.attrib["height"]) <= chart.height


def test_a_heat_map_with_numbers_has_each_in_its_cell() -> None:
    plain, told = (
        heat_map("m", "u", [[0.5, -0.25], [0, 1]], ["a", "b"], ["c", "d"], numbers=n) for n in (False, True)
    )
    (image,) = parsed(told.svg).iter(f"{SVG}image")
    left, top, side = (float(image.attrib[name]) for name in ("x", "y", "width"))
    cells = [text for text in parsed(told.svg).iter(f"{SVG}text") if text.attrib.get("class") == "cell"]
    assert [text.text for text in cells] == ["0.50", "-0.25", "0.00", "1.00"]
    for place, text in enumerate(cells):
        assert (float(text.attrib["x"]) - left) / side * 2 == pytest.approx(place % 2 + 0.5)
        assert place // 2 < (float(text.attrib["y"]) - top) / side * 2 < place // 2 + 1
    assert "0.50" not in texts(plain.svg)
    assert told.height > plain.height


def test_a_grid_of_heat_maps_has_each_in_its_place() -> None:
    maps = [[(f"{row}.{column}", [[row / 4, column / 4]]) for column in range(4)] for row in range(3)]
    groups = list(parsed(heat_grid("Heads", "layers down", maps).svg).iter(f"{SVG}g"))
    assert [group.findtext(f"{SVG}title") for group in groups] == [note for row in maps for note, _ in row]
    images = [image for group in groups if (image := group.find(f"{SVG}image")) is not None]
    np.testing.assert_allclose(pixels(images[6]), [[0.5, 0.7071]], atol=0.04)
    xs, ys = ([float(image.attrib[side]) for image in images] for side in "xy")
    assert all(second > first + 64 for first, second in pairwise(xs[:4]))
    assert ys[3] + 64 < ys[4] == ys[7]


def places(svg: str, kind: str) -> list[tuple[float, float]]:
    marks = [mark for mark in parsed(svg).iter(f"{SVG}path") if mark.find(f"{SVG}title") is not None]
    chosen = [mark.get("transform", "") for mark in marks if kind in mark.get("class", "").split()]
    return [(float(x), float(y)) for x, y in (each[10:-1].split() for each in chosen)]


def test_points_of_groups_lie_where_their_numbers_say() -> None:
    drawn = scatter("Map", "", {"um": [(0, 0, "a <b>"), (4, 1, "c")], "dois": [(2, -1, "d")]})
    assert texts(drawn.svg)[2:] == ["um", "dois"]
    (first, second), (third,) = places(drawn.svg, "s0"), places(drawn.svg, "s1")
    one = (second[0] - first[0]) / 4
    assert one > 0
    assert first[1] - second[1] == pytest.approx(one, abs=0.2)  # one scale for both, and up is up
    assert third == pytest.approx((first[0] + 2 * one, first[1] + one), abs=0.2)
    told = [title.text for title in parsed(drawn.svg).iter(f"{SVG}title")]
    assert told == ["a <b>", "c", "d"]
    shapes = {mark.get("d") for mark in parsed(drawn.svg).iter(f"{SVG}path")}
    assert len(shapes) == 2


def test_a_single_point_and_none_at_all_are_drawn() -> None:
    ((x, y),) = places(scatter("Map", "", {"um": [(3.0, 3.0, "a")]}).svg, "s0")
    assert 0 < x < 420
    assert 0 < y < 400
    assert not places(scatter("Map", "", {}).svg, "s0")
