"""Every route of a real server against the library itself."""

import base64
import html
import math
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from tests.serve.conftest import JSON, running

from unmask.checkpoint import save_model
from unmask.files import write_atomic
from unmask.predict import Answerer, Classifier, MaskedLM, Tagger, load
from unmask.predict.predictor import Predictor
from unmask.serve.models import Served

Ask = Callable[..., Any]
Predictors = dict[str, Predictor]
CAT, RAIN = "O gato preto dorme no telhado.", "Rain fell all night long, and the river rose."


def unit(rows: np.ndarray) -> np.ndarray:
    return rows / np.linalg.norm(rows, axis=-1, keepdims=True)


def test_vectors_are_those_of_the_library(ask: Ask, predictors: Predictors) -> None:
    raw = predictors["lm"].embed([CAT, RAIN])
    found = ask("/embed", inputs=[CAT, RAIN], normalize=False)
    np.testing.assert_allclose(found, raw, atol=1e-5)
    np.testing.assert_allclose(ask("/embed", inputs=CAT), unit(raw[:1]), atol=1e-5)
    np.testing.assert_allclose(ask("/feature-extraction", inputs=CAT), raw[:1], atol=1e-5)
    short = ask("/embed", inputs=[CAT, RAIN], dimensions=8)
    np.testing.assert_allclose(short, unit(raw[:, :8]), atol=1e-5)
    tokens = ask("/embed_all", inputs=[CAT, RAIN])
    for ours, theirs in zip(tokens, predictors["lm"].embed([CAT, RAIN], level="token"), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-5)
    cosine = ask("/similarity", inputs={"source_sentence": CAT, "sentences": [RAIN, CAT]})
    np.testing.assert_allclose(cosine, [unit(raw)[0] @ unit(raw)[1], 1.0], atol=1e-5)
    assert ask("/sentence-similarity", inputs={"source_sentence": CAT, "sentences": [CAT]})[0] > 0.999


def test_openai_embeddings_as_numbers_and_in_base64(ask: Ask, predictors: Predictors) -> None:
    numbers = ask("/v1/embeddings", input=[CAT, RAIN], model="lm")
    packed = ask("/v1/embeddings", input=[CAT, RAIN], model="lm", encoding_format="base64")
    expected = unit(predictors["lm"].embed([CAT, RAIN]))
    for number, (plain, coded) in enumerate(zip(numbers["data"], packed["data"], strict=True)):
        assert plain["index"] == coded["index"] == number
        np.testing.assert_allclose(plain["embedding"], expected[number], atol=1e-5)
        read = np.frombuffer(base64.b64decode(coded["embedding"]), "<f4")
        np.testing.assert_allclose(read, expected[number], atol=1e-5)
    tokens = sum(len(ids) for ids in predictors["lm"].inputs.ids([CAT, RAIN]))
    assert numbers["usage"] == {"prompt_tokens": tokens, "total_tokens": tokens}
    assert numbers["model"] == "lm"


def test_models_and_info_say_what_is_loaded(client: httpx.Client) -> None:
    names = ["lm", "topics", "ranker", "names", "answers"]
    assert [model["id"] for model in client.get("/v1/models").json()["data"]] == names
    assert client.get("/v1/models/names").json()["id"] == "names"
    assert client.get("/v1/models/other").status_code == 404
    info = client.get("/info").json()
    assert [model["name"] for model in info["models"]] == names
    first, topics = info["models"][:2]
    assert first == {
        "name": "lm", "task": "fill-mask", "tasks": ["fill-mask", "feature-extraction"], "family": "bert",
        "layers": 2, "heads": 4, "width": 32, "max_length": 128, "vocab_size": 180, "mask_token": "[MASK]",
        "labels": None, "pairs": False, "onnx": False, "standardised": [],
        "language": None,
    }  # fmt: skip
    assert topics["labels"] == ["weather", "animals", "sea"]
    assert topics["pairs"] is None
    assert info["limits"] == {"body_bytes": 2_000_000, "texts": 2048, "tokens": 262_144}
    assert (info["runs"], info["key_needed"], info["model_id"]) == (True, False, "lm")
    assert client.get("/health").json() == {"status": "ready"}


