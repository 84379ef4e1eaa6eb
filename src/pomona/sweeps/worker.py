"""What a local worker process runs: an order on each line of standard input, an answer on each line of the output.

    python -m pomona.sweeps.worker

An answer is {"error": null}, or the error in one line with its traceback. Whatever else is printed goes to standard
error. The process ends when its input does, and so with the process that started it.
"""

from __future__ import annotations

import json
import os
import signal
import sys


def serve() -> None:
    """Work until there are no more orders. Ctrl-C is for the process that sent them, which ends this one."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # from here on, what anybody prints is no answer
    from pomona.sweeps.orders import answer

    for line in sys.stdin:
        answers.write(json.dumps(answer(line)) + "\n")
        answers.flush()


if __name__ == "__main__":
    serve()
