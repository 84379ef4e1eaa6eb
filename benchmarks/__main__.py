"""Run the benchmarks named on the command line, or all of them."""

from __future__ import annotations

import importlib
import pkgutil
import sys

import benchmarks

names = sys.argv[1:] or [module.name for module in pkgutil.iter_modules(benchmarks.__path__) if module.name[0] != "_"]
for name in names:
    print(f"\n== {name} ==", flush=True)
    importlib.import_module(f"benchmarks.{name}").main()
