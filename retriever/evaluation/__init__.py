"""Questions with known answers -> how well a profile finds them, with intervals; the modules in the order of the flow.

question_files  files of questions and expansions
questions       what is asked, which lines answer it, and which sections are right
runs            every question through the real retriever, and what a system answered
measures        rankings -> recall, nDCG ... of each question; means with intervals, differences with p-values
results         all of it for some systems, overall and by kind of question; against an earlier day
report_page     one page of HTML with plots
"""
