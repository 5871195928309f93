"""Paradigms of mood, tense, pronouns, negation and relative clauses."""

from pairs_pt.drawing import Draw, Paradigm, both
from pairs_pt.lexicon import (
    ACTIONS,
    BUILDINGS,
    MOMENTS,
    PEOPLE,
    PLURAL,
    RELATIVES,
    SINGULAR,
    TEXTS,
    THINGS,
    TIMES,
    WITH_A_PERSON,
    WITH_A_THING,
    Noun,
    Verb,
    agree,
    other,
    phrases,
)

# Mood and tense


def _clause(draw: Draw, times: tuple[str, ...] = TIMES) -> tuple[str, int, Verb]:
    """A subject with a gap for its verb and a time, its number, and a verb."""
    number = draw.number()
    return f"{draw(PEOPLE).the(number)} _ {draw(times)}", number, draw(ACTIONS)


def subjunctive_after_will(draw: Draw) -> tuple[str, str]:
    clause, number, verb = _clause(draw)
    wishes = phrases(
        "quero que, desejo que, peço que, prefiro que, exijo que, é necessário que, é preciso que, "
        "é importante que, o diretor quer que, a família deseja que, ninguém quer que"
    )
    return both(f"{draw(wishes)} {clause}", verb.subjunctive[number], verb.present[number])


def subjunctive_after_conjunction(draw: Draw) -> tuple[str, str]:
    clause, number, verb = _clause(draw, MOMENTS)
    frames = (
        "embora {}, ninguém reclama",
        "embora {}, o dinheiro não chega",
        "mesmo que {}, nada vai mudar",
        "caso {}, a família ficará contente",
        "nada vai mudar a não ser que {}",
        "não passa uma semana sem que {}",
        "fazemos tudo para que {}",
    )
    return both(draw(frames).format(clause), verb.subjunctive[number], verb.present[number])


def subjunctive_after_perhaps(draw: Draw) -> tuple[str, str]:
    clause, number, verb = _clause(draw)
    return both(f"talvez {clause}", verb.subjunctive[number], verb.present[number])


def indicative_after_knowledge(draw: Draw) -> tuple[str, str]:
    clause, number, verb = _clause(draw)
    knowing = phrases(
        "sei que, é verdade que, é evidente que, é óbvio que, todos sabem que, vejo que, descobri que, "
        "está provado que, o diretor sabe que, a família sabe que"
    )
    return both(f"{draw(knowing)} {clause}", verb.present[number], verb.subjunctive[number])


def future_subjunctive(draw: Draw) -> tuple[str, str]:
    clause, number, verb = _clause(draw, MOMENTS)
    before = draw(phrases("quando, se, sempre que, enquanto"))
    after = draw(
        phrases(
            "a casa ficará vazia, tudo ficará bem, a vida continuará, ninguém reclamará, a rua ficará deserta"
        )
    )
    return both(f"{before} {clause}, {after}", verb.personal_infinitive[number], verb.future[number])


def personal_infinitive(draw: Draw) -> tuple[str, str]:
    clause, number, verb = _clause(draw, MOMENTS)
    before = draw(
        phrases(
            "faltou tempo para, há muito espaço para, o dinheiro não chega para, o mês acabou sem, "
            "passou um ano sem, fazemos tudo para, esperei dois meses até"
        )
    )
    return both(f"{before} {clause}", verb.personal_infinitive[number], verb.present[number])


def tense_with_time_adverb(draw: Draw) -> tuple[str, str]:
    number, verb = draw.number(), draw(WITH_A_THING)
    forms = verb.past[number], verb.future[number]
    before = phrases("ontem, anteontem, na semana passada, no ano passado, no mês passado, há dois dias")
    after = phrases(
        "amanhã, depois de amanhã, na próxima semana, no próximo ano, no próximo mês, daqui a dois dias"
    )
    times, (good, bad) = draw(((before, forms), (after, forms[::-1])))
    return both(f"{draw(times)} {draw(PEOPLE).the(number)} _ {draw(THINGS).a()}", good, bad)


