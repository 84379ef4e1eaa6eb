"""A campaign against ourselves: kills, faults, mutated files, races, hostile names, equal bits.

    make campaign                                     about 15 minutes on one core
    python -m campaign kills --seconds 3600           one part, for an hour
    python -m campaign fuzz --cases 1000000 --seed 7

Every part is seeded, prints what it counted, and ends with exit status 1 if a promise of docs/reliability.md was
broken. Its short form is in `make test` (tests/contracts/test_campaign_*.py).

    material    small real files of every kind           readers    one table of all that is read from outside
    mutations   of bytes and of JSON structure           fuzzing    every reader with mutated files, in forked batches
    jobs        every command that writes                kills      random kills, and one at every line of the door
    faults      disks that are full, broken, read-only   races      many processes at once; no locks
    guided      fuzzing led by coverage (atheris)        same_bits  in other processes and versions
    terminals   hostile names on a terminal
    hostile     pages of hostile text, in a browser      use        what the readers do with what they read
"""
