"""`python -m retriever` is the command line."""

import sys

from hybrid_retrieve import main

if __name__ == "__main__":
    sys.exit(main())
