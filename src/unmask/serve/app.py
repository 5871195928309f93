"""The application: routes, their errors, the door before them."""

from collections.abc import Sequence
from typing import Any

import orjson
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.staticfiles import StaticFiles

from unmask import __version__
from unmask.errors import UserError
from unmask.predict.predictor import NotFiniteError
from unmask.serve.docs import STYLE, docs_page
from unmask.serve.errors import FAULT, ApiError, first_problem, invalid, unreadable
from unmask.serve.guard import App, Guard, Log
from unmask.serve.routes import analysis, house, hub, openai, tei
from unmask.serve.site import Site, record

_ABOUT = "Masks filled, texts embedded, classified, tagged and scored, questions answered."


def create_app(site: Site, origins: Sequence[str] = (), log: Log = "requests") -> App:
    """Everything that answers, from the door inwards; `origins` are the other sites whose pages may ask."""
    app = FastAPI(title="unmask", version=__version__, description=_ABOUT, docs_url=None, redoc_url=None)
    for dialect in (house, openai, tei, hub, analysis):
        app.include_router(dialect.routes(site))
    app.mount("/studio", StaticFiles(directory=house.STUDIO, check_dir=False), "studio")

    @app.get("/docs", include_in_schema=False)
    async def docs(request: Request) -> HTMLResponse:
        first = next(iter(site.models.values()))
        asked = {"{name}": first.name, "{task}": first.task}
        address = str(request.base_url).rstrip("/")
        return HTMLResponse(docs_page(app.openapi(), address, asked, keyed=site.key is not None))

    @app.get("/docs.css", include_in_schema=False)
    async def style() -> Response:
        return Response(STYLE, media_type="text/css")

    app.add_exception_handler(ApiError, _api_error)
    app.add_exception_handler(UserError, _user_error)
    app.add_exception_handler(NotFiniteError, _damaged)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(Exception, _fault)
    guarded: App = Guard(app, site, log)
    if origins:
        return CORSMiddleware(
            guarded,
            allow_origins=origins,
            allow_methods=["GET", "HEAD", "POST"],
            allow_headers=["*"],  # OpenAI's client for browsers tells of itself in a dozen
            allow_private_network=True,  # asked for by Chromium, where the site is no page of this machine
            expose_headers=["retry-after", "x-request-id"],
        )
    return guarded


def _told(request: Request, error: ApiError) -> Response:
    body = orjson.dumps(error.body(request.url.path))
    return Response(body, error.status, error.headers, "application/json")


async def _api_error(request: Request, error: Any) -> Response:
    return _told(request, error)


async def _user_error(request: Request, error: Exception) -> Response:
    return _told(request, invalid(str(error)))


async def _damaged(request: Request, error: Exception) -> Response:
    message = f"{record.get().model}: {NotFiniteError.reason}"  # without the path of its folder
    return _told(request, ApiError(500, "model", message))


async def _invalid(request: Request, error: Any) -> Response:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if request.method == "POST" and not kind.endswith(("/json", "+json")):
        return _told(request, invalid("send JSON, with the header content-type: application/json"))
    return _told(request, invalid(first_problem(error.errors(), error.body)))


async def _fault(request: Request, error: Exception) -> Response:
    return _told(request, FAULT)


async def _http_error(request: Request, error: Any) -> Response:
    message, kind = str(error.detail), "validation"
    if error.status_code == 400:  # the only one that is not ours, as a body could not be read
        message = unreadable(error.__cause__, await request.body())
    elif error.status_code == 404:
        message, kind = f"there is no such route; those there are: {_routes(request.app)}", "not_found"
    elif error.status_code == 405:
        allowed = (error.headers or {}).get("Allow", "another method")
        message, kind = f"this route takes {allowed}, not {request.method}", "method"
    return _told(request, ApiError(error.status_code, kind, message, error.headers))


def _routes(app: FastAPI) -> str:
    paths = app.openapi()["paths"]
    return ", ".join(f"{method.upper()} {path}" for path, methods in paths.items() for method in methods)
