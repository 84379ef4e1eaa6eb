"""Sweeps: many runs from one declaration, here, on Ray or on Slurm; each run is a folder, as `train` writes it.

plan       what is varied: a grid, a list or random draws, from a command or a TOML file; gives named recipes
orders     what a worker is told, as plain text
work       one run in a worker: train or resume it, then evaluate it
local      worker processes on this machine; `worker` is what each of them runs
on_ray     workers of a Ray cluster
on_slurm   an array job, submitted through submitit
crew       orders worked on side by side, retried, named when they fail
sweep      which runs are missing, and how far they are; `sweep`
table      what the runs of a folder reached, by setting
search     the next settings from the results so far (Optuna)
"""
