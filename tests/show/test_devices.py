"""The devices and inputs of many ranks on the page."""

from msgspec import structs

from stepwhy.result import HealthEntry, RankUse
from stepwhy.show import html
from stepwhy.show.html.devices import device_view

MS = 1_000_000


def many(sample, count=1000, ranks=True):
    """A result of many ranks, each with a device and an input; rank 517 is late."""
    result = sample("input_bound")
    (device, *_), (file, *_) = result.devices, result.inputs
    late = {517: 6 * MS}
    return structs.replace(
        result,
        devices=tuple(
            structs.replace(device, name=f"rank {n} GPU:0", busy_fraction=0.5 + n / 2000)
            for n in range(count)
        ),
        inputs=tuple(structs.replace(file, path=f"rank{n}.json") for n in range(count)),
        ranks=tuple(
            RankUse(n, 10 * MS, 8 * MS, late_ns=late.get(n, 0)) for n in range(count * ranks)
        ),
    )


def test_few_devices_are_all_shown(sample):
    result = sample("input_bound")
    assert device_view(result).devices == result.devices
    assert device_view(result).note == ""


def test_of_many_devices_those_of_the_ranks_that_matter_are_shown(sample):
    view = device_view(many(sample))
    assert len(view.devices) == 32
    assert "rank 517 GPU:0" in {device.name for device in view.devices}
    assert view.note == "The other 968 devices are busy for 76 % (52 % to 100 %) of the step."


def test_devices_that_are_of_no_ranks_are_bounded_too(sample):
    assert len(device_view(many(sample, 100, ranks=False)).devices) == 32


def test_a_page_of_a_thousand_ranks_stays_short(sample):
    page = html.render(many(sample))
    assert "968 more files" in page
    assert page.count('<div class="device">') == 32
    assert len(page) < 600_000


def test_what_happened_in_many_files_is_told_once(sample):
    entry = HealthEntry("events_without_end", "warning", 2, "Slices without an end were left out.")
    result = many(sample, 40)
    inputs = tuple(
        structs.replace(file, health=(entry,) if n < 30 else ())
        for n, file in enumerate(result.inputs)
    )
    page = html.render(structs.replace(result, inputs=inputs))
    assert page.count(entry.help) == 1
    assert "(events_without_end: 60 in 30 files)" in page
    one = html.render(structs.replace(result, inputs=(*result.inputs[:1], inputs[0])))
    assert "(events_without_end: 2 in rank0.json)" in one