def ser_and_estar(draw: Draw) -> tuple[str, str]:
    number = draw.number()
    ser, estar = ("é", "são")[number], ("está", "estão")[number]
    places = phrases(
        "em cima da mesa, debaixo da cama, dentro do armário, atrás da porta, ao lado da janela, "
        "no chão da sala"
    )
    cities = phrases("Lisboa, Coimbra, Braga, Évora, Salvador, Recife, Belém, Curitiba, Luanda, Maputo")
    thing = f"{draw(THINGS).the(number)} _ {draw(places)}"
    person = f"{draw(PEOPLE).the(number)} _ de {draw(cities)}"
    return draw((both(thing, estar, ser), both(person, ser, estar)))


# Clitics and pronouns


def proclisis_after_negation(draw: Draw) -> tuple[str, str]:
    number, verb, clitic = draw.number(), draw(WITH_A_PERSON), draw(("me", "te", "nos"))
    told = draw((f"{draw(PEOPLE).the(number)} {draw(('não', 'nunca', 'jamais'))}", "ninguém"))
    form = verb.past[SINGULAR if told == "ninguém" else number]
    when = draw(phrases("ontem, naquele dia, na praça, durante a viagem, antes da festa, depois da aula"))
    return both(f"{told} _ {when}", f"{clitic} {form}", f"{form}-{clitic}")


def proclisis_in_subordinate(draw: Draw) -> tuple[str, str]:
    number, verb, clitic = draw.number(), draw(WITH_A_PERSON), draw(("me", "te", "nos"))
    person, end = draw(PEOPLE), ("mora aqui perto", "moram aqui perto")[number]
    frame, form = draw(
        (
            (f"{person.the(number)} que _ {end}", verb.past[number]),
            (f"quem _ foi {person.the(SINGULAR)}", verb.past[SINGULAR]),
            (f"já sei quem _ {draw(TIMES)}", verb.present[SINGULAR]),
            (f"tudo mudou quando _ {draw(MOMENTS)}", verb.past[PLURAL]),
        )
    )
    return both(frame, f"{clitic} {form}", f"{form}-{clitic}")


def pronoun_after_preposition(draw: Draw) -> tuple[str, str]:
    told = phrases(
        "comprou um livro para, trouxe uma carta para, olhou para, falou de, gosta de, precisa de, "
        "votou contra, correu atrás de, perguntou por, esperou por, confia em, pensou em, saiu sem, "
        "escreveu sobre"
    )
    return both(f"{draw(PEOPLE).the(SINGULAR)} {draw(told)} _", "mim", "eu")


def pronoun_before_infinitive(draw: Draw) -> tuple[str, str]:
    told = phrases(
        "trouxe um livro para _ ler, guardou o jornal para _ ler, deixou a porta aberta para _ entrar, "
        "abriu a janela para _ respirar, saiu da sala para _ descansar, deixou os papéis para _ assinar, "
        "apagou a luz para _ dormir, parou o carro para _ descer, baixou a música para _ estudar, "
        "repetiu a frase para _ entender, fechou a porta para _ estudar, acendeu a luz para _ ler"
    )
    return both(f"{draw(PEOPLE).the(SINGULAR)} {draw(told)}", "eu", "mim")


def pronoun_joined_to_com(draw: Draw) -> tuple[str, str]:
    verb = draw(
        phrases("conversou, jantou, viajou, falou, trabalhou, discutiu, estudou, cantou, voltou, saiu")
    )
    frame = f"{draw(PEOPLE).the(SINGULAR)} {verb} _ {draw(phrases('ontem, no domingo, de novo, na segunda'))}"
    return both(frame, *draw((("comigo", "com mim"), ("contigo", "com ti"))))


def reflexive_person(draw: Draw) -> tuple[str, str]:
    adverb = draw(phrases("não, nunca, raramente, quase nunca, já não, também"))
    infinitive, end = draw(
        phrases(
            "lavar/com água fria, sentar/na primeira fila, levantar/cedo, deitar/tarde, atrasar/para a aula, "
            "preocupar/com o dinheiro, esconder/da chuva, cansar/de esperar, preparar/para a prova"
        )
    ).split("/")
    first = Verb(infinitive).present_first
    # After a third person `me` is a mistake only where the verb is always reflexive.
    always = draw(phrases("queixa do frio, queixa da comida, arrepende da viagem, atreve a falar, ausenta"))
    return draw(
        (
            both(f"eu {adverb} _ {first[SINGULAR]} {end}", "me", "se"),
            both(f"nós {adverb} _ {first[PLURAL]} {end}", "nos", "se"),
            both(f"{draw(PEOPLE).the(SINGULAR)} {adverb} _ {always}", "se", draw(("me", "nos"))),
        )
    )


