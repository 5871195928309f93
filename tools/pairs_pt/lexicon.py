"""Portuguese words with their forms, for the minimal pairs: only words spelt alike in Brazil and Portugal."""

from dataclasses import dataclass

SINGULAR, PLURAL = 0, 1


@dataclass(frozen=True)
class Noun:
    """A noun with its two numbers; `gender` is the vowel of its article."""

    forms: tuple[str, str]
    gender: str

    def the(self, number: int, joined: str = "") -> str:
        """With its article, which `joined` may melt with: `n` makes `no`, `pel` makes `pela`."""
        return f"{joined}{self.gender}{'s' * number} {self.forms[number]}"

    def a(self) -> str:
        return f"{'um' if self.gender == 'o' else 'uma'} {self.forms[SINGULAR]}"


@dataclass(frozen=True)
class Verb:
    """A regular verb without changes of spelling; forms of two are (singular, plural) of the third person."""

    infinitive: str

    def _forms(self, *endings: str) -> tuple[str, ...]:
        stem, group = self.infinitive[:-2], "aei".index(self.infinitive[-2])
        return tuple(stem + ending.split("/")[group] for ending in endings)

    @property
    def present(self) -> tuple[str, ...]:
        return self._forms("a/e/e", "am/em/em")

    @property
    def present_first(self) -> tuple[str, ...]:
        return self._forms("o/o/o", "amos/emos/imos")

    @property
    def past(self) -> tuple[str, ...]:
        return self._forms("ou/eu/iu", "aram/eram/iram")

    @property
    def subjunctive(self) -> tuple[str, ...]:
        return self._forms("e/a/a", "em/am/am")

    @property
    def future(self) -> tuple[str, ...]:
        return self.infinitive + "á", self.infinitive + "ão"

    @property
    def personal_infinitive(self) -> tuple[str, ...]:
        """The same forms as the future subjunctive: the verbs here are regular."""
        return self.infinitive, self.infinitive + "em"

    @property
    def participle(self) -> str:
        return self._forms("ado/ido/ido")[0]


def agree(masculine: str, gender: str, number: int) -> str:
    """`cansado` in the gender and number of its noun; only for words that end in -o."""
    return masculine[:-1] + gender + "s" * number


def other(gender: str) -> str:
    return {"o": "a", "a": "o"}[gender]


def nouns(gender: str, words: str) -> tuple[Noun, ...]:
    """`flor/flores casa`: a plural in -s need not be written."""
    pairs = (word.partition("/") for word in words.split())
    return tuple(Noun((one, many or one + "s"), gender) for one, _, many in pairs)


def verbs(words: str) -> tuple[Verb, ...]:
    return tuple(Verb(word) for word in words.split())


def phrases(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(","))


PEOPLE = nouns(
    "o",
    "menino professor/professores médico vizinho aluno jogador/jogadores pintor/pintores cozinheiro advogado "
    "escritor/escritores soldado cantor/cantores enfermeiro pescador/pescadores juiz/juízes carteiro padeiro "
    "bombeiro agricultor/agricultores marinheiro",
) + nouns(
    "a",
    "menina professora médica vizinha aluna jogadora pintora cozinheira advogada escritora cantora "
    "enfermeira juíza costureira bailarina rainha senhora vendedora pescadora princesa",
)
RELATIVES = nouns("o", "amigo irmão/irmãos filho primo tio sobrinho cunhado neto afilhado sócio") + nouns(
    "a", "amiga irmã filha prima tia sobrinha cunhada neta madrinha sócia"
)
THINGS = nouns(
    "o",
    "livro quadro prato relógio caderno jornal/jornais vestido copo casaco tapete espelho chapéu anel/anéis "
    "brinquedo sapato tambor/tambores colar/colares envelope",
) + nouns(
    "a",
    "carta cadeira mesa chave camisa mala bandeira garrafa boneca faca fotografia caneta flor/flores lâmpada "
    "bicicleta moeda máquina vassoura",
)
BUILDINGS = nouns(
    "o",
    "castelo mercado teatro jardim/jardins prédio museu palácio hospital/hospitais hotel/hotéis restaurante",
) + nouns("a", "casa cabana torre igreja escola fábrica capela oficina biblioteca loja")
TEXTS = nouns("o", "livro poema romance relatório conto discurso artigo bilhete") + nouns(
    "a", "carta canção/canções notícia história peça mensagem/mensagens receita lenda"
)

# What people do by themselves, and when: any verb goes with any time.
ACTIONS = verbs(
    "trabalhar cantar estudar viajar falar descansar chorar nadar gritar conversar caminhar correr comer "
    "beber aprender discutir treinar rezar cozinhar desenhar escrever telefonar protestar sonhar meditar"
)
# Those whose feminine or plural participle is no noun (`corrida`, `comida`, `caminhada` are).
ACTIONS_WITHOUT_NOUN = verbs(
    "trabalhar estudar viajar descansar nadar conversar telefonar protestar treinar sonhar chorar gritar"
)
MOMENTS = phrases("à noite, de manhã, à tarde, depois do almoço, antes do jantar, ao fim do dia")
TIMES = MOMENTS + phrases(
    "todos os dias, aos domingos, durante o verão, quase sempre, com frequência, nas férias"
)
WITH_A_THING = verbs(
    "comprar vender encontrar guardar mostrar fotografar examinar admirar esconder escolher receber limpar "
    "levar"
)
WITH_A_PERSON = verbs(
    "ajudar visitar convidar contratar entrevistar fotografar chamar encontrar cumprimentar acompanhar salvar"
)
ARRIVALS = verbs("chegar aparecer desaparecer entrar voltar surgir")

# Of people: what they are, and how they are for a time.
TRAITS = phrases(
    "alto, simpático, honesto, generoso, famoso, bonito, tímido, rico, sincero, educado, vaidoso, teimoso"
)
STATES = phrases(
    "cansado, ocupado, preocupado, calado, nervoso, zangado, satisfeito, animado, distraído, ansioso, "
    "assustado"
)
# Of things; none that is also an adverb (`caro`, `barato`, `claro`, `raro`).
QUALITIES = phrases(
    "antigo, novo, bonito, velho, pequeno, branco, preto, vermelho, amarelo, moderno, famoso, feio, valioso, "
    "curioso, maravilhoso, estranho, delicado, precioso, magnífico, sujo"
)
DETERMINERS = (
    {"o": ("este", "estes"), "a": ("esta", "estas")},
    {"o": ("esse", "esses"), "a": ("essa", "essas")},
    {"o": ("aquele", "aqueles"), "a": ("aquela", "aquelas")},
    {"o": ("um", "uns"), "a": ("uma", "umas")},
)
