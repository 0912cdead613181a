"""The last order of the candidates, by a model that reads them beside the question.

reranker  what a reranker is given, and what it gives
stage     which candidates it reads and what of them, and its order joined with that of the fusion
llm       a language model, which orders many candidates at once
onnx      a cross-encoder on this machine, which scores one candidate after another
endpoint  one behind a server's /rerank
"""
