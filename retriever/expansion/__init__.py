"""A question in other words: what a language model writes for it, and when that is not used.

expand     the stage: whether the model is asked, and what of its answer is searched with
follow_up  what makes a question stand alone that follows others
prompt     what the model is asked, and the words of the documents that it is given
screening  which questions are searched as they are, and which texts are dropped, by their words and by their vectors
"""