# Negation


def negative_word_after_verb(draw: Draw) -> tuple[str, str]:
    thing, number = draw(THINGS), draw.number()
    none = f"{'nenhum' if thing.gender == 'o' else 'nenhuma'} {thing.forms[SINGULAR]}"
    told = draw(
        (
            f"{draw(WITH_A_THING).past[number]} {none}",
            f"{draw(WITH_A_THING).past[number]} nada",
            f"{draw(WITH_A_PERSON).past[number]} ninguém",
        )
    )
    return both(f"{draw(PEOPLE).the(number)} _ {told}", "não", draw(("já", "também")))


def negative_subject(draw: Draw) -> tuple[str, str]:
    noun = draw(PEOPLE)
    none, some = ("nenhum", "algum") if noun.gender == "o" else ("nenhuma", "alguma")
    subject, good, bad = draw((("_", "ninguém", "alguém"), (f"_ {noun.forms[SINGULAR]}", none, some)))
    told = draw((f"{draw(WITH_A_THING).past[0]} nada", f"{draw(WITH_A_PERSON).past[0]} ninguém"))
    where = draw(phrases("na praça, na escola, naquele dia, durante a viagem, no mercado, antes da festa"))
    return both(f"{subject} {told} {where}", good, bad)


# Relative clauses


def cujo_agreement(draw: Draw) -> tuple[str, str]:
    number, owned = draw.number(), draw(RELATIVES)
    told = draw(
        phrases("mora aqui perto, chegou ontem, vive nesta rua, gosta de música, trabalha no hospital")
    )
    inner = f"{owned.forms[number]} {draw(ACTIONS).present[number]} {draw(TIMES)}"
    forms = (agree("cujo", gender, number) for gender in (owned.gender, other(owned.gender)))
    return both(f"{draw(PEOPLE).the(SINGULAR)} _ {inner} {told}", *forms)


def _place_and_relative(draw: Draw) -> tuple[Noun, str]:
    """A building, and what someone did in it."""
    did = draw(phrases("nasceu, trabalhou, estudou, descansou, jantou, chorou, cantou, esperou"))
    return draw(BUILDINGS), f"_ {draw(PEOPLE).the(SINGULAR)} {did}"


def o_qual_agreement(draw: Draw) -> tuple[str, str]:
    (place, inner), text = _place_and_relative(draw), draw(TEXTS)
    told = f"_ {draw(PEOPLE).the(SINGULAR)} {draw(phrases('falou, gostou, precisa, riu, se lembra'))}"
    noun, joined, end = draw(((place, "n", inner), (text, "d", told)))
    start = "este é" if noun.gender == "o" else "esta é"
    forms = (f"{joined}{gender} qual" for gender in (noun.gender, other(noun.gender)))
    return both(f"{start} {noun.the(SINGULAR)} {end}", *forms)


def quem_needs_a_person(draw: Draw) -> tuple[str, str]:
    noun, inner = _place_and_relative(draw)
    told = draw(
        phrases("fica longe daqui, fechou no verão, mudou muito, já não existe, recebe muitas visitas")
    )
    return both(f"{noun.the(SINGULAR)} {inner} {told}", "em que", "em quem")


PARADIGMS: dict[str, tuple[Paradigm, ...]] = {
    "mood": (
        subjunctive_after_will,
        subjunctive_after_conjunction,
        subjunctive_after_perhaps,
        indicative_after_knowledge,
        future_subjunctive,
        personal_infinitive,
    ),
    "tense": (tense_with_time_adverb,),
    "copula": (ser_and_estar,),
    "clitic_placement": (proclisis_after_negation, proclisis_in_subordinate),
    "pronoun_case": (pronoun_after_preposition, pronoun_before_infinitive, pronoun_joined_to_com),
    "reflexive_agreement": (reflexive_person,),
    "negation": (negative_word_after_verb, negative_subject),
    "relative_pronoun": (cujo_agreement, o_qual_agreement, quem_needs_a_person),
}
