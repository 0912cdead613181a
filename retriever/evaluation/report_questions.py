"""Every question on the page: what answers it, what each system found, and at which stage the answer was lost."""

from collections.abc import Iterator
from html import escape

from retriever.evaluation.losses import ArmRank, Loss, Stage
from retriever.evaluation.questions import Gold, Question
from retriever.evaluation.ranks import BANDS, Judge
from retriever.evaluation.report_plots import STAGE_LABELS, question_anchor
from retriever.evaluation.runs import Outcome, Run
from retriever.evaluation.summary import Summary

SHOWN_HITS = 5
"""So many of what was found are shown; the first right one as well, however far down."""


def question_list(summary: Summary, judge: Judge) -> str:
    """The filter, and every question in the order of its file."""
    entries = [_entry(question, summary, judge) for question in summary.questions.questions]
    return f"{_filter(summary)}\n" + "\n".join(entries)


def _filter(summary: Summary) -> str:
    kinds = "".join(f"<option>{escape(kind)}</option>" for kind in summary.questions.kinds)
    results = "".join(f'<option value="{band.name}">{escape(band.label)}</option>' for band in BANDS)
    return (
        '<form id="filter" hidden>'
        '<input type="search" name="words" placeholder="Words in questions, files, sections" aria-label="Words">'
        f'<select name="kind" aria-label="Kind"><option value="">every kind</option>{kinds}</select>'
        f'<select name="result" aria-label="Rank"><option value="">every rank</option>{results}</select>'
        '<span id="shown" class="quiet" role="status"></span></form>'
    )


def _entry(question: Question, summary: Summary, judge: Judge) -> str:
    ranked = [(run, judge.ranked(question, run)) for run in summary.runs]
    badges = "".join(
        f'<span class="badge {item.band.name}" title="{escape(run.system)}: {item.band.label}">{item.text}</span>'
        for run, item in ranked
    )
    results = " ".join(dict.fromkeys(item.band.name for _, item in ranked))
    columns = "".join(_system(question, run, judge) for run in summary.runs)
    return (
        f'<details class="question" id="{escape(question_anchor(question.id))}" data-kind="{escape(question.kind)}" '
        f'data-results="{results}"><summary>{escape(question.text)} <span class="badges">{badges}</span></summary>'
        f'<p class="quiet">{escape(question.id)} · {escape(question.kind)}</p>{_gold(question)}'
        f'<div class="columns">{columns}</div></details>'
    )


def _gold(question: Question) -> str:
    if not question.gold:
        return "<p>The documents hold no answer.</p>"
    lines = "".join(f"<li><code>{escape(_citation(item))}</code></li>" for item in question.gold)
    return f'<div class="quiet">Answered by</div><ul class="gold">{lines}</ul>'


def _citation(gold: Gold) -> str:
    return f"{gold.file}:{gold.span}" if gold.span else gold.file


def _system(question: Question, run: Run, judge: Judge) -> str:
    outcome = run.outcomes[question.id]
    failures = "".join(f"<p>Failed: {escape(sentence)}</p>" for sentence in outcome.failures)
    hits = "".join(_hits(question, outcome, judge)) or "<li>nothing</li>"
    told = f'<p class="quiet">{escape(loss_text(outcome.loss))}</p>' if outcome.loss else ""
    return f"<div><h3>{escape(run.system)}</h3>{failures}<ol>{hits}</ol>{told}</div>"


def _hits(question: Question, outcome: Outcome, judge: Judge) -> Iterator[str]:
    """The first ones, and the first right one."""
    rights = [judge.is_right(question, found) for found in outcome.found]
    first_right = rights.index(True) if True in rights else -1
    for place, (found, right) in enumerate(zip(outcome.found, rights, strict=True)):
        if place < SHOWN_HITS or place == first_right:
            lines = f":{found.span}" if found.span else ""
            mark, said = (' class="right"', " ✓") if right else ("", "")
            yield f'<li value="{place + 1}"{mark}><code>{escape(found.node_id)}</code>{lines}{said}</li>'


def loss_text(loss: Loss) -> str:
    """`Best right section: #12 of the fused list (below top_k); dense #30 at 0.412; lexical: not found ...`."""
    arms = "; ".join(map(_arm_text, loss.arms))
    if loss.stage is Stage.NO_ARM:
        return f"{loss.node_id}: {STAGE_LABELS[loss.stage]}; {arms}"
    return f"{loss.node_id}: fused #{loss.rank}, {STAGE_LABELS[loss.stage]}; {arms}"


def _arm_text(arm: ArmRank) -> str:
    if arm.rank is not None:
        return f"{arm.arm} #{arm.rank} ({arm.scale} {arm.score:.3g})"
    if arm.last_score is None:
        return f"{arm.arm}: found nothing"
    return f"{arm.arm}: not in its list, which ends at {arm.last_score:.3g}"