def test_masks_are_filled_each_by_itself(ask: Ask, predictors: Predictors) -> None:
    lm = predictors["lm"]
    assert isinstance(lm, MaskedLM)
    body = {"inputs": "O gato [MASK] no <mask>.", "parameters": {"top_k": 3}}
    found = ask("/models/lm/pipeline/fill-mask", **body)
    assert [len(candidates) for candidates in found] == [3, 3]
    ids = lm.tokenizer.encode("O gato [MASK] no [MASK].").ids
    places = np.flatnonzero(ids == lm.tokenizer.mask_id)
    logs = lm.log_probabilities([ids], [places])[0]
    for candidates, row in zip(found, logs, strict=True):
        assert [c["token"] for c in candidates] == np.argsort(-row, kind="stable")[:3].tolist()
        np.testing.assert_allclose(
            [c["score"] for c in candidates], np.exp(np.sort(row)[::-1][:3]), rtol=1e-4
        )
    assert "[MASK]" in found[0][0]["sequence"]
    many = ask("/fill-mask", inputs=["O [MASK] dorme.", "The [MASK] rose."])
    assert [len(each) for each in many] == [5, 5]
    assert "[MASK]" not in many[0][0]["sequence"]


def test_only_named_candidates_fill_a_mask(ask: Ask, client: httpx.Client, predictors: Predictors) -> None:
    vocabulary = predictors["lm"].tokenizer
    words = [word for word in ("o", "a", "e") if word in vocabulary.backend.get_vocab()]
    found = ask("/fill-mask", inputs="[MASK] rio", parameters={"targets": words, "top_k": 9})
    assert {each["token_str"] for each in found} == set(words)
    bad = {"inputs": "[MASK] rio", "parameters": {"targets": ["extraordinariamente"]}}
    refused = client.post("/fill-mask", json=bad)
    assert refused.status_code == 422
    assert "not one piece" in refused.json()["error"]


@pytest.mark.parametrize("inputs", [5, [5], [["O rio subiu.", 5]]])
def test_a_number_is_no_text(inputs: object, client: httpx.Client) -> None:
    refused = client.post("/predict", json={"inputs": inputs})
    assert (refused.status_code, refused.json()["error_type"]) == (422, "validation"), refused.json()


def test_classes(ask: Ask, predictors: Predictors) -> None:
    topics = predictors["topics"]
    assert isinstance(topics, Classifier)
    expected = [(label.name, label.score) for label in topics.classify([CAT])[0]]
    single = ask("/predict", inputs=CAT, model="topics")
    assert [each["label"] for each in single] == [name for name, _ in expected]
    np.testing.assert_allclose([each["score"] for each in single], [s for _, s in expected], atol=1e-6)
    assert ask("/predict", inputs=[[CAT], [RAIN]], model="topics")[0][0] == pytest.approx(single[0])
    pair = ask("/predict", inputs=[CAT, RAIN], model="topics")
    together = topics.classify([CAT], [RAIN])[0]
    np.testing.assert_allclose([each["score"] for each in pair], [x.score for x in together], atol=1e-6)
    raw = ask("/predict", inputs=CAT, model="topics", raw_scores=True)
    np.testing.assert_allclose(
        sorted(each["score"] for each in raw), np.sort(topics.scores(topics.prepare([CAT]))[0]), atol=1e-5
    )
    hub = ask("/models/topics", inputs=[CAT, RAIN], parameters={"top_k": 1})
    assert [len(each) for each in hub] == [1, 1]
    assert hub[0][0] == pytest.approx(single[0])
    body = {"inputs": {"text": CAT, "text_pair": RAIN}, "parameters": {"function_to_apply": "none"}}
    logits = [each["score"] for each in ask("/models/topics", **body)[0]]
    np.testing.assert_allclose(np.exp(logits) / np.exp(logits).sum(), [x.score for x in together], atol=1e-5)


