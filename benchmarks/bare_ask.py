"""The reference for a cold `ask`: a process that imports what it needs, embeds a question and asks ChromaDB.

Run by benchmarks/speed.py: python bare_ask.py CHROMA_FOLDER COLLECTION MODEL_FOLDER QUESTION

Written as such a script is: one thing after the other, ChromaDB's own settings but for telemetry. It does not import
this project, has no words, no tree, no texts, and looks at no files of documents.
"""

import sys

import chromadb  # noqa: TID253 - what is measured
import chromadb.config  # noqa: TID253 - as above
import click  # noqa: F401 - a part of what an `ask` needs
import networkx
import numpy as np
import onnxruntime  # noqa: TID253 - what is measured
import tokenizers

folder, collection_name, model, question = sys.argv[1:]

tokenizer = tokenizers.Tokenizer.from_file(f"{model}/tokenizer.json")
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = 1
session = onnxruntime.InferenceSession(f"{model}/model.onnx", options)
ids = np.array([tokenizer.encode(question).ids], dtype=np.int64)
feed = {"input_ids": ids, "token_type_ids": np.zeros_like(ids)}
vector = session.run(None, feed)[0][0].mean(axis=0)

settings = chromadb.config.Settings(anonymized_telemetry=False)
collection = chromadb.PersistentClient(folder, settings=settings).get_collection(
    collection_name, embedding_function=None
)
found = collection.query(query_embeddings=np.array([vector / np.linalg.norm(vector)]), n_results=40)

graph: "networkx.DiGraph[str]" = networkx.DiGraph()
graph.add_nodes_from(found["ids"][0])
print(len(graph))
