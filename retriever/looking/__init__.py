"""Looks at an open index beside questions: its tree and texts, what is near, what it holds and knows."""
