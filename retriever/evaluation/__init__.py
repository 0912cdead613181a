"""Questions with known answers -> how well a profile finds them, with intervals.

measures  what is asked, and which sections are right; a ranking -> recall, nDCG ...; means with intervals, p-values
results   every question through the real retriever; all measures, overall and by kind
"""
