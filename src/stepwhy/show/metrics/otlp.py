"""Metrics through OpenTelemetry, sent to a collector over HTTP.

The standard variables decide how: headers, certificates, timeout, interval. The SDK logs failures;
they are kept for one message instead of printed into the training's output.

Source: OpenTelemetry specification, "OpenTelemetry Protocol Exporter" and "Environment Variable
Specification".
"""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from stepwhy.base.errors import CaptureError
from stepwhy.base.optional import needs_extra
from stepwhy.base.patterns import regex
from stepwhy.base.text import one_line
from stepwhy.show.metrics.families import DURATION, FAMILIES, points_of
from stepwhy.show.metrics.model import BOUNDS_NS, Durations

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from stepwhy.show.metrics.families import Family, Point
    from stepwhy.show.metrics.model import Run

_NS_PER_S = 1e9
_LAST_EXPORT_MS = 1500
# Where a collector receives metrics, below its address.
_PATH = "/v1/metrics"
_LOGGER = "opentelemetry"
_LONGEST = 200  # characters of a failure
# A failure of the operating system inside the text of another one.
_SYSTEM_ERROR = regex(r"\[Errno -?\d+\] ([^'\")\]]+)")
_NO_ANSWER = "the collector has not answered in time"
_STATUS = regex(r"\bcode: (\d{3})\b")

Labels = tuple[tuple[str, str], ...]


class Otlp:
    """Sends the metrics to a collector.

    Args:
        address: Of the collector, such as 'http://localhost:4318'.
        reader: A metric reader of the SDK; None for one that exports to the collector.
    """

    what = "metrics for OpenTelemetry"

    def __init__(self, address: str, reader: Any = None) -> None:
        self._address = address
        self._reader = reader
        self._provider: Any = None
        self._deliveries = _Deliveries()
        self._run: Run | None = None
        self._sent: dict[Labels, Durations] = {}
        self._histogram: Any = None

    def prepare(self) -> None:
        """Check the SDK and the address.

        Raises:
            MissingPackageError: The SDK or its exporter is not installed.
            CaptureError: The address is not one of a collector.
        """
        with needs_extra("opentelemetry", "Metrics for OpenTelemetry"):
            import opentelemetry.exporter.otlp.proto.http.metric_exporter  # noqa: PLC0415
            import opentelemetry.sdk.metrics  # noqa: F401, PLC0415
        if not _is_address(self._address):
            raise CaptureError(
                "--otlp needs the address of a collector for OTLP over HTTP",
                "Pass one such as http://localhost:4318",
            )

    def start(self, read: Callable[[], Run]) -> None:
        """Create the instruments; the SDK exports them at its own interval."""
        from opentelemetry.sdk.metrics import MeterProvider  # noqa: PLC0415 - optional

        self._deliveries.attach()
        self._run = read()
        self._provider = MeterProvider(
            metric_readers=[self._reader or _exporting_reader(self._address, self._deliveries)],
            resource=_resource(),
            views=[_exact_buckets()],
            shutdown_on_exit=False,
        )
        self._create_instruments(self._provider.get_meter("stepwhy"))
        self.publish(self._run)

    def publish(self, run: Run) -> None:
        """Keep the current numbers for the next export."""
        self._run = run
        for point in points_of(run):
            if point.family == DURATION:
                self._record(point)

    def close(self, run: Run) -> None:
        """Export the last numbers and stop.

        Raises:
            CaptureError: Numbers could not be exported, now or before.
        """
        try:
            self.publish(run)
        finally:
            self._provider.shutdown(timeout_millis=_LAST_EXPORT_MS)
        self._deliveries.check()

    def _create_instruments(self, meter: Any) -> None:
        makers = {
            "counter": meter.create_observable_counter,
            "gauge": meter.create_observable_gauge,
        }
        for family in FAMILIES:
            about = {"unit": family.unit, "description": family.help}
            if family.kind == "histogram":
                self._histogram = meter.create_histogram(family.full_name, **about)
            else:
                callbacks = [self._observer(family)]
                makers[family.kind](family.full_name, callbacks=callbacks, **about)

    def _observer(self, family: Family) -> Callable[[Any], Iterator[Any]]:
        """What the SDK calls for the values of an instrument."""

        def observe(_: Any) -> Iterator[Any]:
            from opentelemetry.metrics import Observation  # noqa: PLC0415 - optional

            for point in points_of(self._run) if self._run is not None else ():
                if point.family == family and not isinstance(point.value, Durations):
                    yield Observation(point.value, _attributes(point))

        return observe

    def _record(self, point: Point) -> None:
        """Record the new durations of a histogram.

        The SDK takes single values, of which only the number and the sum in each bucket are known.
        With the same buckets, their mean in a bucket leads to the same histogram.
        """
        attributes = _attributes(point)
        key, now = tuple(sorted(attributes.items())), point.value
        if not isinstance(now, Durations):
            return
        before = self._sent.get(key)
        self._sent[key] = now
        counts, sums = now.counts, now.sums_ns
        if before is not None:
            counts = tuple(a - b for a, b in zip(counts, before.counts, strict=True))
            sums = tuple(a - b for a, b in zip(sums, before.sums_ns, strict=True))
        if min(counts) < 0:  # another function turned out to be the step
            return
        for count, sum_ns in zip(counts, sums, strict=True):
            for _ in range(count):
                self._histogram.record(sum_ns / count / _NS_PER_S, attributes)