def test_texts_in_the_order_in_which_they_fit(ask: Ask, predictors: Predictors) -> None:
    ranker = predictors["ranker"]
    assert isinstance(ranker, Classifier)
    texts = [CAT, RAIN, "Nobody knew why."]
    raw = ranker.scores(ranker.prepare(["Who sleeps?"] * 3, texts))[:, 0]
    ranks = ask("/rerank", query="Who sleeps?", texts=texts, return_text=True)
    assert [each["index"] for each in ranks] == np.argsort(-raw).tolist()
    assert [each["text"] for each in ranks] == [texts[n] for n in np.argsort(-raw)]
    np.testing.assert_allclose(
        [each["score"] for each in ranks], 1 / (1 + np.exp(-np.sort(-raw) * -1)), atol=1e-5
    )
    unbounded = ask("/rerank", query="Who sleeps?", texts=texts, raw_scores=True)
    np.testing.assert_allclose([each["score"] for each in unbounded], np.sort(raw)[::-1], atol=1e-5)


def test_entities_and_words(ask: Ask, predictors: Predictors) -> None:
    tagger = predictors["names"]
    assert isinstance(tagger, Tagger)
    expected = [(e.label, e.text, e.start, e.end) for e in tagger.tag(RAIN)]
    found = ask("/token-classification", inputs=RAIN)
    assert [(e["entity_group"], e["word"], e["start"], e["end"]) for e in found] == expected
    assert ask("/models/names", inputs=[RAIN, CAT])[0] == found
    bare = {"aggregation_strategy": "none", "ignore_labels": []}
    words = ask("/token-classification", inputs=RAIN, parameters=bare)
    assert [RAIN[w["start"] : w["end"]] for w in words] == [w["word"] for w in words]
    assert [w["word"] for w in words][:3] == ["Rain", "fell", "all"]
    assert len(words) == 11


def test_answers(ask: Ask, predictors: Predictors) -> None:
    answerer = predictors["answers"]
    assert isinstance(answerer, Answerer)
    expected = answerer.answer("What rose?", RAIN)
    found = ask("/question-answering", inputs={"question": "What rose?", "context": RAIN})
    assert (found["answer"], found["start"], found["end"]) == (expected.text, expected.start, expected.end)
    assert found["score"] == pytest.approx(expected.score, abs=1e-6)
    assert ask("/models/answers", inputs=[{"question": "What rose?", "context": RAIN}]) == [found]


def test_likelihoods(ask: Ask, predictors: Predictors) -> None:
    lm = predictors["lm"]
    assert isinstance(lm, MaskedLM)
    found = ask("/score", model="lm", inputs=[CAT, RAIN])
    for each, score in zip(found, lm.score([CAT, RAIN]), strict=True):
        assert each["log_probability"] == pytest.approx(score.log_probability, abs=1e-3)
        assert each["pseudo_perplexity"] == pytest.approx(score.perplexity, rel=1e-3)
        assert [t["token"] for t in each["tokens"]] == [t.piece for t in score.tokens]


def test_words_compared(ask: Ask, predictors: Predictors) -> None:
    found = ask("/words", model="lm", inputs=["o rio", "The river rose"], layer=1)
    assert [[word["text"] for word in words] for words in found["words"]] == [
        ["o", "rio"],
        ["The", "river", "rose"],
    ]
    first, second = map(unit, predictors["lm"].embed(["o rio", "The river rose"], level="word", layer=1))
    np.testing.assert_allclose(found["similarity"], first @ second.T, atol=1e-5)
    whole = unit(predictors["lm"].embed(["o rio", "The river rose"]))
    assert found["sentence"] == pytest.approx(float(whole[0] @ whole[1]), abs=1e-5)
    assert found["standardised"] is False


def test_attention(ask: Ask, predictors: Predictors) -> None:
    found = ask("/attention", model="lm", inputs=CAT)
    weights = predictors["lm"].attention(CAT)
    count = len(found["tokens"])
    read = np.frombuffer(base64.b64decode(found["weights"]), "<f2").reshape(2, 4, count, count)
    assert (found["layers"], found["heads"]) == (2, 4)
    np.testing.assert_allclose(read, weights, atol=1e-3)
    assert set(found["summary"][1][3]) == {
        "entropy", "distance", "previous", "next", "self", "first", "separator",
    }  # fmt: skip
    np.testing.assert_allclose(np.sum(found["rollout"], axis=1), np.ones(count), atol=1e-5)
    assert [t["special"] for t in found["tokens"]] == [True] + [False] * (count - 2) + [True]


