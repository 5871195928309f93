"""The server about itself: what is loaded, whether it is well, its numbers, training runs, the page."""

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from fastapi import APIRouter, Response
from fastapi.responses import FileResponse, RedirectResponse

from unmask import __version__
from unmask.errors import InputError, UserError
from unmask.runs import METRICS, read_metrics
from unmask.serve.errors import ApiError
from unmask.serve.metrics import CONTENT_TYPE
from unmask.serve.models import TEXT, Served
from unmask.serve.routes import answer, documented
from unmask.serve.site import Site, record

STUDIO = Path(__file__).parents[1] / "studio"
_DIGITS = 18
"""No file has so many lines, and Python reads no number of thousands of digits."""
_RUN = {"name": "mini-en", "records": [], "whole": True, "next": "7340-120", "done": True}
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

    @router.get("/runs/{name}", responses=documented(_RUN))
    async def run(name: str, after: str = "") -> Response:
        """What a run has measured; `after`, the `next` of an earlier answer, leaves out what that one had.

        `whole` says that nothing was left out: a run that went back to a checkpoint is told from its start.
        """
        folder = (await asyncio.to_thread(_folders, site.runs)).get(name)
        if folder is None:
            raise ApiError(404, "not_found", "there is no such run")
        return answer({"name": name, **await asyncio.to_thread(_measured, folder, after)})

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
        steps = 0
        with suppress(UserError):  # a damaged line hides no other run; the run itself tells of it
            for each in _records(folder):
                steps = max(steps, each["step"])
        with suppress(FileNotFoundError):  # it was deleted just now
            updated = (folder / METRICS).stat().st_mtime
            found.append({"name": name, "steps": steps, "updated": updated, "done": _done(folder)})
    return found


def _measured(run: Path, after: str) -> dict[str, Any]:
    """The records after those that a client has. A file that is written anew has another number."""
    done, number = _done(run), _number(run)  # asked first, so that nothing written meanwhile is missed
    records = list(_records(run))
    file, _, count = after.partition("-")
    known = int(count) if file == str(number) and count.isdecimal() and len(count) < _DIGITS else 0
    if known > len(records):
        known = 0
    told = {"records": records[known:], "whole": not known, "next": f"{number}-{len(records)}"}
    return {**told, "done": done}


def _number(run: Path) -> int:
    try:
        return (run / METRICS).stat().st_ino
    except OSError:
        raise ApiError(404, "not_found", "there is no such run") from None


def _records(run: Path) -> Iterator[dict[str, Any]]:
    try:
        yield from read_metrics(run)
    except InputError as error:  # clients need not know where the runs lie
        raise InputError(str(error).removeprefix(f"{run.parent}/")) from None
    except OSError:
        raise InputError(f"{METRICS} of {run.name} cannot be read") from None


def _done(run: Path) -> bool:
    """A run writes its model when it is over, in a folder of its own or, fine-tuned, beside its metrics."""
    return any((run / model / "config.json").is_file() for model in ("model", "."))
