"""The server about itself: what is loaded, whether it is well, its numbers, training runs, the page."""

import asyncio
from pathlib import Path
from typing import Any

from fastapi import APIRouter, Response
from fastapi.responses import FileResponse, RedirectResponse

from unmask import __version__
from unmask.runs import METRICS, read_metrics
from unmask.serve.errors import ApiError
from unmask.serve.metrics import CONTENT_TYPE
from unmask.serve.models import TEXT, Served
from unmask.serve.routes import answer, documented
from unmask.serve.site import Site, record

STUDIO = Path(__file__).parents[1] / "studio"
_NO_RUNS = "no folder of runs was named: start the server with --runs DIR"


def routes(site: Site) -> APIRouter:
    """`/info`, `/health`, `/metrics`, `/runs` and `/`."""
    router = APIRouter(tags=["server"])

    @router.get("/info", responses=documented({"version": __version__, "models": [], "key_needed": False}))
    async def info() -> Response:
        """What is loaded, and the limits; without the key only that one is needed."""
        limits = site.limits
        known = record.get().known
        return answer(
            {
                "version": __version__,
                "models": [served.facts() for served in site.models.values()] if known else [],
                "limits": {"body_bytes": limits.body_bytes, "texts": limits.texts, "tokens": limits.tokens},
                "runs": site.runs is not None,
                "key_needed": site.key is not None,
            }
            | (_tei(site, next(iter(site.models.values()))) if known else {})
        )

    @router.get("/ping", include_in_schema=False)
    @router.get("/health", responses=documented({"status": "ready"}, **{"503": "not ready"}))
    async def health() -> Response:
        """Ready, or 503."""
        if not site.batcher.alive or site.batcher.ended:
            raise ApiError(503, "unhealthy", "the server is shutting down, or a thread of it died")
        return answer({"status": "ready"})

    @router.get("/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}})
    async def metrics() -> Response:
        """Counters and histograms for Prometheus."""
        return Response(site.measures.page(), media_type=CONTENT_TYPE)

    @router.get("/", include_in_schema=False)
    async def page() -> Response:
        index = STUDIO / "index.html"
        return FileResponse(index) if index.is_file() else RedirectResponse("/docs")

    @router.get(
        "/runs", responses=documented([{"name": "mini-en", "steps": 900, "updated": 1.0, "done": True}])
    )
    async def runs() -> Response:
        """The training runs in the folder named at the start."""
        return answer(await asyncio.to_thread(_listed, site.runs))

    @router.get("/runs/{name}", responses=documented({"name": "mini-en", "records": [], "done": True}))
    async def run(name: str, after: int = -1) -> Response:
        """What a run has measured after a step."""
        folder = (await asyncio.to_thread(_folders, site.runs)).get(name)
        if folder is None:
            raise ApiError(404, "not_found", "there is no such run")
        records = await asyncio.to_thread(lambda: [r for r in read_metrics(folder) if r["step"] > after])
        return answer({"name": name, "records": records, "done": _done(folder)})

    return router


def _tei(site: Site, served: Served) -> dict[str, Any]:
    """What text-embeddings-inference tells of its one model, here the first."""
    labels = dict(enumerate(served.predictor.config.labels))
    ids = {
        "id2label": {str(n): name for n, name in labels.items()},
        "label2id": {v: k for k, v in labels.items()},
    }
    kind = (
        {"classifier": ids}
        if TEXT in served.tasks
        else {"embedding": {"pooling": served.predictor.sentence.pool}}
    )
    return {
        "model_id": served.name,
        "model_sha": None,
        "model_dtype": served.dtype,
        "model_type": kind,
        "max_input_length": served.max_length,
        "max_batch_tokens": site.batcher.budget,
        "max_client_batch_size": site.limits.texts,
        "auto_truncate": False,
    }


def _folders(runs: Path | None) -> dict[str, Path]:
    if runs is None:
        raise ApiError(404, "not_found", _NO_RUNS)
    return {path.parent.name: path.parent for path in sorted(runs.glob(f"*/{METRICS}"))}


def _listed(runs: Path | None) -> list[dict[str, Any]]:
    found = []
    for name, folder in _folders(runs).items():
        steps = max((record["step"] for record in read_metrics(folder)), default=0)
        updated = (folder / METRICS).stat().st_mtime
        found.append({"name": name, "steps": steps, "updated": updated, "done": _done(folder)})
    return found


def _done(run: Path) -> bool:
    """A run writes its model when it is over."""
    return (run / "model" / "config.json").is_file()
