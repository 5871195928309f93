"""Make the models that come with unmask, and their cards; `tools/models.toml` says which, from which text.

    python tools/models.py prepare mini-pt --scratch DIR --pack mini-pt.tar.xz
    python -m tarfile -e mini-pt.tar.xz DIR            # on a machine with a GPU, which needs only this file
    python tools/models.py train mini-pt --scratch DIR --steps 20000
    unmask evaluate minimal-pairs-pt facts-pt bias-pt DIR/parts/pt/held/*.txt --model DIR/mini-pt -o scores
    python tools/models.py card mini-pt --scratch DIR --scores scores/*.json

The model is DIR/mini-pt: copy it to src/unmask/models. Everything else is in DIR/parts. The text is in
$UNMASK_DATA, by default ../shared/data.

Some whole works of every source are set apart in DIR/parts/pt/held, for neither the vocabulary nor the model
to see. The others are cut into passages: so a batch holds many works, and all sources have validation text.
"""

import argparse
import datetime
import json
import math
import os
import random
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, groupby, pairwise
from pathlib import Path
from typing import Any

from unmask import __version__
from unmask.config import PrepareConfig, TextConfig
from unmask.errors import InputError, OutputError, UserError
from unmask.evaluation.results import RESULTS, read
from unmask.evaluation.show import update_card
from unmask.files import write_atomic, write_json
from unmask.text import Cleaner, find_sources, read_documents, sampling_weights, sentence_starts
from unmask.text.split import SPLITS, split_of, text_hash

ROOT = Path(__file__).resolve().parents[1]
HELD = 0.02
"""Share of every source that is set apart, in whole works; as much again is for validation, in passages."""
PASSAGE = 4000
"""Characters of a passage: more than the longest sequence that is trained on."""
FILE_MB = 35
"""Of a file of text. A vocabulary is trained on the first of each source: about the balance of training."""
CARD = Path(__file__).with_name("model_card.md")
FACTS, TRAINING = "facts.json", "training.json"

Values = dict[str, Any]


def unmask(scratch: Path, commands: list[str], *words: object) -> Any:
    """Run a command of ours, which must succeed; note how it reads from inside DIR. What it found."""
    told = [str(word) for word in words]
    commands.append("unmask " + shlex.join(told).replace(f"{scratch}/", ""))
    print(commands[-1], file=sys.stderr, flush=True)
    command = [sys.executable, "-m", "unmask", *told, "--json"]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        sys.exit(done.returncode)
    return json.loads(done.stdout)


def passages(text: str) -> Iterator[str]:
    """The text cut where sentences begin."""
    begin = 0
    for end, following in pairwise([*sentence_starts(text), len(text)]):
        if following - begin > PASSAGE and end > begin:
            yield text[begin:end].strip()
            begin = end
    yield text[begin:].strip()


def read_works(path: Path) -> tuple[list[str], list[str]]:
    """A source's works to learn from and those set apart, the ones of the highest hash.

    All that `unmask prepare` would keep for the test by itself is among these: the suites mlm-* take it.
    """
    config, found = TextConfig(), {}
    clean = Cleaner(config)
    for document in read_documents(find_sources([str(path)])[0], config):
        text, dropped = clean(document.text)
        if dropped is None:
            found[text_hash(text)] = text
    hashes, held = sorted(found), list[str]()
    wanted = HELD * sum(map(len, found.values()))
    test = PrepareConfig().test
    while hashes and (sum(map(len, held)) < wanted or SPLITS[split_of(hashes[-1], 0, test)] == "test"):
        held.append(found.pop(hashes.pop()))
    return list(found.values()), held


