"""Hugging Face's inference: a task by its name, or the own task of a model."""

from fastapi import APIRouter, Response
from pydantic import ValidationError

from unmask.serve.bodies import (
    AnswerBody,
    Body,
    ClassifyBody,
    EmbedBody,
    FillBody,
    HubBody,
    SimilarityBody,
    TagBody,
)
from unmask.serve.errors import ApiError, first_problem, invalid
from unmask.serve.models import ANSWER, EMBED, FILL, SIMILARITY, TEXT, TOKEN, Served
from unmask.serve.routes import answer, documented
from unmask.serve.site import Site
from unmask.serve.tasks import HANDLERS

_FILLED = [{"score": 0.4, "token": 712, "token_str": "river", "sequence": "the river rose."}]
_ENTITY = [{"entity_group": "PER", "score": 0.99, "word": "Ana", "start": 0, "end": 3}]
_ANSWER = {"answer": "the river", "score": 0.8, "start": 25, "end": 34}
_MISSING = {"404": "no such model or task"}


def routes(site: Site) -> APIRouter:
    """`/{task}`, `/models/{name}` and `/models/{name}/pipeline/{task}`."""
    router = APIRouter(tags=["Hugging Face inference"])

    async def by_task(task: str, body: Body) -> Response:
        return await _run(site, site.for_task(body.model, HANDLERS[task].needs), task, body)

    @router.post(f"/{FILL}", responses=documented(_FILLED))
    async def fill_mask(body: FillBody) -> Response:
        """The likeliest words for each mask; of several masks, a list for each."""
        return await by_task(FILL, body)

    @router.post(f"/{TEXT}", responses=documented([[{"label": "good", "score": 0.9}]]))
    async def text_classification(body: ClassifyBody) -> Response:
        """The classes of each text, likeliest first."""
        return await by_task(TEXT, body)

    @router.post(f"/{TOKEN}", responses=documented(_ENTITY))
    async def token_classification(body: TagBody) -> Response:
        """Names and other stretches that the model was taught to find."""
        return await by_task(TOKEN, body)

    @router.post(f"/{ANSWER}", responses=documented(_ANSWER))
    async def question_answering(body: AnswerBody) -> Response:
        """Where in a context the answer to a question stands."""
        return await by_task(ANSWER, body)

    @router.post(f"/{EMBED}", responses=documented([[0.6, 0.8]]))
    async def feature_extraction(body: EmbedBody) -> Response:
        """One vector per text."""
        return await by_task(EMBED, body)

    @router.post(f"/{SIMILARITY}", responses=documented([0.83, 0.12]))
    async def sentence_similarity(body: SimilarityBody) -> Response:
        """The cosine of a sentence with each of the others."""
        return await by_task(SIMILARITY, body)

    @router.post("/models/{name}", responses=documented(_FILLED, **_MISSING))
    async def model(name: str, body: HubBody) -> Response:
        """What the model was made for."""
        served = site.named(name)
        return await _validated(site, served, served.task, body)

    @router.post("/models/{name}/pipeline/{task}", responses=documented(_FILLED, **_MISSING))
    async def pipeline(name: str, task: str, body: HubBody) -> Response:
        """A task of a model."""
        return await _validated(site, site.named(name), task, body)

    @router.post("/", responses=documented(_FILLED))
    async def first(body: HubBody) -> Response:
        """What the first model was made for."""
        served = next(iter(site.models.values()))
        return await _validated(site, served, served.task, body)

    return router


async def _validated(site: Site, served: Served, task: str, body: HubBody) -> Response:
    if task not in HANDLERS:
        raise ApiError(404, "task", f"no such task; {served.name} does {', '.join(served.tasks)}")
    site.for_task(served.name, HANDLERS[task].needs)
    try:
        asked = HANDLERS[task].body.model_validate(body.model_dump())
    except ValidationError as error:
        raise invalid(first_problem(error.errors(include_input=False, include_url=False))) from None
    return await _run(site, served, task, asked)


async def _run(site: Site, served: Served, task: str, body: Body) -> Response:
    return answer(await HANDLERS[task].run(site, served, body))
