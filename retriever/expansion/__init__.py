"""A question in other words: what a language model writes for it, and when that is not used.

follow_up  what makes a question stand alone that follows others
expand     the stage: whether the model is asked, and what of its answer is searched with
gate       which questions are searched as they are
prompt     what the model is asked, and the vocabulary of the documents that it is given
screening  which of its texts are dropped, by their words and by their vectors
cache      what it wrote before, and how the stage did
"""