def write_passages(works: Iterable[str], folder: Path, share: float) -> None:
    """A share of the passages in mixed order, a blank line between two, in files of one size."""
    cut = [passage for work in works for passage in passages(work)]
    random.Random(0).shuffle(cut)
    blocks = [passage + "\n\n" for passage in cut[: max(1, round(share * len(cut)))]]
    places = (int(end // (FILE_MB * 1e6)) for end in accumulate(map(len, blocks)))
    for number, file in groupby(zip(places, blocks, strict=True), lambda block: block[0]):
        write_atomic(folder / f"{number}.txt", "".join(block for _, block in file))


def prepare(model: Values, language: Values, place: Path, options: argparse.Namespace) -> None:
    """Text, vocabulary and shards of the model's language; made once, packed as often as asked."""
    if (place / FACTS).is_file():
        print(f"{place} is kept as it was made: delete it to make it anew", file=sys.stderr)
    else:
        shutil.rmtree(place, ignore_errors=True)  # what an interrupted start left
        make_shards(language, place, options)
    for tag, row in known(place / FACTS, "prepare")["sources"].items():
        print(f"{tag}: {row['words']:,} words, {row['tokens']:,} tokens")
    if options.pack:
        inside = [str((place / name).relative_to(options.scratch)) for name in ("shards", FACTS)]
        packer = ["tar", "--use-compress-program", "xz -T2 -6", "-cf", options.pack, "-C", options.scratch]
        subprocess.run([*packer, *inside], check=True)
        print(f"{options.pack}: {options.pack.stat().st_size / 2**20:.1f} MiB")


def make_shards(language: Values, place: Path, options: argparse.Namespace) -> None:
    """Everything up to the shards, and what there is to say about it, which is written last."""
    data = Path(os.environ.get("UNMASK_DATA", ROOT.parent / "shared" / "data"))
    files = {source["tag"]: data / source["file"] for source in language["sources"]}
    size = sum(source.expected_chars for source in find_sources([str(path) for path in files.values()]))
    share = min(1.0, options.limit_mb * 1e6 / size)
    for tag, path in files.items():
        works, held = read_works(path)
        write_passages(works, place / "text" / tag, share)
        write_atomic(place / "held" / f"{tag}.txt", "\n\n".join(p for work in held for p in passages(work)))
        print(f"{tag}: {len(works):,} works, {len(held):,} set apart", file=sys.stderr, flush=True)
    scratch, commands = options.scratch, list[str]()
    vocabulary, texts = place / "vocab", [f"{tag}={place / 'text' / tag}" for tag in files]
    first = [f"{tag}={place / 'text' / tag / '0.txt'}" for tag in files]
    unmask(scratch, commands, "tokenizer", *first, "-o", vocabulary, *language["vocabulary"])
    shares = ["--set", f"prepare.valid={HELD}", "--set", "prepare.test=0"]
    manifest = unmask(
        scratch, commands, "prepare", *texts, "--tokenizer", vocabulary, "-o", place / "shards", *shares
    )
    held_texts = [f"{tag}={place / 'held' / tag}.txt" for tag in files]
    published = language["published"]
    reports = {
        name: unmask(scratch, [], "tokenizer", "--report", path, *held_texts)
        for name, path in (("ours", vocabulary), (published["name"], data / published["path"]))
    }
    counts = manifest["splits"]["train"]["languages"]
    facts = {
        "commands": commands,
        "share": share,
        "fertility": {
            f"{name}, {report['vocab_size']:,} entries": {
                tag: fit["tokens_per_word"] for tag, fit in report["languages"].items()
            }
            for name, report in reports.items()
        },
        "sources": {tag: {key: counts[tag][key] for key in ("words", "tokens")} for tag in files},
    }
    write_json(place / FACTS, facts)


def train(model: Values, language: Values, place: Path, options: argparse.Namespace) -> None:
    """The model in half precision, and what its training took; called again, it goes on."""
    import torch

    scratch, run, folder = options.scratch, place / f"run-{options.name}", options.scratch / options.name
    facts = known(place / FACTS, "prepare")
    changes = [f"batch.alpha={language['alpha']}", *model.get("settings", [])]
    changes += [f"train.{key}={value}" for key in ("seconds", "steps") if (value := getattr(options, key))]
    settings = [word for change in changes for word in ("--set", change)]
    result = unmask(
        scratch, facts["commands"], "pretrain", model["recipe"], "--data", place / "shards", "-o", run,
        "--resume", *settings,
    )  # fmt: skip
    unmask(scratch, facts["commands"], "convert", run / "model", folder, "--to", "bfloat16", "--overwrite")
    plan = json.loads((run / "plan.json").read_text("utf-8"))
    size = (folder / "model.safetensors").stat().st_size / 2**20
    check_size(model, plan["parameters"], size)
    facts |= {key: result[key] for key in ("steps", "tokens", "seconds", "valid")}
    facts |= {key: plan[key] for key in ("parameters", "epochs")}
    facts |= {
        "device": torch.cuda.get_device_name() if torch.cuda.is_available() else "the processor",
        "versions": f"unmask {__version__}, torch {torch.__version__}",
        "date": datetime.date.today().isoformat(),
    }
    write_json(folder / TRAINING, facts)
    print(f"{folder}: {plan['parameters']:,} parameters, {size:.1f} MiB")


def check_size(model: Values, parameters: int, mib: float) -> None:
    """Refuse a model that is larger than the table promises."""
    if parameters > model["parameters"] or mib > model["mib"]:
        raise OutputError(
            f"the model is too large: {parameters:,} parameters and {mib:.1f} MiB, "
            f"where the table allows {model['parameters']:,} and {model['mib']}"
        )


def card(model: Values, language: Values, place: Path, options: argparse.Namespace) -> None:
    """The model's README.md."""
    folder = options.scratch / options.name
    paths = [path for path in options.scores if path.name != RESULTS]
    scores = [result for path in paths if (result := read(path.parent, path.stem))]
    if len(scores) < len(paths):
        raise InputError(
            "--scores names a file that is not there: it takes each SUITE.json of unmask evaluate"
        )
    apart = {each["tag"]: f"set apart of {each['about']} ({each['terms']})" for each in language["sources"]}
    about = [(one.suite, apart.get(one.suite, f"{one.about} ({one.licence})")) for one in scores]
    listed = "".join(f"- {suite}: {of}\n" for suite, of in about)
    text = page(options.name, model, language, known(folder / TRAINING, "train"))
    write_atomic(folder / "README.md", text + "\n## What the scores are of\n\n" + listed)
    update_card(folder, scores)
    print(folder / "README.md")


def page(name: str, model: Values, language: Values, facts: Values) -> str:
    """The card without its scores."""
    counts = facts["sources"]
    drawn = sampling_weights({tag: row["tokens"] for tag, row in counts.items()}, language["alpha"])
    rows = []
    for source in language["sources"]:
        tag = source["tag"]
        words = f"{counts[tag]['words']:,}"
        seen = f"{drawn[tag] * facts['tokens'] / counts[tag]['tokens']:.1f}"
        rows.append([f"`{tag}`", source["about"], source["terms"], words, f"{drawn[tag]:.0%}", seen])
    fits = facts["fertility"]
    fit_rows = [[f"`{tag}`", *(f"{fit[tag]:.3f}" for fit in fits.values())] for tag in counts]
    return CARD.read_text("utf-8").format(
        name=name, model=model, language=language, facts=facts, valid=facts["valid"], held=HELD,
        millions=facts["parameters"] / 1e6, sources=lines(rows), commands="\n".join(facts["commands"]),
        fertility=lines([["source", *fits], ["---"] * (1 + len(fits)), *fit_rows]),
        limits=language["limits"].strip(), finetuned=finetuned(name, model["language"]),
    )  # fmt: skip


def finetuned(name: str, language: str) -> str:
    """The section of fine-tuned tasks, from the page of `benchmarks/encoders.py`, if the model is on it."""
    path = ROOT / "benchmarks" / "results" / f"encoders-{language}.md"
    tables = path.read_text("utf-8").split("| task | ")[1:] if path.is_file() else []
    if len(tables) < 2 or f"| {name} |" not in tables[0]:
        return ""
    scores, rates = (
        [[cell.strip() for cell in line.strip("| ").split("|")] for line in table.splitlines() if "|" in line]
        for table in tables[:2]
    )
    column = scores[0].index(name) + 1
    chosen = {row[0]: row[rates[0].index(name) + 1] for row in rates[2:]}
    rows = [[*row[:3], row[column], chosen.get(row[0], "")] for row in scores[2:]]
    head = ["task", "measure", "learned from / scored", "score, three seeds", "rate"]
    return (
        "## Fine-tuned\n\nAdamW; the rate is the best of those tried, on examples that are not scored."
        f" `benchmarks/results/{path.name}` in unmask's repository has other models beside it.\n\n"
        f"{lines([head, ['---'] * len(head), *rows])}\n\n"
    )


def known(path: Path, step: str) -> Values:
    """What an earlier step wrote down."""
    if not path.is_file():
        raise InputError(f"there is no {path}: run the step {step} first")
    found: Values = json.loads(path.read_text("utf-8"))
    return found


def lines(rows: Iterable[Sequence[str]]) -> str:
    """Rows of a Markdown table."""
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--table", type=Path, default=Path(__file__).with_suffix(".toml"))
    steps = parser.add_subparsers(required=True)
    for step in (prepare, train, card):
        options = steps.add_parser(step.__name__, help=(step.__doc__ or "").splitlines()[0])
        options.set_defaults(step=step)
        options.add_argument("name", help="a model of the table")
        options.add_argument("--scratch", type=Path, required=True, help="the folder to work in")
        if step is prepare:
            options.add_argument("--limit-mb", type=float, default=math.inf, help="take about so much text")
            options.add_argument("--pack", type=Path, help="write the shards as .tar.xz, to send elsewhere")
        elif step is train:
            length = options.add_mutually_exclusive_group()
            length.add_argument("--seconds", type=float, help="time to train for, in place of the recipe's")
            length.add_argument("--steps", type=int)
        else:
            options.add_argument("--scores", type=Path, nargs="+", required=True, help="each SUITE.json")
    chosen = parser.parse_args()
    chosen.scratch = chosen.scratch.absolute()  # as a bare name, a bundled model's is refused
    table = tomllib.loads(chosen.table.read_text("utf-8"))
    try:
        if chosen.name not in table["models"]:
            raise InputError(f"there is no model {chosen.name}: choose one of {', '.join(table['models'])}")
        model = table["models"][chosen.name]
        place = chosen.scratch / "parts" / model["language"]
        chosen.step(model, table["languages"][model["language"]], place, chosen)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
