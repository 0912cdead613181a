"""BM25 over sections: text to terms, terms to postings, postings to scores."""
