"""A probe of a language model, on tasks whose right answers are known. Stages that it fails are left out.

Small models repeat a question instead of rewording it, write questions as passages, and give lists back as they come.
"""

import logging
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

from retriever.errors import LanguageModelError, LanguageModelTimeoutError, WrongAnswerError
from retriever.expansion import FACTUAL_INTENT, TextPlan, build_expansion_task, choose_texts, find_exact_names, screen
from retriever.rerank import LlmReranker, RerankInput
from retriever.served.generator import Generator
from retriever.served.task import USUAL, Abilities
from retriever.settings import Profile

log = logging.getLogger(__name__)

SECONDS = 60.0  # the longest wait for all of it; what is not done by then counts as failed

# Each passage below the question that it answers; the first and the fourth question are asked.
PASSAGES = {
    "when does the library close on Saturdays?": "The library is open until one in the afternoon on Saturdays.",
    "who may swim alone?": "Children below the age of ten swim together with an adult.",
    "when was the museum built?": "The museum was built in 1911, and its roof was renewed after a storm.",
    "what does a library card cost?": "A library card costs four euros a year.",
    "what is sold at the market?": "On Saturdays farmers sell fruit and cheese in front of the town hall.",
}
ASKED = (0, 3)
CLEAR = 2.0  # the odds of the right passage beside those of each other: Qwen2.5-Coder-0.5B has 1.1, by chance
ORDERS = ((1, 2, 4, 3, 0), (0, 3, 1, 2, 4), (4, 1, 3, 0, 2))
# Whether each asks for a single fact.
REWORDED = {
    "why does `cron.daily` skip my backup after a restart?": False,
    "how can I stop my bicycle chain from falling off?": False,
    "how many days does cooked rice keep in the fridge?": True,
}
ENOUGH = 2  # of these, since what is written at a temperature is not always the best

# What is said of each ability: what it is, and how to use a model without it.
SAYS = {
    "lists": ("to put the right passage first in a list", "--rerank-kind llm"),
    "odds": ("to tell a right passage by yes and no", "--rerank-kind llm"),
    "rewordings": ("to reword a question and keep its names", "--hyde always"),
    "passages": ("to write statements to search with, no questions and no titles", "--hyde always"),
    "intents": ("to tell a question about a single fact", ""),
}


def probe(generator: Generator) -> Abilities:
    """Ask a model at most 16 short tasks, in at most SECONDS, and remember what it can do; LanguageModelError."""
    generator.look_up()  # a server that is away says nothing of its model
    end = time.monotonic() + SECONDS
    reranker = LlmReranker(generator)
    inputs = [RerankInput("", passage) for passage in PASSAGES.values()]
    questions = list(PASSAGES)

    def left() -> float:
        return max(0.1, end - time.monotonic())

    def finds_in_list(order: tuple[int, ...], asked: int) -> bool:
        shown = [inputs[place] for place in order]
        scores = reranker.order(questions[asked], shown, shown, left()).scores
        return order[scores.index(max(scores))] == asked

    def finds_by_odds(asked: int) -> bool:
        scores = [*reranker.judge(questions[asked], inputs, left())]
        right = scores.pop(asked)
        return all(right * (1 - other) > CLEAR * other * (1 - right) for other in scores) and right > 0

    lists = odds = False
    with suppress(WrongAnswerError, LanguageModelTimeoutError):  # else nothing can be said of the model
        lists = all(finds_in_list(order, ASKED[0]) for order in ORDERS)
    with suppress(LanguageModelError):
        odds = not lists and all(map(finds_by_odds, ASKED))  # of a model that orders lists, none are asked
    reworded = stated = understood = 0
    for question, is_fact in REWORDED.items():
        task = replace(build_expansion_task(question, TextPlan(1, 1, 160)), max_tokens=200, seconds=left())
        with suppress(LanguageModelError):
            written = generator.write(task).expansion()
            names = find_exact_names(question)
            usable, _ = screen(question, replace(written, intent=""), names)
            reworded += bool(usable.rewordings)
            stated += bool(usable.passages)
            understood += (written.intent == FACTUAL_INTENT) == is_fact
    # A server that went away meanwhile is an error here.
    abilities = Abilities(lists, odds, reworded >= ENOUGH, stated >= ENOUGH, understood == len(REWORDED))
    generator.remember(abilities)
    return abilities


def probe_once(profile: Profile, announce: Callable[[str], None] = log.info) -> None:
    """Find out what the profile's language model can do, where that is not known yet and it can be asked."""
    generator = Generator(profile)
    with suppress(LanguageModelError):
        if generator.abilities is None:
            announce(f"trying once what {generator.name} can do, for a minute at most")
            probe(generator)


LEAST_TASK = (1_800, 30)  # bytes read and tokens written, about as many in every stage


def describe_stages(profile: Profile) -> str:
    """Return how long a question to the profile's language model takes here, and what is left out."""
    generator, kind = Generator(profile), profile.rerank.kind
    with suppress(LanguageModelError):
        abilities = generator.abilities
        if abilities is None:
            return f"{generator.name} was not tried yet: doctor --llm"
        texts = choose_texts(profile.hyde, abilities)
        has_time = (generator.speed or USUAL).seconds(*LEAST_TASK) <= generator.stage_s
        stages = {}
        if profile.hyde != "never":
            stages["expansion"] = has_time and bool(texts.rewordings or texts.passages)
        if kind in {"auto", "llm"}:
            stages["reranking"] = has_time and (kind == "llm" or abilities.lists or abilities.odds)
        seconds = sum(stages.values()) * generator.stage_s
        says = [f"{name} is left out" for name, is_on in stages.items() if not is_on]
        return "; ".join([f"{generator.name}: about {seconds:.0f} s more for a question", *says])
    return "no language model answers"
