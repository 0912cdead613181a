"""The last order of the candidates, by a model that reads them beside the question.

stage          which candidates it reads and what of them, and its order joined with that of the fusion
llm            a language model, which orders many candidates at once
cross_encoder  a cross-encoder, which scores one candidate after another; needs the extra `models`
"""
