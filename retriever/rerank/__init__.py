"""The last order of the candidates, by a model that reads them beside the question.

stage           what a reranker is given and gives, and its order joined with that of the fusion
llm             a language model, which orders many candidates at once
cross_encoders  a cross-encoder, which scores one candidate after another: on this machine, or behind /rerank
"""