def _attributes(point: Point) -> dict[str, str]:
    """The labels that apply."""
    return {name: value for name, value in point.labels.items() if value}


def _is_address(address: str) -> bool:
    try:
        parts = urlsplit(address)
        return parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port that is no number
        return False


def _exporting_reader(address: str, deliveries: _Deliveries) -> Any:
    """A reader that exports at the interval of `OTEL_METRIC_EXPORT_INTERVAL`."""
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import (  # noqa: PLC0415 - optional
        OTLPMetricExporter,
    )
    from opentelemetry.sdk.metrics.export import (  # noqa: PLC0415 - optional
        MetricExportResult,
        PeriodicExportingMetricReader,
    )

    class Exporter(OTLPMetricExporter):  # type: ignore[misc, unused-ignore]
        def export(self, *args: Any, **options: Any) -> Any:
            deliveries.begin()
            result = super().export(*args, **options)
            deliveries.end(succeeded=result is MetricExportResult.SUCCESS)
            return result

    endpoint = address.removesuffix("/").removesuffix(_PATH) + _PATH
    return PeriodicExportingMetricReader(Exporter(endpoint=endpoint))


def _resource() -> Any:
    """The resource that the variables describe, by default the service 'stepwhy'."""
    from opentelemetry.sdk.resources import Resource  # noqa: PLC0415 - optional

    named = "OTEL_SERVICE_NAME" in os.environ or "service.name" in os.environ.get(
        "OTEL_RESOURCE_ATTRIBUTES", ""
    )
    return Resource.create({} if named else {"service.name": "stepwhy"})


def _exact_buckets() -> Any:
    """A view that gives the step times the bounds in which they were counted."""
    from opentelemetry.sdk.metrics.view import (  # noqa: PLC0415 - optional
        ExplicitBucketHistogramAggregation,
        View,
    )

    bounds = tuple(bound_ns / _NS_PER_S for bound_ns in BOUNDS_NS)
    return View(
        instrument_name=DURATION.full_name,
        aggregation=ExplicitBucketHistogramAggregation(bounds, record_min_max=False),
    )


class _Deliveries(logging.Handler):
    """Counts exports, and keeps why the first one failed; the SDK logs that, and prints nothing."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._begun = self._succeeded = 0
        self._logged = self._first = ""

    def attach(self) -> None:
        """Receive what the SDK logs."""
        logger = logging.getLogger(_LOGGER)
        logger.addHandler(self)
        logger.propagate = False

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the first record of an export: later ones are about attempts to repeat it."""
        error = record.exc_info[1] if record.exc_info else None
        self._logged = self._logged or str(error or record.getMessage())

    def begin(self) -> None:
        """An export begins; until it ends, it counts as one without an answer."""
        self._begun += 1
        self._logged = ""

    def end(self, *, succeeded: bool) -> None:
        """An export has ended."""
        self._succeeded += succeeded
        if not succeeded:
            self._first = self._first or _reason(self._logged)

    def check(self) -> None:
        """Raise the first failure.

        Raises:
            CaptureError: There was one.
        """
        failed = self._begun - self._succeeded
        if not failed:
            return
        why = self._first or (_reason(self._logged) if self._logged else _NO_ANSWER)
        part = f"{failed} of {self._begun} deliveries failed: " if self._succeeded else ""
        raise CaptureError(part + why, "Check the address of --otlp")


def _reason(text: str) -> str:
    """A failure of the SDK, as short as possible."""
    if found := _SYSTEM_ERROR.search(text):
        return f"the collector cannot be reached ({one_line(found[1])[:_LONGEST]})"
    if found := _STATUS.search(text):
        return f"the collector refused them (HTTP status {found[1]})"
    return f"they could not be sent ({one_line(text)[:_LONGEST]})"
