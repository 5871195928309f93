"""Paradigms of agreement: verbs, determiners, adjectives, participles."""

from pairs_pt.drawing import Draw, Paradigm, both
from pairs_pt.lexicon import (
    ACTIONS,
    ACTIONS_WITHOUT_NOUN,
    ARRIVALS,
    BUILDINGS,
    DETERMINERS,
    PEOPLE,
    PLURAL,
    QUALITIES,
    RELATIVES,
    SINGULAR,
    STATES,
    TEXTS,
    THINGS,
    TIMES,
    TRAITS,
    WITH_A_PERSON,
    WITH_A_THING,
    Noun,
    agree,
    other,
    phrases,
)

# Agreement of subject and verb


def verb_number(draw: Draw) -> tuple[str, str]:
    number, verb = draw.number(), draw(ACTIONS)
    frame = f"{draw(PEOPLE).the(number)} _ {draw(TIMES)}"
    return both(frame, verb.present[number], verb.present[1 - number])


def verb_person(draw: Draw) -> tuple[str, str]:
    verb = draw(ACTIONS)
    forms = (*verb.present_first, *verb.present)
    subjects = {"eu": forms[0], "nós": forms[1], "ele": forms[2], "ela": forms[2], "eles": forms[3]}
    subject = draw(tuple(subjects))
    wrong = draw([form for form in forms if form != subjects[subject]])
    return both(f"{subject} _ {draw(TIMES)}", subjects[subject], wrong)


def verb_number_across_attractor(draw: Draw) -> tuple[str, str]:
    number, verb = draw.number(), draw(ACTIONS)
    frame = f"{draw(RELATIVES).the(number)} {draw(PEOPLE).the(1 - number, 'd')} _ {draw(TIMES)}"
    return both(frame, verb.present[number], verb.present[1 - number])


def verb_number_across_relative(draw: Draw) -> tuple[str, str]:
    number, verb, (head, attractor) = draw.number(), draw(ACTIONS), draw.two(PEOPLE)
    inner = f"que {attractor.the(1 - number)} {draw(WITH_A_PERSON).past[1 - number]}"
    frame = f"{head.the(number)} {inner} _ {draw(TIMES)}"
    return both(frame, verb.present[number], verb.present[1 - number])


def verb_number_postposed(draw: Draw) -> tuple[str, str]:
    number, verb, noun = draw.number(), draw(ARRIVALS), draw(PEOPLE)
    when = draw(phrases("ontem, naquela noite, de repente, no mês passado, pouco depois, antes do jantar"))
    frame = f"{when} _ {draw(DETERMINERS)[noun.gender][number]} {noun.forms[number]}"
    return both(frame, verb.past[number], verb.past[1 - number])


def verb_number_coordinated(draw: Draw) -> tuple[str, str]:
    (first, second), verb = draw.two(PEOPLE), draw(ACTIONS)
    frame = f"{first.the(SINGULAR)} e {second.the(SINGULAR)} _ {draw(TIMES)}"
    return both(frame, verb.present[PLURAL], verb.present[SINGULAR])


def verb_number_each_one(draw: Draw) -> tuple[str, str]:
    noun, verb = draw(PEOPLE), draw(WITH_A_THING)
    one = "um" if noun.gender == "o" else "uma"
    frame = f"cada {one} {noun.the(PLURAL, 'd')} _ {draw(THINGS).a()}"
    return both(frame, verb.past[SINGULAR], verb.past[PLURAL])


# Agreement inside the noun phrase


def determiner_gender(draw: Draw) -> tuple[str, str]:
    number, noun, forms = draw.number(), draw(THINGS), draw(DETERMINERS)
    frame = f"{draw(PEOPLE).the(SINGULAR)} {draw(WITH_A_THING).past[SINGULAR]} _ {noun.forms[number]}"
    return both(frame, forms[noun.gender][number], forms[other(noun.gender)][number])


def determiner_number(draw: Draw) -> tuple[str, str]:
    number, noun, forms = draw.number(), draw(THINGS), draw(DETERMINERS)
    frame = f"{draw(PEOPLE).the(SINGULAR)} {draw(WITH_A_THING).past[SINGULAR]} _ {noun.forms[number]}"
    return both(frame, forms[noun.gender][number], forms[noun.gender][1 - number])


def quantifier_number(draw: Draw) -> tuple[str, str]:
    number, noun, verb = draw.number(), draw(PEOPLE), draw(WITH_A_THING)
    many = "vários, muitos, poucos, dois, três, cinco, todos os, os dois"
    few = "cada, nenhum, algum"
    if noun.gender == "a":
        many = "várias, muitas, poucas, duas, três, cinco, todas as, as duas"
        few = "cada, nenhuma, alguma"
    frame = f"{draw(phrases(many if number else few))} _ {verb.past[number]} {draw(THINGS).a()}"
    return both(frame, noun.forms[number], noun.forms[1 - number])


