"""Prometheus: requests, their durations, the queue, batches, tokens; a registry per server."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from unmask.serve.batcher import Batcher, Done

CONTENT_TYPE = CONTENT_TYPE_LATEST
_SECONDS = tuple(0.001 * 1.6**step for step in range(25))
_SIZES = tuple(2.0**step for step in range(17))


class Measures:
    """What the server counts."""

    def __init__(self) -> None:
        own = self.registry = CollectorRegistry()
        labels = ["route", "status"]
        self.requests = Counter("unmask_request_count", "Requests answered.", labels, registry=own)
        self.duration = Histogram(
            "unmask_request_duration_seconds", "From the request's first byte to its answer.", ["route"],
            buckets=_SECONDS, registry=own,
        )  # fmt: skip
        self.queue_duration = Histogram(
            "unmask_request_queue_duration_seconds", "Time in the queue.", buckets=_SECONDS, registry=own
        )
        self.batch_duration = Histogram(
            "unmask_batch_inference_duration_seconds", "Time to compute a batch.", buckets=_SECONDS,
            registry=own,
        )  # fmt: skip
        self.batch_size = Histogram("unmask_batch_size", "Texts of a batch.", buckets=_SIZES, registry=own)
        self.batch_tokens = Histogram(
            "unmask_batch_tokens", "Tokens of a batch.", buckets=_SIZES, registry=own
        )
        self.tokens = Counter("unmask_tokens", "Tokens computed.", registry=own)
        self.dropped = Counter("unmask_dropped", "Requests whose client left.", registry=own)

    def watch(self, batcher: Batcher) -> None:
        """Read the queue whenever the numbers are asked for."""
        sizes = {
            "unmask_queue_size": ("Texts waiting.", lambda: batcher.queue.size),
            "unmask_queue_tokens": ("Tokens waiting.", lambda: batcher.queue.tokens),
            "unmask_tokens_per_second": ("Tokens computed per second, lately.", lambda: batcher.rate),
        }
        for name, (help_text, read) in sizes.items():
            Gauge(name, help_text, registry=self.registry).set_function(read)

    def batch(self, done: Done) -> None:
        """A batch was computed."""
        self.batch_size.observe(done.items)
        self.batch_tokens.observe(done.tokens)
        self.batch_duration.observe(done.seconds)
        self.tokens.inc(done.tokens)

    def page(self) -> bytes:
        """All of it, as Prometheus reads it."""
        return generate_latest(self.registry)