def test_what_decided_a_word(ask: Ask) -> None:
    found = ask("/attribution", inputs="O [MASK] dorme no telhado.", mask=0, target="o")
    assert found["target"] == "o"
    assert 0 < found["probability"] < 1
    assert abs(found["completeness_error"]) < 0.1
    assert any(token["score"] for token in found["tokens"])
    assert [word["text"] for word in found["words"]][:3] == ["O", "[MASK]", "dorme"]
    assert ask("/attribution", inputs="O [MASK] dorme.")["target"]


def test_senses(ask: Ask, client: httpx.Client) -> None:
    some = ["O rio subiu.", "Um rio de gente no rio.", "The rio was dark."]
    found = ask("/senses", model="lm", word="rio", inputs=some, senses=2)
    assert [use["text"][use["start"] : use["end"]] for use in found["uses"]] == ["rio"] * 4
    assert set(found["uses"][0]) == {"text", "start", "end", "x", "y", "sense", "nearest"}
    assert sum(sense["size"] for sense in found["senses"]) == 4
    assert len(found["senses"]) == 2
    assert {use["sense"] for use in found["uses"]} == {0, 1}
    assert isinstance(found["silhouette"], float)
    missing = client.post("/senses", json={"word": "casa", "inputs": some})
    assert (missing.status_code, "no casa" in missing.json()["error"]) == (422, True)
    assert "--" not in missing.json()["error"]  # no options of a command
    spaced = ask("/senses", model="lm", word=" rio ", inputs=some, senses=2)
    assert spaced["uses"] == found["uses"]
    assert client.post("/senses", json={"word": "rio", "inputs": some, "senses": 9}).status_code == 422


def test_tokens_and_back(ask: Ask, predictors: Predictors) -> None:
    tokenizer = predictors["lm"].tokenizer
    (tokens,) = ask("/tokenize", inputs=CAT)
    assert [token["id"] for token in tokens] == tokenizer.encode(CAT).ids.tolist()
    assert (tokens[0]["special"], tokens[1]["special"]) == (True, False)
    assert [CAT[t["start"] : t["stop"]] for t in tokens][1] == "O"
    ids = [token["id"] for token in tokens]
    assert ask("/decode", ids=ids) == ask("/decode", ids=[ids]) == [tokenizer.decode(ids)]
    bare = ask("/tokenize", inputs=[CAT], add_special_tokens=False)
    assert len(bare[0]) == len(tokens) - 2


def test_runs(client: httpx.Client) -> None:
    listed = {run["name"]: run for run in client.get("/runs").json()}
    assert {name: (run["steps"], run["done"]) for name, run in listed.items()} == {
        "over": (3, True), "tuned": (2, True), "training": (3, False), "damaged": (1, False),
        "unreadable": (0, False),
    }  # fmt: skip
    run = client.get("/runs/training").json()
    assert [record["step"] for record in run["records"]] == [1, 2, 3]
    assert (run["whole"], run["done"]) == (True, False)
    assert client.get("/runs/tuned").json()["done"]
    for name, said in {
        "damaged": "damaged/metrics.jsonl, line 2 is damaged: delete the line",
        "unreadable": "unreadable/metrics.jsonl, line 1 is damaged: delete the line",
    }.items():
        refused = client.get(f"/runs/{name}")
        assert (refused.status_code, refused.json()["error"]) == (422, said)
    for name in ("none", "%2e%2e", "%2e%2e%2fover", "over%2fmodel"):
        assert client.get(f"/runs/{name}").status_code == 404


def test_a_run_is_told_once_and_anew_when_it_goes_back(client: httpx.Client, runs: Path) -> None:
    def look(after: str) -> tuple[list[int], bool, str]:
        told = client.get("/runs/training", params={"after": after}).json()
        return [record["step"] for record in told["records"]], told["whole"], told["next"]

    metrics = runs / "training" / "metrics.jsonl"
    before = metrics.read_text()
    _, _, place = look("")
    with metrics.open("a") as file:
        file.write('{"step": 3, "split": "valid", "loss": 1}\n{"step": 4, "split"')
    steps, whole, place = look(place)
    assert (steps, whole) == ([3], False)
    assert look(place)[0] == []
    write_atomic(metrics, before)  # as a run does that goes on from a checkpoint
    assert look(place)[:2] == ([1, 2, 3], True)
    number = look("")[2].partition("-")[0]
    wrong = (
        "x",
        "-",
        "7-7",
        f"{number}-99",
        f"{number}-x",
        f"{number}-²",
        f"{number}-{'9' * 5000}",
        "9" * 400,
    )
    for odd in wrong:
        assert look(odd)[:2] == ([1, 2, 3], True), odd


