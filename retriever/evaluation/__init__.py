"""Questions with known answers -> how well a profile finds them, with intervals; the modules in the order of the flow.

questions  what is asked, which lines answer it, and which sections are right
measures   a ranking -> recall, nDCG ...; means with intervals, differences with p-values
results    every question through the real retriever; all measures, overall and by kind; and all of it as a page
"""
