"""GPUs as reported by the driver, in both reports."""

from __future__ import annotations

import pytest
from msgspec import structs
from rich.console import Console

from stepwhy.result import GpuLoad, HostLoad
from stepwhy.show import html, terminal, words

GIB = 1 << 30
WHOLE = GpuLoad(
    index=1,
    model="NVIDIA <A100>",
    mean_utilisation=0.87,
    peak_used_bytes=10 * GIB,
    total_bytes=40 * GIB,
    peak_process_bytes=9 * GIB,
    throttled_share=0.25,
)


@pytest.fixture
def with_gpus(sample):
    """Returns a function that makes a run with some GPUs."""

    def build(*gpus):
        return structs.replace(
            sample("input_bound"), host=HostLoad(None, None, None, None, gpus=gpus)
        )

    return build


@pytest.mark.parametrize(
    ("gpu", "expected"),
    [
        (
            WHOLE,
            (
                "1 NVIDIA <A100> · in use 87 % of the time · at most 10.0 GiB of 40.0 GiB used "
                "(9.00 GiB by this process) · throttled 25 % of the time"
            ),
        ),
        (GpuLoad(0), "0"),
        (GpuLoad(0, peak_process_bytes=GIB), "0 · at most 1.00 GiB by this process"),
        (GpuLoad(0, mean_utilisation=0.0), "0 · in use 0 % of the time"),
    ],
)
def test_sentence_contains_what_is_known(with_gpus, gpu, expected):
    assert words.gpu_sentences(with_gpus(gpu)) == [expected]


def test_both_reports_show_gpus(with_gpus):
    result = with_gpus(WHOLE)
    console = Console(width=100, color_system=None)
    with console.capture() as capture:
        terminal.render(result, console=console)
    assert "in use 87 % of the time" in " ".join(capture.get().split())
    assert "1 NVIDIA &lt;A100&gt; · in use 87 %" in html.render(result).replace(
        "\N{NO-BREAK SPACE}", " "
    )


def test_no_section_without_a_gpu(with_gpus):
    assert words.gpu_sentences(with_gpus()) == []
    assert "GPUs as reported by the driver" not in html.render(with_gpus())
