"""Questions with known answers -> how well a profile finds them, with intervals; the modules in the order of the flow.

questions     what is asked, and which lines answer it
formats       files of questions: our JSONL, and beir, trec, qmd; expansions
relevance     gold lines -> the sections and the files that are right
asking        every question through the real retriever; or `runs`: what some system answered before
losses        for a question: at which stage the right section was lost
measures      rankings -> recall, precision, nDCG ... of each question
statistics    values of questions -> means with intervals, differences with p-values
summary       all of it for some systems, overall and by kind of question
baseline      today's values against those of an earlier day
report        one page of HTML with plots

Beside the flow: `ablation` (a profile without each of its parts), `why_not` (the way of one section through the
stages), `own_questions` (questions out of one's own documents).
"""
