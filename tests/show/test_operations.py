"""The tables of operations on the page."""

import re

from msgspec import structs

from stepwhy.analyse.facts import Facts
from stepwhy.engine.profile import profiles
from stepwhy.result.profile import Cost, ProfileNode, ProfileResult
from stepwhy.result.timeline import Timeline
from stepwhy.show import html
from stepwhy.show.html.operations import operation_tables
from stepwhy.trace.notation import parse

TRACE = """
unit: 1 ms
framework: tensorflow
CPU:0  kernel |aaaa  bb|  a=MatMul {scope: tower/dense/MatMul}  b=Add {scope: tower/Add}
"""


def view_of(kind, *costs, **total):
    nodes = [ProfileNode(name, None, 0, cost, cost) for name, cost in costs]
    whole = Cost(**{"device_ns": sum(cost.device_ns for _, cost in costs), **total})
    return ProfileResult("run", kind, 1, whole, tuple(nodes))


def column(table, title):
    place = [one.title for one in table.columns].index(title)
    return [row[place] for row in table.rows]


def test_operations_are_listed_with_their_share_of_the_step(sample):
    (table,) = operation_tables(sample("input_bound"), ())
    times = [cell.value for cell in column(table, "Self time")]
    assert times == sorted(times, reverse=True)
    assert column(table, "Share")[0].bar == 100
    assert [one.title for one in table.columns if one.is_choice] == ["Phase", "Device"]


def test_what_was_not_recorded_has_no_number(sample):
    result = sample("input_bound")
    op = structs.replace(result.ops[0], bytes=None)
    (table,) = operation_tables(structs.replace(result, ops=(op,)), ())
    assert (column(table, "Bytes")[0].text, column(table, "Bytes")[0].value) == ("–", None)  # noqa: RUF001
    assert 'data-value="">–</td>' in html.render(structs.replace(result, ops=(op,)))  # noqa: RUF001


def test_views_are_in_order_of_their_time(sample):
    view = view_of(
        "code", ("a.py(1): f", Cost(1, device_ns=10)), ("b.py(2)", Cost(3, device_ns=30))
    )
    table = operation_tables(sample("input_bound"), [view])[-1]
    assert table.title == "By source line"
    assert [cell.text for cell in column(table, "Line")] == ["b.py(2)", "a.py(1): f"]
    assert [cell.text for cell in column(table, "Share")] == ["75 %", "25 %"]
    assert [cell.bar for cell in column(table, "Share")] == [100, 33.3]


def test_time_on_the_host_has_a_column_of_its_own(sample):
    cost = Cost(1, host_ns=70, device_ns=30, output_bytes=4096)
    table = operation_tables(
        sample("input_bound"), [view_of("op", ("mm", cost), **structs.asdict(cost))]
    )[-1]
    assert column(table, "On the device")[0].value == 30
    assert column(table, "On the host")[0].value == 70
    assert column(table, "Output")[0].text == "4.00 KiB"


def test_long_views_say_what_they_leave_out(sample):
    view = view_of("scope", *((f"s{i}", Cost(1, device_ns=i)) for i in range(1500)))
    table = operation_tables(sample("input_bound"), [view])[-1]
    assert len(table.rows) == 200
    assert "the costliest 200 of 1,500" in table.caption


def test_a_view_without_nodes_has_no_table(sample):
    result = structs.replace(sample("input_bound"), ops=())
    assert operation_tables(result, [ProfileResult("run", "graph", 1, Cost(), reason="none")]) == []
    assert "By kernel" not in html.render(result)


def test_a_page_lists_the_views_that_its_trace_can_show(sample):
    views = profiles(Facts(parse(TRACE)), "run")
    assert [view.view for view in views] == ["scope", "op", "tree"]
    page = html.render(sample("input_bound"), Timeline(0, (), {}, 0, views=views))
    assert re.findall("<h3 id=.ops-[0-9].>(.*?)</h3>", page) == [
        "By kernel and device", "By name scope", "By type",
    ]  # fmt: skip
    assert "tower/dense/MatMul" in page


def test_names_in_a_view_stay_text(sample):
    view = view_of("scope", ("<img src=x>" * 50, Cost(1, device_ns=5)))
    page = html.render(sample("input_bound"), Timeline(0, (), {}, 0, views=(view,)))
    assert "<img" not in page
    assert "&lt;img src=x&gt;" in page
