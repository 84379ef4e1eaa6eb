"""Speed and memory, as ratios in one run: `python -m benchmarks [name ...]`. Nothing here is asserted in a test."""
