"""Questions with known answers -> how well a profile finds them, with intervals; the modules in the order of the flow.

questions     what is asked, which lines answer it, and which sections and files are right
formats       files of questions and expansions
ask           every question through the real retriever, with each part of a profile and without it
runs          what a system answered, and at which stage the right section was lost
measures      rankings -> recall, precision, nDCG ... of each question
statistics    values of questions -> means with intervals, differences with p-values
summary       all of it for some systems, overall and by kind of question; against an earlier day
report        one page of HTML with plots

Beside the flow: `why_not` (the way of one section through the stages).
"""
