"""The retriever as other frameworks' retriever, each in a module of its own, behind an extra of its own."""
