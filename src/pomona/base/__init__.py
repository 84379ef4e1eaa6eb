"""What every other room builds on. Nothing here knows about trees, data or models.

    errors        the family of errors, and "did you mean"; extras: packages that only some parts need
    registry      names for tasks, models, measures and papers; their settings
    randomness    random words by address: a key, a stream number, a position
    compiled      decorators for compiled loops; machine_code keeps what was compiled
    arrays        short names of array types, for signatures
    files         files that are complete or absent; deep_json reads JSON of any depth
    plots         plots as Vega-Lite specifications: how they look, and files of them
    lazy_names    names of a package that are imported when they are first used

Import from the files themselves. This room imports no other.
"""
