"""Models on servers: asked to write, to embed and to rank.

address    which addresses may be asked, and the key for one
transport  HTTP within limits: the one place where deadlines and sizes are counted, and tries
server     one model on one server, of Ollama or behind OpenAI's API: what it is asked, and what a fault means
task       what a model is asked to write, how its answer is read, and how fast it is
generator  looks at the model, asks it, makes an answer of a stream, and asks again where that may help
"""
