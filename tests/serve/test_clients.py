"""Clients of other servers, unchanged; and the bodies that `transformers` gives."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import numpy as np
import openai
import pytest
from huggingface_hub import InferenceClient
from huggingface_hub.errors import HfHubHTTPError
from tests.serve.conftest import Running, running

from unmask.predict import Answerer, Classifier, MaskedLM, Tagger
from unmask.predict.predictor import Predictor

Predictors = dict[str, Predictor]
TEXTS = ["O gato preto dorme no telhado.", "Rain fell all night long, and the river rose."]


@pytest.fixture
def client(server: Running) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0) as client:
        yield client


def test_openai_reads_vectors(client: openai.OpenAI, predictors: Predictors) -> None:
    found = client.embeddings.create(model="lm", input=TEXTS)  # base64 on the wire
    vectors = np.array([each.embedding for each in found.data])
    expected = predictors["lm"].embed(TEXTS, normalise=True)
    np.testing.assert_allclose(vectors, expected, atol=1e-5)
    plain = client.embeddings.create(model="lm", input=TEXTS[0], encoding_format="float", dimensions=4)
    assert len(plain.data[0].embedding) == 4
    assert next(model.id for model in client.models.list()) == "lm"


def test_openai_reads_errors(client: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError, match="no such model"):
        client.embeddings.create(model="text-embedding-3-small", input="a")
    with pytest.raises(openai.UnprocessableEntityError, match="check_embedding_ctx_length"):
        client.embeddings.create(model="lm", input=[[1, 2]])
    with pytest.raises(openai.UnprocessableEntityError, match="dimensions"):
        client.embeddings.create(model="lm", input="a", dimensions=4096)


def test_hugging_face_reads_every_task(server: Running, predictors: Predictors) -> None:
    def client(name: str) -> InferenceClient:
        return InferenceClient(base_url=f"{server.url}/models/{name}")

    lm, topics, names, answers = (predictors[n] for n in ("lm", "topics", "names", "answers"))
    assert isinstance(lm, MaskedLM)
    assert isinstance(topics, Classifier)
    assert isinstance(names, Tagger)
    assert isinstance(answers, Answerer)
    fills = client("lm").fill_mask("O gato [MASK] no telhado.", top_k=3)
    assert len(fills) == 3
    assert fills[0].score > fills[1].score
    classes = client("topics").text_classification(TEXTS[0])
    assert [c.label for c in classes] == [c.name for c in topics.classify([TEXTS[0]])[0]]
    tags = client("names").token_classification(TEXTS[1], aggregation_strategy="simple")
    assert [(t.entity_group, t.start, t.end) for t in tags] == [
        (e.label, e.start, e.end) for e in names.tag(TEXTS[1])
    ]
    answer = client("answers").question_answering(question="What rose?", context=TEXTS[1])
    assert answer.answer == answers.answer("What rose?", TEXTS[1]).text  # type: ignore[union-attr]
    pipeline = InferenceClient(model=f"{server.url}/models/lm/pipeline/feature-extraction")
    np.testing.assert_allclose(pipeline.feature_extraction(TEXTS[0])[0], lm.embed(TEXTS[0]), atol=1e-5)
    similar = InferenceClient(model=f"{server.url}/sentence-similarity")
    assert similar.sentence_similarity(TEXTS[0], TEXTS)[0] == pytest.approx(1, abs=1e-5)
    assert InferenceClient(base_url=server.url).fill_mask("O [MASK].")


def test_hugging_face_reads_errors(server: Running) -> None:
    with pytest.raises(HfHubHTTPError, match="nothing to fill"):
        InferenceClient(model=f"{server.url}/fill-mask").fill_mask("no mask here")


@pytest.mark.slow
@pytest.mark.parametrize("text", ["O gato [MASK] no telhado.", "The [MASK] rose, and the [MASK] slept."])
def test_masks_are_filled_as_transformers_fills_them(
    server: Running, folders: dict[str, Path], text: str
) -> None:
    from transformers import pipeline

    fill = pipeline("fill-mask", model=str(folders["lm"]), device="cpu")
    ours = httpx.post(f"{server.url}/fill-mask", json={"inputs": text, "parameters": {"top_k": 4}}).json()
    for mine, theirs in zip(
        ours if isinstance(ours[0], list) else [ours], _listed(fill(text, top_k=8)), strict=True
    ):
        same = {each["token"]: each for each in theirs}  # two that score alike may stand either way round
        for each in mine:
            other = same[each["token"]]
            assert (each["sequence"], each["token_str"]) == (other["sequence"], other["token_str"])
            assert each["score"] == pytest.approx(other["score"], rel=1e-3)
        np.testing.assert_allclose([e["score"] for e in mine], [e["score"] for e in theirs[:4]], rtol=1e-3)


def _listed(found: list) -> list:  # type: ignore[type-arg]
    return found if isinstance(found[0], list) else [found]


@pytest.mark.slow
def test_a_key_is_asked_for_and_taken_from_both_clients(folders: dict[str, Path]) -> None:
    key = "a-key-that-is-long-enough"
    with running(f"lm={folders['lm']}", "--log-texts", key=key) as started:
        right = openai.OpenAI(base_url=f"{started.url}/v1", api_key=key)
        assert right.embeddings.create(model="lm", input="one secret text").data
        wrong = openai.OpenAI(base_url=f"{started.url}/v1", api_key="a-key-that-is-wrong", max_retries=0)
        with pytest.raises(openai.AuthenticationError):
            wrong.embeddings.create(model="lm", input="a")
        assert InferenceClient(base_url=started.url, token=key).fill_mask("O [MASK].")
        status, told = started.stop()
    assert status == 0
    assert "one secret text" in told  # asked for
    assert key not in told
