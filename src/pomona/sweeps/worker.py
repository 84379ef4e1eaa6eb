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
import traceback
from typing import Any

from pomona.base.errors import PomonaError


def serve() -> None:
    """Work until there are no more orders. Ctrl-C is for the process that sent them, which ends this one."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # from here on, what anybody prints is no answer
    from pomona.sweeps.work import Order, work

    for line in sys.stdin:
        answer: dict[str, Any] = {"error": None}
        try:
            work(Order.from_text(line))
        except Exception as error:
            answer = described(error)
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def described(error: BaseException) -> dict[str, Any]:
    """An error in one line, with its traceback; one of ours is final, since another try would end the same way."""
    short = str(error).strip() if isinstance(error, PomonaError) else f"{type(error).__name__}: {error}".strip()
    trace = "".join(traceback.format_exception(error))
    return {"error": short or type(error).__name__, "traceback": trace, "final": isinstance(error, PomonaError)}


if __name__ == "__main__":
    serve()
