"""Models on servers: asked to write, to embed and to rank.

transport  which addresses may be asked, with which key; HTTP within limits: deadlines, sizes and tries are counted here
server     one model on one server, of Ollama or behind OpenAI's API: what it is asked, and what a fault means
task       what a model is asked to write, how its answer is read, and how fast it is
generator  looks at the model, asks it, makes an answer of a stream, and asks again where that may help
"""
