"""Metrics in the text format of Prometheus, written by its own library.

Source: "Exposition formats" in the documentation of Prometheus.
"""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING, Any

from stepwhy.base.optional import needs_extra
from stepwhy.show.metrics.families import FAMILIES, points_of
from stepwhy.show.metrics.model import BOUNDS_NS, Durations

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from stepwhy.show.metrics.families import Family, Point
    from stepwhy.show.metrics.model import Run

_NS_PER_S = 1e9


def check_installed() -> None:
    """Check that the library can be imported.

    Raises:
        MissingPackageError: It cannot.
    """
    with needs_extra("prometheus", "Metrics for Prometheus"):
        import prometheus_client.core  # noqa: F401, PLC0415 - optional


def text_of(run: Run) -> bytes:
    """The metrics of a run as text.

    Raises:
        MissingPackageError: prometheus-client is not installed.
    """
    check_installed()
    from prometheus_client.exposition import generate_latest  # noqa: PLC0415 - optional

    written: bytes = generate_latest(Collector(lambda: run))  # type: ignore[arg-type, unused-ignore]
    return written


class Collector:
    """What the library collects metrics from: a registry with the metrics of one run.

    Args:
        read: Returns the numbers of the run.
    """

    def __init__(self, read: Callable[[], Run]) -> None:
        self._read = read

    def collect(self) -> Iterator[Any]:
        """The metrics of the library; those without a value are left out."""
        by_family: dict[str, list[Point]] = {}
        for point in points_of(self._read()):
            by_family.setdefault(point.family.name, []).append(point)
        for family in FAMILIES:
            if family.name in by_family:
                yield _metric(family, by_family[family.name])

    def restricted_registry(self, _: object) -> Collector:
        """All metrics: an address that asks for some of them gets all."""
        return self


def _metric(family: Family, points: list[Point]) -> Any:
    from prometheus_client import core  # noqa: PLC0415 - optional

    kinds = {
        "counter": core.CounterMetricFamily,
        "gauge": core.GaugeMetricFamily,
        "histogram": core.HistogramMetricFamily,
    }
    make: Any = kinds[family.kind]
    metric = make(family.prometheus_name, family.help, labels=family.labels)
    for point in points:
        labels = [point.labels[name] for name in family.labels]
        if isinstance(point.value, Durations):
            total_s = point.value.total_ns / _NS_PER_S
            bounds = [repr(bound_ns / _NS_PER_S) for bound_ns in BOUNDS_NS]
            buckets = list(zip([*bounds, "+Inf"], accumulate(point.value.counts), strict=True))
            metric.add_metric(labels, buckets=buckets, sum_value=total_s)
        else:
            metric.add_metric(labels, point.value)
    return metric
