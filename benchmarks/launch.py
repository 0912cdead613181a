"""Runs a command; prints its wall and CPU seconds, and the most bytes that it held, as JSON; says what it says.

A process of its own: a child begins with its parent's peak of memory, and the benchmarks themselves hold a lot.
"""

import json
import os
import subprocess
import sys
from time import perf_counter

begun = perf_counter()
process = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL)
_, status, used = os.wait4(process.pid, 0)
wall = perf_counter() - begun
process.returncode = os.waitstatus_to_exitcode(status)
bytes_each = 1 if sys.platform == "darwin" else 1024  # Linux counts kilobytes
print(json.dumps([wall, used.ru_utime + used.ru_stime, used.ru_maxrss * bytes_each]))
sys.exit(process.returncode)