def _described_thing(draw: Draw, number: int, noun: Noun) -> str:
    told = draw(
        (
            ("chamou a atenção", "chamaram a atenção"),
            ("agradou a todos", "agradaram a todos"),
            ("custou muito dinheiro", "custaram muito dinheiro"),
            ("apareceu na fotografia", "apareceram na fotografia"),
            ("desapareceu da sala", "desapareceram da sala"),
            ("pertence ao museu", "pertencem ao museu"),
        )
    )
    return f"{draw(DETERMINERS)[noun.gender][number]} {noun.forms[number]} _ {told[number]}"


def adjective_gender(draw: Draw) -> tuple[str, str]:
    number, noun, adjective = draw.number(), draw(THINGS), draw(QUALITIES)
    forms = (agree(adjective, gender, number) for gender in (noun.gender, other(noun.gender)))
    return both(_described_thing(draw, number, noun), *forms)


def adjective_number(draw: Draw) -> tuple[str, str]:
    number, noun, adjective = draw.number(), draw(THINGS), draw(QUALITIES)
    forms = (agree(adjective, noun.gender, count) for count in (number, 1 - number))
    return both(_described_thing(draw, number, noun), *forms)


def _predicate(draw: Draw, number: int) -> tuple[str, str]:
    """A frame that takes an adjective of a person, and the adjective."""
    traits = ("é muito _", "são muito _"), ("era muito _", "eram muito _"), ("é pouco _", "são pouco _")
    states = (
        ("está _ hoje", "estão _ hoje"),
        ("estava _ naquele dia", "estavam _ naquele dia"),
        ("ficou _ com a notícia", "ficaram _ com a notícia"),
        ("continua _", "continuam _"),
        ("parecia _ depois da viagem", "pareciam _ depois da viagem"),
    )
    frames, adjectives = draw(((traits, TRAITS), (states, STATES)))
    return draw(frames)[number], draw(adjectives)


def predicative_gender(draw: Draw) -> tuple[str, str]:
    number, noun = draw.number(), draw(PEOPLE)
    frame, adjective = _predicate(draw, number)
    forms = (agree(adjective, gender, number) for gender in (noun.gender, other(noun.gender)))
    return both(f"{noun.the(number)} {frame}", *forms)


def predicative_number(draw: Draw) -> tuple[str, str]:
    number, noun = draw.number(), draw(PEOPLE)
    frame, adjective = _predicate(draw, number)
    forms = (agree(adjective, noun.gender, count) for count in (number, 1 - number))
    return both(f"{noun.the(number)} {frame}", *forms)


# Participles


def passive_participle(draw: Draw) -> tuple[str, str]:
    kinds = (
        (TEXTS, phrases("escrito, lido, copiado, corrigido, traduzido, elogiado")),
        (BUILDINGS, phrases("visitado, pintado, vendido, comprado, fotografado, desenhado")),
        (THINGS, phrases("comprado, vendido, escondido, encontrado, guardado, levado, roubado")),
    )
    things, participles = draw(kinds)
    number, noun, participle = draw.number(), draw(things), draw(participles)
    frame = f"{noun.the(number)} {('foi', 'foram')[number]} _ {draw(PEOPLE).the(draw.number(), 'pel')}"
    forms = (agree(participle, gender, number) for gender in (noun.gender, other(noun.gender)))
    return both(frame, *forms)


def compound_tense_participle(draw: Draw) -> tuple[str, str]:
    number, participle = draw.number(), draw(ACTIONS_WITHOUT_NOUN).participle
    noun = draw([noun for noun in PEOPLE if number or noun.gender == "a"])  # masculine singular is right
    when = draw(phrases("antes do jantar, naquele dia, de manhã, antes da festa, muito"))
    frame = f"{noun.the(number)} já {('tinha', 'tinham')[number]} _ {when}"
    return both(frame, participle, agree(participle, noun.gender, number))


PARADIGMS: dict[str, tuple[Paradigm, ...]] = {
    "subject_verb_agreement": (
        verb_number,
        verb_person,
        verb_number_across_attractor,
        verb_number_across_relative,
        verb_number_postposed,
        verb_number_coordinated,
        verb_number_each_one,
    ),
    "determiner_noun_agreement": (determiner_gender, determiner_number, quantifier_number),
    "adjective_agreement": (adjective_gender, adjective_number, predicative_gender, predicative_number),
    "participle_agreement": (passive_participle, compound_tense_participle),
}
