"""The last order of the candidates, by a model that reads them beside the question.

reranker       what a reranker is given, and what it gives
stage          which candidates it reads and what of them, and its order joined with that of the fusion
llm            a language model, which orders many candidates at once
pairs          what the cross-encoders share, which score one candidate after another
cross_encoder  one of the extra `models`
onnx           one as int8 ONNX, without PyTorch
endpoint       one behind a server's /rerank
"""
