"""What the published families agree on: special tokens, templates, the steps round each kind."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from tokenizers import AddedToken, Regex, decoders, normalizers, pre_tokenizers, processors
from tokenizers import Tokenizer as Backend

Kind = Literal["wordpiece", "unigram", "bpe"]
METASPACE = "▁"


@dataclass(frozen=True, slots=True)
class Special:
    """The special tokens by role."""

    cls: str
    sep: str
    mask: str
    pad: str
    unk: str

    def items(self) -> dict[str, str]:
        """Role to token."""
        return asdict(self)


BERT = Special(cls="[CLS]", sep="[SEP]", mask="[MASK]", pad="[PAD]", unk="[UNK]")
ROBERTA = Special(cls="<s>", sep="</s>", mask="<mask>", pad="<pad>", unk="<unk>")


def special_for(kind: Kind, style: Literal["bert", "roberta"] | None) -> Special:
    """The special tokens asked for, or those of the kind's own family."""
    return BERT if style == "bert" or (style is None and kind == "wordpiece") else ROBERTA


def vocabulary_order(special: Special) -> tuple[list[str], list[str]]:
    """Which special tokens open the vocabulary and which close it."""
    if special == BERT:
        return [special.pad, special.unk, special.cls, special.sep, special.mask], []
    return [special.cls, special.pad, special.sep, special.unk], [special.mask]


def normaliser(kind: Kind, lowercase: bool, strip_accents: bool) -> Any:
    """BERT's for WordPiece, none for BPE, compatibility composition for Unigram; folding where asked."""
    if kind == "wordpiece":
        return normalizers.BertNormalizer(lowercase=lowercase, strip_accents=strip_accents)
    fold: list[normalizers.Normalizer] = [normalizers.Lowercase()] if lowercase else []
    if strip_accents:
        fold += [normalizers.NFD(), normalizers.StripAccents(), normalizers.NFC()]
    if kind == "unigram":
        spaces = normalizers.Replace(Regex(r"\s+"), " ")
        return normalizers.Sequence([normalizers.Nmt(), normalizers.NFKC(), *fold, spaces])
    return normalizers.Sequence(fold) if fold else None


def surround(backend: Backend, kind: Kind, special: Special, *, metaspace: bool = False) -> Backend:
    """Set what stands round the model: splitting, decoding, special tokens and the sentence template."""
    if kind == "wordpiece":
        backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        backend.decoder = decoders.WordPiece(prefix="##")
    elif kind == "unigram" or metaspace:
        backend.pre_tokenizer = pre_tokenizers.Sequence(
            [
                pre_tokenizers.WhitespaceSplit(),
                pre_tokenizers.Metaspace(replacement=METASPACE, prepend_scheme="always"),
            ]
        )
        backend.decoder = decoders.Metaspace(replacement=METASPACE, prepend_scheme="always")
    else:
        backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        backend.decoder = decoders.ByteLevel()
    add_special(backend, special)
    set_template(backend, special)
    return backend


def add_special(backend: Backend, special: Special) -> None:
    """Make sure that the special tokens are recognised in text; those known already stay as they are."""
    known = {token.content for token in backend.get_added_tokens_decoder().values()}
    missing = [token for token in special.items().values() if token not in known]
    backend.add_special_tokens(
        [AddedToken(token, special=True, normalized=False, lstrip=token == ROBERTA.mask) for token in missing]
    )


def set_template(backend: Backend, special: Special) -> None:
    """`[CLS] A [SEP] B [SEP]`, or `<s> A </s></s> B </s>`."""
    cls, sep = special.cls, special.sep
    pair = f"{cls} $A {sep} $B:1 {sep}:1" if special != ROBERTA else f"{cls} $A {sep} {sep} $B {sep}"
    backend.post_processor = processors.TemplateProcessing(
        single=f"{cls} $A {sep}",
        pair=pair,
        special_tokens=[(token, backend.token_to_id(token)) for token in (cls, sep)],
    )


def transformers_class(state: Mapping[str, Any]) -> str:
    """The class of `transformers` that rebuilds exactly this tokenizer; the general one where none does."""
    normal, split, model = state["normalizer"], state["pre_tokenizer"] or {}, state["model"]
    steps = [step["type"] for step in split.get("pretokenizers", [split or {"type": ""}])]
    normal_type = (normal or {}).get("type")
    if model["type"] == "WordPiece" and normal_type == "BertNormalizer" and steps == ["BertPreTokenizer"]:
        plain = normal["clean_text"] and model["continuing_subword_prefix"] == "##"
        return "BertTokenizer" if plain else "PreTrainedTokenizerFast"
    if model["type"] == "BPE" and normal is None and steps == ["ByteLevel"]:
        plain = split["use_regex"] and not model["unk_token"] and not model["ignore_merges"]
        return "RobertaTokenizer" if plain else "PreTrainedTokenizerFast"
    if model["type"] == "Unigram" and normal_type in {None, "Precompiled"}:
        plain = steps == ["WhitespaceSplit", "Metaspace"] and model["unk_id"] == 3
        return "XLMRobertaTokenizer" if plain else "PreTrainedTokenizerFast"
    return "PreTrainedTokenizerFast"