def test_long_texts_are_refused_with_the_limit_or_cut_off_if_asked(client: httpx.Client, ask: Ask) -> None:
    long = "rio " * 200
    for path, body in {
        "/embed": {"inputs": long},
        "/v1/embeddings": {"input": long},
        "/embed_all": {"inputs": [long]},
        "/predict": {"inputs": long},
        "/fill-mask": {"inputs": long + "[MASK]"},
        "/score": {"inputs": long},
        "/attention": {"inputs": long},
        "/question-answering": {"inputs": {"question": long, "context": RAIN}},
        "/models/answers": {"inputs": [{"question": long, "context": long}]},
    }.items():
        refused = client.post(path, json=body)
        assert refused.status_code == 413, path
        assert "128" in refused.text
    assert len(ask("/embed", inputs=long, truncate=True)[0]) == 32
    assert len(ask("/embed_all", inputs=long, truncate=True)[0]) == 128
    assert ask("/predict", inputs=long, truncate=True, model="topics")
    assert isinstance(ask("/token-classification", inputs=long), list)
    assert ask("/question-answering", inputs={"question": "o?", "context": long})["end"] > 0


def test_what_a_model_cannot_do_is_said(client: httpx.Client) -> None:
    refused = client.post("/models/names/pipeline/fill-mask", json={"inputs": "[MASK]"})
    assert (refused.status_code, refused.json()["error_type"]) == (422, "task")
    assert "token-classification" in refused.json()["error"]
    assert client.post("/models/lm/pipeline/translation", json={"inputs": "a"}).status_code == 404
    unknown = client.post("/v1/embeddings", json={"input": "a", "model": "gpt"})
    assert unknown.status_code == 404
    assert "lm" in unknown.json()["error"]["message"]
    assert client.post("/score", json={"inputs": "a", "model": "topics"}).status_code == 422
    assert client.post("/words", json={"inputs": ["a", "b"], "layer": 9}).status_code == 422


def test_true_is_no_number(client: httpx.Client) -> None:
    pair = ["a", "b"]
    for path, key, body in (
        ("/words", "layer", {"inputs": pair, "layer": True}),
        ("/senses", "senses", {"inputs": pair, "word": "a", "senses": True}),
        ("/attribution", "mask", {"inputs": "[MASK]", "mask": False}),
        ("/embed", "dimensions", {"inputs": "a", "dimensions": True}),
        ("/fill-mask", "parameters.top_k", {"inputs": "[MASK]", "parameters": {"top_k": True}}),
        ("/decode", "ids", {"ids": [[5, True]]}),
    ):
        refused = client.post(path, json=body)
        assert refused.status_code == 422, path
        assert refused.json()["error"] == f"{key}: write a number, not true or false"
    for given, words in ((True, "a valid string"), (["a", True], "a valid string"), ([True], "send text")):
        refused = client.post("/v1/embeddings", json={"input": given})
        assert (refused.status_code, words in refused.json()["error"]["message"]) == (422, True), given
    assert client.post("/embed", json={"inputs": "a", "truncate": True}).status_code == 200


def test_an_empty_text_has_no_openai_vector(client: httpx.Client) -> None:
    for given, number in (("", 1), ([CAT, "", RAIN], 2)):
        refused = client.post("/v1/embeddings", json={"input": given})
        error = refused.json()["error"]
        assert (refused.status_code, error["type"]) == (400, "empty")
        assert error["message"] == f"input: text {number} is empty: leave it out"
    assert client.post("/v1/embeddings", json={"input": " "}).status_code == 200


def test_a_body_that_is_no_json_is_told_where(client: httpx.Client) -> None:
    for body, place in {
        "{": "line 1, column 2", "nada": "line 1, column 1", '{"inputs":\n "a",\n b}': "line 3, column 2",
        '{"inputs": "aé": 1}': "line 1, column 16", '{"inputs": "a': "line 1, column 12",
    }.items():  # fmt: skip
        refused = client.post("/embed", content=body.encode(), headers=JSON)
        assert refused.status_code == 422
        said = refused.json()["error"]
        assert said.startswith("the body is no JSON: ")
        assert said.endswith(f"({place})")
        assert "at (" not in said


