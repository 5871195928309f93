"""What requests carry, as the clients of other servers send it. Unknown keys are passed over."""

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from unmask.sections import Strict

Text = Annotated[str, Field(examples=["The river rose."])]
Texts = str | list[str]
Top = Annotated[int, Field(ge=1, le=1000)]
Ids = list[Annotated[int, Field(ge=0, lt=1 << 31)]]


class Body(Strict):
    """A request; `model` may be left out where one model is meant."""

    model_config = ConfigDict(protected_namespaces=())
    model: str | None = None


class EmbedBody(Body):
    """Texts to turn into vectors (text-embeddings-inference, Hugging Face feature-extraction)."""

    inputs: Annotated[Texts, Field(examples=["The river rose."])]
    normalize: bool | None = None
    truncate: bool = False
    truncation_direction: Literal["Right", "right"] = "Right"
    prompt_name: None = None
    dimensions: Annotated[int, Field(ge=1)] | None = None


class TextsBody(Body):
    """Texts, of which those too long may be cut off."""

    inputs: Annotated[Texts, Field(examples=[["The river rose.", "O rio subiu."]])]
    truncate: bool = False


class OpenAIBody(Body):
    """OpenAI's embeddings; the client asks for base64 unless told otherwise."""

    input: Annotated[Texts | Ids | list[Ids], Field(examples=[["The river rose."]])]
    encoding_format: Literal["float", "base64"] = "float"
    dimensions: Annotated[int, Field(ge=1)] | None = None


class PredictBody(Body):
    """A text, a pair `[a, b]`, or a list of `[text]` or `[a, b]`."""

    inputs: Annotated[str | list[str] | list[list[str]], Field(examples=["A fine day out."])]
    raw_scores: bool = False
    truncate: bool = False


class RerankBody(Body):
    """Texts to put in order by how well they answer a query."""

    query: Annotated[str, Field(examples=["Why was the bridge closed?"])]
    texts: Annotated[list[str], Field(examples=[["The river rose.", "The cat sleeps."]])]
    raw_scores: bool = False
    return_text: bool = False
    truncate: bool = False


class Comparison(Strict):
    """A sentence and those to compare it with."""

    source_sentence: Annotated[str, Field(examples=["The river rose."])]
    sentences: Annotated[list[str], Field(examples=[["O rio subiu.", "The cat sleeps."]])]


class SimilarityBody(Body):
    """Cosines of a sentence with others."""

    inputs: Comparison
    truncate: bool = False


class TokenizeBody(Body):
    """Texts to split into tokens."""

    inputs: Annotated[Texts, Field(examples=["The river rose."])]
    add_special_tokens: bool = True


class DecodeBody(Body):
    """Tokens to turn into text again."""

    ids: Annotated[Ids | list[Ids], Field(examples=[[[5, 6, 7]]])]
    skip_special_tokens: bool = True


class FillParameters(Strict):
    """How many candidates, and the only ones allowed."""

    top_k: Top = 5
    targets: list[Annotated[str, Field(max_length=100)]] | None = None


class FillBody(Body):
    """A text with `[MASK]` or `<mask>`, or several."""

    inputs: Annotated[Texts, Field(examples=["The [MASK] rose."])]
    parameters: FillParameters = FillParameters()


class TextPair(Strict):
    """Two texts to classify together."""

    text: str
    text_pair: str


class ClassifyParameters(Strict):
    """How many classes, and how scores become probabilities."""

    top_k: Top | None = None
    function_to_apply: Literal["sigmoid", "softmax", "none"] | None = None


class ClassifyBody(Body):
    """A text, a pair, or a list of them."""

    inputs: Annotated[str | TextPair | list[str | TextPair], Field(examples=["A fine day out."])]
    parameters: ClassifyParameters = ClassifyParameters()


class TagParameters(Strict):
    """Words one by one (`none`) or joined; a word is labelled by its first piece, as `first` says."""

    aggregation_strategy: Literal["none", "simple", "first"] = "simple"
    ignore_labels: list[str] = Field(default=["O"])


class TagBody(Body):
    """A text, or several."""

    inputs: Annotated[Texts, Field(examples=["Ana lives in Porto."])]
    parameters: TagParameters = TagParameters()


class Question(Strict):
    """A question and where its answer stands."""

    question: Annotated[str, Field(examples=["What rose?"])]
    context: Annotated[str, Field(examples=["It rained all night, and the river rose."])]


class AnswerBody(Body):
    """One question, or several."""

    inputs: Question | list[Question]


class HubBody(Strict):
    """What the task of the model takes; see the routes of the tasks."""

    model_config = ConfigDict(extra="allow")
    inputs: Annotated[Any, Field(examples=["The [MASK] rose."])]


class ScoreBody(Body):
    """Texts to score."""

    inputs: Annotated[Texts, Field(examples=[["The river rose.", "The river rise."]])]


class WordsBody(Body):
    """Two texts to compare word by word, at a layer."""

    inputs: Annotated[
        list[str], Field(min_length=2, max_length=2, examples=[["The river rose.", "O rio subiu."]])
    ]
    layer: int | None = None


class AttentionBody(Body):
    """A text to look into."""

    inputs: Annotated[str, Field(examples=["The river rose."])]


class AttributionBody(Body):
    """A text with masks: which of them (from 0), and the word asked about, by default the likeliest."""

    inputs: Annotated[str, Field(examples=["The [MASK] rose."])]
    mask: Annotated[int, Field(ge=0)] = 0
    target: str | None = None


class SensesBody(Body):
    """A word, texts in which it stands, how many senses it has there (by default what fits), at a layer."""

    word: Annotated[str, Field(examples=["river"])]
    inputs: Annotated[list[str], Field(examples=[["The river rose.", "A river of lava.", "No river here."]])]
    senses: Annotated[int, Field(ge=1)] | None = None
    layer: int | None = None
