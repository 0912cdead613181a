"""A short answer above the sections, each sentence with the lines that it rests on.

sentences  which of a model's sentences hold in the lines that they cite; which sentences of the documents answer
write      the stage: what the model is asked, in which time, and what is quoted where it writes nothing that holds
"""
