"""Where sentences begin, in Portuguese and English: one regular expression finds the places, rules judge."""

import re

_CLOSERS = "\"'”’»)\\]}"
_OPENERS = frozenset("\"'“‘«‹„([{¿¡—–-*_ ")
_CONTINUERS = frozenset(".,;:!?…)]}»”’%/&")


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# A stop with what may follow it before white space, or a bare newline.
_CANDIDATE = re.compile(rf"[.!?…\n](?:(?<=\n)|([.!?…]*[{_CLOSERS}]*)[ \n])")
_ENUMERATOR = re.compile(r"\d{1,3}|[IVXLC]{1,5}|[A-Za-z]")
_INITIALS = re.compile(r"(?:[^\W\d_]{1,3}\.)*[^\W\d_é]")  # é is a verb

# Before a name or an example: never the end of a sentence.
_NEVER_LAST = _words(
    """sr sra srs sras srta srª dr dra drs dras drª prof profa profª profs eng arq exmo exma exmos exmas ilmo
    ilma rev revmo pe fr sto sta gen cel cmdt maj ten sgt alm des dep sen gov pres mr mrs ms messrs capt lt
    cmdr hon e.g i.e p.ex v.g cf viz vs"""
)
# Before a number: not the end of a sentence.
_BEFORE_NUMBER = _words(
    """art arts n no nos nr núm num pág págs pag p pp vol vols cap caps fig figs tab séc sec ed tel fl fls doc
    eq ref al § ch jan feb mar apr jun jul aug sep sept oct nov dec fev abr mai ago set out dez"""
)
# Either, like initials: the end only before a word that likes to begin sentences.
_EITHER = _words(
    """st mt ft col adm rep jr co corp ltd ltda inc cia exa exas ex bros dept univ assn av ave blvd rd approx
    aprox"""
)
_NUMBER = re.compile(r"\d|(?!I\b)[IVXLC]+\b")
_STARTER = re.compile(
    r"(?:The|This|That|These|Those|There|He|She|It|They|We|You|His|Her|Its|Their|Our|My|In|On|At|For|From|By"
    r"|But|And|So|If|When|While|After|Before|As|What|Who|Why|How|Is|Are|Was|Were|Do|Does|Did|However|Although"
    r"|O|Os|A|As|Um|Uma|Ele|Ela|Eles|Elas|Eu|Nós|Mas|E|Em|No|Na|Nos|Nas|De|Do|Da|Por|Para|Com|Se|Que|Quem"
    r"|Quando|Como|Onde|Este|Esta|Esse|Essa|Isso|Isto|Aquele|Aquela|Não|Já|Foi|Há|Também|Porém|Segundo"
    r"|Depois|Antes|Seu|Sua|Ao|Aos|À|Às)(?![\w.])"
)


def sentence_starts(text: str) -> list[int]:
    """Offsets of the first character of every sentence of a clean text."""
    if not text:
        return []
    starts = [0]
    end = len(text)
    for match in _CANDIDATE.finditer(text):
        place = match.end()
        if place < end and _begins(text, starts[-1], match, place):
            starts.append(place)
    return starts


def _begins(text: str, start: int, match: re.Match[str], place: int) -> bool:
    tail = match[1]
    following = text[place]
    if following in _OPENERS:
        following = _first_letter(text, place)
    if tail is None:  # a newline after no stop: hard-wrapped text goes on in lower case
        return not following.islower()
    if following.islower():
        return text[place - 1] == "\n" and not (
            tail == "" and _abbreviates(text, start, match.start(), place)
        )
    if following in _CONTINUERS and text[place - 1] == " ":
        return False
    return tail != "" or text[match.start()] != "." or not _abbreviates(text, start, match.start(), place)


def _first_letter(text: str, place: int) -> str:
    for char in text[place : place + 8]:
        if char not in _OPENERS:
            return char
    return text[place]


def _abbreviates(text: str, start: int, stop: int, place: int) -> bool:
    """Whether the full stop at `stop` belongs to its word, and the sentence goes on."""
    first = max(text.rfind(" ", start, stop), text.rfind("\n", start, stop)) + 1
    first = max(first, start)
    word = text[first:stop].lstrip("\"'“‘«([{¿¡—–-")
    if first == start and _ENUMERATOR.fullmatch(word) and text[place - 1] == " ":
        return True
    small = word.lower()
    if small in _NEVER_LAST:
        return True
    if small in _BEFORE_NUMBER and _NUMBER.match(text, place):
        return True
    if small in _EITHER or _INITIALS.fullmatch(word):
        return not _STARTER.match(text, place)
    return False