def test_a_body_that_cannot_be_read_is_told_why(client: httpx.Client) -> None:
    for body, said in {
        b"[" * 100_000: "the body is nested too deeply: send texts, or lists of them",
        b'{"inputs":\n ' + b"9" * 5000 + b"}": "a number has 5000 digits (line 2, column 2): "
        "send a shorter one, or text in quotes",
        b'{"inputs": "a\xffb"}': "the body is no text in UTF-8 (byte 14): send JSON in UTF-8",
    }.items():
        refused = client.post("/embed", content=body, headers=JSON)
        assert (refused.status_code, refused.json()["error"]) == (400, said)


@pytest.mark.parametrize("depth", [100, 300, 500, 900])
def test_lists_in_lists_are_no_fault(client: httpx.Client, depth: int) -> None:
    nest = b"[" * depth + b"]" * depth
    for path, body in {
        "/decode": b'{"ids": %b}', "/embed": b'{"inputs": "a", "dimensions": %b}',
        "/v1/embeddings": b'{"input": %b}', "/models/lm": b'{"inputs": %b}',
    }.items():  # fmt: skip
        refused = client.post(path, content=body % nest, headers=JSON)
        assert refused.status_code == 422, (path, refused.text)


@pytest.mark.parametrize(
    ("path", "body", "said"),
    [
        ("/embed", 5, "the body must be a JSON object"),
        ("/embed", {"inputs": 5}, "inputs: Input should be a valid string"),
        ("/embed", {"inputs": ["a", 5]}, "inputs.1: Input should be a valid string"),
        ("/decode", {"ids": [[1], [-1]]}, "ids.1.0: Input should be greater than or equal to 0"),
        ("/question-answering", {"inputs": {"question": "a"}}, "inputs.context: Field required"),
        ("/models/answers", {"inputs": [{"question": "a"}]}, "inputs.0.context: Field required"),
        ("/question-answering", {"inputs": "a"}, "inputs must be a JSON object"),
        ("/text-classification", {"inputs": [{"text": "a"}]}, "inputs.0.text_pair: Field required"),
        ("/fill-mask", {"inputs": "[MASK]", "parameters": 5}, "parameters must be a JSON object"),
    ],
)
def test_what_is_wrong_in_a_body_is_told_without_names_of_types(
    client: httpx.Client, path: str, body: object, said: str
) -> None:
    refused = client.post(path, json=body)
    assert (refused.status_code, refused.json()["error"]) == (422, said)


def test_half_a_character_is_told(client: httpx.Client) -> None:
    said = "holds half a character: an escape such as \\ud83d alone, or bytes that are not UTF-8"
    for path in ("/fill-mask", "/embed", "/score", "/tokenize", "/predict"):
        refused = client.post(path, content=b'{"inputs": "a \\ud83d [MASK]"}', headers=JSON)
        assert (refused.status_code, refused.json()["error"]) == (422, f"the text {said}"), path
    refused = client.post("/embed", content=b'{"inputs": ["a", "\\ud83d"]}', headers=JSON)
    assert refused.json()["error"] == f"text 2 {said}"


def test_what_can_be_got_has_a_head(client: httpx.Client) -> None:
    for path in ("/", "/health", "/info", "/v1/models", "/metrics", "/studio/app.js"):
        head = client.head(path)
        assert (head.status_code, head.content) == (200, b""), path
        assert head.headers["content-type"] == client.get(path).headers["content-type"]
    assert client.head("/runs/none").status_code == 404
    assert client.head("/embed").status_code == 405


def test_unknown_routes_name_those_there_are(client: httpx.Client) -> None:
    chat = client.post("/v1/chat/completions", json={"model": "lm", "messages": []})
    assert chat.status_code == 404
    assert (chat.json()["error"]["type"], chat.json()["error"]["code"]) == ("not_found", 404)
    said = chat.json()["error"]["message"]
    assert "POST /v1/embeddings" in said
    assert "GET /info" in said
    elsewhere = client.get("/nowhere").json()
    assert elsewhere == {"error": said, "error_type": "not_found"}
    file = client.post("/studio/app.js", json={})
    assert (file.status_code, file.json()["error"]) == (405, "this route takes GET, HEAD, not POST")
    assert client.get("/studio/none.js").status_code == 404
    wrong = client.get("/embed")
    assert wrong.status_code == 405
    assert wrong.json() == {"error": "this route takes POST, not GET", "error_type": "method"}


