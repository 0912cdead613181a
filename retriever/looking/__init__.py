"""What an open index is asked besides questions: its tree and texts, what is near, what it holds and knows."""