def test_answers_carry_times_and_safe_headers(client: httpx.Client) -> None:
    answer = client.post("/embed", json={"inputs": [CAT, RAIN]})
    for name in ("total", "queue", "inference", "tokenization"):
        assert math.isfinite(float(answer.headers[f"x-{name}-time"]))
    assert int(answer.headers["x-compute-tokens"]) > 10
    for page in (answer, client.get("/nowhere")):
        assert page.headers["x-content-type-options"] == "nosniff"
        assert page.headers["content-security-policy"].startswith("default-src 'self'")
        assert "server" not in page.headers
        assert "access-control-allow-origin" not in page.headers


def test_the_page(client: httpx.Client) -> None:
    assert "<html" in client.get("/").text
    assert client.get("/studio/../guard.py").status_code == 404
    assert client.get("/studio/%2e%2e/guard.py").status_code == 404


def test_numbers_for_prometheus(client: httpx.Client, ask: Ask) -> None:
    def value(name: str) -> float:
        lines = client.get("/metrics").text.splitlines()
        return sum(float(line.split()[-1]) for line in lines if line.startswith(name))

    route = 'unmask_request_count_total{route="/embed",status="200"}'
    before, tokens = value(route), value("unmask_tokens_total")
    used = int(client.post("/embed", json={"inputs": CAT}).headers["x-compute-tokens"])
    for _ in range(100):  # a request is counted when its answer is sent
        if value(route) > before:
            break
    assert value(route) == before + 1
    assert value("unmask_tokens_total") == tokens + used
    assert value("unmask_queue_size") == value("unmask_queue_tokens") == 0


def test_the_page_of_the_routes_names_them_all_and_its_examples_work(client: httpx.Client) -> None:
    schema = client.get("/openapi.json").json()
    page = client.get("/docs").text
    assert all(path in page for path in schema["paths"])
    assert "<script" not in page
    assert client.get("/docs.css").headers["content-type"].startswith("text/css")
    posts = [(path, each["post"]) for path, each in schema["paths"].items() if "post" in each]
    assert len(posts) > 20
    for path, route in posts:
        shown = html.unescape(page.split(f"<h3>POST {path}</h3>")[1].split("<pre>")[1].split("</pre>")[0])
        _, url, _, header, _, _, body = shlex.split(shown)
        assert url.startswith(f"{client.base_url}".rstrip("/"))
        name, _, value = header.partition(": ")
        answer = client.post(url, content=body, headers={name: value})
        assert answer.status_code == 200, (path, body, answer.text, route["tags"])


def test_a_model_of_pairs_is_given_pairs(predictors: Predictors, tmp_path: Path) -> None:
    topics = predictors["topics"]
    save_model(
        topics.model,  # type: ignore[arg-type]
        tmp_path / "pairs",
        topics.tokenizer,
        facts={"task": {"name": "classify", "pairs": True}},
    )
    with running(str(tmp_path / "pairs"), "--quiet") as server, httpx.Client(base_url=server.url) as client:
        for route in ("/predict", "/models/pairs"):
            refused = client.post(route, json={"inputs": [[CAT]] if route == "/predict" else CAT})
            assert (refused.status_code // 100, "judges pairs" in refused.text) == (4, True), refused.text
        assert client.post("/predict", json={"inputs": [[CAT, RAIN]]}).status_code == 200


@pytest.mark.parametrize(
    ("facts", "pairs"),
    [
        ({"name": "classify", "pairs": True}, True),
        ({"name": "classify", "pairs": False}, False),
        ({"name": "pair"}, True),
        ({"name": "classify"}, None),
    ],
)
def test_a_folder_says_whether_it_judges_pairs(
    predictors: Predictors, tmp_path: Path, facts: dict[str, Any], pairs: bool | None
) -> None:
    topics = predictors["topics"]
    save_model(topics.model, tmp_path, topics.tokenizer, facts={"task": facts})  # type: ignore[arg-type]
    assert Served("topics", load(tmp_path, "cpu")).facts()["pairs"] is pairs
